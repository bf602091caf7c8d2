#pragma once
/* plugin – a module that the library loads for itself: from the path that the options name, or from
 * beside the library. One thread, in the process that made it. Owns the loader that it makes. */

#include "base/compiler.h"
#include "plug/loader.h"

/* NULL: it is not there, or refuses; said (KVASIR_SAID_BYTES) tells why. wanted: the path, or NULL;
 * file_name: of the module that the library brings. The caller destroys the loader. */
ATTR_MUST_USE struct loader *plugin_load(const char *wanted, const char *file_name, char *said);
