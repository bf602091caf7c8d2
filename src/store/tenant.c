#include "store/tenant.h"

#include "base/number.h"

#include <stdio.h>
#include <string.h>

static bool tenant_is_blank(uint8_t byte)
{
    return byte == ' ' || byte == '\t';
}

/* The next word, which is cut off; empty: there is none. */
static struct slice tenant_word(struct slice *text)
{
    while (text->length_bytes > 0 && tenant_is_blank(text->data[0])) {
        *text = slice_of(text->data + 1, text->length_bytes - 1);
    }
    size_t length = 0;
    while (length < text->length_bytes && !tenant_is_blank(text->data[length])) {
        length++;
    }
    struct slice word = slice_of(text->data, length);
    *text = slice_of(text->data + length, text->length_bytes - length);
    return word;
}

static int tenant_shown(struct slice word)
{
    return (int)(word.length_bytes < 64 ? word.length_bytes : 64);
}

static bool tenant_copy(char *to, size_t bytes_max, struct slice word)
{
    if (word.length_bytes == 0 || word.length_bytes > bytes_max ||
        memchr(word.data, '\0', word.length_bytes) != NULL) {
        return false;
    }
    memcpy(to, word.data, word.length_bytes);
    to[word.length_bytes] = '\0';
    return true;
}

