#pragma once
/* settings – the options of the server: from the command line, a file in the manner of redis.conf, and
 * CONFIG SET. Plain data: each reactor has its own copy and is sent changes. Owns nothing. */

#include <kvasir/types.h>

#include "base/compiler.h"
#include "base/slice.h"
#include "store/tenant.h"

#include <stdbool.h>
#include <stdint.h>

#define SETTINGS_TEXT_BYTES 256
/* A configuration file is written by hand: more than this is a mistake. */
#define SETTINGS_FILE_BYTES_MAX (1U << 20)

struct settings {
    char *
        users; /* owned by the settings that read them, borrowed by copies: lines of user NAME rules,
                    NULL: none were given */
    uint64_t
        hash_seed; /* of keys and channels; no option: main draws it, and nobody else may know it */
#define NUMBER(field, name, initial, minimum, maximum, changes, help) uint64_t field;
#define BYTES(field, name, initial, minimum, maximum, changes, help)  uint64_t field;
#define SIGNED(field, name, initial, minimum, maximum, changes, help) int64_t field;
#define SWITCH(field, name, initial, changes, help)                   bool field;
#define TEXT(field, name, initial, changes, help)                     char field[SETTINGS_TEXT_BYTES];
#define CHOICE(field, name, initial, words, changes, help)            char field[SETTINGS_TEXT_BYTES];
#define LIMITS(field, name, initial, changes, help)                   char field[SETTINGS_TEXT_BYTES];
#define CLASSES(field, name, initial, changes, help)                  char field[SETTINGS_TEXT_BYTES];
#define PERCENTILES(field, name, initial, changes, help)              char field[SETTINGS_TEXT_BYTES];
#define TENANTS(field, name, initial, changes, help)                  char field[TENANTS_TEXT_BYTES];
#define UIDS(field, name, initial, changes, help)                     char field[SETTINGS_TEXT_BYTES];
#include "server/settings.def"
#undef NUMBER
#undef BYTES
#undef SIGNED
#undef SWITCH
#undef TEXT
#undef CHOICE
#undef LIMITS
#undef CLASSES
#undef PERCENTILES
#undef TENANTS
#undef UIDS
};

void settings_init(struct settings *settings);
/* Frees what was read; copies must not be used any more. */
void settings_fini(struct settings *settings);

/* Sets one option from text. live: only options that may change while the server runs. On failure
 * error names the option, the value and what is allowed. KVASIR_OK, KVASIR_NOT_FOUND (no such
 * option), KVASIR_INVALID, KVASIR_UNSUPPORTED (not while running). */
ATTR_MUST_USE enum kvasir_status settings_set(struct settings *settings, struct slice name,
                                              struct slice value, bool live, char *error,
                                              size_t error_capacity);

/* Reads a file of "name value" lines; # begins a comment, values may be quoted. error names file, line
 * and reason. KVASIR_OK, KVASIR_NOT_FOUND, KVASIR_IO, KVASIR_INVALID, KVASIR_TOO_LARGE. */
ATTR_MUST_USE enum kvasir_status settings_read_file(struct settings *settings, const char *path,
                                                    char *error, size_t error_capacity);
/* The same for text in memory. */
ATTR_MUST_USE enum kvasir_status settings_read_text(struct settings *settings, const char *text,
                                                    size_t length_bytes, char *error,
                                                    size_t error_capacity);

/* Cuts one line into name and value; both are empty if it is blank or a comment. False: it is neither that
 * nor "name value". */
ATTR_MUST_USE bool settings_split_line(struct slice line, struct slice *name, struct slice *value);

/* Command line: [FILE] --name value … [--]. KVASIR_OK, or a failure with its sentence. */
ATTR_MUST_USE enum kvasir_status settings_read_arguments(struct settings *settings, int argc,
                                                         char **argv, char *error,
                                                         size_t error_capacity);

/* How many options there are, and the name, value and help of each. The value is the settings' own
 * text, or what buffer, of SETTINGS_TEXT_BYTES, was filled with. */
unsigned settings_count(void);
const char *settings_name(unsigned index);
ATTR_MUST_USE const char *settings_value(const struct settings *settings, unsigned index,
                                         char *buffer);

/* Says what does not go together (several options at once). KVASIR_OK or KVASIR_INVALID. */
ATTR_MUST_USE enum kvasir_status settings_verify(const struct settings *settings, char *error,
                                                 size_t error_capacity);

/* The texts of -h and --help, on standard output. */
void settings_print_usage(void);
void settings_print_help(void);
