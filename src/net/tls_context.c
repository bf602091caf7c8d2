#include "net/tls_context.h"

#include "base/slice.h"

#include <errno.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

/* A client's chain of certificates is longer than this for no honest reason. */
#define CERTIFICATES_BYTES_MAX (32 << 10)

static const char SESSION_CONTEXT[] = "kvasir";

/* Says "option 'value': OpenSSL's reason; advice". */
static enum kvasir_status fail(const char *option, const char *value, const char *advice,
                               char *error, size_t error_capacity)
{
    const char *reason = ERR_reason_error_string(ERR_peek_error());
    (void)snprintf(error, error_capacity, "%s '%.200s': %s; %s", option, value,
                   reason != NULL ? reason : "not accepted by OpenSSL", advice);
    ERR_clear_error();
    return KVASIR_INVALID;
}

/* OpenSSL's own words for a file that is not there say less. */
static bool is_readable(const char *option, const char *path, char *error, size_t error_capacity)
{
    if (access(path, R_OK) == 0) {
        return true;
    }
    (void)snprintf(error, error_capacity, "%s '%.200s' cannot be read: %s", option, path,
                   strerror(errno));
    return false;
}

/* Without this OpenSSL would ask at the terminal. */
static int give_passphrase(char *buffer, int capacity, int writing, void *argument)
{
    const char *passphrase = argument;
    size_t length = strlen(passphrase);
    (void)writing;
    if (length == 0 || length > (size_t)capacity) {
        return -1;
    }
    memcpy(buffer, passphrase, length);
    return (int)length;
}

static enum kvasir_status load_identity(SSL_CTX *context, const struct tls_config *config,
                                        char *error, size_t error_capacity)
{
    const char *key_file = config->key_file;
    int loaded;
    if (config->cert_file[0] == '\0' || key_file[0] == '\0') {
        (void)snprintf(error, error_capacity, "TLS needs tls-cert-file and tls-key-file: set both");
        return KVASIR_INVALID;
    }
    if (!is_readable("tls-cert-file", config->cert_file, error, error_capacity) ||
        !is_readable("tls-key-file", key_file, error, error_capacity)) {
        return KVASIR_INVALID;
    }
    if (SSL_CTX_use_certificate_chain_file(context, config->cert_file) != 1) {
        return fail("tls-cert-file", config->cert_file,
                    "it takes a PEM file, the server's own certificate first", error,
                    error_capacity);
    }
    SSL_CTX_set_default_passwd_cb(context, give_passphrase);
    SSL_CTX_set_default_passwd_cb_userdata(context, (void *)(uintptr_t)config->key_file_pass);
    loaded = SSL_CTX_use_PrivateKey_file(context, key_file, SSL_FILETYPE_PEM);
    SSL_CTX_set_default_passwd_cb_userdata(context, NULL);
    SSL_CTX_set_default_passwd_cb(context, NULL);
    if (loaded != 1) {
        return fail("tls-key-file", key_file,
                    "it takes the PEM file of the private key that belongs to tls-cert-file; "
                    "tls-key-file-pass opens an encrypted one",
                    error, error_capacity);
    }
    return KVASIR_OK;
}

static enum kvasir_status load_trust(SSL_CTX *context, const struct tls_config *config, char *error,
                                     size_t error_capacity)
{
    const char *file = config->ca_cert_file[0] != '\0' ? config->ca_cert_file : NULL;
    const char *folder = config->ca_cert_dir[0] != '\0' ? config->ca_cert_dir : NULL;
    bool asks = strcasecmp(config->auth_clients, "no") != 0;
    int mode = SSL_VERIFY_PEER;
    if (asks && file == NULL && folder == NULL) {
        (void)snprintf(error, error_capacity,
                       "tls-auth-clients %s needs tls-ca-cert-file or tls-ca-cert-dir, by which "
                       "clients are checked: set one, or tls-auth-clients no",
                       config->auth_clients);
        return KVASIR_INVALID;
    }
    if ((file != NULL && !is_readable("tls-ca-cert-file", file, error, error_capacity)) ||
        (folder != NULL && !is_readable("tls-ca-cert-dir", folder, error, error_capacity))) {
        return KVASIR_INVALID;
    }
    if (file != NULL && SSL_CTX_load_verify_locations(context, file, NULL) != 1) {
        return fail("tls-ca-cert-file", file, "it takes a PEM file of certificates", error,
                    error_capacity);
    }
    if (folder != NULL && SSL_CTX_load_verify_locations(context, NULL, folder) != 1) {
        return fail("tls-ca-cert-dir", folder, "it takes a folder made by 'openssl rehash'", error,
                    error_capacity);
    }
    if (strcasecmp(config->auth_clients, "yes") == 0) {
        mode |= SSL_VERIFY_FAIL_IF_NO_PEER_CERT;
    }
    SSL_CTX_set_verify(context, asks ? mode : SSL_VERIFY_NONE, NULL);
    return KVASIR_OK;
}

/* What libcrypto derives from a certificate at its first use, and the chain that is sent, are made
 * here, before reactors share them: handshakes then only read them, and search no trust store for
 * the issuers of the server's own certificate. A chain that cannot be completed is sent as far as it
 * goes. Certificates of a folder are the exception: libcrypto loads them when a client shows one. */
