#include "proto/resp_encode.h"

#include "base/compiler.h"
#include "base/number.h"

#include <math.h>
#include <stdio.h>

/* Writes the type byte, the digits and CRLF. */
static size_t encode_header(uint8_t *to, char type, uint64_t number)
{
    to[0] = (uint8_t)type;
    if (LIKELY(number < 10)) {
        to[1] = (uint8_t)('0' + number);
        to[2] = '\r';
        to[3] = '\n';
        return 4;
    }
    size_t length = 1 + number_from_u64((char *)to + 1, number);
    to[length] = '\r';
    to[length + 1] = '\n';
    return length + 2;
}

static size_t encode_literal(uint8_t *to, const char *text, size_t length_bytes)
{
    memcpy(to, text, length_bytes);
    return length_bytes;
}

size_t resp_encode_integer(uint8_t *to, int64_t number)
{
    if (number >= 0) {
        return encode_header(to, ':', (uint64_t)number);
    }
    to[0] = ':';
    size_t length = 1 + number_from_i64((char *)to + 1, number);
    to[length] = '\r';
    to[length + 1] = '\n';
    return length + 2;
}

size_t resp_encode_bulk_header(uint8_t *to, uint64_t length_bytes)
{
    return encode_header(to, '$', length_bytes);
}

size_t resp_encode_array_header(uint8_t *to, uint64_t count)
{
    return encode_header(to, '*', count);
}

size_t resp_encode_map_header(uint8_t *to, enum resp_version version, uint64_t pair_count)
{
    return version == RESP_3 ? encode_header(to, '%', pair_count)
                             : encode_header(to, '*', 2 * pair_count);
}

size_t resp_encode_set_header(uint8_t *to, enum resp_version version, uint64_t count)
{
    return encode_header(to, version == RESP_3 ? '~' : '*', count);
}

size_t resp_encode_push_header(uint8_t *to, enum resp_version version, uint64_t count)
{
    return encode_header(to, version == RESP_3 ? '>' : '*', count);
}

size_t resp_encode_null(uint8_t *to, enum resp_version version)
{
    return version == RESP_3 ? encode_literal(to, "_\r\n", 3) : encode_literal(to, "$-1\r\n", 5);
}

size_t resp_encode_null_array(uint8_t *to, enum resp_version version)
{
    return version == RESP_3 ? encode_literal(to, "_\r\n", 3) : encode_literal(to, "*-1\r\n", 5);
}

size_t resp_encode_bool(uint8_t *to, enum resp_version version, bool truth)
{
    if (version == RESP_3) {
        return encode_literal(to, truth ? "#t\r\n" : "#f\r\n", 4);
    }
    return encode_literal(to, truth ? ":1\r\n" : ":0\r\n", 4);
}

size_t resp_encode_double(uint8_t *to, enum resp_version version, double number)
{
    /* "-1.7976931348623157e+308" is the longest: 24 characters. The C library's own spelling of
     * the specials is not used, because it may carry a sign before nan. */
    char text[32];
    int length = 0;
    if (isnan(number)) {
        length = snprintf(text, sizeof(text), "nan");
    } else if (isinf(number)) {
        length = snprintf(text, sizeof(text), "%s", number < 0 ? "-inf" : "inf");
    } else {
        length = snprintf(text, sizeof(text), "%.17g", number);
    }
    if (version == RESP_2) {
        return resp_encode_bulk(to, slice_of(text, (size_t)length));
    }
    to[0] = ',';
    memcpy(to + 1, text, (size_t)length);
    memcpy(to + 1 + length, "\r\n", 2);
    return (size_t)length + 3;
}

size_t resp_encode_verbatim_header(uint8_t *to, enum resp_version version, uint64_t length_bytes)
{
    if (version == RESP_2) {
        return encode_header(to, '$', length_bytes);
    }
    size_t length = encode_header(to, '=', length_bytes + 4);
    return length + encode_literal(to + length, "txt:", 4);
}

size_t resp_encode_bulk(uint8_t *to, struct slice text)
{
    size_t length = encode_header(to, '$', text.length_bytes);
    if (text.length_bytes > 0) {
        memcpy(to + length, text.data, text.length_bytes);
        length += text.length_bytes;
    }
    to[length] = '\r';
    to[length + 1] = '\n';
    return length + 2;
}

size_t resp_encode_simple(uint8_t *to, struct slice text)
{
    to[0] = '+';
    if (text.length_bytes > 0) {
        memcpy(to + 1, text.data, text.length_bytes);
    }
    memcpy(to + 1 + text.length_bytes, "\r\n", 2);
    return text.length_bytes + 3;
}

size_t resp_encode_error(uint8_t *to, struct slice text)
{
    to[0] = '-';
    for (size_t i = 0; i < text.length_bytes; i++) {
        uint8_t byte = text.data[i];
        to[1 + i] = byte == '\r' || byte == '\n' ? ' ' : byte;
    }
    memcpy(to + 1 + text.length_bytes, "\r\n", 2);
    return text.length_bytes + 3;
}
