/* no_symbol – a shared object that is no module. */

#include <kvasir/types.h>

KVASIR_API int no_symbol_answer(void);

int no_symbol_answer(void)
{
    return 42;
}
