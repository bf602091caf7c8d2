#include "base/check.h"

#include <stdio.h>
#include <stdlib.h>

void check_failed(const char *condition, const char *file, int line)
{
    (void)fprintf(stderr, "check failed: %s, %s line %d\n", condition, file, line);
    (void)fflush(stderr);
    abort();
}
