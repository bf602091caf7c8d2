#pragma once
/* notice_classes – the letters of notify-keyspace-events, and what they stand for. Plain data; any
 * thread. Letters of Redis's classes that cannot happen here (lists, sets, …) are kept and mean nothing. */

#include "base/compiler.h"
#include "base/slice.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Bits of an option's value: one a letter, in the order in which Redis writes them. */
struct notice_classes {
    uint32_t letters;
};

/* False: a letter that Redis does not know. */
ATTR_MUST_USE bool notice_classes_parse(struct notice_classes *classes, struct slice text);
/* In the form that CONFIG GET shows. */
void notice_classes_format(const struct notice_classes *classes, char *text, size_t capacity);

/* Bits of enum notice_class (store/notice.h). 0 unless there is a K or an E to publish them. */
uint32_t notice_classes_wanted(const struct notice_classes *classes);
bool notice_classes_keyspace(const struct notice_classes *classes);
bool notice_classes_keyevent(const struct notice_classes *classes);
