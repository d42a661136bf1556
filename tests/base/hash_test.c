#include "base/hash.h"

#include "tests/base/groups.h"
#include "tests/support/support.h"

#include <string.h>

/* FIPS 180-2, appendix B, and the empty text. */
static const struct {
    const char *text;
    int times;
    const char *digest;
} cases[] = {
    {"", 1, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
    {"abc", 1, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
    {"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", 1,
     "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"},
    {"aaaaaaaaaa", 100000, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0"},
};

static void published_digests(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        cp_hash *hash = cp_hash_open();
        for (int n = 0; n < cases[i].times; n++)
            cp_hash_add(hash, cases[i].text, strlen(cases[i].text));
        char text[CP_HASH_TEXT];
        cp_hash_close(hash, text);
        assert_string_equal(text, cases[i].digest);
    }
}

int hash_tests(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(published_digests)};
    return cmocka_run_group_tests_name("hash", tests, NULL, NULL);
}
