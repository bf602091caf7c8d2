#pragma once
/* tenants – the option of that name put to work, and what INFO tells of it. Used by the reactor's thread.
 * Owns nothing: the tables are the shards'. */

#include "store/shard.h"

struct info_writer;
struct reactor;

/* What one reactor tells in INFO, by rows. */
struct tenants_facts {
    struct shard_tenant_stats rows[TENANTS_MAX];
};

/* The settings' tenants are the shard's from now on, and connections belong to them. Inside the shard's
 * gate. */
void tenants_configure(struct reactor *reactor);
void tenants_tell(const struct shard *shard, struct tenants_facts *facts_p);
/* The section of INFO. */
void tenants_write(struct info_writer *writer);
