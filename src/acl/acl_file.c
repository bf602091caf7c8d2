#include "acl/acl_file.h"

#include <stdio.h>
#include <stdlib.h>

static bool is_blank(uint8_t byte)
{
    return byte == ' ' || byte == '\t' || byte == '\r';
}

/* The next word of the line, and what is left of it; false: there is none. */
static bool next_word(struct slice *line, struct slice *word)
{
    size_t start = 0;
    size_t end;
    while (start < line->length_bytes && is_blank(line->data[start])) {
        start++;
    }
    end = start;
    while (end < line->length_bytes && !is_blank(line->data[end])) {
        end++;
    }
    *word = slice_of(line->data + start, end - start);
    *line = slice_of(line->data + end, line->length_bytes - end);
    return word->length_bytes > 0;
}

static void begin_fault(struct text *errors, const char *place, unsigned number)
{
    char where[32];
    text_add_text(errors, place);
    (void)snprintf(where, sizeof(where), ":%u: ", number);
    text_add_text(errors, where);
}

/* The words behind the user's name, as an array that the caller frees; NULL: no memory, or none. */
static struct slice *split(struct slice line, uint32_t *count_p)
{
    struct slice rest = line;
    struct slice word;
    struct slice *words;
    uint32_t count = 0;
    while (next_word(&rest, &word)) {
        count++;
    }
    words = count > 0 ? malloc(count * sizeof(*words)) : NULL;
    *count_p = words != NULL ? count : 0;
    for (uint32_t i = 0; words != NULL && i < count; i++) {
        (void)next_word(&line, &words[i]);
    }
    return words;
}

static void read_user(struct acl_table *table, struct slice name, struct slice rest,
                      bool all_channels, struct text *reason)
{
    uint32_t count = 0;
    struct slice *rules;
    if (acl_table_find(table, name) != NULL) {
        text_add_text(reason, "Duplicate user '");
        text_add(reason, name);
        text_add_text(reason, "' found. A user can only be defined once");
        return;
    }
    rules = split(rest, &count);
    (void)acl_table_set_user(table, name, rules, count, all_channels, reason);
    free(rules);
}

static void read_line(struct acl_table *table, struct slice line, bool all_channels,
                      struct text *reason)
{
    struct slice word;
    struct slice name;
    if (!next_word(&line, &word)) {
        return;
    }
    if (!slice_equal(word, slice_of_text("user")) || !next_word(&line, &name)) {
        text_add_text(reason, "should start with user keyword followed by the username");
        return;
    }
    read_user(table, name, line, all_channels, reason);
}

bool acl_file_read(struct acl_table *table, struct slice lines, const char *place,
                   bool all_channels, struct text *errors)
{
    size_t at = 0;
    unsigned number = 0;
    bool good = true;
    while (at < lines.length_bytes) {
        const uint8_t *start = lines.data + at;
        const uint8_t *end = memchr(start, '\n', lines.length_bytes - at);
        size_t length = end != NULL ? (size_t)(end - start) : lines.length_bytes - at;
        struct text reason = {0};
        number++;
        at += length + 1;
        read_line(table, slice_of(start, length), all_channels, &reason);
        if (reason.length_bytes > 0 || reason.failed) {
            good = false;
            begin_fault(errors, place, number);
            text_add(errors, text_slice(&reason));
            text_add_text(errors, ". ");
        }
        text_fini(&reason);
    }
    if (good && !acl_table_add_default(table)) {
        text_add_text(errors, "out of memory for the user default");
        good = false;
    }
    return good;
}

void acl_file_write(const struct acl_table *table, struct text *lines)
{
    for (uint32_t i = 0; i < table->count; i++) {
        text_add_text(lines, "user ");
        text_add(lines, acl_user_name(table->users[i]));
        text_add_text(lines, " ");
        acl_user_describe(table->users[i], lines);
        text_add_text(lines, "\n");
    }
}
