#pragma once
/* file – puts a whole file in the place of another, so that no reader and no crash sees half of it. Any
 * thread that may wait for a disk. Owns nothing. */

#include "base/compiler.h"
#include "base/slice.h"

#include <stdbool.h>

/* Writes the bytes to a new file beside path (path.tmp-PID-NUMBER; two at the same time need two
 * numbers), sees that they are on the disk, and gives it the name. False: errno says why, and what was
 * there before is there still. */
ATTR_MUST_USE bool file_replace(const char *path, struct slice bytes, unsigned mode,
                                unsigned number);
