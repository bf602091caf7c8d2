#include "cuda_said.h"

#include <stdarg.h>
#include <stdio.h>

enum kvasir_status cuda_said(char *said, enum kvasir_status status, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(said, KVASIR_SAID_BYTES, format, arguments);
    va_end(arguments);
    return status;
}
