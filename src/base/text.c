#include "base/text.h"

#include "base/fault.h"

#include <stdlib.h>

static bool grow(struct text *text, size_t more_bytes)
{
    size_t wanted = text->length_bytes + more_bytes;
    size_t capacity = text->capacity_bytes == 0 ? 256 : text->capacity_bytes;
    char *data;
    if (more_bytes > TEXT_BYTES_MAX || wanted > TEXT_BYTES_MAX || fault_hit("base.text")) {
        return false;
    }
    if (wanted <= text->capacity_bytes) {
        return true;
    }
    while (capacity < wanted) {
        capacity *= 2;
    }
    data = realloc(text->data, capacity);
    if (data == NULL) {
        return false;
    }
    text->data = data;
    text->capacity_bytes = capacity;
    return true;
}

void text_add(struct text *text, struct slice bytes)
{
    if (text->failed || bytes.length_bytes == 0) {
        return;
    }
    if (!grow(text, bytes.length_bytes)) {
        text->failed = true;
        return;
    }
    memcpy(text->data + text->length_bytes, bytes.data, bytes.length_bytes);
    text->length_bytes += bytes.length_bytes;
}

void text_add_text(struct text *text, const char *words)
{
    text_add(text, slice_of_text(words));
}

void text_fini(struct text *text)
{
    free(text->data);
    *text = (struct text){0};
}
