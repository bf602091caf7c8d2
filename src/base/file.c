#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

/* Longer paths are refused. */
#define PATH_BYTES_MAX 1024

static bool write_all(int descriptor, struct slice bytes)
{
    while (bytes.length_bytes > 0) {
        ssize_t written = write(descriptor, bytes.data, bytes.length_bytes);
        if (written < 0 && errno == EINTR) {
            continue;
        }
        if (written <= 0) {
            errno = written == 0 ? EIO : errno;
            return false;
        }
        bytes = slice_of(bytes.data + written, bytes.length_bytes - (size_t)written);
    }
    return fsync(descriptor) == 0;
}

/* The new name is on the disk, too. Where the system cannot say so, nothing is lost by that. */
static void sync_folder(const char *path)
{
    char folder[PATH_BYTES_MAX];
    const char *slash = strrchr(path, '/');
    int length = slash == NULL ? 1 : slash == path ? 1 : (int)(slash - path);
    int descriptor;
    (void)snprintf(folder, sizeof(folder), "%.*s", length, slash == NULL ? "." : path);
    descriptor = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (descriptor >= 0) {
        (void)fsync(descriptor);
        (void)close(descriptor);
    }
}

bool file_replace(const char *path, struct slice bytes, unsigned mode, unsigned number)
{
    char name[PATH_BYTES_MAX];
    int length = snprintf(name, sizeof(name), "%s.tmp-%d-%u", path, (int)getpid(), number);
    int descriptor;
    bool good;
    int reason;
    if (length < 0 || (size_t)length >= sizeof(name)) {
        errno = ENAMETOOLONG;
        return false;
    }
    descriptor = open(name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (descriptor < 0) {
        return false;
    }
    good = fchmod(descriptor, mode) == 0 && write_all(descriptor, bytes) && rename(name, path) == 0;
    reason = errno;
    (void)close(descriptor);
    if (good) {
        sync_folder(path);
    } else {
        (void)unlink(name);
        errno = reason;
    }
    return good;
}
