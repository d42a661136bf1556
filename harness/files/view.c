#include "harness/files/view.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { WINDOW = 16 << 20 }; /* bytes of a file that are mapped at a time */

/* ---- what is mapped ---------------------------------------------------------------------------------------------- */

enum { REMEMBERED = 16 }; /* windows; a comparison looks at two, or at one a rank */

static _Thread_local struct {
    struct {
        const char *begin, *end, *label;
    } windows[REMEMBERED];
    unsigned next;
} mapped;

static void remember(const char *begin, int64_t bytes, const char *label)
{
    unsigned at = mapped.next++ % REMEMBERED;
    mapped.windows[at].begin = begin;
    mapped.windows[at].end = begin + bytes;
    mapped.windows[at].label = label;
}

const char *cp_view_mapped(const void *address)
{
    for (unsigned back = 1; back <= REMEMBERED; back++) { /* an address may have been another file's before */
        unsigned at = (mapped.next - back) % REMEMBERED;
        if ((const char *)address >= mapped.windows[at].begin &&
            (const char *)address < mapped.windows[at].end)
            return mapped.windows[at].label;
    }
    return NULL;
}

void cp_view_unmap(cp_view *view)
{
    if (view->map)
        munmap((void *)(uintptr_t)view->map, (size_t)view->map_bytes);
    view->map = NULL;
    view->map_file = -1;
}

cp_status cp_view_room(void **room, size_t *have, size_t bytes)
{
    if (bytes <= *have)
        return CP_OK;
    free(*room);
    *room = malloc(bytes);
    *have = *room ? bytes : 0;
    return *room ? CP_OK : cp_fail(CP_INTERNAL, "memory: the system does not give %zu KiB", bytes >> 10);
}

/* ---- windows of a file ------------------------------------------------------------------------------------------- */

/* Where nothing can be mapped it is read. */
static cp_status read_bytes(cp_view *view, int descriptor, const char *label, int64_t begin, int64_t bytes,
                            const void **data)
{
    CP_TRY(cp_view_room(&view->values, &view->values_room, (size_t)bytes));
    char *out = view->values;
    *data = out;
    while (bytes > 0) {
        ssize_t got = pread(descriptor, out, (size_t)bytes, begin);
        if (got <= 0)
            return cp_fail(CP_BAD_INPUT, "%s: cannot be read: %s", label,
                           got == 0 ? "it has become shorter" : strerror(errno));
        out += got;
        begin += got;
        bytes -= got;
    }
    return CP_OK;
}

/* A page behind a file's end must not be touched: its length is asked for at every window. */
static cp_status map_window(cp_view *view, int descriptor, const char *label, int64_t begin, int64_t bytes)
{
    struct stat about;
    cp_view_unmap(view);
    if (fstat(descriptor, &about) != 0 || begin + bytes > about.st_size)
        return cp_fail(CP_BAD_INPUT, "%s: cannot be read: it has become shorter", label);
    int64_t page = sysconf(_SC_PAGESIZE);
    int64_t from = begin / page * page;
    int64_t length = begin + bytes - from > WINDOW ? begin + bytes - from : WINDOW;
    length = length < about.st_size - from ? length : about.st_size - from;
    void *map = mmap(NULL, (size_t)length, PROT_READ, MAP_SHARED, descriptor, from);
    if (map == MAP_FAILED)
        return CP_OK;
    view->map = map;
    view->map_file = descriptor;
    view->map_begin = from;
    view->map_bytes = length;
    remember(map, length, label);
    return CP_OK;
}

cp_status cp_view_map(cp_view *view, int descriptor, const char *label, int64_t begin, int64_t bytes,
                      const void **data)
{
    bool inside = view->map && view->map_file == descriptor && begin >= view->map_begin &&
                  begin + bytes <= view->map_begin + view->map_bytes;
    if (!inside)
        CP_TRY(map_window(view, descriptor, label, begin, bytes));
    if (!view->map)
        return read_bytes(view, descriptor, label, begin, bytes, data);
    *data = view->map + (begin - view->map_begin);
    return CP_OK;
}

/* ---- sources ----------------------------------------------------------------------------------------------------- */

cp_status cp_view_look(cp_view *view, const cp_source *source, size_t tensor, int64_t first, int64_t count,
                       const void **data, cp_dtype *dtype)
{
    if (source->look)
        return source->look(source, view, tensor, first, count, data, dtype);
    CP_TRY(cp_view_room(&view->values, &view->values_room, (size_t)count * sizeof(double)));
    *data = view->values;
    *dtype = CP_F64;
    return source->read(source, tensor, first, count, view->values);
}

void cp_view_double(double *out, const void *data, cp_dtype dtype, int64_t count)
{
    enum { PIECE = 512 };
    size_t width = cp_dtype_bytes(dtype);
    const char *from = data;
    double aligned[PIECE];
    if ((uintptr_t)data % width == 0) {
        cp_dtype_to_double(out, data, dtype, (size_t)count);
        return;
    }
    for (int64_t done = 0; done < count; done += PIECE) {
        size_t n = (size_t)(count - done < PIECE ? count - done : PIECE);
        memcpy(aligned, from + (size_t)done * width, n * width);
        cp_dtype_to_double(out + done, aligned, dtype, n);
    }
}

void cp_view_float(float *out, const void *data, cp_dtype dtype, int64_t count)
{
    const char *from = data;
    cp_check(dtype == CP_F32 || dtype == CP_BF16 || dtype == CP_F16, "%s", cp_dtype_name(dtype));
    if (dtype == CP_F32)
        memcpy(out, from, (size_t)count * sizeof *out);
    for (int64_t i = 0; i < count && dtype == CP_BF16; i++) {
        uint16_t word;
        memcpy(&word, from + i * (int64_t)sizeof word, sizeof word);
        uint32_t bits = (uint32_t)word << 16;
        memcpy(&out[i], &bits, sizeof bits);
    }
    for (int64_t i = 0; i < count && dtype == CP_F16; i++) {
        uint16_t word;
        memcpy(&word, from + i * (int64_t)sizeof word, sizeof word);
        out[i] = cp_float_from_f16(word);
    }
}

cp_status cp_view_read(cp_view *view, const cp_source *source, size_t tensor, int64_t first, int64_t count,
                       double *out)
{
    const void *data;
    cp_dtype dtype;
    if (!source->look)
        return source->read(source, tensor, first, count, out);
    CP_TRY(cp_view_look(view, source, tensor, first, count, &data, &dtype));
    cp_view_double(out, data, dtype, count);
    return CP_OK;
}

cp_grain cp_view_grain(const cp_source *source, size_t tensor)
{
    return source->grain ? source->grain(source, tensor) : (cp_grain){1, 0};
}
