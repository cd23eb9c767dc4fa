/* fastq.h - the contract of fastq's C core: bytes in, bytes out.
 *
 * DESIGN. The core knows nothing of Python, of Postgres connections or of
 * threads. It has no globals, allocates nothing, prints nothing and never
 * reads errno; all memory is the caller's, and every size is checked before
 * it is used. Functions are re-entrant: the caller holds no lock around them
 * (cffi gives the interpreter lock back), so they are called once per batch.
 *
 * What it does not like it does not decide. A row of args that is not plainly
 * what its fields say is only *marked*; the Python twin then reads that row
 * and has the last word, so both twins give equal answers by construction.
 *
 * GRAMMAR. RFC 8259, strictly. Besides what that excludes, a row is marked
 * for: bytes that are not UTF-8, lone surrogates, NUL in a value, nesting
 * beyond FQ_MAX_DEPTH, a key written with escapes, a known key twice, whole
 * numbers beyond int64, and floats of more than 40 characters or with an
 * exponent beyond 250.
 *
 * build.py gives Python what stands between the two marker lines; anything
 * else in this file is for C alone.
 */
#ifndef FASTQ_H
#define FASTQ_H

#include <stddef.h>
#include <stdint.h>

/* --- cdef begins --- */
#define FQ_ABI 2         /* grows with every change of this contract */
#define FQ_MAX_FIELDS 64 /* the seen fields of a row are bits of a uint64_t */
#define FQ_MAX_DEPTH 64  /* what enqueue allows; args by hand have 3 or 4 */

/* Codes: of a call (FQ_OK, FQ_E_*) and of a row (FQ_OK, FQ_ROW_*). */
#define FQ_OK 0
#define FQ_E_ARGUMENT 1 /* sizes that contradict each other or are too big */
#define FQ_E_ROWS 2     /* the blob has more or fewer rows than was said */
#define FQ_E_SHORT 3    /* the output's capacity is too small */
#define FQ_ROW_SYNTAX 16
#define FQ_ROW_TYPE 17      /* a value that its field does not take */
#define FQ_ROW_MISSING 18   /* a required field is not there */
#define FQ_ROW_UNKNOWN 19   /* an unknown key where those are forbidden */
#define FQ_ROW_DUPLICATE 20 /* a known key twice */
#define FQ_ROW_NUMBER 21    /* beyond int64, or beyond DIGITS_* of decode.c */
#define FQ_ROW_TEXT 22      /* not UTF-8, a lone surrogate; NUL in a value */
#define FQ_ROW_DEPTH 23
#define FQ_ROW_KEY 24 /* a key written with escapes */

/* Types of a field, and of an array to encode. */
#define FQ_INT 1   /* int64_t */
#define FQ_FLOAT 2 /* double */
#define FQ_BOOL 3  /* uint8_t, 0 or 1 */
#define FQ_TEXT 4
#define FQ_RAW 5 /* any JSON value, as its bytes; of a field alone */

/* What stands at a row of a column instead of a plain value. */
#define FQ_VALUE 0
#define FQ_NULL 1
#define FQ_MISSING 2
#define FQ_DIGITS 3 /* a float that needs exact rounding: its text is given */

/* Where a call failed: the row and the byte of the blob. */
typedef struct {
    int32_t code;
    size_t row;
    size_t offset;
} fq_error;

/* A field of flat args. The name is the raw bytes of its key in JSON. */
typedef struct {
    const char *name;
    uint32_t name_size;
    uint8_t type;
    uint8_t nullable;
    uint8_t required;
} fq_field;

/* The columns of a batch: memory of the caller, field after field.
 *   values     fields * rows * 8 bytes, aligned to 8. Per field, rows of
 *              int64_t or double; of a bool field the first `rows` bytes.
 *   flags      fields * rows: FQ_VALUE, FQ_NULL, FQ_MISSING, FQ_DIGITS.
 *   row_codes  rows: FQ_OK or why the row is left to the twin.
 *   text       at least size + fields * rows bytes: the strings of each
 *              string field, of every row, each followed by NUL (empty for
 *              null, missing or a marked row); of a float field only the
 *              FQ_DIGITS; of a raw field the values of the rows that have
 *              one, null included, each followed by a comma.
 *   text_ends  fields: where in `text` a field's part ends; it begins where
 *              the one before it ends.
 *   odd        fields: how many flags are not FQ_VALUE.
 *   bad        how many rows are marked. In those every flag is FQ_NULL.
 */
typedef struct {
    uint64_t *values;
    uint8_t *flags;
    uint8_t *row_codes;
    char *text;
    size_t text_capacity;
    size_t *text_ends;
    size_t *odd;
    size_t bad;
} fq_columns;

/* One array to encode. `data`: count of int64_t, double or uint8_t; of
 * FQ_TEXT the texts, each ended by NUL but for the last one, `data_size`
 * bytes in all. `nulls`: NULL, or count bytes, 1 where the element is null.
 * `cap`: of FQ_TEXT the most bytes that are kept of each; 0 keeps all. */
typedef struct {
    uint8_t type;
    const void *data;
    size_t data_size;
    const uint8_t *nulls;
    size_t cap;
} fq_array;

/* Return FQ_OK if `size` bytes are one JSON text nested at most `max_depth`
 * (1 to 1024) deep, else the FQ_ROW_* and in `error` the offset. Numbers are
 * only a matter of grammar here. */
int fq_json_check(const char *data, size_t size, size_t max_depth,
                  fq_error *error);

/* Read `rows` JSON objects, separated by a comma and the byte 0x1e, into
 * columns. Returns FQ_OK, also when rows are marked; FQ_E_ARGUMENT (nothing
 * written) or FQ_E_ROWS (columns are of no use). Sizes below 4 GiB. */
int fq_decode_flat(const char *blob, size_t size, size_t rows,
                   const fq_field *fields, size_t field_count,
                   int forbid_unknown, fq_columns *out, fq_error *error);

/* Write `array_count` arrays of `count` elements in Postgres' binary format
 * one after the other; ends[i] says where array i ends. In texts, what is
 * not UTF-8 becomes U+FFFD (a surrogate counts as one character). Returns
 * FQ_OK; FQ_E_SHORT with the needed size in *size (`out` is of no use);
 * FQ_E_ROWS if a text array has not `count` texts; FQ_E_ARGUMENT. */
int fq_encode(const fq_array *arrays, size_t array_count, size_t count,
              char *out, size_t capacity, size_t *ends, size_t *size);
/* --- cdef ends --- */

#endif
