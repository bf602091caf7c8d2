#pragma once
/* shed – keeps some of a reactor's buffers for those who use them: when chunks run short, connections
 * that hold some and whose peer has long done nothing are closed. Used by the reactor's thread. */

struct reactor;

/* Looks for such connections, if chunks are short; the longest in standstill go first. Not from within
 * a connection's own work. */
void shed_if_short(struct reactor *reactor);
