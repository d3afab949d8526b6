#include <zlib.h>

// `inflateInit2` is a macro, which Swift does not import.
static inline int january_inflate_init2(z_stream *stream, int window_bits) {
    return inflateInit2(stream, window_bits);
}

// The same for `deflateInit2`.
static inline int january_deflate_init2(z_stream *stream, int level, int window_bits) {
    return deflateInit2(stream, level, Z_DEFLATED, window_bits, 8, Z_DEFAULT_STRATEGY);
}
