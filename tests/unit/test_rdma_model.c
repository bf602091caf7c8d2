/* test_rdma_model – the rdma module under a random mixture of transfers, grants, revokes, wrong keys, slow
 * adapters and closed links, against what must hold all the time: each job ends once, its lists are not
 * touched afterwards, a granted key works, a dead key does not, and no window is lost. */

#include "test_rdma_jobs.h"

#include "test_seed.h"

#define LINKS      3U
#define JOBS_MAX   64U
#define GRANTS_MAX 4U
#define DEAD_MAX   32U
#define WINDOWS    24U
#define STEPS      6000U

/* A job with its own lists, in memory that goes with its event. */
struct model_job {
    enum kvasir_job_kind kind;
    unsigned link;
    unsigned life; /* of the link when it was submitted */
    unsigned count;
    struct kvasir_local locals[GRANTS_MAX];
    struct kvasir_remote remotes[GRANTS_MAX];
    struct kvasir_grant grants[GRANTS_MAX];
};

struct model_link {
    struct kvasir_link *owner;
    struct kvasir_link *peer;
    unsigned life;
    bool broken;
    unsigned grant_count;
    struct kvasir_grant grants[WINDOWS]; /* bound, as far as the events say */
};

struct model {
    struct rig rig;
    struct rig_options options;
    uint64_t random;
    struct model_link links[LINKS];
    struct model_job *jobs[JOBS_MAX]; /* owned; by cookie */
    uint32_t dead[DEAD_MAX];          /* keys that gave a right once */
    unsigned dead_count;
    unsigned used, refused; /* keys that worked, keys that did not */
};

static unsigned draw(struct model *model, unsigned below)
{
    model->random = model->random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (unsigned)(model->random >> 33) % below;
}

static void open_link(struct model *model, unsigned index)
{
    struct model_link *link = &model->links[index];
    link->life++;
    link->broken = false;
    link->grant_count = 0;
    assert_int_equal(rig_link(&model->rig, &model->options, &link->owner, &link->peer), KVASIR_OK);
}

static void remember_dead(struct model *model, uint32_t key)
{
    model->dead[model->dead_count++ % DEAD_MAX] = key;
}

/* Closing takes the rights of all grants away, also of those whose revoke is under way. */
static void reopen_link(struct model *model, unsigned index)
{
    struct model_link *link = &model->links[index];
    for (unsigned i = 0; i < link->grant_count; i++) {
        remember_dead(model, link->grants[i].key);
    }
    model->rig.ops->link_close(&link->owner);
    model->rig.ops->link_close(&link->peer);
    open_link(model, index);
}

static void drop_grant(struct model_link *link, unsigned place)
{
    link->grants[place] = link->grants[--link->grant_count];
}

/* ---- events ---- */

static void job_done(struct model *model, const struct kvasir_event *event)
{
    struct model_job *job = model->jobs[event->cookie];
    struct model_link *link = &model->links[job->link];
    bool same_life = link->life == job->life;
    assert_non_null(job);
    for (unsigned i = 0; i < job->count; i++) {
        struct kvasir_grant *grant = &job->grants[i];
        if (job->kind == KVASIR_JOB_BIND && event->status == KVASIR_OK) {
            assert_non_null(grant->window);
            if (same_life) {
                link->grants[link->grant_count++] = *grant;
            }
        } else {
            assert_null(grant->window);
        }
    }
    if (job->kind == KVASIR_JOB_REVOKE) {
        assert_int_equal(event->status, KVASIR_OK);
    }
    free(job);
    model->jobs[event->cookie] = NULL;
}

static void take_event(void *taker, const struct rig_end *end, const struct kvasir_event *event)
{
    struct model *model = taker;
    if (end == &model->rig.owner && event->kind == KVASIR_EVENT_JOB) {
        job_done(model, event);
    } else if (end == &model->rig.owner) {
        assert_int_equal(event->kind, KVASIR_EVENT_LINK_DOWN);
    }
}

static void take_events(struct model *model)
{
    struct kvasir_event event;
    while (model->rig.ops->queue_poll(model->rig.owner.queue, &event, 1) == 1) {
        take_event(model, &model->rig.owner, &event);
    }
    while (model->rig.ops->queue_poll(model->rig.peer.queue, &event, 1) == 1) {
    }
}

/* ---- steps ---- */

