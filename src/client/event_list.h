#pragma once
/* event_list – the events of one answer to KV.EVENTS SINCE, as the caller of kvasir_events_poll sees them.
 * Owns its memory, which is taken when it is made, but for the keys, which grow up to a bound. One thread;
 * filled by answer, token by token. */

#include "base/compiler.h"
#include "client/link.h"

#include <kvasir/client.h>

struct event_list;

/* For up to capacity events. NULL: out of memory. */
struct event_list *event_list_create(uint32_t capacity);
void event_list_destroy(struct event_list **list_p);

uint32_t event_list_capacity(const struct event_list *list);
/* The events of the last answer; borrowed until the next one is read. */
const struct kvasir_key_event *event_list_events(const struct event_list *list, size_t *count_p);
/* The number to go on from: of the last answer, or, when that was that events are lost, behind the loss. */
uint64_t event_list_next(const struct event_list *list);

/* A token of the answer to the link's oldest command, which is KV.EVENTS. KVASIR_OK; KVASIR_PROTOCOL;
 * KVASIR_NO_MEMORY: the link is to be dropped for that. A long key opens link->sink. */
ATTR_MUST_USE enum kvasir_status event_list_token(struct link *link,
                                                  const struct link_command *command,
                                                  const struct reply_token *token);
/* The answer is an error with this status and text: what it means for the item. */
enum kvasir_status event_list_error(struct event_list *list, enum kvasir_status status,
                                    struct slice text);
