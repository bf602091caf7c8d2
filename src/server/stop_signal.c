#include "server/stop_signal.h"

#include <pthread.h>
#include <signal.h>
#include <stddef.h>

static sigset_t both(void)
{
    sigset_t signals;
    (void)sigemptyset(&signals);
    (void)sigaddset(&signals, SIGTERM);
    (void)sigaddset(&signals, SIGINT);
    return signals;
}

void stop_signal_block(void)
{
    const sigset_t signals = both();
    (void)pthread_sigmask(SIG_BLOCK, &signals, NULL);
}

bool stop_signal_is_pending(void)
{
    sigset_t pending;
    return sigpending(&pending) == 0 &&
           (sigismember(&pending, SIGTERM) == 1 || sigismember(&pending, SIGINT) == 1);
}

const char *stop_signal_wait(void)
{
    const sigset_t signals = both();
    int number = 0;
    while (sigwait(&signals, &number) != 0) {
    }
    return number == SIGINT ? "SIGINT" : "SIGTERM";
}
