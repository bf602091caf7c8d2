#include "client/opening.h"

#include "client/client_impl.h"

/* A command of the link itself. */
static void push(struct link *link, enum link_command_kind kind)
{
    link_command_push(link, kind)->first = JOB_NONE;
}

void opening_hello(struct link *link)
{
    const struct kvasir_options *options = &link->client->options;
    struct outbox *outbox = &link->outbox;
    outbox_add_array(outbox,
                     2 + (options->password != NULL ? 3 : 0) + (options->name != NULL ? 2 : 0));
    outbox_add_text(outbox, "HELLO");
    outbox_add_text(outbox, "3");
    if (options->password != NULL) {
        outbox_add_text(outbox, "AUTH");
        outbox_add_text(outbox, options->user != NULL ? options->user : "default");
        outbox_add_text(outbox, options->password);
    }
    if (options->name != NULL) {
        outbox_add_text(outbox, "SETNAME");
        outbox_add_text(outbox, options->name);
    }
    push(link, LINK_HELLO);
    outbox_add_array(outbox, 1);
    outbox_add_text(outbox, "KV.HELLO");
    push(link, LINK_KV_HELLO);
}

void opening_connect_shm(struct link *link)
{
    struct outbox *outbox = &link->outbox;
    outbox_add_array(outbox, 4);
    outbox_add_text(outbox, "KV.CONNECT");
    outbox_add_text(outbox, "SHM");
    outbox_add_text(outbox, "STAGING");
    outbox_add_number(outbox, link->client->options.staging_bytes);
    push(link, LINK_CONNECT_SHM);
}

void opening_connect_ring(struct link *link)
{
    struct outbox *outbox = &link->outbox;
    outbox_add_array(outbox, 2);
    outbox_add_text(outbox, "KV.CONNECT");
    outbox_add_text(outbox, "RING");
    push(link, LINK_CONNECT_RING);
}

void opening_connect_rdma(struct link *link, const struct opening_rdma *wanted)
{
    struct outbox *outbox = &link->outbox;
    char text[KVASIR_DEVICE_NAME_BYTES];
    /* A server of one device may not know the words for several. */
    bool several = link->greeting->rdma_count > 1 || wanted->link > 0;
    outbox_add_array(outbox, 2 + 2 * LINK_WORD_COUNT + (several ? 4 : 0) + (wanted->lends ? 2 : 0));
    outbox_add_text(outbox, "KV.CONNECT");
    outbox_add_text(outbox, "RDMA");
    for (unsigned i = 0; i < LINK_WORD_COUNT; i++) {
        outbox_add_text(outbox, link_word_name((enum link_word)i));
        if (link_word_is_number((enum link_word)i)) {
            outbox_add_number(outbox, link_word_number(&wanted->local, (enum link_word)i));
        } else {
            link_word_text(&wanted->local, (enum link_word)i, text);
            outbox_add_text(outbox, text);
        }
    }
    if (several) {
        outbox_add_text(outbox, "LINK");
        outbox_add_number(outbox, wanted->link);
        outbox_add_text(outbox, "VIA");
        outbox_add_text(outbox, wanted->via);
    }
    if (wanted->lends) {
        outbox_add_text(outbox, "MODE");
        outbox_add_text(outbox, "CLIENT");
    }
    link_command_push(link, LINK_CONNECT_RDMA)->first = wanted->link;
}
