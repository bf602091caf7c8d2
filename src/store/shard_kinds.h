#pragma once
/* shard_kinds – the kinds of op, a function each: it sets op->status and its results, as shard.h says. For
 * the files of this layer only; the shard's thread. */

#include <stdbool.h>

struct op;
struct shard;
struct value;

void shard_put_set(struct shard *shard, struct op *op);
void shard_put_reserve(struct shard *shard, struct op *op);
void shard_put_commit(struct shard *shard, struct op *op);
void shard_put_abort(struct shard *shard, struct op *op);
void shard_put_grant_reserve(struct shard *shard, struct op *op);
void shard_put_grant_fill(struct shard *shard, struct op *op);
void shard_put_grant_abort(struct shard *shard, struct op *op);
void shard_read_get(struct shard *shard, struct op *op);
void shard_read_exists(struct shard *shard, struct op *op);
void shard_read_stat(struct shard *shard, struct op *op);
void shard_read_remove(struct shard *shard, struct op *op);
void shard_read_expire(struct shard *shard, struct op *op);
void shard_read_persist(struct shard *shard, struct op *op);

/* Whether INCR would take the value. */
bool shard_edit_is_integer(struct shard *shard, const struct value *value);
void shard_edit_add(struct shard *shard, struct op *op);
void shard_edit_add_float(struct shard *shard, struct op *op);
void shard_edit_append(struct shard *shard, struct op *op);
void shard_edit_set_range(struct shard *shard, struct op *op);
void shard_build_set_from(struct shard *shard, struct op *op);
void shard_bits_fields(struct shard *shard, struct op *op);
void shard_bits_look(struct shard *shard, struct op *op);

void shard_pin_lease(struct shard *shard, struct op *op);
void shard_pin_release(struct shard *shard, struct op *op);
void shard_pin_pin(struct shard *shard, struct op *op);
void shard_pin_unpin(struct shard *shard, struct op *op);
