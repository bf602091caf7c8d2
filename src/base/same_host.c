#include "base/same_host.h"

#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>

/* What the kernel holds of a stream that nobody has read yet, in bytes; it takes twice of it with its
 * own structures. Between machines it must cover what is under way, and the kernel finds that out.
 * Within one machine nothing is under way: more than the caches hold only makes both copies of each
 * byte go to main memory (with the 4 MiB that the kernel settles on, two connections that take turns
 * run at half the rate). Much less than this, and the two ends wait for each other's turn. */
#define SAME_HOST_SEND_BYTES (512 << 10)

bool same_host_is(int descriptor)
{
    struct sockaddr_storage here = {0};
    struct sockaddr_storage there = {0};
    socklen_t here_bytes = sizeof here;
    socklen_t there_bytes = sizeof there;
    if (getsockname(descriptor, (struct sockaddr *)&here, &here_bytes) != 0 ||
        getpeername(descriptor, (struct sockaddr *)&there, &there_bytes) != 0 ||
        here.ss_family != there.ss_family) {
        return false;
    }
    if (here.ss_family == AF_INET) {
        struct sockaddr_in a;
        struct sockaddr_in b;
        memcpy(&a, &here, sizeof a);
        memcpy(&b, &there, sizeof b);
        return a.sin_addr.s_addr == b.sin_addr.s_addr;
    }
    if (here.ss_family == AF_INET6) {
        struct sockaddr_in6 a;
        struct sockaddr_in6 b;
        memcpy(&a, &here, sizeof a);
        memcpy(&b, &there, sizeof b);
        return memcmp(&a.sin6_addr, &b.sin6_addr, sizeof a.sin6_addr) == 0;
    }
    return false;
}

void same_host_bound_send(int descriptor)
{
    int bytes = SAME_HOST_SEND_BYTES;
    if (same_host_is(descriptor)) {
        /* A system that allows less gives what it allows. */
        (void)setsockopt(descriptor, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof(bytes));
    }
}
