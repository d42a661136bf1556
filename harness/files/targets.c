#include "harness/files/targets.h"

int64_t cp_batch_target(const cp_batch *batch, int64_t b, int64_t t)
{
    if (batch->shift_labels)
        return batch->shift_labels[b * batch->T + t];
    return t + 1 < batch->T ? batch->labels[b * batch->T + t + 1] : CP_IGNORED;
}

double cp_batch_divisor(const cp_batch *batch)
{
    int64_t targets = 0;
    for (int64_t b = 0; b < batch->B; b++)
        for (int64_t t = 0; t < batch->T; t++)
            targets += cp_batch_target(batch, b, t) != CP_IGNORED;
    return batch->num_items_in_batch > 0 ? batch->num_items_in_batch : (double)targets;
}
