#include "harness/files/attention.h"
#include "harness/files/dump.h"
#include "harness/files/header.h"
#include "harness/files/results.h"

static cp_status write_declaration(cp_h5 *file, const cp_declaration *said)
{
    const struct {
        const char *name, *text;
    } texts[] = {{"fixture_id", said->fixture_id},
                 {"implementation", said->implementation},
                 {"exchange", said->exchange},
                 {"layout", said->layout},
                 {"compute_dtype", said->dtype_declared ? cp_dtype_name(said->compute_dtype) : ""},
                 {"islands", said->islands ? "float32" : ""},
                 {"loss_kind", cp_loss_kind_name(said->loss_kind)},
                 {"gradients", cp_gradient_kind_name(said->gradients)}};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if (*texts[i].text)
            CP_TRY(cp_h5_set_text(file, "/", texts[i].name, texts[i].text));
    const struct {
        const char *name;
        int64_t value, absent;
    } numbers[] = {{"cp_size", said->cp_size, 0},
                   {"cp_rank", said->cp_rank, -1},
                   {"dp_size", said->dp_size, 1},
                   {"dp_rank", said->dp_size > 1 ? said->dp_rank : -1, -1},
                   {"loss_count", said->loss_count, -1}};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (numbers[i].value != numbers[i].absent)
            CP_TRY(cp_h5_set_integer(file, "/", numbers[i].name, numbers[i].value));
    if (said->grad_scale != 1)
        CP_TRY(cp_h5_set_real(file, "/", "grad_scale", said->grad_scale));
    return *said->grad_absent ? cp_h5_set_lines(file, "/", "grad_absent", said->grad_absent) : CP_OK;
}

static cp_status write_index(cp_h5 *file, const char *path, const int64_t *index, int dims,
                             const int64_t extent[])
{
    if (!index)
        return CP_OK;
    CP_TRY(cp_h5_make_array(file, path, CP_I64, dims, extent));
    return cp_h5_write(file, path, 0, dims == 1 ? extent[0] : extent[0] * extent[1], index);
}

static cp_status write_dump(cp_h5 *file, const void *content)
{
    const cp_source *source = content;
    const cp_declaration *said = &source->declaration;
    cp_check(said->cp_rank < 0 || (said->token_index && said->dtype_declared), "rank %d declares too little",
             said->cp_rank);
    CP_TRY(cp_header_write(file, said->attention ? CP_KIND_ATTENTION : "dump"));
    CP_TRY(write_declaration(file, said));
    CP_TRY(write_index(file, "/token_index", said->token_index, 2, CP_EXTENTS(said->B, said->S)));
    CP_TRY(write_index(file, "/batch_index", said->batch_index, 1, CP_EXTENTS(said->B)));
    return cp_results_write(file, "", source, false);
}

cp_status cp_dump_write(const char *path, const cp_source *source)
{
    return cp_h5_write_file(path, write_dump, source);
}
