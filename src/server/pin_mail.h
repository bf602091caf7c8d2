#pragma once
/* pin_mail – pins on values of other shards on their way home, many in one message. Taken from and
 * returned to the sending reactor's pool. */

#include "net/mailbox.h"

#include <stdint.h>

struct reactor;
struct value;

#define PIN_MAIL_COUNT 60

struct pin_mail {
    struct mail mail;
    struct pin_mail *next_free;
    uint32_t origin;
    uint32_t count;
    struct value *values[PIN_MAIL_COUNT];
};

/* Gives back a pin on a value of any shard, at the latest at the end of the turn. */
void pin_mail_release(struct reactor *reactor, uint32_t shard, struct value *value);
/* The same, in the form that output wants. */
void pin_mail_release_output(void *reactor, uint32_t shard, void *value);
/* Sends what was collected during this turn. */
void pin_mail_flush(struct reactor *reactor);
void pin_mail_execute(struct reactor *reactor, struct pin_mail *pins);
void pin_mail_returned(struct reactor *reactor, struct pin_mail *pins);
void pin_mail_fini(struct reactor *reactor);
