#include "proto/link_word.h"

#include "base/check.h"

#include <arpa/inet.h>
#include <string.h>

static const struct {
    const char *name;
    bool number;
} WORDS[LINK_WORD_COUNT] = {
    [LINK_WORD_DEVICE] = {"device", false},
    [LINK_WORD_LAYER] = {"layer", false},
    [LINK_WORD_QPN] = {"qpn", true},
    [LINK_WORD_PSN] = {"psn", true},
    [LINK_WORD_LID] = {"lid", true},
    [LINK_WORD_MTU] = {"mtu", true},
    [LINK_WORD_RD_ATOMIC] = {"rd_atomic", true},
    [LINK_WORD_GID] = {"gid", false},
    [LINK_WORD_GID_INDEX] = {"gid_index", true},
    [LINK_WORD_GID_TYPE] = {"gid_type", false},
};

static const char *const LAYERS[] = {"ethernet", "infiniband"};
static const char *const GID_TYPES[] = {"ib", "rocev1", "rocev2"};

/* Numbers of queue pairs and packets have 24 bits. */
#define BITS_24 0xffffffU

const char *link_word_name(enum link_word word)
{
    check(word < LINK_WORD_COUNT);
    return WORDS[word].name;
}

enum link_word link_word_find(struct slice name)
{
    unsigned word = 0;
    while (word < LINK_WORD_COUNT && !slice_equal_nocase(name, WORDS[word].name)) {
        word++;
    }
    return (enum link_word)word;
}

bool link_word_is_number(enum link_word word)
{
    check(word < LINK_WORD_COUNT);
    return WORDS[word].number;
}

uint64_t link_word_number(const struct kvasir_link_address *address, enum link_word word)
{
    switch ((int)word) {
    case LINK_WORD_QPN:
        return address->queue_pair;
    case LINK_WORD_PSN:
        return address->packet_sequence;
    case LINK_WORD_LID:
        return address->lid;
    case LINK_WORD_MTU:
        return address->mtu_bytes;
    case LINK_WORD_RD_ATOMIC:
        return address->rd_atomic;
    case LINK_WORD_GID_INDEX:
        return address->gid.index;
    default:
        break;
    }
    unreachable();
}

/* Words and names of the devices of this machine fit; what a peer says was measured when it came. */
static void copy_text(char *to, const char *from)
{
    size_t length = strnlen(from, KVASIR_DEVICE_NAME_BYTES - 1);
    memcpy(to, from, length);
    to[length] = '\0';
}

void link_word_text(const struct kvasir_link_address *address, enum link_word word, char *text)
{
    switch ((int)word) {
    case LINK_WORD_DEVICE:
        copy_text(text, address->device);
        return;
    case LINK_WORD_LAYER:
        copy_text(text, LAYERS[address->layer == KVASIR_LAYER_INFINIBAND]);
        return;
    case LINK_WORD_GID:
        link_word_format_gid(&address->gid, text);
        return;
    case LINK_WORD_GID_TYPE:
        copy_text(text, (unsigned)address->gid.type < ARRAY_COUNT(GID_TYPES)
                            ? GID_TYPES[address->gid.type]
                            : GID_TYPES[KVASIR_GID_ROCE_V2]);
        return;
    default:
        break;
    }
    unreachable();
}

bool link_word_set_number(struct kvasir_link_address *address, enum link_word word, uint64_t number)
{
    uint32_t value = (uint32_t)number;
    if (number > UINT32_MAX) {
        return false;
    }
    switch ((int)word) {
    case LINK_WORD_QPN:
        address->queue_pair = value;
        return value <= BITS_24;
    case LINK_WORD_PSN:
        address->packet_sequence = value;
        return value <= BITS_24;
    case LINK_WORD_LID:
        address->lid = value;
        return value <= UINT16_MAX;
    case LINK_WORD_MTU:
        address->mtu_bytes = value;
        return value >= 256 && value <= 4096 && (value & (value - 1)) == 0;
    case LINK_WORD_RD_ATOMIC:
        address->rd_atomic = value;
        return value <= UINT8_MAX;
    case LINK_WORD_GID_INDEX:
        address->gid.index = value;
        return true;
    default:
        return false;
    }
}

/* False: it is none of the words. */
static bool find_word(const char *const *words, unsigned count, struct slice text, unsigned *index)
{
    for (*index = 0; *index < count; (*index)++) {
        if (slice_equal_nocase(text, words[*index])) {
            return true;
        }
    }
    return false;
}

static bool set_gid(struct kvasir_gid *gid, struct slice text)
{
    char copy[LINK_WORD_GID_BYTES];
    if (text.length_bytes >= sizeof(copy) || memchr(text.data, '\0', text.length_bytes) != NULL) {
        return false;
    }
    memcpy(copy, text.data, text.length_bytes);
    copy[text.length_bytes] = '\0';
    return inet_pton(AF_INET6, copy, gid->raw) == 1;
}

bool link_word_set_text(struct kvasir_link_address *address, enum link_word word, struct slice text)
{
    unsigned index;
    switch ((int)word) {
    case LINK_WORD_DEVICE:
        if (text.length_bytes >= sizeof(address->device) ||
            memchr(text.data, '\0', text.length_bytes) != NULL) {
            return false;
        }
        memcpy(address->device, text.data, text.length_bytes);
        address->device[text.length_bytes] = '\0';
        return true;
    case LINK_WORD_LAYER:
        if (!find_word(LAYERS, ARRAY_COUNT(LAYERS), text, &index)) {
            return false;
        }
        address->layer = (enum kvasir_link_layer)index;
        return true;
    case LINK_WORD_GID:
        return text.length_bytes > 0 && set_gid(&address->gid, text);
    case LINK_WORD_GID_TYPE:
        if (!find_word(GID_TYPES, ARRAY_COUNT(GID_TYPES), text, &index)) {
            return false;
        }
        address->gid.type = (enum kvasir_gid_type)index;
        return true;
    default:
        return false;
    }
}

void link_word_format_gid(const struct kvasir_gid *gid, char text[LINK_WORD_GID_BYTES])
{
    check(inet_ntop(AF_INET6, gid->raw, text, LINK_WORD_GID_BYTES) != NULL);
}
