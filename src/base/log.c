#include "base/log.h"

#include "base/check.h"
#include "base/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* With the line feed. Short enough for the stack, long enough for a path and a system's error. */
#define LINE_BYTES_MAX 1024

#define LIMIT_WINDOW_US 1000000
#define LIMIT_LINES_MAX 10

struct log_state {
    _Atomic int level;
    _Atomic int descriptor; /* owned unless it is stderr's */
};

/* The one process-wide object: a line must be possible anywhere, before and after everything. */
static struct log_state log_state = {.level = LOG_INFO, .descriptor = STDERR_FILENO};

bool log_setup(enum log_level level, const char *path)
{
    log_set_level(level);
    int descriptor = STDERR_FILENO;
    if (path != NULL && path[0] != '\0') {
        descriptor = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644);
        if (descriptor < 0) {
            return false;
        }
    }
    int before = atomic_exchange(&log_state.descriptor, descriptor);
    if (before != STDERR_FILENO) {
        (void)close(before);
    }
    return true;
}

void log_set_level(enum log_level level)
{
    atomic_store_explicit(&log_state.level, (int)level, memory_order_relaxed);
}

enum log_level log_level_of(const char *word)
{
    if (strcmp(word, "error") == 0) {
        return LOG_ERROR;
    }
    if (strcmp(word, "warn") == 0) {
        return LOG_WARN;
    }
    return strcmp(word, "debug") == 0 ? LOG_DEBUG : LOG_INFO;
}

bool log_enabled(enum log_level level)
{
    return (int)level <= atomic_load_explicit(&log_state.level, memory_order_relaxed);
}

void log_set_thread_name(const char *name)
{
    /* The system keeps 15 bytes and refuses more. It also shows the name in top and gdb. */
    char kept[16];
    (void)snprintf(kept, sizeof(kept), "%s", name);
    (void)pthread_setname_np(pthread_self(), kept);
}

static char level_letter(enum log_level level)
{
    switch (level) {
    case LOG_ERROR:
        return 'E';
    case LOG_WARN:
        return 'W';
    case LOG_INFO:
        return 'I';
    case LOG_DEBUG:
        return 'D';
    }
    unreachable();
}

static size_t write_prefix(char *line, enum log_level level)
{
    struct timespec now = {0};
    struct tm parts = {0};
    char thread[16] = "?";
    (void)clock_gettime(CLOCK_REALTIME, &now);
    (void)localtime_r(&now.tv_sec, &parts);
    (void)pthread_getname_np(pthread_self(), thread, sizeof(thread));
    size_t length_bytes = strftime(line, LINE_BYTES_MAX, "%Y-%m-%d %H:%M:%S", &parts);
    int added = snprintf(line + length_bytes, LINE_BYTES_MAX - length_bytes, ".%03d %c %s ",
                         (int)(now.tv_nsec / 1000000), level_letter(level), thread);
    return length_bytes + (size_t)added;
}

/* Appends to the line at *length_p, which never passes LINE_BYTES_MAX - 1: there is always room for
 * the line feed. */
static void append(char *line, size_t *length_p, const char *format, va_list arguments)
    ATTR_PRINTF(3, 0);

static void append(char *line, size_t *length_p, const char *format, va_list arguments)
{
    size_t room_bytes = LINE_BYTES_MAX - *length_p;
    int added = vsnprintf(line + *length_p, room_bytes, format, arguments);
    if (added > 0) {
        *length_p += (size_t)added < room_bytes ? (size_t)added : room_bytes - 1;
    }
}

/* One write for one line: the system does not interleave appends. What cannot be written is lost,
 * there is no one to tell. */
static void emit(char *line, size_t length_bytes)
{
    for (size_t i = 0; i < length_bytes; i++) {
        /* A name from outside must not forge a line or move the terminal's cursor. */
        if ((unsigned char)line[i] < ' ' || line[i] == 0x7f) {
            line[i] = '?';
        }
    }
    line[length_bytes] = '\n';
    int descriptor = atomic_load_explicit(&log_state.descriptor, memory_order_acquire);
    ssize_t written;
    do {
        written = write(descriptor, line, length_bytes + 1);
    } while (written < 0 && errno == EINTR);
}

void log_line(enum log_level level, const char *format, ...)
{
    if (!log_enabled(level)) {
        return;
    }
    int saved_errno = errno;
    char line[LINE_BYTES_MAX];
    size_t length_bytes = write_prefix(line, level);
    va_list arguments;
    va_start(arguments, format);
    append(line, &length_bytes, format, arguments);
    va_end(arguments);
    emit(line, length_bytes);
    errno = saved_errno;
}

static bool limit_passes(struct log_limit *limit, unsigned *dropped_p)
{
    int64_t now_us = clock_mono_us();
    *dropped_p = 0;
    if (limit->window_us == 0 || now_us - limit->window_us >= LIMIT_WINDOW_US) {
        limit->window_us = now_us;
        limit->passed = 0;
        *dropped_p = limit->dropped;
        limit->dropped = 0;
    }
    if (limit->passed == LIMIT_LINES_MAX) {
        limit->dropped++;
        return false;
    }
    limit->passed++;
    return true;
}

void log_limited(struct log_limit *limit, enum log_level level, const char *format, ...)
{
    unsigned dropped;
    if (!log_enabled(level) || !limit_passes(limit, &dropped)) {
        return;
    }
    int saved_errno = errno;
    char line[LINE_BYTES_MAX];
    size_t length_bytes = write_prefix(line, level);
    if (dropped > 0) {
        /* In front, so that a cut of a long line does not take it away. */
        length_bytes += (size_t)snprintf(line + length_bytes, LINE_BYTES_MAX - length_bytes,
                                         "(%u like this dropped) ", dropped);
    }
    va_list arguments;
    va_start(arguments, format);
    append(line, &length_bytes, format, arguments);
    va_end(arguments);
    emit(line, length_bytes);
    errno = saved_errno;
}
