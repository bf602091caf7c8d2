#include <kvasir/types.h>

const char *kvasir_status_name(enum kvasir_status status)
{
    switch (status) {
    case KVASIR_OK:
        return "ok";
    case KVASIR_PENDING:
        return "pending";
    case KVASIR_AGAIN:
        return "no room just now";
    case KVASIR_NOT_FOUND:
        return "not found";
    case KVASIR_EXISTS:
        return "exists already";
    case KVASIR_NO_MEMORY:
        return "out of memory";
    case KVASIR_TOO_LARGE:
        return "too large";
    case KVASIR_TOO_SMALL:
        return "buffer too small";
    case KVASIR_INVALID:
        return "invalid argument";
    case KVASIR_TIMEOUT:
        return "deadline passed";
    case KVASIR_CLOSED:
        return "connection closed";
    case KVASIR_DENIED:
        return "denied";
    case KVASIR_UNSUPPORTED:
        return "not supported";
    case KVASIR_PROTOCOL:
        return "protocol error";
    case KVASIR_CORRUPT:
        return "checksum differs";
    case KVASIR_EXPIRED:
        return "expired";
    case KVASIR_IO:
        return "system call failed";
    case KVASIR_BUSY:
        return "busy";
    case KVASIR_CANCELLED:
        return "cancelled";
    case KVASIR_QUOTA:
        return "quota of the tenant reached";
    case KVASIR_OVERRUN:
        return "not kept any more";
    }
    return "unknown status";
}
