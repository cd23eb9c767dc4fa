/* encode.c - arrays in Postgres' binary format.
 *
 * DESIGN. Everything is big-endian: int32 dimensions (1, or 0 if empty),
 * int32 has-nulls, int32 oid of the element type, int32 length, int32 lower
 * bound; then per element an int32 size (-1: null) and its bytes. The size of
 * everything but texts is known beforehand; texts are checked one by one
 * against what is left, and counted on when nothing is.
 * Texts are repaired only if they have to be: the plain ones are copied.
 */
#include "json.h"

#define OID_BOOL 16
#define OID_INT8 20
#define OID_TEXT 25
#define OID_FLOAT8 701
#define HEADER 20
#define HEADER_EMPTY 12
/* What Postgres can hold in one value, and an int32 size can say. */
#define TEXT_LIMIT 0x3fffffff

typedef struct {
    uint8_t *start;
    size_t capacity;
    size_t used; /* goes on beyond capacity, where nothing is written */
} byte_sink;

static void store32(uint8_t *to, uint32_t value) {
    to[0] = (uint8_t)(value >> 24);
    to[1] = (uint8_t)(value >> 16);
    to[2] = (uint8_t)(value >> 8);
    to[3] = (uint8_t)value;
}

static void store64(uint8_t *to, uint64_t value) {
    store32(to, (uint32_t)(value >> 32));
    store32(to + 4, (uint32_t)value);
}

static void put(byte_sink *sink, const void *data, size_t size) {
    if (sink->used <= sink->capacity &&
        size <= sink->capacity - sink->used) {
        memcpy(sink->start + sink->used, data, size);
    }
    sink->used += size;
}

static void put32(byte_sink *sink, uint32_t value) {
    uint8_t bytes[4];
    store32(bytes, value);
    put(sink, bytes, sizeof bytes);
}

static int is_null(const fq_array *array, size_t i) {
    return array->nulls != NULL && array->nulls[i] == 1;
}

static void put_header(byte_sink *sink, const fq_array *array, size_t count) {
    static const uint32_t oids[] = {[FQ_INT] = OID_INT8,
                                    [FQ_FLOAT] = OID_FLOAT8,
                                    [FQ_BOOL] = OID_BOOL,
                                    [FQ_TEXT] = OID_TEXT};
    int any = array->nulls != NULL && count > 0 &&
              memchr(array->nulls, 1, count) != NULL;
    put32(sink, count > 0);
    put32(sink, (uint32_t)any);
    put32(sink, oids[array->type]);
    if (count > 0) {
        put32(sink, (uint32_t)count);
        put32(sink, 1);
    }
}

/* Eight bytes an element and no nulls: ids, the longest array and the one
 * that every batch has. */
static void put_words(byte_sink *sink, const fq_array *array, size_t count) {
    if (sink->used > sink->capacity ||
        count > (sink->capacity - sink->used) / 12) {
        sink->used += count * 12;
        return;
    }
    uint8_t *to = sink->start + sink->used;
    const uint8_t *from = array->data;
    for (size_t i = 0; i < count; i++, to += 12, from += 8) {
        uint64_t value;
        memcpy(&value, from, 8);
        store32(to, 8);
        store64(to + 4, value);
    }
    sink->used += count * 12;
}

static void put_numbers(byte_sink *sink, const fq_array *array, size_t count) {
    const uint8_t *from = array->data;
    size_t width = array->type == FQ_BOOL ? 1 : 8;
    if (width == 8 && array->nulls == NULL) {
        put_words(sink, array, count);
        return;
    }
    for (size_t i = 0; i < count; i++, from += width) {
        if (is_null(array, i)) {
            put32(sink, UINT32_MAX);
            continue;
        }
        uint8_t bytes[8] = {*from};
        if (width == 8) {
            uint64_t value;
            memcpy(&value, from, 8);
            store64(bytes, value);
        }
        put32(sink, (uint32_t)width);
        put(sink, bytes, width);
    }
}

