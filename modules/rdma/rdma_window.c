#include "rdma_window.h"

#include "rdma_said.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

/* The part of a key that is ours to choose. */
#define KEY_OURS 0xffU

static uint8_t next_random(struct rdma_windows *windows)
{
    if (windows->random_left == 0) {
        size_t got = 0;
        while (got < sizeof(windows->random)) {
            /* Of so few bytes the kernel never keeps any back, but a signal may come first. */
            ssize_t more = getrandom(windows->random + got, sizeof(windows->random) - got, 0);
            if (more > 0) {
                got += (size_t)more;
            } else if (errno != EINTR) {
                abort(); /* keys that can be foretold would be worse */
            }
        }
        windows->random_left = sizeof(windows->random);
    }
    return windows->random[--windows->random_left];
}

uint32_t rdma_window_random(struct rdma_windows *windows)
{
    uint32_t low = next_random(windows);
    uint32_t middle = next_random(windows);
    return low | middle << 8 | (uint32_t)next_random(windows) << 16;
}

enum kvasir_status rdma_window_setup(struct rdma_windows *windows, struct kvasir_domain *domain,
                                     unsigned wanted)
{
    windows->domain = domain;
    if (wanted == 0 || !domain->facts.windows) {
        return KVASIR_OK;
    }
    windows->all = calloc(wanted, sizeof(*windows->all));
    windows->free = calloc(wanted, sizeof(struct kvasir_window *));
    if (windows->all == NULL || windows->free == NULL) {
        rdma_window_teardown(windows);
        return KVASIR_NO_MEMORY;
    }
    while (windows->count < wanted) {
        struct kvasir_window *window = &windows->all[windows->count];
        window->mw = ibv_alloc_mw(domain->pd, IBV_MW_TYPE_2);
        if (window->mw == NULL) {
            rdma_said_log(domain->module, KVASIR_LOG_WARN, "device %s: %u windows of %u wanted: %s",
                          domain->facts.device.name, windows->count, wanted, strerror(errno));
            break;
        }
        windows->free[windows->count++] = window;
    }
    windows->free_count = windows->count;
    return KVASIR_OK;
}

void rdma_window_teardown(struct rdma_windows *windows)
{
    for (unsigned i = 0; windows->all != NULL && i < windows->count; i++) {
        if (windows->all[i].mw != NULL) {
            (void)ibv_dealloc_mw(windows->all[i].mw);
        }
    }
    free(windows->all);
    free(windows->free);
    memset(windows, 0, sizeof(*windows));
}

struct kvasir_window *rdma_window_get(struct rdma_windows *windows, struct kvasir_link *link,
                                      uint32_t *key_p)
{
    unsigned place = rdma_window_random(windows) % windows->free_count;
    struct kvasir_window *window = windows->free[place];
    uint8_t ours = next_random(windows);
    windows->free[place] = windows->free[--windows->free_count];
    window->state = RDMA_WINDOW_BINDING;
    window->link = link;
    TAILQ_INSERT_TAIL(&link->windows, window, entry);
    /* The adapter refuses the low bits that are there. */
    if (ours == (window->mw->rkey & KEY_OURS)) {
        ours++;
    }
    *key_p = (window->mw->rkey & ~KEY_OURS) | ours;
    return window;
}

void rdma_window_put(struct rdma_windows *windows, struct kvasir_window **window_p)
{
    struct kvasir_window *window = *window_p;
    TAILQ_REMOVE(&window->link->windows, window, entry);
    window->link = NULL;
    window->state = RDMA_WINDOW_FREE;
    *window_p = NULL;
    if (window->mw == NULL) {
        window->mw = ibv_alloc_mw(windows->domain->pd, IBV_MW_TYPE_2);
    }
    if (window->mw == NULL) {
        rdma_said_log(windows->domain->module, KVASIR_LOG_WARN,
                      "device %s: a window was lost with its link and there is no other: %s",
                      windows->domain->facts.device.name, strerror(errno));
        windows->lost_count++;
        return;
    }
    windows->free[windows->free_count++] = window;
}

unsigned rdma_window_lose(struct kvasir_link *link)
{
    struct kvasir_window *window;
    struct kvasir_domain *domain = link->queue->domain;
    unsigned count = 0;
    for (window = TAILQ_FIRST(&link->windows); window != NULL; window = TAILQ_NEXT(window, entry)) {
        int error = window->mw != NULL ? ibv_dealloc_mw(window->mw) : 0;
        if (error != 0) {
            /* Its queue pair goes next, and nobody else may use it. */
            rdma_said_log(domain->module, KVASIR_LOG_ERROR, "device %s: a window stays: %s",
                          domain->facts.device.name, strerror(error));
        }
        window->mw = NULL;
        window->state = RDMA_WINDOW_LOST;
        count++;
    }
    return count;
}
