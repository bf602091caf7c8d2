#pragma once
/* access – who a connection is and what it may: its user, the verdict on its requests, what happens when
 * users change. Used by the connection's thread; reads the reactor's table of users. */

#include "acl/acl_log.h"
#include "acl/acl_table.h"
#include "server/conn.h"

/* A new connection, or one after RESET: the user default, authenticated when he needs no password. */
void access_begin(struct conn *conn);
/* Becomes the user when the password is right; else false, and the failure is counted and logged. */
bool access_authenticate(struct conn *conn, struct slice name, struct slice password);

/* The shard has other tenants: each connection learns which is its user's. */
void access_follow_tenants(struct reactor *reactor);

/* For restricted connections: refuses a request that its user may not make. */
void access_judge(struct conn *conn, struct request *request);
/* The same for a request whose payload has not arrived; says nothing. */
bool access_permits_upload(const struct conn *conn);
/* Whether the user may see all payload memory, as KV.CONNECT SHM shows it. */
bool access_permits_mapping(const struct acl_user *user);
/* Whether the connection's user may use RDMA and know of its devices (+@rdma). */
bool access_permits_rdma(const struct conn *conn);

/* The table of users is another from now on: each connection gets its user anew, and those whose user is
 * gone (of all users but default, when the table was loaded) or may not see any more what they have mapped,
 * or not listen any more to what they listen to, end. True: the caller, by its id, is one of these; it is left to whoever answers it. */
bool access_update(struct reactor *reactor, const struct acl_table *table, bool loaded,
                   uint64_t caller);
