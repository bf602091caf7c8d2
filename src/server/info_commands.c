#include "server/info_commands.h"

#include "base/check.h"
#include "server/conn.h"
#include "server/info_writer.h"
#include "server/percentiles.h"

#include <stdio.h>

/* ",p99.999=" and a time, which is less than 2^32 us and has three digits behind the point. */
#define LATENCY_BYTES 32

void info_commands_write(struct info_writer *writer)
{
    for (int id = 0; id < COMMAND_COUNT; id++) {
        const struct command_stat *stat = &writer->commands->commands[id];
        if (stat->calls + stat->rejected > 0) {
            double usec = (double)stat->nanoseconds / 1000;
            info_line(writer,
                      "cmdstat_%s:calls=%llu,usec=%.0f,usec_per_call=%.2f,rejected_calls=%llu,"
                      "failed_calls=%llu",
                      command_by_id((enum command_id)id)->name, (unsigned long long)stat->calls,
                      usec, stat->calls > 0 ? usec / (double)stat->calls : 0,
                      (unsigned long long)stat->rejected, (unsigned long long)stat->failed);
        }
    }
}

void info_commands_write_errors(struct info_writer *writer)
{
    const struct command_stats *stats = writer->commands;
    for (size_t i = 0; i < COMMAND_STATS_ERRORS && stats->errors[i].name[0] != '\0'; i++) {
        info_line(writer, "errorstat_%s:count=%llu", stats->errors[i].name,
                  (unsigned long long)stats->errors[i].count);
    }
}

void info_commands_write_latency(struct info_writer *writer)
{
    struct percentiles percentiles;
    check(percentiles_parse(&percentiles,
                            slice_of_text(writer->conn->reactor->settings.latency_percentiles)));
    for (int id = 0; id < COMMAND_COUNT; id++) {
        const struct command_stat *stat = &writer->commands->commands[id];
        char text[PERCENTILES_MAX * LATENCY_BYTES] = "";
        size_t length = 0;
        if (command_stats_timed(stat) == 0) {
            continue;
        }
        for (uint32_t i = 0; i < percentiles.count; i++) {
            char name[PERCENTILES_TEXT_BYTES];
            percentiles_name(percentiles.per_100000[i], name);
            length += (size_t)snprintf(text + length, sizeof(text) - length, "%sp%s=%.3f",
                                       i > 0 ? "," : "", name,
                                       command_stats_percentile(stat, percentiles.per_100000[i]));
        }
        info_line(writer, "latency_percentiles_usec_%s:%s",
                  command_by_id((enum command_id)id)->name, text);
    }
}