/* Return where a text is cut so that at most `cap` bytes stay and no
 * character is halved. */
static size_t cut(const uint8_t *text, size_t size, size_t cap) {
    if (cap == 0 || size <= cap) {
        return size;
    }
    size_t end = cap;
    while (end > 0 && cap - end < 3 && (text[end] & 0xc0) == 0x80) {
        end--;
    }
    return (text[end] & 0xc0) == 0x80 ? cap : end;
}

/* Copy what is UTF-8 and put U+FFFD for the rest: one for a surrogate
 * written like a character, one for any other byte. */
static void put_repaired(byte_sink *sink, const uint8_t *text, size_t size) {
    size_t at = 0;
    while (at < size) {
        size_t length = json_utf8_prefix(text + at, size - at);
        put(sink, text + at, length);
        at += length;
        if (at < size) {
            int surrogate = size - at >= 3 && text[at] == 0xed &&
                            (text[at + 1] & 0xe0) == 0xa0 &&
                            (text[at + 2] & 0xc0) == 0x80;
            put(sink, "\xef\xbf\xbd", 3);
            at += surrogate ? 3 : 1;
        }
    }
}

static int put_text(byte_sink *sink, const uint8_t *text, size_t size,
                    size_t cap) {
    size = cut(text, size, cap);
    if (size > TEXT_LIMIT / 3) {
        return FQ_E_ARGUMENT;
    }
    size_t head = sink->used;
    put32(sink, (uint32_t)size);
    if (json_utf8_prefix(text, size) == size) {
        put(sink, text, size);
        return FQ_OK;
    }
    put_repaired(sink, text, size);
    if (sink->used <= sink->capacity) {
        store32(sink->start + head, (uint32_t)(sink->used - head - 4));
    }
    return FQ_OK;
}

static int put_texts(byte_sink *sink, const fq_array *array, size_t count) {
    const uint8_t *at = array->data, *end = at + array->data_size;
    for (size_t i = 0; i < count; i++) {
        size_t left = (size_t)(end - at);
        const uint8_t *stop = left ? memchr(at, 0, left) : NULL;
        if ((stop == NULL) != (i + 1 == count)) {
            return FQ_E_ROWS;
        }
        size_t size = stop ? (size_t)(stop - at) : left;
        if (is_null(array, i)) {
            put32(sink, UINT32_MAX);
        } else if (put_text(sink, at, size, array->cap) != FQ_OK) {
            return FQ_E_ARGUMENT;
        }
        at = stop ? stop + 1 : end;
    }
    return FQ_OK;
}

/* Check what an array says of itself. */
static int check_array(const fq_array *array, size_t count) {
    size_t width = array->type == FQ_BOOL ? 1 : 8;
    if (array->type < FQ_INT || array->type > FQ_TEXT ||
        count > TEXT_LIMIT / 12 || array->data_size > PTRDIFF_MAX / 4) {
        return FQ_E_ARGUMENT;
    }
    int fits = array->type == FQ_TEXT || array->data_size == count * width;
    return fits ? FQ_OK : FQ_E_ARGUMENT;
}

int fq_encode(const fq_array *arrays, size_t array_count, size_t count,
              char *out, size_t capacity, size_t *ends, size_t *size) {
    byte_sink sink = {(uint8_t *)out, capacity, 0};
    *size = 0;
    for (size_t i = 0; i < array_count; i++) {
        if (check_array(&arrays[i], count) != FQ_OK) {
            return FQ_E_ARGUMENT;
        }
    }
    for (size_t i = 0; i < array_count; i++) {
        put_header(&sink, &arrays[i], count);
        if (arrays[i].type != FQ_TEXT) {
            put_numbers(&sink, &arrays[i], count);
        } else {
            int code = put_texts(&sink, &arrays[i], count);
            if (code != FQ_OK) {
                return code;
            }
        }
        ends[i] = sink.used;
    }
    *size = sink.used;
    return sink.used <= capacity ? FQ_OK : FQ_E_SHORT;
}