static void settle_certificates(SSL_CTX *context)
{
    STACK_OF(X509_OBJECT) *trusted = X509_STORE_get0_objects(SSL_CTX_get_cert_store(context));
    STACK_OF(X509) *chain = NULL;
    (void)X509_check_purpose(SSL_CTX_get0_certificate(context), -1, 0);
    for (int i = 0; i < sk_X509_OBJECT_num(trusted); i++) {
        X509 *certificate = X509_OBJECT_get0_X509(sk_X509_OBJECT_value(trusted, i));
        if (certificate != NULL) {
            (void)X509_check_purpose(certificate, -1, 0);
        }
    }
    (void)SSL_CTX_get0_chain_certs(context, &chain);
    for (int i = 0; i < sk_X509_num(chain); i++) {
        (void)X509_check_purpose(sk_X509_value(chain, i), -1, 0);
    }
    if (sk_X509_num(chain) <= 0) {
        (void)SSL_CTX_build_cert_chain(context, SSL_BUILD_CHAIN_FLAG_IGNORE_ERROR |
                                                    SSL_BUILD_CHAIN_FLAG_CLEAR_ERROR |
                                                    SSL_BUILD_CHAIN_FLAG_NO_ROOT);
    }
    SSL_CTX_set_mode(context, SSL_MODE_NO_AUTO_CHAIN);
}

static enum kvasir_status set_protocols(SSL_CTX *context, const char *protocols, char *error,
                                        size_t error_capacity)
{
    const char *at = protocols;
    bool old = false;
    bool new = false;
    while (*(at += strspn(at, " ,")) != '\0') {
        size_t length = strcspn(at, " ,");
        struct slice word = slice_of(at, length);
        bool is_old = slice_equal_nocase(word, "TLSv1.2");
        bool is_new = slice_equal_nocase(word, "TLSv1.3");
        if (!is_old && !is_new) {
            (void)snprintf(error, error_capacity,
                           "tls-protocols takes TLSv1.2 and TLSv1.3 with a space between, not "
                           "'%.*s'",
                           (int)(length < 64 ? length : 64), at);
            return KVASIR_INVALID;
        }
        old = old || is_old;
        new = new || is_new;
        at += length;
    }
    if (SSL_CTX_set_min_proto_version(context, new && !old ? TLS1_3_VERSION : TLS1_2_VERSION) !=
            1 ||
        SSL_CTX_set_max_proto_version(context, old && !new ? TLS1_2_VERSION : TLS1_3_VERSION) !=
            1) {
        return fail("tls-protocols", protocols, "this OpenSSL does not know them", error,
                    error_capacity);
    }
    return KVASIR_OK;
}

static enum kvasir_status set_ciphers(SSL_CTX *context, const struct tls_config *config,
                                      char *error, size_t error_capacity)
{
    if (config->ciphers[0] != '\0' && SSL_CTX_set_cipher_list(context, config->ciphers) != 1) {
        return fail("tls-ciphers", config->ciphers,
                    "it takes names of TLS 1.2 ciphers as 'openssl ciphers' prints them", error,
                    error_capacity);
    }
    if (config->ciphersuites[0] != '\0' &&
        SSL_CTX_set_ciphersuites(context, config->ciphersuites) != 1) {
        return fail("tls-ciphersuites", config->ciphersuites,
                    "it takes names of TLS 1.3 suites with colons between", error, error_capacity);
    }
    if (config->prefer_server_ciphers) {
        SSL_CTX_set_options(context, SSL_OP_CIPHER_SERVER_PREFERENCE);
    }
    return KVASIR_OK;
}

static void set_sessions(SSL_CTX *context, const struct tls_config *config)
{
    SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
    (void)SSL_CTX_set_session_id_context(context, (const unsigned char *)SESSION_CONTEXT,
                                         sizeof(SESSION_CONTEXT) - 1);
    SSL_CTX_set_timeout(context, (long)config->session_timeout_s);
    if (!config->session_caching) {
        SSL_CTX_set_options(context, SSL_OP_NO_TICKET);
    }
    (void)SSL_CTX_set_num_tickets(context, config->session_caching ? 1 : 0);
}

enum kvasir_status tls_context_create(const struct tls_config *config, char *error,
                                      size_t error_capacity, struct ssl_ctx_st **context_p)
{
    SSL_CTX *context = SSL_CTX_new(TLS_server_method());
    enum kvasir_status status;
    if (context == NULL) {
        (void)snprintf(error, error_capacity, "out of memory for TLS");
        return KVASIR_NO_MEMORY;
    }
    SSL_CTX_set_options(context, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
    /* Record buffers are held only while there is something in them. A record that the socket did not
     * take is offered again from wherever its bytes lie then. */
    SSL_CTX_set_mode(context, SSL_MODE_RELEASE_BUFFERS | SSL_MODE_ENABLE_PARTIAL_WRITE |
                                  SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    SSL_CTX_set_read_ahead(context, 1);
    SSL_CTX_set_max_cert_list(context, CERTIFICATES_BYTES_MAX);
    set_sessions(context, config);
    status = set_protocols(context, config->protocols, error, error_capacity);
    if (status == KVASIR_OK) {
        status = set_ciphers(context, config, error, error_capacity);
    }
    if (status == KVASIR_OK) {
        status = load_identity(context, config, error, error_capacity);
    }
    if (status == KVASIR_OK) {
        status = load_trust(context, config, error, error_capacity);
    }
    if (status == KVASIR_OK) {
        settle_certificates(context);
    }
    ERR_clear_error();
    if (status != KVASIR_OK) {
        SSL_CTX_free(context);
        return status;
    }
    *context_p = context;
    return KVASIR_OK;
}

struct ssl_ctx_st *tls_context_get(struct ssl_ctx_st *context)
{
    (void)SSL_CTX_up_ref(context);
    return context;
}

void tls_context_put(struct ssl_ctx_st **context_p)
{
    SSL_CTX_free(*context_p);
    *context_p = NULL;
}
