#include "net/mailbox.h"

#include "base/check.h"
#include "base/spsc.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

/* Chains under way from one reactor to one other. One a turn leaves, and the other takes all at each
 * of its turns, so a few are enough; more only make the ring deeper while a reactor is stopped. */
#define RING_CAPACITY 64

struct chain {
    struct mail *first;
    struct mail *last;
};

struct box {
    ATTR_ALIGNED(CACHE_LINE_BYTES) atomic_uint asleep; /* 1 while its reactor (about to) sleeps */
    int descriptor;                                    /* eventfd, owned */
    /* Written by the reactor of this box only, apart from what others touch. */
    ATTR_ALIGNED(CACHE_LINE_BYTES) struct chain *out; /* per destination, owned */
    struct spsc **in;                                 /* per sender, owned */
    bool pending;                                     /* some chain of out is not empty */
};

struct mailbox {
    uint32_t count;
    struct box *boxes; /* owned */
};

static bool box_init(struct box *box, uint32_t count)
{
    box->descriptor = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    box->out = calloc(count, sizeof(*box->out));
    box->in = calloc(count, sizeof(*box->in));
    if (box->descriptor < 0 || box->out == NULL || box->in == NULL) {
        return false;
    }
    for (uint32_t i = 0; i < count; i++) {
        box->in[i] = spsc_create(RING_CAPACITY);
        if (box->in[i] == NULL) {
            return false;
        }
    }
    return true;
}

struct mailbox *mailbox_create(uint32_t reactor_count)
{
    struct mailbox *mailbox = calloc(1, sizeof(*mailbox));
    if (mailbox == NULL) {
        return NULL;
    }
    mailbox->count = reactor_count;
    mailbox->boxes = aligned_alloc(CACHE_LINE_BYTES, reactor_count * sizeof(*mailbox->boxes));
    if (mailbox->boxes == NULL) {
        free(mailbox);
        return NULL;
    }
    for (uint32_t i = 0; i < reactor_count; i++) {
        mailbox->boxes[i] = (struct box){.descriptor = -1};
    }
    for (uint32_t i = 0; i < reactor_count; i++) {
        if (!box_init(&mailbox->boxes[i], reactor_count)) {
            mailbox_destroy(&mailbox);
            return NULL;
        }
    }
    return mailbox;
}

void mailbox_destroy(struct mailbox **mailbox_p)
{
    struct mailbox *mailbox = *mailbox_p;
    if (mailbox == NULL) {
        return;
    }
    for (uint32_t i = 0; i < mailbox->count; i++) {
        struct box *box = &mailbox->boxes[i];
        for (uint32_t k = 0; box->in != NULL && k < mailbox->count; k++) {
            spsc_destroy(&box->in[k]);
        }
        free(box->in);
        free(box->out);
        if (box->descriptor >= 0) {
            (void)close(box->descriptor);
        }
    }
    free(mailbox->boxes);
    free(mailbox);
    *mailbox_p = NULL;
}

int mailbox_descriptor(const struct mailbox *mailbox, uint32_t me)
{
    return mailbox->boxes[me].descriptor;
}

void mailbox_send(struct mailbox *mailbox, uint32_t me, uint32_t to, struct mail *mail)
{
    struct box *box = &mailbox->boxes[me];
    struct chain *chain = &box->out[to];
    check(to < mailbox->count && to != me);
    mail->next = NULL;
    mail->from = me;
    if (chain->first == NULL) {
        chain->first = mail;
    } else {
        chain->last->next = mail;
    }
    chain->last = mail;
    box->pending = true;
}

static void wake_up(struct box *box)
{
    uint64_t one = 1;
    /* Only the first to see it asleep pays for the system call. */
    if (atomic_load(&box->asleep) != 0 && atomic_exchange(&box->asleep, 0) != 0) {
        ssize_t written = write(box->descriptor, &one, sizeof(one));
        (void)written; /* fails only when the counter is full: then it is readable anyway */
    }
}

bool mailbox_flush(struct mailbox *mailbox, uint32_t me)
{
    struct box *box = &mailbox->boxes[me];
    if (!box->pending) {
        return true;
    }
    box->pending = false;
    for (uint32_t to = 0; to < mailbox->count; to++) {
        struct chain *chain = &box->out[to];
        if (chain->first == NULL) {
            continue;
        }
        if (spsc_push(mailbox->boxes[to].in[me], chain->first)) {
            *chain = (struct chain){0};
        } else {
            box->pending = true;
        }
        wake_up(&mailbox->boxes[to]);
    }
    return !box->pending;
}

struct mail *mailbox_receive(struct mailbox *mailbox, uint32_t me)
{
    struct box *box = &mailbox->boxes[me];
    struct mail *first = NULL;
    struct mail **end = &first;
    for (uint32_t from = 0; from < mailbox->count; from++) {
        struct mail *chain = spsc_pop(box->in[from]);
        while (chain != NULL) {
            *end = chain;
            while (*end != NULL) {
                end = &(*end)->next;
            }
            chain = spsc_pop(box->in[from]);
        }
    }
    return first;
}

bool mailbox_sleep(struct mailbox *mailbox, uint32_t me)
{
    struct box *box = &mailbox->boxes[me];
    atomic_store(&box->asleep, 1);
    for (uint32_t from = 0; from < mailbox->count; from++) {
        if (!spsc_empty(box->in[from])) {
            atomic_store(&box->asleep, 0);
            return false;
        }
    }
    return true;
}

void mailbox_wake(struct mailbox *mailbox, uint32_t me)
{
    struct box *box = &mailbox->boxes[me];
    uint64_t count;
    if (atomic_exchange(&box->asleep, 0) == 0) {
        ssize_t bytes_read = read(box->descriptor, &count, sizeof(count));
        (void)bytes_read; /* empty when the sender has not written yet: it wakes us once more */
    }
}
