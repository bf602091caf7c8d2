#include "base/heap.h"

#include "base/check.h"

#include <stddef.h>

void heap_init(struct heap *heap, struct heap_member **members, uint32_t capacity)
{
    *heap = (struct heap){.members = members, .capacity = capacity};
}

static void set_place(struct heap *heap, uint32_t place, struct heap_member *member)
{
    heap->members[place] = member;
    member->place = place;
}

static void sift_up(struct heap *heap, uint32_t place, struct heap_member *member)
{
    while (place > 0) {
        uint32_t parent = (place - 1) / 2;
        if (heap->members[parent]->deadline_us <= member->deadline_us) {
            break;
        }
        set_place(heap, place, heap->members[parent]);
        place = parent;
    }
    set_place(heap, place, member);
}

static void sift_down(struct heap *heap, uint32_t place, struct heap_member *member)
{
    /* place < count / 2: the place has a child. Written so that it cannot overflow. */
    while (place < heap->count / 2) {
        uint32_t child = 2 * place + 1;
        if (child + 1 < heap->count &&
            heap->members[child + 1]->deadline_us < heap->members[child]->deadline_us) {
            child++;
        }
        if (member->deadline_us <= heap->members[child]->deadline_us) {
            break;
        }
        set_place(heap, place, heap->members[child]);
        place = child;
    }
    set_place(heap, place, member);
}

bool heap_push(struct heap *heap, struct heap_member *member)
{
    check(member->place == HEAP_NONE);
    if (heap->count == heap->capacity) {
        return false;
    }
    heap->count++;
    sift_up(heap, heap->count - 1, member);
    return true;
}

void heap_remove(struct heap *heap, struct heap_member *member)
{
    uint32_t place = member->place;
    check(place < heap->count && heap->members[place] == member);
    member->place = HEAP_NONE;
    heap->count--;
    struct heap_member *last = heap->members[heap->count];
    heap->members[heap->count] = NULL;
    if (last == member) {
        return;
    }
    /* The last member fills the gap; it may belong above it or below it. */
    if (place > 0 && last->deadline_us < heap->members[(place - 1) / 2]->deadline_us) {
        sift_up(heap, place, last);
    } else {
        sift_down(heap, place, last);
    }
}

struct heap_member *heap_find_first(const struct heap *heap)
{
    return heap->count > 0 ? heap->members[0] : NULL;
}
