#include "client/event_list.h"

#include "client/client_impl.h"

#include <stdlib.h>
#include <string.h>

/* A server answers with 1 MiB and one event of each reactor at most. */
#define EVENT_LIST_KEYS_MAX (16U << 20)
/* The lowest bits of a number name the shard. */
#define EVENT_SHARDS 64U
/* Elements of an event that are known; a later server may say more. */
#define EVENT_FIELDS 6U

enum event_field {
    EVENT_FIELD_NUMBER,
    EVENT_FIELD_KIND,
    EVENT_FIELD_DATABASE,
    EVENT_FIELD_KEY,
    EVENT_FIELD_LENGTH,
    EVENT_FIELD_TIER,
};

struct event_list {
    struct kvasir_key_event *events; /* owned, in the list's own block */
    uint32_t capacity;
    uint32_t count;
    uint8_t *keys; /* owned; one behind the other, in the order of the events */
    size_t keys_bytes;
    size_t keys_capacity_bytes;
    struct iovec key; /* where the sink puts a long one */
    uint64_t next;    /* to go on from */
    uint32_t part;    /* of the answer: which element of the outermost array is next */
    uint32_t field;   /* of an event: which is next */
};

struct event_list *event_list_create(uint32_t capacity)
{
    struct event_list *list = calloc(1, sizeof *list + capacity * sizeof(struct kvasir_key_event));
    if (list != NULL) {
        list->events = (struct kvasir_key_event *)(void *)(list + 1);
        list->capacity = capacity;
    }
    return list;
}

void event_list_destroy(struct event_list **list_p)
{
    struct event_list *list = *list_p;
    if (list != NULL) {
        free(list->keys);
        free(list);
        *list_p = NULL;
    }
}

uint32_t event_list_capacity(const struct event_list *list)
{
    return list->capacity;
}

const struct kvasir_key_event *event_list_events(const struct event_list *list, size_t *count_p)
{
    *count_p = list->count;
    return list->events;
}

uint64_t event_list_next(const struct event_list *list)
{
    return list->next;
}

/* ---- one event ----------------------------------------------------------------------------- */

static enum kvasir_key_event_kind kind_of(struct slice text)
{
    static const struct {
        const char *name;
        enum kvasir_key_event_kind kind;
    } kinds[] = {
        {"sealed", KVASIR_KEY_SEALED},   {"evicted", KVASIR_KEY_EVICTED},
        {"deleted", KVASIR_KEY_DELETED}, {"expired", KVASIR_KEY_EXPIRED},
        {"flushed", KVASIR_KEY_FLUSHED},
    };
    for (size_t i = 0; i < ARRAY_COUNT(kinds); i++) {
        if (slice_equal_nocase(text, kinds[i].name)) {
            return kinds[i].kind;
        }
    }
    return KVASIR_KEY_OTHER;
}

/* Room for one more key. NULL: no memory, or more than any server answers. */
static uint8_t *add_key(struct event_list *list, size_t length_bytes)
{
    if (length_bytes > EVENT_LIST_KEYS_MAX - list->keys_bytes) {
        return NULL;
    }
    size_t needed = list->keys_bytes + length_bytes;
    if (needed > list->keys_capacity_bytes) {
        size_t capacity = needed < EVENT_LIST_KEYS_MAX / 2 ? 2 * needed : EVENT_LIST_KEYS_MAX;
        uint8_t *keys = realloc(list->keys, capacity);
        if (keys == NULL) {
            return NULL;
        }
        list->keys = keys;
        list->keys_capacity_bytes = capacity;
    }
    uint8_t *key = list->keys + list->keys_bytes;
    list->keys_bytes = needed;
    return key;
}

static enum kvasir_status take_key(struct link *link, struct event_list *list,
                                   struct kvasir_key_event *event, const struct reply_token *token)
{
    bool is_long = token->kind == REPLY_BULK_HEADER;
    uint64_t length = is_long ? token->count : token->text.length_bytes;
    uint8_t *key = add_key(list, length);
    if (key == NULL && length > 0) {
        client_explain(link->client, "out of memory for the keys of events");
        return KVASIR_NO_MEMORY;
    }
    event->key_length_bytes = length;
    if (!is_long && length > 0) {
        memcpy(key, token->text.data, length);
    }
    if (is_long) {
        list->key = (struct iovec){.iov_base = key, .iov_len = length};
        link->sink = (struct link_sink){.open = true, .left_bytes = length};
        segment_init(&link->sink.cursor, &list->key, 1);
    }
    return KVASIR_OK;
}

static void take_tier(struct kvasir_key_event *event, struct slice text)
{
    size_t length = text.length_bytes;
    length = length < sizeof event->tier - 1 ? length : sizeof event->tier - 1;
    memcpy(event->tier, text.data, length);
    event->tier[length] = '\0';
}

