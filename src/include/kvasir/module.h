#pragma once
/* module – the ABI between the server and what is plugged into it: a shared object that exports one
 * symbol, kvasir_module, and sees no other header of the project than those of this folder.
 *
 * Life of a module: the server opens the file, reads magic, abi_version and struct_size, and refuses
 * with a log line what does not fit. It calls setup once, in its main thread, before it serves;
 * there the module registers what it brings. It calls teardown once, in the same thread, when nothing
 * of the module is in use any more, and closes the file. A module links with nothing of the server:
 * all it may call comes in struct kvasir_host.
 *
 * To add a kind of thing that can be plugged: a table of operations, struct_size and name first;
 * a register_… at the end of struct kvasir_host; in the server's registry a stub for each operation
 * that may be left out, so that no caller ever meets a missing one. Tables and struct kvasir_host grow at their end only and
 * keep the ABI version: who reads one looks at its struct_size first. A change to a field that is
 * there already makes a new ABI version. */

#include <kvasir/space.h>
#include <kvasir/transport.h>
#include <kvasir/types.h>

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The bytes "kvasirMO" as they lie in memory of a little-endian machine. */
#define KVASIR_MODULE_MAGIC       UINT64_C(0x4f4d72697361766b)
#define KVASIR_MODULE_ABI_VERSION 1U

/* Names of modules and of what they register: this many bytes of a-z 0-9 . _ + - at most. */
#define KVASIR_MODULE_NAME_BYTES_MAX    31
#define KVASIR_MODULE_SUMMARY_BYTES_MAX 100

/* One number that sorts as versions do: 1.2.3 is 10203. */
#define KVASIR_MODULE_VERSION(major, minor, patch) ((major)*10000U + (minor)*100U + (patch))

/* ---- codecs ---- */

/* A codec is offered no longer block than this, and none of length 0: values are coded in blocks, so
 * that a part of one can be read alone. */
#define KVASIR_CODEC_BLOCK_BYTES_MAX (256U << 10)

/* A lossless codec of blocks. What decode makes of encode's output is the same, byte by byte, on any
 * machine and with any later version of the codec.
 *
 * Operations are called by any thread but never by a reactor, by several threads at the same time, and
 * may block for as long as the work takes. They keep nothing between calls but what state holds, write
 * nowhere but into the buffer they are given, and touch outputs on KVASIR_OK only (bytes of the buffer
 * may have changed, too). state is what was given at registration. An operation that is NULL, or lies
 * beyond struct_size, answers KVASIR_UNSUPPORTED. */
struct kvasir_codec_ops {
    size_t struct_size; /* sizeof(struct kvasir_codec_ops) */
    const char *name;   /* what CODEC says; "none" is taken */

    /* The most bytes that encode can make of raw_bytes. KVASIR_OK; KVASIR_TOO_LARGE: of no block so
     * long. */
    enum kvasir_status (*bound)(void *state, size_t raw_bytes, size_t *bound_bytes_p);

    /* Codes raw into coded. KVASIR_OK; KVASIR_TOO_SMALL: it takes more than capacity_bytes, which is
     * never so with bound's answer (a caller that wants a gain gives less room than raw_bytes and
     * keeps the raw bytes when told so); KVASIR_NO_MEMORY. */
    enum kvasir_status (*encode)(void *state, const void *raw, size_t raw_bytes, void *coded,
                                 size_t capacity_bytes, size_t *coded_bytes_p);

    /* Fills raw with exactly raw_bytes. coded may be anything: it comes from disks and peers. KVASIR_OK;
     * KVASIR_CORRUPT: it is not the code of so many bytes; KVASIR_NO_MEMORY. */
    enum kvasir_status (*decode)(void *state, const void *coded, size_t coded_bytes, void *raw,
                                 size_t raw_bytes);
};

/* ---- the server, as a module sees it ---- */

enum kvasir_log_level {
    KVASIR_LOG_ERROR = 0, /* someone must act */
    KVASIR_LOG_WARN = 1,  /* unexpected, the module goes on */
    KVASIR_LOG_INFO = 2,  /* a few lines a life */
    KVASIR_LOG_DEBUG = 3,
};

/* Borrowed from the server from setup until teardown has returned. Each function takes the host it
 * was found in. */
struct kvasir_host {
    size_t struct_size;         /* what the server knows of this struct */
    const char *server_version; /* "1.2.3" */
    void *context;              /* the server's own; leave it alone */

    /* One line of the server's log, led by the module's name. Any thread. */
    void (*log)(const struct kvasir_host *host, enum kvasir_log_level level, const char *text);

    /* Plugs a codec in; in setup only. ops is copied; its functions and state are used until teardown.
     * KVASIR_OK; KVASIR_EXISTS: the name is taken; KVASIR_INVALID: the table or the name is malformed;
     * KVASIR_BUSY: no room for more; KVASIR_DENIED: setup is over. */
    KVASIR_MUST_USE enum kvasir_status (*register_codec)(const struct kvasir_host *host,
                                                         const struct kvasir_codec_ops *ops,
                                                         void *state);

    /* The same for a transport. Its table is complete: an operation that is missing makes it malformed. */
    KVASIR_MUST_USE enum kvasir_status (*register_transport)(const struct kvasir_host *host,
                                                             const struct kvasir_transport_ops *ops,
                                                             void *state);

    /* And for a memory space, complete likewise. */
    KVASIR_MUST_USE enum kvasir_status (*register_space)(const struct kvasir_host *host,
                                                         const struct kvasir_space_ops *ops,
                                                         void *state);
};

/* ---- the module, as the server sees it ---- */

struct kvasir_module {
    /* These three keep their places in every ABI version. */
    uint64_t magic;       /* KVASIR_MODULE_MAGIC */
    uint32_t abi_version; /* KVASIR_MODULE_ABI_VERSION */
    uint32_t struct_size; /* sizeof(struct kvasir_module) */

    const char *name;    /* no two modules of a server have the same */
    const char *summary; /* what it brings, in one line */
    uint32_t version;    /* KVASIR_MODULE_VERSION(…) */

    /* Registers what the module brings. What is handed out in *state_p comes back in teardown. Any
     * other answer than KVASIR_OK: the module cannot work here (it said why in the log); it has undone
     * what it did, what it registered is dropped, teardown is not called, and the server goes on
     * without it. */
    enum kvasir_status (*setup)(const struct kvasir_host *host, void **state_p);

    /* Gives back what setup took and ends the module's threads. May be NULL. */
    void (*teardown)(void *state);
};

/* The first fields of a module's kvasir_module. */
#define KVASIR_MODULE_HEAD                                                  \
    .magic = KVASIR_MODULE_MAGIC, .abi_version = KVASIR_MODULE_ABI_VERSION, \
    .struct_size = sizeof(struct kvasir_module)

/* What a module defines, by this name. */
#define KVASIR_MODULE_SYMBOL "kvasir_module"
KVASIR_API extern const struct kvasir_module kvasir_module;

#ifdef __cplusplus
}
#endif
