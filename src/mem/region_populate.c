#include "mem/region_populate.h"

#include "base/check.h"
#include "base/fault.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif

/* What MADV_COLLAPSE makes one page of. */
#define HUGE_PAGE_BYTES (2UL << 20)

/* Small enough to share the work evenly and to report often, large enough to lock seldom. */
#define POPULATE_CHUNK_BYTES (16UL << 20)
/* More threads than this do not zero memory any faster. */
#define POPULATE_THREADS_MAX    64U
#define POPULATE_REPORT_SECONDS 1

struct populate {
    struct region_populate_job job; /* constant while threads run, as the next two */
    bool by_touch;
    bool no_collapse;     /* the kernel refuses it, in a test */
    pthread_mutex_t lock; /* guards what follows */
    pthread_cond_t ended; /* signalled when the last thread ends */
    size_t next_bytes;    /* where the next chunk begins */
    size_t done_bytes;
    unsigned running;
    bool collapse; /* still wished, and never refused so far */
    int error;
};

/* Kernels before 5.14 do not know the advice: write one byte that is zero already in each page. */
static int populate_touch(uint8_t *start, size_t length_bytes)
{
    size_t step_bytes = (size_t)sysconf(_SC_PAGESIZE);
    for (size_t offset = 0; offset < length_bytes; offset += step_bytes) {
        *(volatile uint8_t *)(start + offset) = 0;
    }
    return 0;
}

static int populate_chunk(const struct populate *populate, uint8_t *start, size_t length_bytes)
{
    if (populate->by_touch) {
        return populate_touch(start, length_bytes);
    }
    int rc = 0;
    do {
        rc = madvise(start, length_bytes, MADV_POPULATE_WRITE);
    } while (rc != 0 && (errno == EINTR || errno == EAGAIN));
    if (rc == 0) {
        return 0;
    }
    return errno == EINVAL ? populate_touch(start, length_bytes) : errno;
}

/* Has the kernel put huge pages there. It does so for memfds, too, whose own setting (shmem_enabled)
 * is mostly "never" (Linux 6.1; madvise(2)), but not where there is nothing at all: hence the first page.
 * False: there are none to be had, or the kernel does not know how. */
static bool collapse_chunk(const struct populate *populate, uint8_t *start, size_t length_bytes)
{
    for (size_t offset = 0; offset < length_bytes; offset += HUGE_PAGE_BYTES) {
        if (madvise(start + offset, 1, MADV_POPULATE_WRITE) != 0) {
            return false;
        }
    }
    return !populate->no_collapse && madvise(start, length_bytes, MADV_COLLAPSE) == 0;
}

static void *populate_main(void *argument)
{
    struct populate *populate = argument;
    const struct region_populate_job *job = &populate->job;

    pthread_mutex_lock(&populate->lock);
    while (populate->next_bytes < job->size_bytes && populate->error == 0) {
        size_t offset = populate->next_bytes;
        size_t left_bytes = job->size_bytes - offset;
        size_t length_bytes = left_bytes < POPULATE_CHUNK_BYTES ? left_bytes : POPULATE_CHUNK_BYTES;
        bool collapse = populate->collapse;
        populate->next_bytes += length_bytes;
        pthread_mutex_unlock(&populate->lock);

        int error = job->cancelled != NULL && job->cancelled() ? ECANCELED : 0;
        collapse =
            collapse && error == 0 && collapse_chunk(populate, job->base + offset, length_bytes);
        if (!collapse && error == 0) {
            error = populate_chunk(populate, job->base + offset, length_bytes);
        }

        pthread_mutex_lock(&populate->lock);
        populate->collapse = populate->collapse && collapse;
        populate->done_bytes += error == 0 ? length_bytes : 0;
        populate->error = populate->error != 0 ? populate->error : error;
    }
    populate->running--;
    if (populate->running == 0) {
        pthread_cond_signal(&populate->ended);
    }
    pthread_mutex_unlock(&populate->lock);
    return NULL;
}

static unsigned populate_thread_count(const struct region_populate_job *job)
{
    size_t chunks = (job->size_bytes + POPULATE_CHUNK_BYTES - 1) / POPULATE_CHUNK_BYTES;
    unsigned count = job->thread_count;
    if (count == 0) {
        cpu_set_t cores;
        count = sched_getaffinity(0, sizeof(cores), &cores) == 0 ? (unsigned)CPU_COUNT(&cores) : 1;
    }
    count = count < POPULATE_THREADS_MAX ? count : POPULATE_THREADS_MAX;
    return count < chunks ? count : (unsigned)chunks;
}

/* Waits for the threads and reports about once a second meanwhile, without the lock. */
static void populate_wait(struct populate *populate)
{
    struct timespec until;
    check(clock_gettime(CLOCK_MONOTONIC, &until) == 0);
    until.tv_sec += POPULATE_REPORT_SECONDS;

    pthread_mutex_lock(&populate->lock);
    while (populate->running > 0) {
        int rc = pthread_cond_clockwait(&populate->ended, &populate->lock, CLOCK_MONOTONIC, &until);
        if (rc != ETIMEDOUT) {
            continue;
        }
        size_t done_bytes = populate->done_bytes;
        until.tv_sec += POPULATE_REPORT_SECONDS;
        if (populate->job.progress != NULL) {
            pthread_mutex_unlock(&populate->lock);
            populate->job.progress(populate->job.progress_argument, done_bytes,
                                   populate->job.size_bytes);
            pthread_mutex_lock(&populate->lock);
        }
    }
    pthread_mutex_unlock(&populate->lock);
}

int region_populate_here(const struct region_populate_job *job)
{
    const struct populate populate = {.job = *job};
    return populate_chunk(&populate, job->base, job->size_bytes);
}

int region_populate(const struct region_populate_job *job, bool *collapsed_p)
{
    if (fault_hit("region_populate")) {
        return ENOMEM;
    }
    struct populate populate = {.job = *job,
                                .by_touch = fault_hit("region_populate_advice"),
                                .no_collapse = fault_hit("region_collapse"),
                                .collapse = job->collapse};
    pthread_t threads[POPULATE_THREADS_MAX];
    unsigned wanted = populate_thread_count(job);
    unsigned started = 0;

    check(pthread_mutex_init(&populate.lock, NULL) == 0);
    check(pthread_cond_init(&populate.ended, NULL) == 0);
    pthread_mutex_lock(&populate.lock);
    while (started < wanted &&
           pthread_create(&threads[started], NULL, populate_main, &populate) == 0) {
        started++;
        populate.running++;
    }
    pthread_mutex_unlock(&populate.lock);
    if (started == 0) {
        populate.running = 1;
        (void)populate_main(&populate);
    }
    populate_wait(&populate);
    for (unsigned index = 0; index < started; index++) {
        check(pthread_join(threads[index], NULL) == 0);
    }
    pthread_cond_destroy(&populate.ended);
    pthread_mutex_destroy(&populate.lock);
    /* The last report: all of it, or where it stopped. */
    if (job->progress != NULL && populate.error == 0) {
        job->progress(job->progress_argument, populate.done_bytes, job->size_bytes);
    }
    *collapsed_p = populate.collapse && populate.error == 0;
    return populate.error;
}