static enum kvasir_status take_field(struct link *link, struct event_list *list,
                                     const struct reply_token *token)
{
    struct kvasir_key_event *event = &list->events[list->count];
    uint32_t field = list->field++;
    bool is_text = token->kind == REPLY_BULK || token->kind == REPLY_SIMPLE;
    bool is_key = field == EVENT_FIELD_KEY;
    bool is_number = token->kind == REPLY_INTEGER && token->number >= 0;
    if (is_key && (is_text || token->kind == REPLY_BULK_HEADER)) {
        return take_key(link, list, event, token);
    }
    if (token->kind == REPLY_BULK_HEADER || is_key) {
        return KVASIR_PROTOCOL;
    }
    if (is_number && field == EVENT_FIELD_NUMBER) {
        event->number = (uint64_t)token->number;
        event->shard = (uint32_t)(event->number % EVENT_SHARDS);
    } else if (is_number && field == EVENT_FIELD_DATABASE) {
        event->database = (uint32_t)token->number;
    } else if (is_number && field == EVENT_FIELD_LENGTH) {
        event->length_bytes = (size_t)token->number;
    } else if (is_text && field == EVENT_FIELD_KIND) {
        event->kind = kind_of(token->text);
    } else if (is_text && field == EVENT_FIELD_TIER) {
        take_tier(event, token->text);
    } else if (field < EVENT_FIELDS) {
        return KVASIR_PROTOCOL;
    }
    return KVASIR_OK;
}

/* ---- the answer ---------------------------------------------------------------------------- */

static bool is_array(const struct reply_token *token, uint64_t least)
{
    return token->kind == REPLY_ARRAY && token->count >= least;
}

/* The two parts: the number to go on from, and the events. */
static enum kvasir_status take_part(struct event_list *list, const struct reply_token *token)
{
    uint32_t part = list->part++;
    if (part == 0 && token->kind == REPLY_INTEGER && token->number >= 0) {
        list->next = (uint64_t)token->number;
        return KVASIR_OK;
    }
    return part == 1 && is_array(token, 0) && token->count <= list->capacity ? KVASIR_OK
                                                                             : KVASIR_PROTOCOL;
}

static enum kvasir_status take_token(struct link *link, struct event_list *list,
                                     const struct reply_token *token)
{
    switch (token->depth) {
    case 0:
        list->part = 0;
        list->field = 0;
        list->count = 0;
        list->keys_bytes = 0;
        return token->kind == REPLY_ARRAY && token->count == 2 ? KVASIR_OK : KVASIR_PROTOCOL;
    case 1:
        return take_part(list, token);
    case 2:
        list->count += list->field > 0 ? 1 : 0;
        list->field = 0;
        list->events[list->count] = (struct kvasir_key_event){.kind = KVASIR_KEY_OTHER};
        return is_array(token, EVENT_FIELDS) ? KVASIR_OK : KVASIR_PROTOCOL;
    case 3:
        return take_field(link, list, token);
    default:
        return token->kind == REPLY_BULK_HEADER ? KVASIR_PROTOCOL : KVASIR_OK;
    }
}

/* The keys have their places only now: they may have moved while they grew. */
static void place_keys(struct event_list *list)
{
    const uint8_t *key = list->keys;
    for (uint32_t i = 0; i < list->count; i++) {
        list->events[i].key = key;
        key = key == NULL ? NULL : key + list->events[i].key_length_bytes;
    }
}

enum kvasir_status event_list_token(struct link *link, const struct link_command *command,
                                    const struct reply_token *token)
{
    struct kvasir_request *request = command->request;
    if (request == NULL) {
        /* Withdrawn: it is read past. */
        if (token->kind == REPLY_BULK_HEADER) {
            link->sink =
                (struct link_sink){.open = true, .discard = true, .left_bytes = token->count};
        }
        return KVASIR_OK;
    }
    struct event_list *list = request->events;
    enum kvasir_status status = take_token(link, list, token);
    if (status == KVASIR_OK && token->ends_reply) {
        list->count += list->field > 0 ? 1 : 0;
        place_keys(list);
        job_answer(request, command->first, KVASIR_OK);
    }
    return status;
}

enum kvasir_status event_list_error(struct event_list *list, enum kvasir_status status,
                                    struct slice text)
{
    static const size_t word_bytes = sizeof "OVERRUN" - 1;
    uint64_t next;
    list->count = 0;
    if (status != KVASIR_OVERRUN) {
        return status;
    }
    struct slice number = slice_of(text.data + word_bytes, text.length_bytes - word_bytes);
    if (number.length_bytes > 0) {
        number = slice_of(number.data + 1, number.length_bytes - 1);
        const uint8_t *blank = memchr(number.data, ' ', number.length_bytes);
        number.length_bytes = blank == NULL ? number.length_bytes : (size_t)(blank - number.data);
    }
    if (!slice_to_u64(number, &next)) {
        return KVASIR_PROTOCOL;
    }
    list->next = next;
    return KVASIR_OVERRUN;
}
