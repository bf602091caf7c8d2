/* hello – the shortest use of libkvasir: connect, put, get.
 * Usage: hello [ADDRESS], for example hello tcp://127.0.0.1:6379 or hello unix:///run/kvasir.sock */

#include <kvasir/client.h>

#include <stdio.h>
#include <string.h>

int main(int argc, char **argv)
{
    /* Everything not set here has its default. */
    struct kvasir_options options;
    kvasir_options_init(&options);
    options.address = argc > 1 ? argv[1] : "tcp://127.0.0.1:6379";

    char error[256];
    struct kvasir_client *client = NULL;
    if (kvasir_connect(&options, error, sizeof error, &client) != KVASIR_OK) {
        (void)fprintf(stderr, "hello: %s\n", error);
        return 1;
    }

    static const char value[] = "hello, world";
    char buffer[64];
    size_t length = 0;
    enum kvasir_status status =
        kvasir_put(client, "greeting", strlen("greeting"), value, sizeof value, NULL, 0);
    if (status == KVASIR_OK) {
        status =
            kvasir_get(client, "greeting", strlen("greeting"), buffer, sizeof buffer, &length, 0);
    }
    if (status != KVASIR_OK) {
        (void)fprintf(stderr, "hello: %s: %s\n", kvasir_status_name(status), kvasir_error(client));
        kvasir_close(&client);
        return 1;
    }
    (void)printf("%s (%zu bytes, by %s)\n", buffer, length, kvasir_path_name(kvasir_path(client)));
    kvasir_close(&client);
    return 0;
}
