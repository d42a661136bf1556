#include "harness/judge/order.h"

#include "harness/judge/names.h"

#include <stdlib.h>

typedef struct sorted {
    cp_name_key key;
    size_t tensor;
} sorted;

static int compare_sorted(const void *a, const void *b)
{
    return cp_name_compare(&((const sorted *)a)->key, &((const sorted *)b)->key);
}

void cp_order_results(cp_result *result, const char *order)
{
    if (result->count == 0)
        return;
    sorted *places = malloc(result->count * sizeof *places);
    cp_tensor_result *tensors = malloc(result->count * sizeof *tensors);
    cp_check(places && tensors, "no memory for %zu results", result->count);
    for (size_t i = 0; i < result->count; i++)
        places[i] = (sorted){cp_name_key_of(result->tensors[i].name, order), i};
    qsort(places, result->count, sizeof *places, compare_sorted);
    for (size_t i = 0; i < result->count; i++)
        tensors[i] = result->tensors[places[i].tensor];
    free(places);
    free(result->tensors);
    result->tensors = tensors;
}
