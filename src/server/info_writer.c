#include "server/info_writer.h"

#include "server/reactor.h"

#include "base/number.h"

#include <malloc.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LINE_BYTES_MAX 512

void info_line(struct info_writer *writer, const char *format, ...)
{
    char text[LINE_BYTES_MAX];
    va_list arguments;
    int length;
    va_start(arguments, format);
    length = vsnprintf(text, sizeof(text) - 2, format, arguments);
    va_end(arguments);
    if (length < 0) {
        return;
    }
    if ((size_t)length > sizeof(text) - 3) {
        length = (int)sizeof(text) - 3;
    }
    memcpy(text + length, "\r\n", 2);
    writer->failed = !gather_answer_add(writer->text, text, (size_t)length + 2) || writer->failed;
}

void info_number(struct info_writer *writer, const char *name, uint64_t value)
{
    info_line(writer, "%s:%llu", name, (unsigned long long)value);
}

void info_human(struct info_writer *writer, const char *name, uint64_t value)
{
    char text[32];
    number_format_bytes(text, sizeof(text), value);
    info_line(writer, "%s:%s", name, text);
}

void info_zeros(struct info_writer *writer, const char *names)
{
    while (*names != '\0') {
        size_t length = strcspn(names, " ");
        info_line(writer, "%.*s:0", (int)length, names);
        names += length + (names[length] == ' ');
    }
}

uint64_t info_resident_bytes(void)
{
    unsigned long long pages = 0;
    FILE *file = fopen("/proc/self/statm", "re");
    if (file != NULL) {
        char line[128] = "";
        char *end = NULL;
        if (fgets(line, sizeof(line), file) != NULL) {
            (void)strtoull(line, &end, 10);
            pages = strtoull(end, NULL, 10);
        }
        (void)fclose(file);
    }
    return pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

uint64_t info_heap_bytes(uint64_t known_bytes)
{
#if defined(__GLIBC__) && __GLIBC_PREREQ(2, 33)
    struct mallinfo2 heap = mallinfo2();
    uint64_t heap_bytes = heap.uordblks + heap.hblkhd;
    return heap_bytes > known_bytes ? heap_bytes : known_bytes;
#else
    return known_bytes;
#endif
}

uint64_t info_table_bytes(const struct server *server)
{
    return pages_bookkeeping_bytes(server->payload) + pages_bookkeeping_bytes(server->metadata);
}
