/* events – following what happens to keys, as a router does that mirrors what a store holds. It makes
 * three events by itself and ends when it has seen them.
 * Usage: events [ADDRESS] */

#include <kvasir/client.h>

#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

static const char *const keys[] = {"event-a", "event-b"};

/* Begun before the keys are written, so that nothing of them is missed. */
static enum kvasir_status make_events(struct kvasir_client *client)
{
    enum kvasir_status status = KVASIR_OK;
    for (int i = 0; status == KVASIR_OK && i < 2; i++) {
        status = kvasir_put(client, keys[i], strlen(keys[i]), "value", 5, NULL, 0);
    }
    return status == KVASIR_OK ? kvasir_delete(client, keys[0], strlen(keys[0]), 0) : status;
}

static const char *name_of(enum kvasir_key_event_kind kind)
{
    switch (kind) {
    case KVASIR_KEY_SEALED:
        return "is stored";
    case KVASIR_KEY_EVICTED:
        return "made room for others";
    case KVASIR_KEY_DELETED:
        return "was deleted";
    case KVASIR_KEY_EXPIRED:
        return "expired";
    case KVASIR_KEY_FLUSHED:
        return "and all others of the shard were flushed";
    case KVASIR_KEY_OTHER:
        break;
    }
    return "changed in a way that this program does not know";
}

/* True: the event is about one of the keys above. */
static bool show(const struct kvasir_key_event *event)
{
    bool ours = false;
    for (int i = 0; i < 2; i++) {
        ours = ours || (event->key_length_bytes == strlen(keys[i]) &&
                        memcmp(event->key, keys[i], event->key_length_bytes) == 0);
    }
    (void)printf("%llu: %.*s %s (%zu bytes)\n", (unsigned long long)event->number,
                 (int)event->key_length_bytes, (const char *)event->key, name_of(event->kind),
                 event->length_bytes);
    return ours;
}

static enum kvasir_status follow(struct kvasir_events *events, int wanted)
{
    const struct timespec pause = {.tv_nsec = 10000000};
    enum kvasir_status status = KVASIR_OK;
    while (status == KVASIR_OK && wanted > 0) {
        const struct kvasir_key_event *list;
        size_t count = 0;
        /* KVASIR_OVERRUN would mean: learn anew what is there (kvasir_exists_batch), and go on. */
        status = kvasir_events_poll(events, 0, &list, &count);
        for (size_t i = 0; status == KVASIR_OK && i < count; i++) {
            wanted -= show(&list[i]) ? 1 : 0;
        }
        if (count == 0) {
            (void)nanosleep(&pause, NULL);
        }
    }
    return status;
}

int main(int argc, char **argv)
{
    struct kvasir_options options;
    kvasir_options_init(&options);
    options.address = argc > 1 ? argv[1] : "tcp://127.0.0.1:6379";
    char error[256];
    struct kvasir_client *client = NULL;
    if (kvasir_connect(&options, error, sizeof error, &client) != KVASIR_OK) {
        (void)fprintf(stderr, "events: %s\n", error);
        return 1;
    }
    struct kvasir_events *events = NULL;
    enum kvasir_status status = kvasir_events_open(client, KVASIR_EVENTS_NOW, 0, 0, &events);
    if (status == KVASIR_OK) {
        status = make_events(client);
    }
    if (status == KVASIR_OK) {
        status = follow(events, 3);
    }
    if (status != KVASIR_OK) {
        (void)fprintf(stderr, "events: %s: %s\n", kvasir_status_name(status), kvasir_error(client));
    }
    kvasir_events_close(&events);
    kvasir_close(&client);
    return status == KVASIR_OK ? 0 : 1;
}
