#include "harness/files/inflate.h"

#include <stdint.h>
#include <stdlib.h>
#include <zlib.h>

static z_stream *open_stream(void)
{
    z_stream *stream = calloc(1, sizeof *stream);
    if (stream && inflateInit(stream) == Z_OK)
        return stream;
    free(stream);
    return NULL;
}

bool cp_inflate(void **state, void *out, size_t out_bytes, const void *in, size_t in_bytes)
{
    if (!*state)
        *state = open_stream();
    z_stream *stream = *state;
    if (!stream || inflateReset(stream) != Z_OK)
        return false;
    stream->next_in = (Bytef *)(uintptr_t)in;
    stream->avail_in = (uInt)in_bytes;
    stream->next_out = out;
    stream->avail_out = (uInt)out_bytes;
    return inflate(stream, Z_FINISH) == Z_STREAM_END && stream->avail_out == 0;
}

void cp_inflate_close(void *state)
{
    if (state)
        inflateEnd(state);
    free(state);
}