static struct model_job *make_job(struct model *model, enum kvasir_job_kind kind, unsigned link,
                                  unsigned *cookie_p)
{
    struct model_job *job;
    for (unsigned i = 0; i < JOBS_MAX; i++) {
        if (model->jobs[i] == NULL) {
            job = malloc(sizeof(*job));
            memset(job, 0, sizeof(*job));
            job->kind = kind;
            job->link = link;
            job->life = model->links[link].life;
            model->jobs[i] = job;
            *cookie_p = i;
            return job;
        }
    }
    return NULL;
}

static bool submit(struct model *model, struct model_job *job, unsigned cookie, unsigned lists)
{
    struct kvasir_job submitted = {.kind = job->kind,
                                   .cookie = cookie,
                                   .locals = job->locals,
                                   .local_count = lists,
                                   .remotes = job->remotes,
                                   .remote_count = lists,
                                   .grants = job->grants,
                                   .grant_count = job->count};
    enum kvasir_status status = model->rig.ops->submit(model->links[job->link].owner, &submitted);
    if (status == KVASIR_PENDING) {
        return true;
    }
    assert_true(status == KVASIR_AGAIN || status == KVASIR_CLOSED);
    free(job);
    model->jobs[cookie] = NULL;
    return false;
}

static void step_transfer(struct model *model, unsigned link)
{
    struct rig *rig = &model->rig;
    enum kvasir_job_kind kind = draw(model, 2) == 0 ? KVASIR_JOB_READ : KVASIR_JOB_WRITE;
    unsigned cookie = 0;
    unsigned lists = 1 + draw(model, GRANTS_MAX);
    struct model_job *job = make_job(model, kind, link, &cookie);
    uint32_t key = draw(model, 60) == 0 ? 0x700 : rig->peer.key;
    if (job == NULL) {
        return;
    }
    for (unsigned i = 0; i < lists; i++) {
        size_t bytes = 1 + draw(model, 5000);
        size_t at = draw(model, RIG_MEMORY_BYTES / 2);
        /* The lower half of the owner's memory is that of grants. */
        job->locals[i] = (struct kvasir_local){.memory = rig->owner.memory,
                                               .address = (uintptr_t)rig->owner.bytes +
                                                          RIG_MEMORY_BYTES / 2 + at / 2,
                                               .bytes = bytes};
        job->remotes[i] = (struct kvasir_remote){
            .address = (uintptr_t)rig->peer.bytes + at, .bytes = bytes, .key = key};
    }
    (void)submit(model, job, cookie, lists);
}

static void step_bind(struct model *model, unsigned link)
{
    unsigned cookie = 0;
    struct model_job *job = make_job(model, KVASIR_JOB_BIND, link, &cookie);
    if (job == NULL) {
        return;
    }
    job->count = 1 + draw(model, GRANTS_MAX);
    for (unsigned i = 0; i < job->count; i++) {
        job->grants[i] = rig_grant(&model->rig, KVASIR_RIGHT_REMOTE_READ,
                                   draw(model, RIG_MEMORY_BYTES / 4), 1 + draw(model, 9000));
    }
    (void)submit(model, job, cookie, 0);
}

static void step_revoke(struct model *model, unsigned index)
{
    struct model_link *link = &model->links[index];
    struct kvasir_grant grant;
    unsigned cookie = 0;
    unsigned place;
    struct model_job *job;
    if (link->grant_count == 0) {
        return;
    }
    job = make_job(model, KVASIR_JOB_REVOKE, index, &cookie);
    if (job == NULL) {
        return;
    }
    place = draw(model, link->grant_count);
    grant = link->grants[place];
    job->count = 1;
    job->grants[0] = grant;
    if (submit(model, job, cookie, 0)) {
        drop_grant(link, place);
        remember_dead(model, grant.key);
    }
}

/* A read by the peer of a link; the adapters catch up first. */
static enum kvasir_status peer_reads(struct model *model, unsigned index, uint32_t key,
                                     uint64_t address, size_t bytes)
{
    struct rig *rig = &model->rig;
    const struct kvasir_local local = {
        .memory = rig->peer.memory, .address = (uintptr_t)rig->peer.bytes, .bytes = bytes};
    const struct kvasir_remote remote = {.address = address, .bytes = bytes, .key = key};
    struct kvasir_job job = {.kind = KVASIR_JOB_READ,
                             .locals = &local,
                             .local_count = 1,
                             .remotes = &remote,
                             .remote_count = 1};
    return rig_run(rig, &rig->peer, model->links[index].peer, &job);
}

static bool is_live(const struct model *model, uint32_t key)
{
    for (unsigned i = 0; i < LINKS; i++) {
        for (unsigned k = 0; k < model->links[i].grant_count; k++) {
            if (model->links[i].grants[k].key == key) {
                return true;
            }
        }
    }
    return false;
}

