#pragma once
/* cuda_said – sentences about what failed. Any thread; owns nothing. */

#include <kvasir/transport_types.h>
#include <kvasir/types.h>

/* Fills said (KVASIR_SAID_BYTES) and returns status, so that who finds a cause says it and returns. */
enum kvasir_status cuda_said(char *said, enum kvasir_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
