#pragma once
/* list – intrusive doubly linked circular list. The owner of the head owns the list; a member is
 * embedded in the object it links and is in at most one list. One thread. */

#include <stdbool.h>
#include <stddef.h>

struct list {
    struct list *next;
    struct list *prev;
};

static inline void list_init(struct list *head)
{
    head->next = head;
    head->prev = head;
}

static inline bool list_empty(const struct list *head)
{
    return head->next == head;
}

static inline void list_insert_between(struct list *member, struct list *prev, struct list *next)
{
    member->prev = prev;
    member->next = next;
    prev->next = member;
    next->prev = member;
}

static inline void list_push_back(struct list *head, struct list *member)
{
    list_insert_between(member, head->prev, head);
}

static inline void list_push_front(struct list *head, struct list *member)
{
    list_insert_between(member, head, head->next);
}

/* The member is left linked to itself, so that removing it again is harmless. */
static inline void list_remove(struct list *member)
{
    member->prev->next = member->next;
    member->next->prev = member->prev;
    list_init(member);
}

/* True when an initialised member is in some list. */
static inline bool list_linked(const struct list *member)
{
    return member->next != member;
}

/* Moves all of from to the back of to. */
static inline void list_splice_back(struct list *to, struct list *from)
{
    if (list_empty(from)) {
        return;
    }
    from->next->prev = to->prev;
    to->prev->next = from->next;
    from->prev->next = to;
    to->prev = from->prev;
    list_init(from);
}

#define list_entry(member, type, field) ((type *)(void *)((char *)(member)-offsetof(type, field)))

/* Names that a macro declares cannot stand in parentheses. */
/* NOLINTBEGIN(bugprone-macro-parentheses) */
#define list_foreach(cursor, head) \
    for (struct list *cursor = (head)->next; cursor != (head); cursor = cursor->next)

/* The body may remove cursor (and nothing else). */
#define list_foreach_safe(cursor, after, head)                                        \
    for (struct list *cursor = (head)->next, *after = cursor->next; cursor != (head); \
         cursor = after, after = cursor->next)
/* NOLINTEND(bugprone-macro-parentheses) */
