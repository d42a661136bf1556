#include "harness/judge/crew.h"

#include "base/processors.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>

typedef struct crew {
    const cp_crew_task *task;
    pthread_mutex_t lock;
    pthread_cond_t turn;
    int64_t next, merged; /* the piece that nobody has begun; how many are merged */
    cp_status status;
    char sentence[2048]; /* errors are each thread's own */
} crew;

typedef struct worker {
    crew *crew;
    int number;
    pthread_t thread;
} worker;

int cp_crew_size(void)
{
    int processors = cp_processors();
    return processors > CP_CREW_MOST ? CP_CREW_MOST : processors;
}

/* Negative: there is nothing more to do. */
static int64_t take_piece(crew *c)
{
    pthread_mutex_lock(&c->lock);
    bool more = c->status == CP_OK && c->next < c->task->pieces;
    int64_t piece = more ? c->next++ : -1;
    pthread_mutex_unlock(&c->lock);
    return piece;
}

static void hand_over(crew *c, int number, int64_t piece, cp_status status)
{
    pthread_mutex_lock(&c->lock);
    while (c->merged < piece && c->status == CP_OK)
        pthread_cond_wait(&c->turn, &c->lock);
    if (c->status == CP_OK && status == CP_OK) {
        c->task->merge(c->task->context, number, piece);
        c->merged++;
    } else if (c->status == CP_OK) {
        c->status = status;
        snprintf(c->sentence, sizeof c->sentence, "%s", cp_error());
    }
    pthread_cond_broadcast(&c->turn);
    pthread_mutex_unlock(&c->lock);
}

static void *work(void *state)
{
    const worker *self = state;
    crew *c = self->crew;
    for (int64_t piece = take_piece(c); piece >= 0; piece = take_piece(c))
        hand_over(c, self->number, piece, c->task->compute(c->task->context, self->number, piece));
    return NULL;
}

cp_status cp_crew_run(int threads, const cp_crew_task *task)
{
    crew c = {.task = task, .lock = PTHREAD_MUTEX_INITIALIZER, .turn = PTHREAD_COND_INITIALIZER};
    worker workers[CP_CREW_MOST] = {{.crew = &c}};
    int started = 1;
    cp_check(threads >= 1 && threads <= CP_CREW_MOST, "%d threads", threads);
    while (started < threads) { /* where the system gives no more, fewer do the same */
        workers[started] = (worker){.crew = &c, .number = started};
        if (pthread_create(&workers[started].thread, NULL, work, &workers[started]) != 0)
            break;
        started++;
    }
    work(&workers[0]);
    for (int w = 1; w < started; w++)
        pthread_join(workers[w].thread, NULL);
    pthread_cond_destroy(&c.turn);
    pthread_mutex_destroy(&c.lock);
    return c.status == CP_OK ? CP_OK : cp_fail(c.status, "%s", c.sentence);
}
