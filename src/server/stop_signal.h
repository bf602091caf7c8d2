#pragma once
/* stop_signal – SIGTERM and SIGINT, which end the server: held back from the start on, asked for while
 * memory is made ready, waited for while the reactors run. Used by main; owns nothing. */

#include <stdbool.h>

/* No thread is interrupted by them from here on. Before any other thread is made. */
void stop_signal_block(void);
/* Whether one has come that nobody waited for yet. Any thread. */
bool stop_signal_is_pending(void);
/* Returns the name of the one that came. */
const char *stop_signal_wait(void);
