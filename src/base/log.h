#pragma once
/* log – one line per call to stderr or a file, whole lines from any thread, rate-limited where the
 * data path logs. The one process-wide object of the project: level and descriptor are set once by
 * main before threads start (level may change later).
 *
 * error: someone must act. warn: unexpected, we go on. info: a few lines a life. debug: once an
 * object. Lower case, "name value" without "=", the system's error text. Never a key's bytes or a
 * payload above debug. */

#include "base/compiler.h"

#include <stdbool.h>

enum log_level {
    LOG_ERROR = 0,
    LOG_WARN = 1,
    LOG_INFO = 2,
    LOG_DEBUG = 3
};

/* path NULL or "": stderr. False: the file cannot be opened (errno is set); logging goes on to
 * where it went before. */
bool log_setup(enum log_level level, const char *path);
void log_set_level(enum log_level level);
bool log_enabled(enum log_level level);
/* The level that "error", "warn" or "debug" names; any other word is info. */
enum log_level log_level_of(const char *word);

/* "2026-01-31 12:00:00.123 W thread-name message". Lines over 1 KiB are cut. */
void log_line(enum log_level level, const char *format, ...) ATTR_PRINTF(2, 3);

/* Name of the calling thread in its lines (up to 15 bytes are kept). */
void log_set_thread_name(const char *name);

#define log_error(...) log_line(LOG_ERROR, __VA_ARGS__)
#define log_warn(...)  log_line(LOG_WARN, __VA_ARGS__)
#define log_info(...)  log_line(LOG_INFO, __VA_ARGS__)
#define log_debug(...)                        \
    do {                                      \
        if (log_enabled(LOG_DEBUG)) {         \
            log_line(LOG_DEBUG, __VA_ARGS__); \
        }                                     \
    } while (0)

/* For lines a peer can provoke: at most ten a second for each limit object; what was dropped is
 * counted and said in the next line that passes. One thread per limit object. */
struct log_limit {
    long long window_us;
    unsigned passed;
    unsigned dropped;
};
void log_limited(struct log_limit *limit, enum log_level level, const char *format, ...)
    ATTR_PRINTF(3, 4);
