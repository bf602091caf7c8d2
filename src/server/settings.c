#include "server/settings.h"

#include "base/check.h"
#include "base/number.h"
#include "server/notice_classes.h"
#include "server/output_limit.h"
#include "server/percentiles.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum kind {
    KIND_NUMBER,
    KIND_BYTES,
    KIND_SIGNED,
    KIND_SWITCH,
    KIND_TEXT,
    KIND_CHOICE,
    KIND_LIMITS,
    KIND_CLASSES,
    KIND_PERCENTILES,
    KIND_TENANTS,
    KIND_UIDS
};
enum changes {
    START,
    LIVE
};

struct row {
    enum kind kind;
    const char *name;
    size_t offset; /* of the field in struct settings */
    const char *initial;
    uint64_t minimum;
    uint64_t maximum;
    const char *words; /* of a choice */
    enum changes changes;
    const char *help;
};

static const struct row ROWS[] = {
#define NUMBER(field, name, initial, minimum, maximum, changes, help)                      \
    {KIND_NUMBER, name, offsetof(struct settings, field), initial, minimum, maximum, NULL, \
     changes,     help},
#define BYTES(field, name, initial, minimum, maximum, changes, help)                      \
    {KIND_BYTES, name, offsetof(struct settings, field), initial, minimum, maximum, NULL, \
     changes,    help},
#define SIGNED(field, name, initial, minimum, maximum, changes, help) \
    {KIND_SIGNED,                                                     \
     name,                                                            \
     offsetof(struct settings, field),                                \
     initial,                                                         \
     (uint64_t)(minimum),                                             \
     (uint64_t)(maximum),                                             \
     NULL,                                                            \
     changes,                                                         \
     help},
#define SWITCH(field, name, initial, changes, help) \
    {KIND_SWITCH, name, offsetof(struct settings, field), initial, 0, 0, NULL, changes, help},
#define TEXT(field, name, initial, changes, help) \
    {KIND_TEXT, name, offsetof(struct settings, field), initial, 0, 0, NULL, changes, help},
#define CHOICE(field, name, initial, words, changes, help) \
    {KIND_CHOICE, name, offsetof(struct settings, field), initial, 0, 0, words, changes, help},
#define LIMITS(field, name, initial, changes, help) \
    {KIND_LIMITS, name, offsetof(struct settings, field), initial, 0, 0, NULL, changes, help},
#define CLASSES(field, name, initial, changes, help) \
    {KIND_CLASSES, name, offsetof(struct settings, field), initial, 0, 0, NULL, changes, help},
#define PERCENTILES(field, name, initial, changes, help) \
    {KIND_PERCENTILES, name, offsetof(struct settings, field), initial, 0, 0, NULL, changes, help},
#define TENANTS(field, name, initial, changes, help) \
    {KIND_TENANTS, name, offsetof(struct settings, field), initial, 0, 0, NULL, changes, help},
#define UIDS(field, name, initial, changes, help) \
    {KIND_UIDS, name, offsetof(struct settings, field), initial, 0, 0, NULL, changes, help},
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

static const struct row *row_find(struct slice name)
{
    for (size_t i = 0; i < ARRAY_COUNT(ROWS); i++) {
        if (slice_equal_nocase(name, ROWS[i].name)) {
            return &ROWS[i];
        }
    }
    return NULL;
}

static void *field_of(struct settings *settings, const struct row *row)
{
    return (char *)settings + row->offset;
}

/* True when word is one of "a|b|c". */
static bool word_allowed(struct slice word, const char *words)
{
    while (*words != '\0') {
        size_t length = strcspn(words, "|");
        if (word.length_bytes == length &&
            strncasecmp((const char *)word.data, words, length) == 0) {
            return true;
        }
        words += length + (words[length] == '|' ? 1 : 0);
    }
    return false;
}

static bool set_number(struct settings *settings, const struct row *row, struct slice value)
{
    uint64_t number;
    bool ok =
        row->kind == KIND_BYTES ? number_parse_bytes(value, &number) : slice_to_u64(value, &number);
    if (!ok || number < row->minimum || number > row->maximum) {
        /* Zero stands for "automatic" where it is the default. */
        if (!ok || number != 0 || strcmp(row->initial, "0") != 0) {
            return false;
        }
    }
    memcpy(field_of(settings, row), &number, sizeof(number));
    return true;
}

/* Numbers with commas or blanks between, nothing, or * for everybody. */
static bool are_uids(struct slice list)
{
    size_t start = 0;
    if (slice_equal(list, slice_of_text("*"))) {
        return true;
    }
    for (size_t i = 0; i <= list.length_bytes; i++) {
        uint64_t uid;
        if (i < list.length_bytes && list.data[i] != ',' && list.data[i] != ' ') {
            continue;
        }
        if (i > start &&
            (!slice_to_u64(slice_of(list.data + start, i - start), &uid) || uid > UINT32_MAX)) {
            return false;
        }
        start = i + 1;
    }
    return true;
}

static bool set_text(struct settings *settings, const struct row *row, struct slice value)
{
    char *field = field_of(settings, row);
    if (value.length_bytes >= SETTINGS_TEXT_BYTES ||
        memchr(value.data != NULL ? (const void *)value.data : "", '\0', value.length_bytes) !=
            NULL) {
        return false;
    }
    if ((row->kind == KIND_CHOICE && !word_allowed(value, row->words)) ||
        (row->kind == KIND_UIDS && !are_uids(value))) {
        return false;
    }
    if (value.length_bytes > 0) {
        memcpy(field, value.data, value.length_bytes);
    }
    field[value.length_bytes] = '\0';
    return true;
}

/* What the text does not name stays as it is. */
static bool set_limits(struct settings *settings, const struct row *row, struct slice value)
{
    char *field = field_of(settings, row);
    struct output_limits limits = {0};
    if (!output_limits_parse(&limits, slice_of_text(field)) ||
        !output_limits_parse(&limits, value)) {
        return false;
    }
    output_limits_format(&limits, field, SETTINGS_TEXT_BYTES);
    return true;
}

static bool set_classes(struct settings *settings, const struct row *row, struct slice value)
{
    struct notice_classes classes;
    if (!notice_classes_parse(&classes, value)) {
        return false;
    }
    notice_classes_format(&classes, field_of(settings, row), SETTINGS_TEXT_BYTES);
    return true;
}

static bool set_percentiles(struct settings *settings, const struct row *row, struct slice value)
{
    struct percentiles percentiles;
    if (!percentiles_parse(&percentiles, value)) {
        return false;
    }
    percentiles_format(&percentiles, field_of(settings, row), SETTINGS_TEXT_BYTES);
    return true;
}

static bool set_tenants(struct settings *settings, const struct row *row, struct slice value)
{
    struct tenant_table table;
    char reason[256];
    if (!tenant_table_parse(&table, value, reason, sizeof(reason))) {
        return false;
    }
    tenant_table_format(&table, field_of(settings, row), TENANTS_TEXT_BYTES);
    return true;
}

static bool set_field(struct settings *settings, const struct row *row, struct slice value)
{
    switch (row->kind) {
    case KIND_NUMBER:
    case KIND_BYTES:
        return set_number(settings, row, value);
    case KIND_SIGNED: {
        int64_t number;
        if (!slice_to_i64(value, &number) || number < (int64_t)row->minimum ||
            number > (int64_t)row->maximum) {
            return false;
        }
        memcpy(field_of(settings, row), &number, sizeof(number));
        return true;
    }
    case KIND_SWITCH: {
        bool on = slice_equal_nocase(value, "yes");
        if (!on && !slice_equal_nocase(value, "no")) {
            return false;
        }
        memcpy(field_of(settings, row), &on, sizeof(on));
        return true;
    }
    case KIND_TEXT:
    case KIND_CHOICE:
    case KIND_UIDS:
        return set_text(settings, row, value);
    case KIND_LIMITS:
        return set_limits(settings, row, value);
    case KIND_CLASSES:
        return set_classes(settings, row, value);
    case KIND_PERCENTILES:
        return set_percentiles(settings, row, value);
    case KIND_TENANTS:
        return set_tenants(settings, row, value);
    }
    return false;
}

/* What a row accepts, in words. */
static void allowed_text(const struct row *row, char *text, size_t capacity)
{
    char low[32];
    char high[32];
    switch (row->kind) {
    case KIND_NUMBER:
        (void)snprintf(text, capacity, "a number from %llu to %llu",
                       (unsigned long long)row->minimum, (unsigned long long)row->maximum);
        return;
    case KIND_BYTES:
        number_format_size(low, sizeof(low), row->minimum);
        number_format_size(high, sizeof(high), row->maximum);
        (void)snprintf(text, capacity, "a size from %s to %s, such as 512mb or 4gb%s", low, high,
                       strcmp(row->initial, "0") == 0 ? ", or 0 for automatic" : "");
        return;
    case KIND_SIGNED:
        (void)snprintf(text, capacity, "a number from %lld to %lld", (long long)row->minimum,
                       (long long)row->maximum);
        return;
    case KIND_SWITCH:
        (void)snprintf(text, capacity, "yes or no");
        return;
    case KIND_TEXT:
        (void)snprintf(text, capacity, "text of up to %d bytes", SETTINGS_TEXT_BYTES - 1);
        return;
    case KIND_CHOICE:
        (void)snprintf(text, capacity, "one of %s", row->words);
        return;
    case KIND_LIMITS:
        (void)snprintf(text, capacity,
                       "classes (normal, slave, pubsub) with hard limit, soft limit and seconds, "
                       "such as normal 64mb 16mb 60");
        return;
    case KIND_CLASSES:
        (void)snprintf(text, capacity, "letters out of Ag$lshzxeKEtmdn");
        return;
    case KIND_PERCENTILES:
        (void)snprintf(text, capacity, "up to 16 numbers from 0 to 100, such as 50 99 99.9");
        return;
    case KIND_TENANTS:
        (void)snprintf(text, capacity, "NAME prefix|user TEXT guarantee SIZE burst SIZE; ...");
        return;
    case KIND_UIDS:
        (void)snprintf(text, capacity, "numbers with commas between, or * for everybody");
        return;
    }
}

void settings_init(struct settings *settings)
{
    memset(settings, 0, sizeof(*settings));
    for (size_t i = 0; i < ARRAY_COUNT(ROWS); i++) {
        (void)set_field(settings, &ROWS[i], slice_of_text(ROWS[i].initial));
    }
}

void settings_fini(struct settings *settings)
{
    free(settings->users);
    settings->users = NULL;
}

/* One more line of users. */
static enum kvasir_status add_user(struct settings *settings, struct slice value, bool live,
                                   char *error, size_t error_capacity)
{
    static const char word[] = "user ";
    size_t before = settings->users != NULL ? strlen(settings->users) : 0;
    size_t length = before + sizeof(word) + value.length_bytes + 1;
    char *users;
    char *at;
    if (live) {
        (void)snprintf(error, error_capacity, "users are changed by ACL SETUSER");
        return KVASIR_UNSUPPORTED;
    }
    if (value.length_bytes == 0 || length > SETTINGS_FILE_BYTES_MAX ||
        memchr(value.data, '\0', value.length_bytes) != NULL ||
        memchr(value.data, '\n', value.length_bytes) != NULL) {
        (void)snprintf(error, error_capacity,
                       "user takes a name and its rules in one line, up to 1 MiB for all users");
        return KVASIR_INVALID;
    }
    users = realloc(settings->users, length);
    if (users == NULL) {
        (void)snprintf(error, error_capacity, "no memory for users");
        return KVASIR_NO_MEMORY;
    }
    at = users + before;
    memcpy(at, word, sizeof(word) - 1);
    memcpy(at + sizeof(word) - 1, value.data, value.length_bytes);
    memcpy(at + sizeof(word) - 1 + value.length_bytes, "\n", 2);
    settings->users = users;
    return KVASIR_OK;
}

enum kvasir_status settings_set(struct settings *settings, struct slice name, struct slice value,
                                bool live, char *error, size_t error_capacity)
{
    const struct row *row = row_find(name);
    char allowed[160];
    if (slice_equal_nocase(name, "user")) {
        return add_user(settings, value, live, error, error_capacity);
    }
    if (row == NULL) {
        (void)snprintf(error, error_capacity, "there is no option '%.*s'; --help lists them",
                       (int)(name.length_bytes < 64 ? name.length_bytes : 64),
                       (const char *)name.data);
        return KVASIR_NOT_FOUND;
    }
    if (live && row->changes != LIVE) {
        (void)snprintf(error, error_capacity,
                       "can't set immutable config: only the command line and the configuration "
                       "file set it");
        return KVASIR_UNSUPPORTED;
    }
    if (!set_field(settings, row, value)) {
        struct tenant_table table;
        char reason[256];
        if (row->kind == KIND_TENANTS &&
            !tenant_table_parse(&table, value, reason, sizeof(reason))) {
            (void)snprintf(error, error_capacity, "%s: %s", row->name, reason);
            return KVASIR_INVALID;
        }
        allowed_text(row, allowed, sizeof(allowed));
        (void)snprintf(error, error_capacity, "%s takes %s, not '%.*s'", row->name, allowed,
                       (int)(value.length_bytes < 64 ? value.length_bytes : 64),
                       value.data != NULL ? (const char *)value.data : "");
        return KVASIR_INVALID;
    }
    return KVASIR_OK;
}

unsigned settings_count(void)
{
    return (unsigned)ARRAY_COUNT(ROWS);
}

const char *settings_name(unsigned index)
{
    return ROWS[index].name;
}

const char *settings_value(const struct settings *settings, unsigned index, char *buffer)
{
    const struct row *row = &ROWS[index];
    const char *field = (const char *)settings + row->offset;
    uint64_t number;
    bool on;
    switch (row->kind) {
    case KIND_NUMBER:
    case KIND_BYTES:
        memcpy(&number, field, sizeof(number));
        (void)snprintf(buffer, SETTINGS_TEXT_BYTES, "%llu", (unsigned long long)number);
        return buffer;
    case KIND_SIGNED:
        memcpy(&number, field, sizeof(number));
        (void)snprintf(buffer, SETTINGS_TEXT_BYTES, "%lld", (long long)number);
        return buffer;
    case KIND_SWITCH:
        memcpy(&on, field, sizeof(on));
        (void)snprintf(buffer, SETTINGS_TEXT_BYTES, "%s", on ? "yes" : "no");
        return buffer;
    case KIND_TEXT:
    case KIND_CHOICE:
    case KIND_LIMITS:
    case KIND_CLASSES:
    case KIND_PERCENTILES:
    case KIND_TENANTS:
    case KIND_UIDS:
        return field;
    }
    unreachable();
}

enum kvasir_status settings_verify(const struct settings *settings, char *error,
                                   size_t error_capacity)
{
    char *end = NULL;
    unsigned long mode = strtoul(settings->unixsocketperm, &end, 8);
    if (end == settings->unixsocketperm || *end != '\0' || mode > 0777) {
        (void)snprintf(error, error_capacity,
                       "unixsocketperm takes an octal mode such as 700, not '%s'",
                       settings->unixsocketperm);
        return KVASIR_INVALID;
    }
    if (settings->port == 0 && settings->tls_port == 0 && settings->unixsocket[0] == '\0') {
        (void)snprintf(error, error_capacity,
                       "port and tls-port are 0 and unixsocket is empty: nobody could connect; set "
                       "one of them");
        return KVASIR_INVALID;
    }
    if (settings->tls_port != 0 && settings->tls_port == settings->port) {
        (void)snprintf(error, error_capacity,
                       "port and tls-port are both %llu: a port speaks TLS or it does not",
                       (unsigned long long)settings->port);
        return KVASIR_INVALID;
    }
    if (settings->metadata_memory + settings->buffer_memory >= settings->maxmemory) {
        (void)snprintf(error, error_capacity,
                       "metadata-memory and buffer-memory leave nothing of maxmemory %llu for "
                       "payload: lower them or raise maxmemory",
                       (unsigned long long)settings->maxmemory);
        return KVASIR_INVALID;
    }
    return KVASIR_OK;
}

static const char USAGE[] = "usage: kvasir-server [FILE] [--OPTION VALUE | --OPTION=VALUE ...]\n\n"
                            "A KV-cache store for LLM inference that speaks the Redis protocol.\n"
                            "FILE holds lines of 'option value'; the command line wins over it.\n";

void settings_print_usage(void)
{
    (void)printf("%s\n"
                 "  kvasir-server                          TCP port 6379, loopback only\n"
                 "  kvasir-server --maxmemory 64gb --unixsocket /run/kvasir.sock\n"
                 "                                         for engines on this host, too\n"
                 "  kvasir-server kvasir.conf --port 7000  a file, and what differs from it\n\n"
                 "  --help     all options, their defaults and what they take\n"
                 "  --version  print the version\n",
                 USAGE);
}

void settings_print_help(void)
{
    (void)printf("%sOptions marked * can be changed while the server runs (CONFIG SET).\n\n",
                 USAGE);
    for (size_t i = 0; i < ARRAY_COUNT(ROWS); i++) {
        char allowed[160];
        allowed_text(&ROWS[i], allowed, sizeof(allowed));
        (void)printf("  --%s%s\n      %s\n      %s; default '%s'\n", ROWS[i].name,
                     ROWS[i].changes == LIVE ? " *" : "", ROWS[i].help, allowed, ROWS[i].initial);
    }
    (void)printf(
        "\n  --user 'NAME RULE ...'\n      a user and what he may do, as in ACL SETUSER; as often as there are "
        "users\n");
    (void)printf("\n  --help     print this\n  --version  print the version\n");
}
