#pragma once
/* region_populate – touches every page of a mapping, in several threads, so that no write ever waits
 * for one. Called by region at start, from the thread that reports progress. For the files of this
 * layer only; owns nothing after it returned. */

#include "mem/region.h"

struct region_populate_job {
    uint8_t *base;
    size_t size_bytes;
    bool collapse;                /* make huge pages of it where the kernel does not by itself */
    unsigned thread_count;        /* 0: one per available core */
    region_progress_fn *progress; /* may be NULL */
    void *progress_argument;
    region_cancelled_fn *cancelled; /* may be NULL */
};

/* 0, or the errno of the page that could not be had, or ECANCELED. *collapsed_p: the job asked for huge pages, and
 * all of it is such. */
ATTR_MUST_USE int region_populate(const struct region_populate_job *job, bool *collapsed_p);
/* The same in the calling thread, for a short part; reports nothing. */
ATTR_MUST_USE int region_populate_here(const struct region_populate_job *job);
