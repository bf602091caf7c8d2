#pragma once
/* acl_password – passwords as their SHA-256, so that none is kept in clear. Any length, any bytes.
 * Comparing takes the same time wherever two differ. Any thread; owns nothing. */

#include "base/slice.h"

#define ACL_DIGEST_BYTES 32
#define ACL_HASH_BYTES   64 /* a digest in hexadecimal digits, as rules and ACL GETUSER show it */

void acl_password_digest(struct slice password, uint8_t digest[ACL_DIGEST_BYTES]);
/* Lower-case hexadecimal digits into a digest. False: not exactly 64 of them. */
bool acl_password_parse(struct slice hash, uint8_t digest[ACL_DIGEST_BYTES]);
void acl_password_print(const uint8_t *digest, char hash[ACL_HASH_BYTES]);
bool acl_password_equal(const uint8_t *digest, const uint8_t *other);
