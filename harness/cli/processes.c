#include "harness/cli/processes.h"

#include "base/status.h"

#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

enum { READ_BYTES = 65536, SENTENCE_BYTES = 256 };

typedef struct worker {
    pid_t process;
    size_t piece;
    int pipe; /* where its answer comes from */
    char *answer;
    size_t bytes, room;
} worker;

typedef struct team {
    worker *workers; /* [most], the first `busy` of them at work */
    struct pollfd *polled;
    int busy, most;
    cp_work *work;
    cp_work_done *done;
    void *context;
} team;

/* ---- the process of a worker -------------------------------------------------------------------------------------- */

static bool write_all(int to, const char *bytes, size_t count)
{
    while (count > 0) {
        ssize_t written = write(to, bytes, count);
        if (written < 0 && errno == EINTR)
            continue;
        if (written <= 0)
            return false;
        bytes += written;
        count -= (size_t)written;
    }
    return true;
}

static _Noreturn void do_work(const team *self, size_t piece, int to)
{
    char *answer = NULL;
    size_t bytes = 0;
    FILE *memory = open_memstream(&answer, &bytes);
    cp_check(memory != NULL, "no memory for an answer");
    self->work(self->context, piece, memory);
    cp_check(!ferror(memory) && fclose(memory) == 0, "no memory for an answer");
    bool whole = write_all(to, answer, bytes);
    free(answer);
    _exit(whole ? 0 : 4);
}

/* ---- the process that waits --------------------------------------------------------------------------------------- */

static void begin(team *self, size_t piece)
{
    int ends[2];
    fflush(NULL); /* what is buffered belongs to this process alone */
    if (pipe(ends) != 0) {
        self->done(self->context, piece, NULL, 0, strerror(errno));
        return;
    }
    pid_t process = fork();
    if (process == 0) {
        close(ends[0]);
        do_work(self, piece, ends[1]);
    }
    int reason = errno;
    close(ends[1]);
    if (process < 0) {
        close(ends[0]);
        self->done(self->context, piece, NULL, 0, strerror(reason));
        return;
    }
    self->workers[self->busy++] = (worker){.process = process, .piece = piece, .pipe = ends[0]};
}

/* False: its answer has ended. */
static bool read_some(worker *self)
{
    if (self->room - self->bytes < READ_BYTES) {
        self->room = 2 * self->room + READ_BYTES;
        self->answer = realloc(self->answer, self->room);
        cp_check(self->answer != NULL, "no memory for an answer of %zu bytes", self->bytes);
    }
    ssize_t found = read(self->pipe, self->answer + self->bytes, self->room - self->bytes);
    if (found < 0)
        return errno == EINTR || errno == EAGAIN;
    self->bytes += (size_t)found;
    return found > 0;
}

static const char *how_it_ended(char sentence[SENTENCE_BYTES], int status)
{
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return NULL;
    const char *how = WIFSIGNALED(status) ? "was ended by signal" : "ended with status";
    snprintf(
        sentence, SENTENCE_BYTES,
        "the process that worked on it %s %d: a damaged file that the HDF5 library does not survive, too "
        "little memory, or a bug of cpeq",
        how, WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
    return sentence;
}

static void finish(team *self, int at)
{
    worker ended = self->workers[at];
    self->workers[at] = self->workers[--self->busy];
    close(ended.pipe);
    int status = 0;
    while (waitpid(ended.process, &status, 0) < 0 && errno == EINTR)
        ;
    char sentence[SENTENCE_BYTES];
    self->done(self->context, ended.piece, ended.answer, ended.bytes, how_it_ended(sentence, status));
    free(ended.answer);
}

static void wait_for_some(team *self)
{
    for (int i = 0; i < self->busy; i++)
        self->polled[i] = (struct pollfd){.fd = self->workers[i].pipe, .events = POLLIN};
    int ready = poll(self->polled, (nfds_t)self->busy, -1);
    cp_check(ready > 0 || errno == EINTR, "poll: %s", strerror(errno));
    for (int i = self->busy - 1; ready > 0 && i >= 0; i--) { /* who ends gives his place to the last one */
        if (self->polled[i].revents != 0 && !read_some(&self->workers[i]))
            finish(self, i);
    }
}

void cp_work_in_processes(size_t count, int processes, cp_work *work, cp_work_done *done, void *context)
{
    team self = {.most = processes, .work = work, .done = done, .context = context};
    self.workers = calloc((size_t)processes, sizeof *self.workers);
    self.polled = calloc((size_t)processes, sizeof *self.polled);
    cp_check(self.workers != NULL && self.polled != NULL, "no memory for %d processes", processes);
    for (size_t next = 0; next < count || self.busy > 0;) {
        while (next < count && self.busy < self.most)
            begin(&self, next++);
        if (self.busy > 0)
            wait_for_some(&self);
    }
    free(self.workers);
    free(self.polled);
}
