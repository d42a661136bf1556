#include "harness/cli/processes.h"

#include "tests/support/support.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { PIECES = 24, LARGE = 300000 };

typedef struct pieces {
    int done[PIECES];
    size_t bytes[PIECES];
    char last[PIECES], sentence[PIECES][256];
} pieces;

static const size_t FAILS = 5, DIES = 6, PANICS = 7, SAYS_NOTHING = 8;

/* Answers of all lengths, more than a pipe holds among them; the first pieces take longest. */
static void work(void *context, size_t piece, FILE *answer)
{
    pieces *self = context;
    nanosleep(&(struct timespec){.tv_nsec = (long)(PIECES - piece) * 1000000}, NULL);
    self->done[0] = 1000; /* is lost with this process */
    if (piece == FAILS)
        _exit(3);
    if (piece == DIES)
        raise(SIGKILL);
    cp_check(piece != PANICS, "piece %zu", piece);
    for (size_t i = 0; piece != SAYS_NOTHING && i < (piece % 3 == 0 ? LARGE + piece : piece); i++)
        fputc('a' + (int)piece, answer);
}

static void done(void *context, size_t piece, const char *answer, size_t bytes, const char *sentence)
{
    pieces *self = context;
    self->done[piece]++;
    self->bytes[piece] = bytes;
    self->last[piece] = bytes > 0 ? answer[bytes - 1] : '\0';
    snprintf(self->sentence[piece], sizeof self->sentence[piece], "%s", sentence ? sentence : "");
}

static void assert_pieces(int processes)
{
    static pieces found;
    found = (pieces){0};
    cp_work_in_processes(PIECES, processes, work, done, &found);
    for (size_t piece = 0; piece < PIECES; piece++) {
        assert_int_equal(found.done[piece], 1);
        if (piece >= FAILS && piece <= PANICS)
            continue;
        size_t bytes = piece == SAYS_NOTHING ? 0 : piece % 3 == 0 ? LARGE + piece : piece;
        assert_string_equal(found.sentence[piece], "");
        assert_int_equal(found.bytes[piece], bytes);
        assert_int_equal(found.last[piece], bytes > 0 ? 'a' + (int)piece : 0);
    }
    assert_text_holds(found.sentence[FAILS], "ended with status 3");
    assert_text_holds(found.sentence[DIES], "was ended by signal 9");
    assert_text_holds(found.sentence[PANICS], "ended with status 4");
}

static void every_piece_is_answered_once(void **state)
{
    (void)state;
    assert_pieces(1);
    assert_pieces(5);
    assert_pieces(2 * PIECES);
}

static void nothing_to_do_is_done(void **state)
{
    (void)state;
    cp_work_in_processes(0, 3, work, done, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_piece_is_answered_once),
        cmocka_unit_test(nothing_to_do_is_done),
    };
    return cmocka_run_group_tests_name("processes", tests, NULL, NULL);
}
