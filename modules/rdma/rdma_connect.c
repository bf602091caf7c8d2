#include "rdma_connect.h"

#include "rdma_link.h"
#include "rdma_qp.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

/* Links of one queue that have a thread at a time: peers that cannot be reached hold up no others. */
#define THREADS_MAX 8

/* ---- the descriptors ---- */

static int watch(struct rdma_connects *connects, int fd)
{
    struct epoll_event event = {.events = EPOLLIN};
    return epoll_ctl(connects->watch_fd, EPOLL_CTL_ADD, fd, &event);
}

int rdma_connect_setup(struct kvasir_queue *queue)
{
    struct rdma_connects *connects = &queue->connects;
    connects->watch_fd = epoll_create1(EPOLL_CLOEXEC);
    if (connects->watch_fd < 0 || pipe2(connects->ends, O_CLOEXEC) != 0) {
        return errno;
    }
    /* Only reading: what a thread reports always has room. */
    if (fcntl(connects->ends[0], F_SETFL, O_NONBLOCK) != 0 ||
        watch(connects, connects->ends[0]) != 0 || watch(connects, queue->channel->fd) != 0) {
        return errno;
    }
    return 0;
}

void rdma_connect_teardown(struct kvasir_queue *queue)
{
    struct rdma_connects *connects = &queue->connects;
    while (connects->running > 0) {
        struct pollfd report = {.fd = connects->ends[0], .events = POLLIN};
        (void)poll(&report, 1, -1);
        rdma_connect_collect(queue);
    }
    for (unsigned i = 0; i < 2; i++) {
        if (connects->ends[i] >= 0) {
            (void)close(connects->ends[i]);
        }
    }
    if (connects->watch_fd >= 0) {
        (void)close(connects->watch_fd);
    }
}

/* ---- threads ---- */

/* Touches nothing of the link that its queue's thread may change meanwhile, and nothing at all after its
 * report. */
static void *run(void *argument)
{
    struct kvasir_link *link = argument;
    int end = link->queue->connects.ends[1];
    link->connect_error = rdma_qp_reach(link->qp, link->queue->domain, &link->local, &link->remote,
                                        link->traffic_class);
    (void)!write(end, &link, sizeof(link));
    return NULL;
}

/* The process's signals are for its own threads. */
static int start_thread(struct kvasir_link *link)
{
    sigset_t all;
    sigset_t before;
    int error;
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    error = pthread_create(&link->connect_thread, NULL, run, link);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (error == 0) {
        link->connect_running = true;
        link->queue->connects.running++;
    }
    return error;
}

int rdma_connect_start(struct kvasir_link *link)
{
    struct rdma_connects *connects = &link->queue->connects;
    if (connects->running < THREADS_MAX) {
        return start_thread(link);
    }
    TAILQ_INSERT_TAIL(&connects->waiting, link, connect_entry);
    return 0;
}

bool rdma_connect_abandon(struct kvasir_link *link)
{
    if (!link->connect_running) {
        TAILQ_REMOVE(&link->queue->connects.waiting, link, connect_entry);
    }
    return link->connect_running;
}

static void start_waiting(struct kvasir_queue *queue)
{
    struct rdma_connects *connects = &queue->connects;
    struct kvasir_link *link;
    while (connects->running < THREADS_MAX && (link = TAILQ_FIRST(&connects->waiting)) != NULL) {
        int error;
        TAILQ_REMOVE(&connects->waiting, link, connect_entry);
        error = start_thread(link);
        if (error != 0) {
            rdma_link_connected(link, error);
        }
    }
}

void rdma_connect_collect(struct kvasir_queue *queue)
{
    struct rdma_connects *connects = &queue->connects;
    struct kvasir_link *link = NULL;
    while (connects->running > 0 &&
           read(connects->ends[0], &link, sizeof(link)) == (ssize_t)sizeof(link)) {
        (void)pthread_join(link->connect_thread, NULL); /* the report was its last act */
        link->connect_running = false;
        connects->running--;
        rdma_link_connected(link, link->connect_error);
        start_waiting(queue);
    }
}
