#pragma once
/* test_tree – files and folders made for a test below a new folder, such as a /sys of another machine.
 * Includes cmocka; fails the test where one cannot be made. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

struct tree_entry {
    const char *path; /* from "/" on; behind the folders it is in */
    const char *text; /* NULL: a folder */
};

/* Returns where it begins; the caller gives it to tree_remove. */
static inline char *tree_make(const struct tree_entry *entries, size_t entry_count)
{
    char *root = strdup("/tmp/test_tree_XXXXXX");
    assert_non_null(root);
    assert_non_null(mkdtemp(root));
    for (size_t i = 0; i < entry_count; i++) {
        char path[256];
        (void)snprintf(path, sizeof(path), "%s%s", root, entries[i].path);
        if (entries[i].text == NULL) {
            assert_int_equal(mkdir(path, 0700), 0);
            continue;
        }
        FILE *file = fopen(path, "we");
        assert_non_null(file);
        assert_true(fputs(entries[i].text, file) >= 0);
        assert_int_equal(fclose(file), 0);
    }
    return root;
}

/* The same entries, and nothing else may be there by now. */
static inline void tree_remove(char *root, const struct tree_entry *entries, size_t entry_count)
{
    for (size_t i = entry_count; i-- > 0;) {
        char path[256];
        (void)snprintf(path, sizeof(path), "%s%s", root, entries[i].path);
        assert_int_equal(entries[i].text == NULL ? rmdir(path) : unlink(path), 0);
    }
    assert_int_equal(rmdir(root), 0);
    free(root);
}
