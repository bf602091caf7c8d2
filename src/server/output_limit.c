#include "server/output_limit.h"

#include "base/number.h"

#include <stdio.h>

/* A day and more is as good as no limit, and seconds times a million must not overflow. */
#define OUTPUT_LIMIT_SECONDS_MAX (UINT64_C(1) << 32)

static const char *const class_names[] = {
    [OUTPUT_CLASS_NORMAL] = "normal",
    [OUTPUT_CLASS_REPLICA] = "slave",
    [OUTPUT_CLASS_PUBSUB] = "pubsub",
};

/* The next word, empty at the end. */
static struct slice output_limit_next(struct slice *text)
{
    const char *bytes = (const char *)text->data;
    size_t start = 0;
    while (start < text->length_bytes && bytes[start] == ' ') {
        start++;
    }
    size_t end = start;
    while (end < text->length_bytes && bytes[end] != ' ') {
        end++;
    }
    struct slice word = slice_of(bytes + start, end - start);
    *text = slice_of(bytes + end, text->length_bytes - end);
    return word;
}

static bool output_limit_class(struct slice word, enum output_class *class_p)
{
    for (unsigned i = 0; i < ARRAY_COUNT(class_names); i++) {
        if (slice_equal_nocase(word, class_names[i])) {
            *class_p = (enum output_class)i;
            return true;
        }
    }
    *class_p = OUTPUT_CLASS_REPLICA;
    return slice_equal_nocase(word, "replica");
}

bool output_limits_parse(struct output_limits *limits, struct slice text)
{
    struct output_limits parsed = *limits;
    struct slice word = text.data != NULL ? output_limit_next(&text) : text;
    while (word.length_bytes > 0) {
        enum output_class class;
        struct output_limit limit;
        if (!output_limit_class(word, &class) ||
            !number_parse_bytes(output_limit_next(&text), &limit.hard_bytes) ||
            !number_parse_bytes(output_limit_next(&text), &limit.soft_bytes) ||
            !slice_to_u64(output_limit_next(&text), &limit.soft_s) ||
            limit.soft_s > OUTPUT_LIMIT_SECONDS_MAX) {
            return false;
        }
        parsed.classes[class] = limit;
        word = output_limit_next(&text);
    }
    *limits = parsed;
    return true;
}

void output_limits_format(const struct output_limits *limits, char *text, size_t capacity)
{
    size_t length = 0;
    text[0] = '\0';
    for (unsigned i = 0; i < ARRAY_COUNT(class_names) && length < capacity; i++) {
        const struct output_limit *limit = &limits->classes[i];
        length += (size_t)snprintf(
            text + length, capacity - length, "%s%s %llu %llu %llu", i > 0 ? " " : "",
            class_names[i], (unsigned long long)limit->hard_bytes,
            (unsigned long long)limit->soft_bytes, (unsigned long long)limit->soft_s);
    }
}

bool output_limit_is_passed(const struct output_limit *limit, uint64_t pending_bytes,
                            int64_t now_us, int64_t *soft_since_us_p)
{
    if (limit->hard_bytes > 0 && pending_bytes > limit->hard_bytes) {
        return true;
    }
    if (limit->soft_bytes == 0 || pending_bytes <= limit->soft_bytes) {
        *soft_since_us_p = 0;
        return false;
    }
    if (*soft_since_us_p == 0) {
        *soft_since_us_p = now_us;
    }
    return now_us - *soft_since_us_p > (int64_t)limit->soft_s * 1000000;
}
