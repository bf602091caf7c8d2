#include "client/put_options.h"

#include "client/digest.h"

static const char *const class_names[] = {"full", "window", "state", "encoder"};

static struct slice parent_of(const struct kvasir_request *request, uint32_t index)
{
    if (request->put.chain && index > 0) {
        return job_key(&request->items[index - 1]);
    }
    return slice_of(request->put.parent, request->put.parent_length_bytes);
}

uint32_t put_options_count(const struct kvasir_request *request, uint32_t index, bool checksum)
{
    const struct kvasir_put_options *put = &request->put;
    return (put->only_if_absent ? 1U : 0U) + (put->ttl_ms > 0 ? 2U : 0U) +
           (parent_of(request, index).length_bytes > 0 ? 2U : 0U) +
           (put->value_class != KVASIR_CLASS_FULL ? 2U : 0U) + (put->cost > 0 ? 2U : 0U) +
           (checksum ? 2U : 0U);
}

void put_options_add_digest(struct outbox *outbox, const struct kvasir_request *request,
                            uint32_t index)
{
    uint32_t count;
    const struct iovec *segments = job_segments(request, index, &count);
    char text[DIGEST_TEXT_BYTES];
    digest_to_text(digest_of_segments(segments, count), text);
    outbox_add_slice(outbox, slice_of(text, sizeof text));
}

void put_options_add(struct outbox *outbox, const struct kvasir_request *request, uint32_t index,
                     bool checksum)
{
    const struct kvasir_put_options *put = &request->put;
    struct slice parent = parent_of(request, index);
    if (put->only_if_absent) {
        outbox_add_text(outbox, "NX");
    }
    if (put->ttl_ms > 0) {
        outbox_add_text(outbox, "TTL");
        outbox_add_number(outbox, put->ttl_ms);
    }
    if (parent.length_bytes > 0) {
        outbox_add_text(outbox, "PARENT");
        outbox_add_slice(outbox, parent);
    }
    if (put->value_class != KVASIR_CLASS_FULL) {
        outbox_add_text(outbox, "CLASS");
        outbox_add_text(outbox, class_names[put->value_class]);
    }
    if (put->cost > 0) {
        outbox_add_text(outbox, "COST");
        outbox_add_number(outbox, put->cost);
    }
    if (checksum) {
        outbox_add_text(outbox, "CHECKSUM");
        put_options_add_digest(outbox, request, index);
    }
}
