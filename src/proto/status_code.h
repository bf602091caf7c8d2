#pragma once
/* status_code – the error code words of extension commands ("-NOTFOUND …") and the statuses they
 * stand for: the server writes the word, the client reads it back. Any thread; owns nothing. */

#include <kvasir/types.h>

#include "base/slice.h"

/* The code word for a failure, without '-': OOM, TOOLARGE, DENIED, … "ERR" for what has none. */
const char *status_code_word(enum kvasir_status status);

/* The status for an error reply's text ("OOM command not allowed when …"); also understands Redis's
 * own words (NOAUTH, WRONGPASS, NOPERM: DENIED; OOM: NO_MEMORY; LOADING, BUSY, TRYAGAIN: BUSY).
 * KVASIR_INVALID for any other. */
enum kvasir_status status_code_parse(struct slice error_text);
