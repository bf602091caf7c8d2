#include "client/answer_stat.h"

#include "client/client_impl.h"

#include <string.h>

enum stat_field {
    STAT_OTHER,
    STAT_LENGTH,
    STAT_STORED,
    STAT_CODEC,
    STAT_CHECKSUM,
    STAT_CLASS,
    STAT_TTL,
    STAT_PIN,
    STAT_LEASES,
    STAT_TIER,
    STAT_HITS,
    STAT_GENERATION,
};

static const struct {
    const char *name;
    enum stat_field field;
} stat_names[] = {
    {"length", STAT_LENGTH},     {"stored", STAT_STORED},         {"codec", STAT_CODEC},
    {"checksum", STAT_CHECKSUM}, {"class", STAT_CLASS},           {"ttl_ms", STAT_TTL},
    {"pin_ms", STAT_PIN},        {"leases", STAT_LEASES},         {"tier", STAT_TIER},
    {"hits", STAT_HITS},         {"generation", STAT_GENERATION},
};

static enum stat_field stat_field_of(const struct reply_token *token)
{
    for (size_t i = 0; i < ARRAY_COUNT(stat_names); i++) {
        if ((token->kind == REPLY_BULK || token->kind == REPLY_SIMPLE) &&
            slice_equal(token->text, slice_of_text(stat_names[i].name))) {
            return stat_names[i].field;
        }
    }
    return STAT_OTHER;
}

static void stat_text(char *to, size_t capacity, struct slice text)
{
    size_t length = text.length_bytes < capacity - 1 ? text.length_bytes : capacity - 1;
    memcpy(to, text.data, length);
    to[length] = '\0';
}

static void stat_class(struct kvasir_stat *stat, struct slice text)
{
    static const char *const names[] = {"full", "window", "state", "encoder"};
    static const enum kvasir_class classes[] = {KVASIR_CLASS_FULL, KVASIR_CLASS_WINDOW,
                                                KVASIR_CLASS_STATE, KVASIR_CLASS_ENCODER};
    for (size_t i = 0; i < ARRAY_COUNT(names); i++) {
        if (slice_equal_nocase(text, names[i])) {
            stat->value_class = classes[i];
        }
    }
}

static void stat_value_text(struct kvasir_stat *stat, enum stat_field field, struct slice text)
{
    if (field == STAT_CODEC) {
        stat_text(stat->codec, sizeof stat->codec, text);
    } else if (field == STAT_TIER) {
        stat_text(stat->tier, sizeof stat->tier, text);
    } else if (field == STAT_CLASS) {
        stat_class(stat, text);
    } else if (field == STAT_CHECKSUM) {
        stat->checksum_valid = slice_to_hex64(text, &stat->checksum);
    }
}

static void stat_value_number(struct kvasir_stat *stat, enum stat_field field, int64_t number)
{
    if (field == STAT_LENGTH) {
        stat->length_bytes = (size_t)number;
    } else if (field == STAT_STORED) {
        stat->stored_bytes = (size_t)number;
    } else if (field == STAT_TTL) {
        stat->ttl_ms = number;
    } else if (field == STAT_PIN) {
        stat->pin_ms = number > 0 ? number : 0;
    } else if (field == STAT_LEASES) {
        stat->lease_count = (uint32_t)number;
    } else if (field == STAT_HITS) {
        stat->hit_count = (uint64_t)number;
    } else if (field == STAT_GENERATION) {
        stat->generation = (uint64_t)number;
    }
}

enum kvasir_status answer_stat_token(struct link *link, const struct link_command *command,
                                     const struct reply_token *token)
{
    struct link_answer *answer = &link->answer;
    struct kvasir_request *request = command->request;
    if (token->depth == 0 && token->kind == REPLY_NULL) {
        if (request != NULL) {
            job_answer(request, command->first, KVASIR_NOT_FOUND);
        }
        return KVASIR_OK;
    }
    if (token->kind == REPLY_BULK_HEADER || (token->depth == 0 && token->kind != REPLY_MAP)) {
        return KVASIR_PROTOCOL;
    }
    if (token->depth == 0) {
        answer->stat = (struct kvasir_stat){.ttl_ms = -1};
    } else if (token->depth == 1 && answer->pairs_left == 0) {
        /* pairs_left is 1 while a value is due, so keys and values alternate. */
        answer->field = (uint32_t)stat_field_of(token);
        answer->pairs_left = 1;
    } else if (token->depth == 1) {
        answer->pairs_left = 0;
        if (token->kind == REPLY_INTEGER) {
            stat_value_number(&answer->stat, (enum stat_field)answer->field, token->number);
        } else if (token->kind == REPLY_BULK || token->kind == REPLY_SIMPLE) {
            stat_value_text(&answer->stat, (enum stat_field)answer->field, token->text);
        }
    }
    if (token->ends_reply && request != NULL) {
        request->stats[command->first] = answer->stat;
        request->items[command->first].length_bytes = answer->stat.length_bytes;
        job_answer(request, command->first, KVASIR_OK);
    }
    return KVASIR_OK;
}
