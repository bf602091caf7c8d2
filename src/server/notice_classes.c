#include "server/notice_classes.h"

#include "store/notice.h"

#include <string.h>

/* What A stands for comes first. */
#define LETTERS_OF_A "g$lshzxetd"
static const char LETTERS[] = LETTERS_OF_A "nKEm";

static uint32_t bit_of(char letter)
{
    const char *found = strchr(LETTERS, letter);
    return letter != '\0' && found != NULL ? UINT32_C(1) << (found - LETTERS) : 0;
}

static uint32_t bits_of_all(void)
{
    return (UINT32_C(1) << (sizeof(LETTERS_OF_A) - 1)) - 1;
}

static bool has(const struct notice_classes *classes, char letter)
{
    return (classes->letters & bit_of(letter)) != 0;
}

bool notice_classes_parse(struct notice_classes *classes, struct slice text)
{
    uint32_t letters = 0;
    for (size_t i = 0; i < text.length_bytes; i++) {
        char letter = (char)text.data[i];
        uint32_t bits = letter == 'A' ? bits_of_all() : bit_of(letter);
        if (bits == 0) {
            return false;
        }
        letters |= bits;
    }
    classes->letters = letters;
    return true;
}

void notice_classes_format(const struct notice_classes *classes, char *text, size_t capacity)
{
    bool all = (classes->letters & bits_of_all()) == bits_of_all();
    size_t length = 0;
    if (all && length + 1 < capacity) {
        text[length++] = 'A';
    }
    for (const char *letter = LETTERS; *letter != '\0'; letter++) {
        bool covered = all && (bit_of(*letter) & bits_of_all()) != 0;
        if (has(classes, *letter) && !covered && length + 1 < capacity) {
            text[length++] = *letter;
        }
    }
    text[length] = '\0';
}

bool notice_classes_keyspace(const struct notice_classes *classes)
{
    return has(classes, 'K');
}

bool notice_classes_keyevent(const struct notice_classes *classes)
{
    return has(classes, 'E');
}

uint32_t notice_classes_wanted(const struct notice_classes *classes)
{
    static const struct {
        char letter;
        enum notice_class class;
    } all[] = {{'g', NOTICE_GENERIC},  {'$', NOTICE_STRING}, {'x', NOTICE_EXPIRY},
               {'e', NOTICE_EVICTION}, {'m', NOTICE_MISS},   {'n', NOTICE_NEW_KEY}};
    uint32_t wanted = 0;
    for (size_t i = 0; i < ARRAY_COUNT(all); i++) {
        wanted |= has(classes, all[i].letter) ? (uint32_t)all[i].class : 0;
    }
    return has(classes, 'K') || has(classes, 'E') ? wanted : 0;
}