static bool tenant_name_allowed(struct slice name)
{
    for (size_t i = 0; i < name.length_bytes; i++) {
        uint8_t byte = name.data[i];
        bool allowed = (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') ||
                       (byte >= '0' && byte <= '9') || byte == '-' || byte == '_' || byte == '.';
        if (!allowed) {
            return false;
        }
    }
    return name.length_bytes > 0 && name.length_bytes <= TENANT_NAME_BYTES_MAX;
}

static bool tenant_parse_limit(struct tenant *tenant, struct slice word, struct slice value,
                               char *error, size_t error_capacity)
{
    bool guarantee = slice_equal_nocase(word, "guarantee");
    uint64_t *bytes_p = guarantee ? &tenant->guarantee_bytes : &tenant->burst_bytes;
    if (!guarantee && !slice_equal_nocase(word, "burst")) {
        (void)snprintf(error, error_capacity,
                       "tenant %s: after its prefix or user come guarantee and burst, not '%.*s'",
                       tenant->name, tenant_shown(word), (const char *)word.data);
        return false;
    }
    if (!number_parse_bytes(value, bytes_p)) {
        (void)snprintf(error, error_capacity, "tenant %s: %s takes a size such as 4gb, not '%.*s'",
                       tenant->name, guarantee ? "guarantee" : "burst", tenant_shown(value),
                       value.data != NULL ? (const char *)value.data : "");
        return false;
    }
    return true;
}

static bool tenant_parse_row(struct tenant *tenant, struct slice text, char *error,
                             size_t error_capacity)
{
    struct slice name = tenant_word(&text);
    struct slice kind = tenant_word(&text);
    struct slice match = tenant_word(&text);
    *tenant = (struct tenant){.by_user = slice_equal_nocase(kind, "user")};
    if (!tenant_name_allowed(name)) {
        (void)snprintf(error, error_capacity,
                       "a tenant's name has 1 to %u letters, digits and -_., not '%.*s'",
                       TENANT_NAME_BYTES_MAX, tenant_shown(name), (const char *)name.data);
        return false;
    }
    (void)tenant_copy(tenant->name, TENANT_NAME_BYTES_MAX, name);
    if ((!tenant->by_user && !slice_equal_nocase(kind, "prefix")) ||
        !tenant_copy(tenant->match, TENANT_MATCH_BYTES_MAX, match)) {
        (void)snprintf(error, error_capacity,
                       "tenant %s: after the name comes prefix or user, and 1 to %u bytes",
                       tenant->name, TENANT_MATCH_BYTES_MAX);
        return false;
    }
    for (;;) {
        struct slice word = tenant_word(&text);
        if (word.length_bytes == 0) {
            break;
        }
        if (!tenant_parse_limit(tenant, word, tenant_word(&text), error, error_capacity)) {
            return false;
        }
    }
    if (tenant->burst_bytes != 0 && tenant->burst_bytes < tenant->guarantee_bytes) {
        (void)snprintf(error, error_capacity,
                       "tenant %s: burst %llu is less than guarantee %llu: raise it, or leave it "
                       "out for no limit",
                       tenant->name, (unsigned long long)tenant->burst_bytes,
                       (unsigned long long)tenant->guarantee_bytes);
        return false;
    }
    return true;
}

static bool tenant_add_row(struct tenant_table *table, const struct tenant *added, char *error,
                           size_t error_capacity)
{
    for (uint32_t i = 1; i < table->count; i++) {
        const struct tenant *other = &table->rows[i];
        bool same_match =
            other->by_user == added->by_user && strcmp(other->match, added->match) == 0;
        if (same_match || strcmp(other->name, added->name) == 0) {
            (void)snprintf(error, error_capacity, "tenants %s and %s have the same %s", other->name,
                           added->name,
                           !same_match ? "name" : (added->by_user ? "user" : "prefix"));
            return false;
        }
    }
    if (table->count == TENANTS_MAX) {
        (void)snprintf(error, error_capacity, "there may be %u tenants, and %s is one more",
                       TENANTS_MAX - 1, added->name);
        return false;
    }
    table->rows[table->count++] = *added;
    return true;
}

bool tenant_table_parse(struct tenant_table *table, struct slice text, char *error,
                        size_t error_capacity)
{
    struct tenant_table parsed = {.count = 1};
    if (text.length_bytes >= TENANTS_TEXT_BYTES) {
        (void)snprintf(error, error_capacity, "all tenants together have up to %u bytes of text",
                       TENANTS_TEXT_BYTES - 1);
        return false;
    }
    while (text.length_bytes > 0) {
        const uint8_t *end = memchr(text.data, ';', text.length_bytes);
        size_t length = end != NULL ? (size_t)(end - text.data) : text.length_bytes;
        struct slice row = slice_of(text.data, length);
        struct slice look = row;
        struct tenant tenant;
        length += end != NULL;
        text = slice_of(text.data + length, text.length_bytes - length);
        if (tenant_word(&look).length_bytes == 0) {
            continue; /* nothing between two semicolons */
        }
        if (!tenant_parse_row(&tenant, row, error, error_capacity) ||
            !tenant_add_row(&parsed, &tenant, error, error_capacity)) {
            return false;
        }
    }
    if (parsed.count == 1) {
        parsed.count = 0;
    }
    *table = parsed;
    return true;
}

void tenant_table_format(const struct tenant_table *table, char *text, size_t capacity)
{
    size_t length = 0;
    text[0] = '\0';
    for (uint32_t i = 1; i < table->count; i++) {
        const struct tenant *tenant = &table->rows[i];
        char guarantee[32];
        char burst[32];
        if (tenant->name[0] == '\0') {
            continue;
        }
        number_format_size(guarantee, sizeof(guarantee), tenant->guarantee_bytes);
        number_format_size(burst, sizeof(burst), tenant->burst_bytes);
        int wrote = snprintf(text + length, capacity - length, "%s%s %s %s guarantee %s burst %s",
                             length > 0 ? "; " : "", tenant->name,
                             tenant->by_user ? "user" : "prefix", tenant->match, guarantee, burst);
        if (wrote < 0 || (size_t)wrote >= capacity - length) {
            text[length] = '\0';
            return;
        }
        length += (size_t)wrote;
    }
}

static uint32_t tenant_find(const struct tenant_table *table, const char *name)
{
    for (uint32_t i = 1; i < table->count; i++) {
        if (strcmp(table->rows[i].name, name) == 0) {
            return i;
        }
    }
    return 0;
}

void tenant_table_align(struct tenant_table *table, const struct tenant_table *former)
{
    struct tenant_table aligned = {0};
    for (uint32_t i = 1; i < table->count; i++) {
        uint32_t row = tenant_find(former, table->rows[i].name);
        if (row != 0) {
            aligned.rows[row] = table->rows[i];
        }
    }
    for (uint32_t i = 1; i < table->count; i++) {
        uint32_t row = 1;
        if (tenant_find(former, table->rows[i].name) != 0) {
            continue;
        }
        while (aligned.rows[row].name[0] != '\0') {
            row++;
        }
        aligned.rows[row] = table->rows[i];
    }
    for (uint32_t i = 1; i < TENANTS_MAX; i++) {
        aligned.count = aligned.rows[i].name[0] != '\0' ? i + 1 : aligned.count;
    }
    *table = aligned;
}

uint8_t tenant_of_user(const struct tenant_table *table, struct slice user)
{
    for (uint32_t i = 1; i < table->count; i++) {
        const struct tenant *tenant = &table->rows[i];
        if (tenant->by_user && slice_equal(user, slice_of_text(tenant->match))) {
            return (uint8_t)i;
        }
    }
    return 0;
}

uint8_t tenant_of_key(const struct tenant_table *table, struct slice key)
{
    size_t longest = 0;
    uint32_t row = 0;
    for (uint32_t i = 1; i < table->count; i++) {
        const struct tenant *tenant = &table->rows[i];
        size_t length = strlen(tenant->match);
        if (tenant->name[0] != '\0' && !tenant->by_user && length > longest &&
            key.length_bytes >= length && memcmp(key.data, tenant->match, length) == 0) {
            longest = length;
            row = i;
        }
    }
    return (uint8_t)row;
}

bool tenant_table_matches_alike(const struct tenant_table *a, const struct tenant_table *b)
{
    for (uint32_t i = 1; i < TENANTS_MAX; i++) {
        const struct tenant *x = &a->rows[i];
        const struct tenant *y = &b->rows[i];
        if (strcmp(x->name, y->name) != 0 || strcmp(x->match, y->match) != 0 ||
            x->by_user != y->by_user) {
            return false;
        }
    }
    return true;
}
