#include "acl/acl_password.h"

#include <openssl/crypto.h>
#include <openssl/sha.h>

_Static_assert(SHA256_DIGEST_LENGTH == ACL_DIGEST_BYTES, "SHA-256 has 32 bytes");

void acl_password_digest(struct slice password, uint8_t digest[ACL_DIGEST_BYTES])
{
    (void)SHA256(password.data != NULL ? password.data : (const uint8_t *)"", password.length_bytes,
                 digest);
}

/* -1: not a lower-case hexadecimal digit. */
static int digit_of(uint8_t byte)
{
    if (byte >= '0' && byte <= '9') {
        return byte - '0';
    }
    return byte >= 'a' && byte <= 'f' ? byte - 'a' + 10 : -1;
}

bool acl_password_parse(struct slice hash, uint8_t digest[ACL_DIGEST_BYTES])
{
    uint8_t parsed[ACL_DIGEST_BYTES];
    if (hash.length_bytes != ACL_HASH_BYTES) {
        return false;
    }
    for (size_t i = 0; i < ACL_DIGEST_BYTES; i++) {
        int high = digit_of(hash.data[2 * i]);
        int low = digit_of(hash.data[2 * i + 1]);
        if (high < 0 || low < 0) {
            return false;
        }
        parsed[i] = (uint8_t)(high * 16 + low);
    }
    memcpy(digest, parsed, ACL_DIGEST_BYTES);
    return true;
}

void acl_password_print(const uint8_t *digest, char hash[ACL_HASH_BYTES])
{
    static const char digits[] = "0123456789abcdef";
    for (size_t i = 0; i < ACL_DIGEST_BYTES; i++) {
        hash[2 * i] = digits[digest[i] >> 4];
        hash[2 * i + 1] = digits[digest[i] & 15];
    }
}

bool acl_password_equal(const uint8_t *digest, const uint8_t *other)
{
    return CRYPTO_memcmp(digest, other, ACL_DIGEST_BYTES) == 0;
}
