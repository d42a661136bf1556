#include "harness/files/inflate.h"
#include "harness/files/view.h"

#include <stdlib.h>

/* Only who opens views needs what unpacks: the library for users does not. */
void cp_view_open(cp_view *view, size_t allowance)
{
    *view = (cp_view){.allowance = allowance, .map_file = -1, .inflate = cp_inflate};
}

void cp_view_close(cp_view *view)
{
    for (size_t p = 0; p < view->part_count; p++)
        cp_view_close(&view->parts[p]);
    cp_view_unmap(view);
    cp_inflate_close(view->inflater);
    free(view->band);
    free(view->unpacked);
    free(view->packed);
    free(view->values);
    free(view->parts);
}

cp_status cp_view_parts(cp_view *view, size_t count)
{
    if (view->part_count == count)
        return CP_OK;
    cp_check(view->part_count == 0, "%zu views of %zu parts", view->part_count, count);
    view->parts = calloc(count, sizeof *view->parts);
    if (!view->parts)
        return cp_fail(CP_INTERNAL, "memory: no room for views of %zu parts", count);
    view->part_count = count;
    for (size_t p = 0; p < count; p++)
        cp_view_open(&view->parts[p], view->allowance / count);
    return CP_OK;
}
