#pragma once
/* info_commands – the sections of INFO about commands: how often each was called, which errors there were,
 * how long they took. Used by info, on the connection's thread. */

struct info_writer;

void info_commands_write(struct info_writer *writer);
void info_commands_write_errors(struct info_writer *writer);
void info_commands_write_latency(struct info_writer *writer);
