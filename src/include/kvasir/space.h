#pragma once
/* space – the contract of a module that knows memory which is not the host's (CUDA): whether an
 * address lies in it, how a network adapter reaches it directly, and how it is copied to and from host
 * memory where none can.
 *
 * Buffers are registered rarely and used often, so all but copy, copier_poll and settle may take long:
 * microseconds to find, up to a second for the first use of a device. Any thread may call what takes
 * state; a copier belongs to one thread.
 *
 * said, everywhere: at least KVASIR_SAID_BYTES, filled on failure with a sentence that names the device
 * and what to change; untouched on KVASIR_OK. */

#include <kvasir/transport_types.h>

#ifdef __cplusplus
extern "C" {
#endif

enum kvasir_space_kind {
    KVASIR_SPACE_DEVICE = 1,  /* the device's own memory: the CPU cannot read it */
    KVASIR_SPACE_MANAGED = 2, /* moves between both on its own: used as host memory */
    KVASIR_SPACE_PINNED = 3,  /* host memory that the device reaches: used as such */
};

/* "0000:1b:00.0" */
#define KVASIR_PCI_ADDRESS_BYTES 16

/* The memory that a range of addresses lies in: one allocation, or what is mapped piece after piece from one
 * device's memory as far as was asked for. */
struct kvasir_space_range {
    void *base;
    size_t bytes;
    uint64_t id; /* no other memory of the process has it, before or after; 0: it is not known */
    enum kvasir_space_kind kind;
    int device;                                 /* as the driver counts, from 0 */
    char pci_address[KVASIR_PCI_ADDRESS_BYTES]; /* what adapters' distances are measured from */
    bool dmabuf;                                /* the driver claims to export it to adapters */
};

/* Copies to and from one device, in the order in which they were begun. */
struct kvasir_copier;

/* All operations are there, or the table is refused. state is what was given at registration. */
struct kvasir_space_ops {
    size_t struct_size; /* sizeof(struct kvasir_space_ops) */
    const char *name;   /* "cuda" */

    /* What bytes from address on are. The range ends before they do where no further memory of the kind
     * and device follows. KVASIR_OK; KVASIR_NOT_FOUND: ordinary host memory, or none; KVASIR_IO: the driver
     * failed. */
    enum kvasir_status (*find)(void *state, const void *address, size_t bytes,
                               struct kvasir_space_range *range_p);

    /* A dmabuf file of the host pages around a range of device memory, for
     * kvasir_transport_ops.memory_register: address lies *offset_p behind its start. The caller closes
     * *fd_p. KVASIR_OK; KVASIR_UNSUPPORTED: driver, kernel or allocation do not offer it, so that
     * payload must be staged; KVASIR_INVALID: not all of it is one device's memory. */
    enum kvasir_status (*export_dmabuf)(void *state, const void *address, size_t bytes, int *fd_p,
                                        uint64_t *offset_p, char *said);

    /* Host memory that device and adapters reach at full speed: what payload is staged in. KVASIR_OK,
     * KVASIR_NO_MEMORY, KVASIR_INVALID (no such device), KVASIR_IO. */
    enum kvasir_status (*pinned_alloc)(void *state, int device, size_t bytes, void **memory_p,
                                       char *said);
    /* Sets *memory_p to NULL. No copy uses it any more. */
    void (*pinned_free)(void *state, void **memory_p);

    /* KVASIR_OK, KVASIR_NO_MEMORY, KVASIR_INVALID (no such device), KVASIR_IO. */
    enum kvasir_status (*copier_open)(void *state, int device, struct kvasir_copier **copier_p,
                                      char *said);
    /* Waits for what is under way; sets *copier_p to NULL. */
    void (*copier_close)(struct kvasir_copier **copier_p);
    /* Begins a copy between host and device, either way; the two do not overlap. Both belong to the
     * copier until copier_poll has answered something else than KVASIR_PENDING. KVASIR_PENDING, or
     * KVASIR_IO: nothing was begun, and what was before cannot be relied on. */
    enum kvasir_status (*copy)(struct kvasir_copier *copier, void *to, const void *from,
                               size_t bytes);
    /* KVASIR_OK: all copies that were begun are done and seen by host and device; KVASIR_PENDING;
     * KVASIR_IO: some failed, and the contents of their targets are undefined. Never blocks. */
    enum kvasir_status (*copier_poll)(struct kvasir_copier *copier);

    /* What adapters have written into the device's memory by now is seen by all work that is given to the
     * device from here on. KVASIR_OK; KVASIR_IO. */
    enum kvasir_status (*settle)(void *state, int device, char *said);
};

#ifdef __cplusplus
}
#endif
