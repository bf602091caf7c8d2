/* other_thing – exports the name of a module, but of a function. */

#include <kvasir/types.h>

KVASIR_API int kvasir_module(void);

int kvasir_module(void)
{
    return 42;
}