/* Keys that live are used by their own peer, the dead and the others' are tried. */
static void step_peer(struct model *model, unsigned index)
{
    struct model_link *link = &model->links[index];
    const struct kvasir_grant *grant;
    unsigned other = (index + 1) % LINKS;
    uint32_t key = model->dead[draw(model, DEAD_MAX)];
    fake_hold(false);
    take_events(model);
    /* A link that broke by itself shows that when it is used. */
    (void)peer_reads(model, index, 0, 0, 1);
    take_events(model);
    reopen_link(model, index);
    step_bind(model, index);
    take_events(model);
    if (link->grant_count > 0) {
        grant = &link->grants[draw(model, link->grant_count)];
        assert_int_equal(
            peer_reads(model, index, grant->key, grant->local.address, grant->local.bytes),
            KVASIR_OK);
        assert_memory_equal(model->rig.peer.bytes, (void *)(uintptr_t)grant->local.address,
                            grant->local.bytes);
        model->used++;
    }
    if (draw(model, 2) == 0 && model->links[other].grant_count > 0) {
        grant = &model->links[other].grants[0];
        key = grant->key;
        assert_int_equal(peer_reads(model, index, key, grant->local.address, 1), KVASIR_DENIED);
        model->refused++;
    } else if (!is_live(model, key)) {
        assert_int_equal(peer_reads(model, index, key, (uintptr_t)model->rig.owner.bytes + 100, 1),
                         KVASIR_DENIED);
        model->refused++;
    }
    take_events(model);
    reopen_link(model, index);
}

static void step(struct model *model)
{
    unsigned link = draw(model, LINKS);
    unsigned what = draw(model, 100);
    if (what < 30) {
        step_transfer(model, link);
    } else if (what < 45) {
        step_bind(model, link);
    } else if (what < 60) {
        step_revoke(model, link);
    } else if (what < 75) {
        fake_run(1 + draw(model, 8));
    } else if (what < 92) {
        take_events(model);
    } else if (what < 95) {
        fake_hold(draw(model, 2) == 0);
    } else if (what < 97) {
        reopen_link(model, link);
    } else {
        step_peer(model, link);
    }
}

static void finish(struct model *model)
{
    struct kvasir_queue_stats stats;
    fake_hold(false);
    for (unsigned i = 0; i < LINKS; i++) {
        model->rig.ops->link_close(&model->links[i].owner);
        model->rig.ops->link_close(&model->links[i].peer);
    }
    take_events(model);
    for (unsigned i = 0; i < JOBS_MAX; i++) {
        assert_null(model->jobs[i]);
    }
    model->rig.ops->queue_stats(model->rig.owner.queue, &stats);
    assert_int_equal(stats.windows, WINDOWS);
    assert_int_equal(stats.windows_free, WINDOWS);
    assert_true(model->used > 0 && model->refused > 0);
    rig_close(&model->rig);
}

static void run_model(uint64_t seed, const struct rig_options *options)
{
    struct model *model = malloc(sizeof(*model));
    memset(model, 0, sizeof(*model));
    model->random = seed;
    model->options = *options;
    assert_int_equal(rig_open(&model->rig, options), KVASIR_OK);
    /* The rig's own pair has no part in this. */
    model->rig.ops->link_close(&model->rig.owner.link);
    model->rig.ops->link_close(&model->rig.peer.link);
    model->rig.take = take_event;
    model->rig.taker = model;
    for (unsigned i = 0; i < RIG_MEMORY_BYTES; i++) {
        model->rig.owner.bytes[i] = (uint8_t)(i * 7);
    }
    for (unsigned i = 0; i < LINKS; i++) {
        open_link(model, i);
    }
    for (unsigned i = 0; i < STEPS; i++) {
        step(model);
    }
    finish(model);
    free(model);
}

static void test_rdma_model_holds_on_large_queues(void **state)
{
    (void)state;
    run_model(test_seed(), &(struct rig_options){.windows_max = WINDOWS});
}

static void test_rdma_model_holds_on_small_queues(void **state)
{
    (void)state;
    run_model(test_seed(),
              &(struct rig_options){
                  .fake = {.completions_max = 8, .sges_max = 2, .message_bytes_max = 4000},
                  .depth = 3,
                  .jobs_max = 5,
                  .windows_max = WINDOWS});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rdma_model_holds_on_large_queues),
        cmocka_unit_test(test_rdma_model_holds_on_small_queues),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
