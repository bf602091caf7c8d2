#include "client/view.h"

#include "base/check.h"
#include "client/client_impl.h"
#include "client/pipeline.h"

#include <stdlib.h>

#define VIEW_MAGIC 0x4b565657U
/* Pieces besides whole pages; one more than a tail has. */
#define VIEW_TAIL_SEGMENTS 4U
/* When the server did not say how long a page is. */
#define VIEW_PAGE_BYTES (2U << 20)

struct kvasir_view *view_create(struct link *link, uint64_t length_bytes, int64_t deadline_us)
{
    uint32_t page_bytes = link->greeting_shm.page_bytes;
    uint64_t pages = length_bytes / (page_bytes > 0 ? page_bytes : VIEW_PAGE_BYTES);
    if (length_bytes > link->shm.region->length_bytes) {
        return NULL;
    }
    uint32_t segment_max = (uint32_t)pages + VIEW_TAIL_SEGMENTS;
    struct kvasir_view *view = malloc(sizeof *view + segment_max * sizeof view->segments[0]);
    if (view == NULL) {
        return NULL;
    }
    *view = (struct kvasir_view){.magic = VIEW_MAGIC,
                                 .client = link->client,
                                 .link_index = link->index,
                                 .generation = link->generation,
                                 .deadline_us = deadline_us,
                                 .length_bytes = length_bytes,
                                 .region = link->shm.region,
                                 .segment_max = segment_max};
    list_init(&view->member);
    shm_map_region_get(view->region);
    return view;
}

bool view_add(struct kvasir_view *view, const uint8_t *bytes, size_t length_bytes)
{
    if (view->segment_count == view->segment_max) {
        return false;
    }
    view->segments[view->segment_count] =
        (struct iovec){.iov_base = segment_base(bytes), .iov_len = length_bytes};
    view->segment_count++;
    return true;
}

void view_destroy(struct kvasir_view **view_p)
{
    struct kvasir_view *view = *view_p;
    *view_p = NULL;
    if (view == NULL) {
        return;
    }
    CHECK_MAGIC(view, VIEW_MAGIC);
    list_remove(&view->member);
    shm_map_region_put(&view->region);
    view->magic = 0;
    free(view);
}

void view_detach_all(struct kvasir_client *client)
{
    list_foreach_safe (member, after, &client->views) {
        struct kvasir_view *view = list_entry(member, struct kvasir_view, member);
        list_remove(&view->member);
        shm_map_region_put(&view->region);
        view->client = NULL;
        view->segment_count = 0;
    }
}

size_t kvasir_view_length_bytes(const struct kvasir_view *view)
{
    return view->length_bytes;
}

const struct iovec *kvasir_view_segments(const struct kvasir_view *view, uint32_t *segment_count_p)
{
    *segment_count_p = view->segment_count;
    return view->segments;
}

static bool lease_is_alive(const struct kvasir_view *view)
{
    const struct link *link = view->client == NULL ? NULL : view->client->links[view->link_index];
    return link != NULL && link->generation == view->generation;
}

/* With the connection the server's lease ended too. */
int64_t kvasir_view_deadline_us(const struct kvasir_view *view)
{
    return lease_is_alive(view) ? view->deadline_us : 0;
}

void kvasir_view_release(struct kvasir_view **view_p)
{
    if (view_p == NULL || *view_p == NULL) {
        return;
    }
    struct kvasir_view *view = *view_p;
    CHECK_MAGIC(view, VIEW_MAGIC);
    if (lease_is_alive(view) && client_is_usable(view->client)) {
        struct link *link = view->client->links[view->link_index];
        link_release_later(link, view->lease_id, view->length_bytes);
    }
    view_destroy(view_p);
}
