#pragma once
/* cuda_copier – copies between host and one device, in order, on a stream of their own that does not
 * wait for the framework's. One thread. See kvasir/space.h. */

#include <kvasir/space.h>

enum kvasir_status cuda_copier_open(void *state, int device, struct kvasir_copier **copier_p,
                                    char *said);
void cuda_copier_close(struct kvasir_copier **copier_p);
enum kvasir_status cuda_copier_copy(struct kvasir_copier *copier, void *to, const void *from,
                                    size_t bytes);
enum kvasir_status cuda_copier_poll(struct kvasir_copier *copier);
