/* short_symbol – exports the name of a module, but too few bytes to look into. */

#include <kvasir/types.h>

KVASIR_API extern const char kvasir_module[8];

const char kvasir_module[8] = "kvasirM";
