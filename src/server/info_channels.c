#include "server/info_channels.h"

#include <stdlib.h>
#include <string.h>

/* A hash with the kind in its low bits: two names of a kind that share 62 bits count as one. */
#define KIND_MASK UINT64_C(3)
_Static_assert(PUBSUB_KIND_COUNT <= KIND_MASK + 1, "the kind fits");

struct naming {
    const struct pubsub *pubsub;
    struct gather_answer *answer;
    enum pubsub_kind kind;
};

static void add_name(void *argument, struct slice name)
{
    const struct naming *naming = argument;
    uint64_t hash = (pubsub_hash(naming->pubsub, name) & ~KIND_MASK) | (uint64_t)naming->kind;
    (void)gather_answer_add(naming->answer, &hash, sizeof(hash));
}

void info_channels_add(struct gather_answer *answer, struct pubsub *pubsub)
{
    for (int kind = 0; kind < PUBSUB_KIND_COUNT && pubsub->count > 0; kind++) {
        struct naming naming = {.pubsub = pubsub, .answer = answer, .kind = (enum pubsub_kind)kind};
        pubsub_visit(pubsub, naming.kind, add_name, &naming);
    }
}

static int compare(const void *a, const void *b)
{
    uint64_t x;
    uint64_t y;
    memcpy(&x, a, sizeof(x));
    memcpy(&y, b, sizeof(y));
    return (x > y) - (x < y);
}

bool info_channels_count(const struct gather *gather, size_t offset_bytes,
                         uint64_t counts[PUBSUB_KIND_COUNT])
{
    struct gather_answer all = {0};
    size_t count;
    memset(counts, 0, PUBSUB_KIND_COUNT * sizeof(*counts));
    for (uint32_t i = 0; i < gather->reactor_count; i++) {
        const struct gather_answer *answer = &gather->answers[i];
        if (answer->text_bytes > offset_bytes &&
            !gather_answer_add(&all, answer->text + offset_bytes,
                               answer->text_bytes - offset_bytes)) {
            gather_answer_free(&all);
            return false;
        }
    }
    count = all.text_bytes / sizeof(uint64_t);
    if (count > 0) {
        qsort(all.text, count, sizeof(uint64_t), compare);
    }
    for (size_t i = 0; i < count; i++) {
        const uint8_t *at = all.text + i * sizeof(uint64_t);
        uint64_t hash;
        memcpy(&hash, at, sizeof(hash));
        if (i == 0 || memcmp(at, at - sizeof(hash), sizeof(hash)) != 0) {
            counts[hash & KIND_MASK]++;
        }
    }
    gather_answer_free(&all);
    return true;
}
