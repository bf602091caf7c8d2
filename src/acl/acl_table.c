#include "acl/acl_table.h"

#include "base/check.h"
#include "base/fault.h"

#include <stdlib.h>

static struct slice default_name(void)
{
    return slice_of_text("default");
}

static int compare(struct slice a, struct slice b)
{
    size_t shorter = a.length_bytes < b.length_bytes ? a.length_bytes : b.length_bytes;
    int order = shorter > 0 ? memcmp(a.data, b.data, shorter) : 0;
    if (order == 0 && a.length_bytes != b.length_bytes) {
        order = a.length_bytes < b.length_bytes ? -1 : 1;
    }
    return order;
}

/* Index of the first user whose name is not less. */
static uint32_t place_of(const struct acl_table *table, struct slice name)
{
    uint32_t low = 0;
    uint32_t high = table->count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (compare(acl_user_name(table->users[middle]), name) < 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

/* The place of the user of that name; false: there is none, and that is where he would be. */
static bool locate(const struct acl_table *table, struct slice name, uint32_t *place_p)
{
    *place_p = place_of(table, name);
    return *place_p < table->count && slice_equal(acl_user_name(table->users[*place_p]), name);
}

static void drop_user(struct acl_user *user)
{
    check(user->table_count > 0);
    user->table_count--;
    if (user->table_count == 0) {
        acl_user_destroy(&user);
    }
}

static bool make_room(struct acl_table *table)
{
    uint32_t capacity = table->capacity == 0 ? 8 : table->capacity * 2;
    struct acl_user **users;
    if (table->count < table->capacity) {
        return true;
    }
    if (table->count >= ACL_USERS_MAX || fault_hit("acl.table")) {
        return false;
    }
    users = realloc(table->users, capacity * sizeof(struct acl_user *));
    if (users == NULL) {
        return false;
    }
    table->users = users;
    table->capacity = capacity;
    return true;
}

/* Takes the user over, in place of one of the same name. False: no room, and he is still the caller's. */
static bool put_user(struct acl_table *table, struct acl_user *user)
{
    uint32_t place;
    if (locate(table, acl_user_name(user), &place)) {
        drop_user(table->users[place]);
    } else {
        if (!make_room(table)) {
            return false;
        }
        memmove(table->users + place + 1, table->users + place,
                (table->count - place) * sizeof(struct acl_user *));
        table->count++;
    }
    table->users[place] = user;
    user->table_count++;
    return true;
}

struct acl_table *acl_table_create_empty(const struct acl_table *before)
{
    struct acl_table *table = fault_hit("acl.table") ? NULL : calloc(1, sizeof(*table));
    if (table != NULL && before != NULL && !acl_items_copy(&table->password, &before->password)) {
        acl_table_destroy(&table);
    }
    return table;
}

struct acl_table *acl_table_create(void)
{
    struct acl_table *table = acl_table_create_empty(NULL);
    if (table != NULL && !acl_table_add_default(table)) {
        acl_table_destroy(&table);
    }
    return table;
}

struct acl_table *acl_table_copy(const struct acl_table *table)
{
    struct acl_table *copy = acl_table_create_empty(table);
    if (copy == NULL) {
        return NULL;
    }
    for (uint32_t i = 0; i < table->count; i++) {
        if (!put_user(copy, table->users[i])) {
            acl_table_destroy(&copy);
            return NULL;
        }
    }
    return copy;
}

void acl_table_destroy(struct acl_table **table_p)
{
    struct acl_table *table = *table_p;
    if (table == NULL) {
        return;
    }
    for (uint32_t i = 0; i < table->count; i++) {
        drop_user(table->users[i]);
    }
    free(table->users);
    acl_items_clear(&table->password);
    free(table);
    *table_p = NULL;
}

const struct acl_user *acl_table_find(const struct acl_table *table, struct slice name)
{
    uint32_t place;
    return locate(table, name, &place) ? table->users[place] : NULL;
}

const struct acl_user *acl_table_default(const struct acl_table *table)
{
    const struct acl_user *user = acl_table_find(table, default_name());
    check(user != NULL);
    return user;
}

bool acl_table_set_user(struct acl_table *table, struct slice name, const struct slice *rules,
                        uint32_t rule_count, bool all_channels, struct text *error)
{
    const struct acl_user *before = acl_table_find(table, name);
    struct acl_user *user;
    if (!acl_user_name_allowed(name)) {
        text_add_text(error, name.length_bytes > ACL_USER_NAME_BYTES_MAX
                                 ? "Usernames may have up to 256 bytes"
                                 : "Usernames can't contain spaces or null characters");
        return false;
    }
    user = before != NULL ? acl_user_copy(before) : acl_user_create(name, all_channels);
    if (user == NULL) {
        text_add_text(error, acl_status_text(ACL_TOO_MUCH));
        return false;
    }
    if (!acl_user_apply_all(user, rules, rule_count, all_channels, error)) {
        acl_user_destroy(&user);
        return false;
    }
    if (!put_user(table, user)) {
        text_add_text(error, "Too many users, or out of memory");
        acl_user_destroy(&user);
        return false;
    }
    return true;
}

bool acl_table_remove(struct acl_table *table, struct slice name)
{
    uint32_t place;
    if (!locate(table, name, &place)) {
        return false;
    }
    check(!slice_equal(name, default_name()));
    drop_user(table->users[place]);
    table->count--;
    memmove(table->users + place, table->users + place + 1,
            (table->count - place) * sizeof(struct acl_user *));
    return true;
}

bool acl_table_add_default(struct acl_table *table)
{
    static const char *const words[] = {"on", "nopass", "~*", "&*", "+@all"};
    struct slice rules[ARRAY_COUNT(words)];
    struct text error = {0};
    bool done;
    if (acl_table_find(table, default_name()) != NULL) {
        return true;
    }
    for (size_t i = 0; i < ARRAY_COUNT(words); i++) {
        rules[i] = slice_of_text(words[i]);
    }
    done = acl_table_set_user(table, default_name(), rules, (uint32_t)ARRAY_COUNT(words), false,
                              &error);
    text_fini(&error);
    return done && acl_table_require(table, acl_table_required(table));
}

/* The user default's passwords become this one, or any. */
static bool set_default_password(struct acl_table *table, struct slice password)
{
    struct text rule = {0};
    struct text error = {0};
    struct slice rules[2] = {slice_of_text("resetpass"), slice_of_text("nopass")};
    bool done;
    if (password.length_bytes > 0) {
        text_add_text(&rule, ">");
        text_add(&rule, password);
        rules[1] = text_slice(&rule);
    }
    done = !rule.failed && acl_table_set_user(table, default_name(), rules, 2, false, &error);
    text_fini(&rule);
    text_fini(&error);
    return done;
}

bool acl_table_require(struct acl_table *table, struct slice password)
{
    struct acl_items kept = {0};
    if ((password.length_bytes > 0 && !acl_items_add(&kept, password, 0)) ||
        !set_default_password(table, password)) {
        acl_items_clear(&kept);
        return false;
    }
    acl_items_clear(&table->password);
    table->password = kept;
    return true;
}

struct slice acl_table_required(const struct acl_table *table)
{
    return table->password.count > 0 ? table->password.items[0].text : slice_of(NULL, 0);
}
