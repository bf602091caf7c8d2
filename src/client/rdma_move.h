#pragma once
/* rdma_move – a transfer that this side drives: a READ of a leased value, or a WRITE into a reserved one,
 * by the keys that the server granted. One thread. Made by borrow as the grant is read; from its start it
 * is the client's until its event came. A withdrawn transfer touches no memory any more: its queue pair
 * is closed. */

#include "base/compiler.h"

#include <kvasir/types.h>

#include <stdbool.h>
#include <stdint.h>

struct kvasir_client;
struct kvasir_request;
struct link;
struct rdma_move;

/* Under way on one link, those included whose grant is still asked for; the server lends more. */
#define RDMA_MOVES_MAX 64U
/* Of a client, in its device's queue. */
#define RDMA_MOVE_JOBS_MAX 1024U

/* length_bytes of the item's memory, and up to piece_max of the server's. NULL: out of memory. */
struct rdma_move *rdma_move_create(struct link *link, struct kvasir_request *request,
                                   uint32_t index, uint64_t length_bytes, uint64_t piece_max);
/* key: with its queue pair's index in the upper bits, for all pieces the same. False: it has another, or
 * they are more than piece_max. */
ATTR_MUST_USE bool rdma_move_add(struct rdma_move *move, uint64_t address, uint64_t key,
                                 uint64_t bytes);
/* All pieces are there. The item is answered, committed or goes another way when the transfer ended. */
void rdma_move_start(struct rdma_move **move_p, uint64_t grant_id);
/* One that was not started. */
void rdma_move_discard(struct rdma_move **move_p);

/* Whether the device has something to say yet: transfers, or queue pairs that are being connected. */
bool rdma_move_is_awaited(const struct kvasir_client *client);
/* Takes what the device has to say. True: there was something. */
bool rdma_move_poll(struct kvasir_client *client);
/* The descriptors that tell when there is something to poll, RAILS_MAX at most; returns how many. 0:
 * nothing is under way, or *ready_p: there is something already. */
unsigned rdma_move_wait_fds(struct kvasir_client *client, int *fds, bool *ready_p);
/* The request ends early. */
void rdma_move_withdraw(struct link *link, struct kvasir_request *request, int64_t now_us);
/* The link is lost, its queue pair closed: what it moved fails. */
void rdma_move_abandon(struct link *link, enum kvasir_status status);
/* The device's queue is gone. */
void rdma_move_free_all(struct kvasir_client *client);
