#include "base/glob.h"

static uint8_t fold(uint8_t byte, bool ignore_case)
{
    return ignore_case && byte >= 'A' && byte <= 'Z' ? (uint8_t)(byte + ('a' - 'A')) : byte;
}

static bool in_range(uint8_t byte, uint8_t low, uint8_t high)
{
    /* Redis takes [z-a] for [a-z]. */
    return low <= high ? byte >= low && byte <= high : byte >= high && byte <= low;
}

/* Matches one byte against the class that begins behind the '[' at *at_p; *at_p moves behind its
 * ']'. A class that is not closed ends with the pattern, as in Redis. */
static bool match_class(struct slice pattern, size_t *at_p, uint8_t byte, bool ignore_case)
{
    size_t at = *at_p;
    bool negated = at < pattern.length_bytes && pattern.data[at] == '^';
    bool found = false;
    if (negated) {
        at++;
    }
    while (at < pattern.length_bytes && pattern.data[at] != ']') {
        size_t left_bytes = pattern.length_bytes - at;
        uint8_t first = fold(pattern.data[at], ignore_case);
        if (first == '\\' && left_bytes >= 2) {
            found |= fold(pattern.data[at + 1], ignore_case) == byte;
            at += 2;
        } else if (left_bytes >= 3 && pattern.data[at + 1] == '-') {
            found |= in_range(byte, first, fold(pattern.data[at + 2], ignore_case));
            at += 3;
        } else {
            found |= first == byte;
            at++;
        }
    }
    *at_p = at < pattern.length_bytes ? at + 1 : at;
    return found != negated;
}

/* Matches one byte of text against the element (anything but '*') at *at_p, which moves behind it. */
static bool match_one(struct slice pattern, size_t *at_p, uint8_t byte, bool ignore_case)
{
    uint8_t element = pattern.data[(*at_p)++];
    byte = fold(byte, ignore_case);
    if (element == '?') {
        return true;
    }
    if (element == '[') {
        return match_class(pattern, at_p, byte, ignore_case);
    }
    if (element == '\\' && *at_p < pattern.length_bytes) {
        element = pattern.data[(*at_p)++];
    }
    return fold(element, ignore_case) == byte;
}

/* Behind the last star: how far the text was when that star takes nothing more. */
struct star {
    bool seen;
    size_t at;
    size_t read_count;
};

static bool is_star(struct slice pattern, size_t at)
{
    return at < pattern.length_bytes && pattern.data[at] == '*';
}

bool glob_match_counted(struct slice pattern, struct slice text, bool ignore_case,
                        uint64_t *steps_p)
{
    uint64_t steps_max =
        GLOB_STEPS_MIN + GLOB_STEPS_PER_BYTE * (pattern.length_bytes + text.length_bytes);
    uint64_t steps = 0;
    size_t at = 0;         /* in pattern */
    size_t read_count = 0; /* bytes of text matched so far */
    struct star star = {0};

    /* Every element but the star takes exactly one byte, so giving the last star one byte more is
     * the only way on after a mismatch: an earlier star could only reach the same places. */
    while (read_count < text.length_bytes && steps <= steps_max) {
        size_t from = at;
        if (is_star(pattern, at)) {
            at++;
            star = (struct star){.seen = true, .at = at, .read_count = read_count};
            if (at == pattern.length_bytes) {
                read_count = text.length_bytes;
            }
            steps++;
            continue;
        }
        if (at < pattern.length_bytes &&
            match_one(pattern, &at, text.data[read_count], ignore_case)) {
            read_count++;
            steps += at - from;
            continue;
        }
        steps += at - from + 1;
        if (!star.seen) {
            break;
        }
        star.read_count++;
        read_count = star.read_count;
        at = star.at;
    }
    *steps_p += steps;
    while (is_star(pattern, at)) {
        at++;
    }
    return read_count == text.length_bytes && at == pattern.length_bytes;
}

bool glob_match(struct slice pattern, struct slice text, bool ignore_case)
{
    uint64_t steps = 0;
    return glob_match_counted(pattern, text, ignore_case, &steps);
}
