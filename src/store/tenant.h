#pragma once
/* tenant – who shares the store, and how much of it each may have. A plain table: from an option's text,
 * copied into each shard. A value belongs to the tenant of the user who put it, else to that of its key's
 * prefix, else to nobody: row 0. Any thread; owns nothing. */

#include "base/compiler.h"
#include "base/metric.h"
#include "base/slice.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Rows, the first for all who are no tenant. A value has 5 bits for it. */
#define TENANTS_MAX            32U
#define TENANT_NAME_BYTES_MAX  23U
#define TENANT_MATCH_BYTES_MAX 47U
#define TENANTS_TEXT_BYTES     8192U

struct tenant {
    char name[TENANT_NAME_BYTES_MAX + 1];   /* empty: the row is free */
    char match[TENANT_MATCH_BYTES_MAX + 1]; /* the prefix, or the user's name */
    bool by_user;
    uint64_t guarantee_bytes; /* others take nothing from it while it has no more */
    uint64_t burst_bytes;     /* it never has more; 0: no limit */
};

struct tenant_table {
    uint32_t
        count; /* rows in use, those between them that are free included; 0: no tenants at all */
    struct tenant rows[TENANTS_MAX];
};

/* What a shard tells the others of a tenant's values. One writer; each row has its own cache lines. */
struct tenant_use {
    struct metric bytes[TENANTS_MAX];       /* values and their metadata */
    struct metric fixed_bytes[TENANTS_MAX]; /* of them, what cannot go: held, or not yet sealed */
};

/* "NAME prefix TEXT|user TEXT [guarantee BYTES] [burst BYTES]; …". False: error names the word and what is
 * allowed. The table is not touched then. */
ATTR_MUST_USE bool tenant_table_parse(struct tenant_table *table, struct slice text, char *error,
                                      size_t error_capacity);
/* The same text again, in one form. */
void tenant_table_format(const struct tenant_table *table, char *text, size_t capacity);

/* Gives tenants that the former table has their rows of there. */
void tenant_table_align(struct tenant_table *table, const struct tenant_table *former);
/* Row of the user's tenant, 0: none. */
uint8_t tenant_of_user(const struct tenant_table *table, struct slice user);
/* Row of the tenant with the longest prefix of the key, 0: none. */
uint8_t tenant_of_key(const struct tenant_table *table, struct slice key);
/* Whether values belong to the same rows by both. */
bool tenant_table_matches_alike(const struct tenant_table *a, const struct tenant_table *b);
