#pragma once
/* link_word – the address of a queue pair in words: what KV.HELLO and KV.CONNECT RDMA say in each
 * direction, used by server and client alike. Any thread; owns nothing. */

#include "base/compiler.h"
#include "base/slice.h"

#include <kvasir/transport_types.h>

#define LINK_WORD_GID_BYTES 46 /* as an IPv6 address, with its terminator */

/* One field of an address: a number, or a text. */
enum link_word {
    LINK_WORD_DEVICE,
    LINK_WORD_LAYER,
    LINK_WORD_QPN,
    LINK_WORD_PSN,
    LINK_WORD_LID,
    LINK_WORD_MTU,
    LINK_WORD_RD_ATOMIC,
    LINK_WORD_GID,
    LINK_WORD_GID_INDEX,
    LINK_WORD_GID_TYPE,
    LINK_WORD_COUNT
};

const char *link_word_name(enum link_word word);
/* In any case; LINK_WORD_COUNT: no such field. */
enum link_word link_word_find(struct slice name);
bool link_word_is_number(enum link_word word);

/* A field of an address as a number or as a text, whichever it is. text has room for
 * KVASIR_DEVICE_NAME_BYTES. */
uint64_t link_word_number(const struct kvasir_link_address *address, enum link_word word);
void link_word_text(const struct kvasir_link_address *address, enum link_word word, char *text);

/* Sets a field; false: no such number or word. */
ATTR_MUST_USE bool link_word_set_number(struct kvasir_link_address *address, enum link_word word,
                                        uint64_t number);
ATTR_MUST_USE bool link_word_set_text(struct kvasir_link_address *address, enum link_word word,
                                      struct slice text);

void link_word_format_gid(const struct kvasir_gid *gid, char text[LINK_WORD_GID_BYTES]);
