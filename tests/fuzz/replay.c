/* replay – runs a fuzz target over every file it is given, and every file of the directories it is
 * given, as a plain program, so that inputs that once failed are tried in every test run and with
 * every compiler. One thread. Ends with the count of inputs; an input that fails aborts the program
 * after its name was said. */

#include <dirent.h>
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* Longer inputs than this are refused: a corpus holds small files. */
#define INPUT_BYTES_MAX (16L << 20)
#define PATH_BYTES_MAX  1024

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t length_bytes);

static int replay_file(const char *path)
{
    FILE *file = fopen(path, "rb");
    if (file == NULL) {
        (void)fprintf(stderr, "replay: %s: %s\n", path, strerror(errno));
        return -1;
    }
    int rc = -1;
    uint8_t *data = NULL;
    size_t length_bytes = 0;
    struct stat facts;
    if (fstat(fileno(file), &facts) != 0 || facts.st_size > INPUT_BYTES_MAX) {
        (void)fprintf(stderr, "replay: %s: unreadable or over %ld bytes\n", path, INPUT_BYTES_MAX);
        goto close_file;
    }
    /* Exactly as long as the input, so that a sanitizer sees a read of one byte past its end. */
    length_bytes = (size_t)facts.st_size;
    data = malloc(length_bytes > 0 ? length_bytes : 1);
    if (data == NULL || fread(data, 1, length_bytes, file) != length_bytes) {
        (void)fprintf(stderr, "replay: %s: cannot be read\n", path);
        goto close_file;
    }
    (void)printf("replay %s\n", path);
    (void)fflush(stdout);
    rc = LLVMFuzzerTestOneInput(data, length_bytes) == 0 ? 0 : -1;
close_file:
    free(data);
    (void)fclose(file);
    return rc;
}

static int replay_directory(const char *directory, unsigned *input_count)
{
    DIR *stream = opendir(directory);
    if (stream == NULL) {
        (void)fprintf(stderr, "replay: %s: %s\n", directory, strerror(errno));
        return -1;
    }
    int rc = 0;
    const struct dirent *entry;
    while ((entry = readdir(stream)) != NULL) {
        char path[PATH_BYTES_MAX];
        if (entry->d_name[0] == '.') {
            continue;
        }
        int length = snprintf(path, sizeof(path), "%s/%s", directory, entry->d_name);
        if (length < 0 || length >= (int)sizeof(path) || replay_file(path) != 0) {
            rc = -1;
        }
        *input_count += 1;
    }
    (void)closedir(stream);
    return rc;
}

int main(int argc, char **argv)
{
    unsigned input_count = 0;
    int rc = 0;
    for (int i = 1; i < argc; i++) {
        struct stat facts;
        bool is_file = stat(argv[i], &facts) == 0 && S_ISREG(facts.st_mode);
        int outcome = is_file ? replay_file(argv[i]) : replay_directory(argv[i], &input_count);
        input_count += is_file ? 1 : 0;
        if (outcome != 0) {
            rc = 1;
        }
    }
    /* The empty input is always tried: it is the one a corpus forgets. */
    if (LLVMFuzzerTestOneInput((const uint8_t *)"", 0) != 0) {
        rc = 1;
    }
    (void)printf("replayed %u inputs\n", input_count);
    return rc;
}
