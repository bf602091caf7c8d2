#include "server/pin_mail.h"

#include "base/check.h"
#include "server/reactor.h"

#include <stdlib.h>

static struct pin_mail *pin_mail_take(struct reactor *reactor)
{
    struct pin_mail *pins = reactor->free_pins;
    if (pins != NULL) {
        reactor->free_pins = pins->next_free;
    } else {
        /* How many are out is bounded by the pins, and those by batches and output chunks. Without
         * memory for 500 bytes a pin would be lost for ever, so there is no going on. */
        pins = malloc(sizeof(*pins));
        check(pins != NULL);
    }
    *pins = (struct pin_mail){.origin = reactor->index};
    reactor->errand_count++;
    return pins;
}

static void pin_mail_send(struct reactor *reactor, uint32_t shard)
{
    struct pin_mail *pins = reactor->open_pins[shard];
    reactor->open_pins[shard] = NULL;
    pins->mail.kind = MAIL_PINS;
    mailbox_send(reactor->server->mailbox, reactor->index, shard, &pins->mail);
}

void pin_mail_release(struct reactor *reactor, uint32_t shard, struct value *value)
{
    struct pin_mail *pins;
    struct shard *borrowed;
    if (shard == reactor->index) {
        reactor_shard_enter(reactor);
        shard_unpin(reactor->shard, &value);
        reactor_shard_leave(reactor);
        return;
    }
    borrowed = reactor_shard_borrow(reactor, shard);
    if (borrowed != NULL) {
        shard_unpin(borrowed, &value);
        reactor_shard_return(reactor, shard);
        return;
    }
    if (reactor->open_pins[shard] == NULL) {
        reactor->open_pins[shard] = pin_mail_take(reactor);
    }
    pins = reactor->open_pins[shard];
    pins->values[pins->count++] = value;
    if (pins->count == PIN_MAIL_COUNT) {
        pin_mail_send(reactor, shard);
    }
}

void pin_mail_release_output(void *reactor, uint32_t shard, void *value)
{
    pin_mail_release(reactor, shard, value);
}

void pin_mail_flush(struct reactor *reactor)
{
    for (uint32_t i = 0; i < reactor->server->reactor_count; i++) {
        if (reactor->open_pins[i] != NULL) {
            pin_mail_send(reactor, i);
        }
    }
}

void pin_mail_execute(struct reactor *reactor, struct pin_mail *pins)
{
    reactor_shard_enter(reactor);
    for (uint32_t i = 0; i < pins->count; i++) {
        shard_unpin(reactor->shard, &pins->values[i]);
    }
    reactor_shard_leave(reactor);
    pins->mail.kind = MAIL_PINS_DONE;
    mailbox_send(reactor->server->mailbox, reactor->index, pins->origin, &pins->mail);
}

void pin_mail_returned(struct reactor *reactor, struct pin_mail *pins)
{
    pins->next_free = reactor->free_pins;
    reactor->free_pins = pins;
    reactor->errand_count--;
}

void pin_mail_fini(struct reactor *reactor)
{
    while (reactor->free_pins != NULL) {
        struct pin_mail *pins = reactor->free_pins;
        reactor->free_pins = pins->next_free;
        free(pins);
    }
}
