#include "harness/files/attention.h"
#include "harness/files/dump.h"
#include "harness/files/header.h"
#include "harness/files/members.h"
#include "harness/files/results.h"

#include <stdio.h>

static const char *or_empty(const char *text)
{
    return text ? text : "";
}

static cp_status set_given(cp_h5 *file, const char *object, const char *name, const char *text)
{
    return *or_empty(text) ? cp_h5_set_text(file, object, name, text) : CP_OK;
}

static cp_status write_tensor(cp_h5 *file, const char *path, cp_tensor tensor, bool scalar)
{
    CP_TRY(cp_h5_make_array(file, path, tensor.dtype, scalar ? 0 : tensor.dims, tensor.extent));
    return cp_h5_write(file, path, 0, cp_tensor_count(tensor), tensor.data);
}

static cp_status write_weights(cp_h5 *file, cp_pool *pool, const cp_fixture *fixture)
{
    const cp_weight *const *weights;
    CP_TRY(cp_sorted_weights(pool, &weights, fixture));
    CP_TRY(cp_h5_make_group(file, "/weights"));
    for (size_t i = 0; i < fixture->weight_count; i++) {
        const char *path;
        CP_TRY(cp_pool_format(pool, &path, "/weights/%s", weights[i]->name));
        CP_TRY(write_tensor(file, path, weights[i]->tensor, false));
        if (*or_empty(weights[i]->tied))
            CP_TRY(cp_h5_set_lines(file, path, "tied", weights[i]->tied));
        CP_TRY(set_given(file, path, "role", weights[i]->role));
    }
    return CP_OK;
}

static cp_status write_batch(cp_h5 *file, cp_pool *pool, const cp_fixture *fixture)
{
    cp_member members[CP_BATCH_MEMBERS];
    size_t count;
    CP_TRY(cp_batch_members(pool, members, &count, fixture));
    CP_TRY(cp_h5_make_group(file, "/batch"));
    for (size_t i = 0; i < count; i++) {
        char path[64];
        snprintf(path, sizeof path, "/batch/%s", members[i].name);
        CP_TRY(write_tensor(file, path, members[i].tensor, members[i].scalar));
    }
    return CP_OK;
}

static cp_status write_expected(cp_h5 *file, const cp_fixture *fixture)
{
    if (!fixture->expected || fixture->expected->count == 0)
        return CP_OK;
    CP_TRY(cp_h5_make_group(file, "/expected"));
    CP_TRY(set_given(file, "/expected", "source", fixture->truth));
    CP_TRY(set_given(file, "/expected", "precision", fixture->precision));
    if (*or_empty(fixture->order))
        CP_TRY(cp_h5_set_lines(file, "/expected", "order", fixture->order));
    return cp_results_write(file, "/expected", fixture->expected, true);
}

static cp_status write_all(cp_h5 *file, cp_pool *pool, const cp_fixture *fixture)
{
    char id[65];
    CP_TRY(cp_fixture_identify(fixture, id));
    CP_TRY(cp_header_write(file, fixture->attention ? CP_KIND_ATTENTION : "fixture"));
    CP_TRY(cp_h5_set_text(file, "/", "fixture_id", id));
    CP_TRY(set_given(file, "/", "producer", fixture->producer));
    if (*or_empty(fixture->config_text))
        CP_TRY(cp_h5_write_text(file, "/config", fixture->config_text));
    if (fixture->attention)
        CP_TRY(cp_attention_write(file, fixture->attention));
    else
        CP_TRY(write_weights(file, pool, fixture));
    CP_TRY(write_batch(file, pool, fixture));
    CP_TRY(write_expected(file, fixture));
    return cp_calibrations_write(file, &fixture->calibrations);
}

static cp_status write_fixture(cp_h5 *file, const void *content)
{
    cp_pool pool = {0};
    cp_status status = write_all(file, &pool, content);
    cp_pool_close(&pool);
    return status;
}

cp_status cp_fixture_write(const char *path, const cp_fixture *fixture)
{
    return cp_h5_write_file(path, write_fixture, fixture);
}
