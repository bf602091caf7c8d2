#include "server/percentiles.h"

#include <stdio.h>
#include <string.h>

#define PERCENTILES_DECIMALS 3
#define PERCENTILES_WHOLE    100000U /* of all */

/* The number at the beginning of text, which moves behind it. False: there is none. */
static bool take_number(struct slice *text, uint32_t *per_100000_p)
{
    uint32_t number = 0;
    uint32_t decimals = 0;
    size_t digits = 0;
    size_t at = 0;
    bool behind_point = false;
    for (; at < text->length_bytes && text->data[at] != ' '; at++) {
        uint8_t byte = text->data[at];
        if (byte == '.' && !behind_point) {
            behind_point = true;
            continue;
        }
        if (byte < '0' || byte > '9' || number > PERCENTILES_WHOLE ||
            decimals == PERCENTILES_DECIMALS) {
            return false;
        }
        number = number * 10 + (byte - '0');
        decimals += behind_point;
        digits++;
    }
    for (; decimals < PERCENTILES_DECIMALS; decimals++) {
        if (number > PERCENTILES_WHOLE) {
            return false;
        }
        number *= 10;
    }
    text->data += at;
    text->length_bytes -= at;
    *per_100000_p = number;
    return digits > 0 && number <= PERCENTILES_WHOLE;
}

bool percentiles_parse(struct percentiles *percentiles, struct slice text)
{
    struct percentiles parsed = {0};
    for (;;) {
        while (text.length_bytes > 0 && text.data[0] == ' ') {
            text.data++;
            text.length_bytes--;
        }
        if (text.length_bytes == 0) {
            break;
        }
        if (parsed.count == PERCENTILES_MAX ||
            !take_number(&text, &parsed.per_100000[parsed.count])) {
            return false;
        }
        parsed.count++;
    }
    *percentiles = parsed;
    return true;
}

void percentiles_name(uint32_t per_100000, char *text)
{
    size_t length;
    (void)snprintf(text, PERCENTILES_TEXT_BYTES, "%u.%03u", per_100000 / 1000 % 1000,
                   per_100000 % 1000);
    length = strlen(text);
    while (text[length - 1] == '0') {
        length--;
    }
    if (text[length - 1] == '.') {
        length--;
    }
    text[length] = '\0';
}

void percentiles_format(const struct percentiles *percentiles, char *text, size_t capacity)
{
    size_t length = 0;
    text[0] = '\0';
    for (uint32_t i = 0; i < percentiles->count; i++) {
        char name[PERCENTILES_TEXT_BYTES];
        percentiles_name(percentiles->per_100000[i], name);
        if (length + strlen(name) + 2 > capacity) {
            return;
        }
        length +=
            (size_t)snprintf(text + length, capacity - length, "%s%s", i > 0 ? " " : "", name);
    }
}
