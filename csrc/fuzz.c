/* fuzz.c - feed the three functions random bytes, under the sanitizers.
 *
 * DESIGN. One target for all: the first bytes of an input choose the function
 * and the shape, the rest is the data. Every input goes in a block of exactly
 * its size, so that a read beyond it is seen; every output too. What the
 * functions promise is checked: flags and codes are among those that
 * fastq.h names, texts are UTF-8 with as many NULs as rows, and an encoding
 * that fits is the one whose size was told.
 *
 * With -DFQ_LIBFUZZER libFuzzer drives it. Else the driver below does:
 * `fuzz RUNS FILE...` tries each file as it is and then mutations of them,
 * from a generator with a fixed seed; a crash names its run, and the input
 * stands in ./crash.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "json.h"

#define CHECK(condition)                                                     \
    do {                                                                     \
        if (!(condition)) {                                                  \
            fail(__LINE__, #condition);                                      \
        }                                                                    \
    } while (0)

static const uint8_t *current; /* what is being tried, to save it */
static size_t current_size;

static void save(void) {
    FILE *file = fopen("crash", "wb");
    if (file != NULL) {
        (void)fwrite(current, 1, current_size, file);
        (void)fclose(file);
    }
}

static void fail(int line, const char *condition) {
    fprintf(stderr, "fuzz.c:%d: not so: %s\n", line, condition);
    save();
    abort();
}

/* Return memory of exactly this size. */
static void *block(size_t size) {
    void *made = malloc(size ? size : 1);
    CHECK(made != NULL);
    return made;
}

/* Check that raw values, each followed by a comma, are a list of so many. */
static void check_raw(const char *text, size_t size, size_t count) {
    CHECK((size == 0) == (count == 0));
    if (size == 0) {
        return;
    }
    char *list = block(size + 1);
    fq_error error;
    list[0] = '[';
    memcpy(list + 1, text, size);
    CHECK(list[size] == ',');
    list[size] = ']';
    CHECK(fq_json_check(list, size + 1, FQ_MAX_DEPTH, &error) == FQ_OK);
    free(list);
}

/* Check what fq_decode_flat has left. */
static void check_columns(const fq_columns *out, const fq_field *fields,
                          size_t width, size_t rows) {
    size_t start = 0, bad = 0;
    for (size_t row = 0; row < rows; row++) {
        uint8_t code = out->row_codes[row];
        bad += code != FQ_OK;
        CHECK(code == FQ_OK || (code >= FQ_ROW_SYNTAX && code <= FQ_ROW_KEY));
    }
    CHECK(bad == out->bad);
    for (size_t field = 0; field < width; field++) {
        size_t odd = 0, digits = 0, nuls = 0;
        const uint8_t *flags = out->flags + field * rows;
        for (size_t row = 0; row < rows; row++) {
            CHECK(flags[row] <= FQ_DIGITS);
            CHECK(out->row_codes[row] == FQ_OK || flags[row] == FQ_NULL);
            odd += flags[row] != FQ_VALUE;
            digits += flags[row] == FQ_DIGITS;
        }
        CHECK(odd == out->odd[field]);
        size_t end = out->text_ends[field];
        CHECK(start <= end && end <= out->text_capacity);
        for (size_t at = start; at < end; at++) {
            nuls += out->text[at] == 0;
        }
        CHECK(nuls == (fields[field].type == FQ_TEXT ? rows : digits));
        if (fields[field].type == FQ_RAW) {
            check_raw((const char *)out->text + start, end - start, rows - odd);
        }
        const uint8_t *text = (const uint8_t *)out->text + start;
        CHECK(json_utf8_prefix(text, end - start) == end - start);
        start = end;
    }
}

static void try_decode(uint8_t shape, size_t rows, const char *data,
                       size_t size) {
    static const char *const names[] = {"n", "f", "s", "b", "name", "\xc3\xa9"};
    fq_field fields[6];
    size_t width = (size_t)shape % 6 + 1;
    for (size_t i = 0; i < width; i++) {
        uint8_t type = (uint8_t)(i % 5 + 1);
        fields[i] = (fq_field){names[i], (uint32_t)strlen(names[i]), type,
                               shape >> 3 & 1, shape >> 4 & 1};
    }
    size_t capacity = size + width * rows;
    fq_columns out = {0};
    out.values = block(width * rows * 8);
    out.flags = block(width * rows);
    out.row_codes = block(rows);
    out.text = block(capacity);
    out.text_capacity = capacity;
    out.text_ends = block(width * sizeof(size_t));
    out.odd = block(width * sizeof(size_t));
    fq_error error;
    if (fq_decode_flat(data, size, rows, fields, width, shape >> 5 & 1, &out,
                       &error) == FQ_OK) {
        check_columns(&out, fields, width, rows);
    }
    free(out.values);
    free(out.flags);
    free(out.row_codes);
    free(out.text);
    free(out.text_ends);
    free(out.odd);
}

/* Texts of the data, and the words, flags and nulls of as many elements. */
static void try_encode(uint8_t shape, const char *data, size_t size) {
    size_t count = 1;
    for (size_t i = 0; i < size; i++) {
        count += data[i] == 0;
    }
    uint8_t *nulls = block(count);
    uint64_t *words = block(count * 8);
    for (size_t i = 0; i < count; i++) {
        nulls[i] = (uint8_t)(shape >> 4 & 1) & (uint8_t)(i & 1);
        words[i] = i * UINT64_C(0x9e3779b97f4a7c15);
    }
    fq_array arrays[] = {{FQ_INT, words, count * 8, NULL, 0},
                         {FQ_TEXT, data, size, nulls, shape & 15},
                         {FQ_BOOL, nulls, count, NULL, 0},
                         {FQ_FLOAT, words, count * 8, nulls, 0}};
    size_t ends[4], need = 0, used = 0;
    size_t little = size % 64; /* the four headers alone have 80 bytes */
    char *small = block(little);
    int code = fq_encode(arrays, 4, count, small, little, ends, &need);
    CHECK(code == FQ_E_SHORT && need > little);
    char *out = block(need);
    CHECK(fq_encode(arrays, 4, count, out, need, ends, &used) == FQ_OK);
    CHECK(used == need && ends[3] == need);
    const uint8_t *at = (uint8_t *)out + ends[0] + 20;
    for (size_t i = 0; i < count; i++) {
        uint32_t length = (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 |
                          (uint32_t)at[2] << 8 | at[3];
        at += 4;
        CHECK((length == UINT32_MAX) == (nulls[i] == 1));
        length = length == UINT32_MAX ? 0 : length;
        CHECK(json_utf8_prefix(at, length) == length);
        at += length;
    }
    CHECK(at == (uint8_t *)out + ends[1]);
    CHECK(fq_encode(arrays, 4, count + 1, out, need, ends, &used) ==
          FQ_E_ARGUMENT);
    arrays[1].nulls = NULL;
    CHECK(fq_encode(arrays + 1, 1, count + 1, out, need, ends, &used) ==
          FQ_E_ROWS);
    free(small);
    free(out);
    free(nulls);
    free(words);
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size) {
    current = input;
    current_size = size;
    if (size < 3) {
        return 0;
    }
    char *data = block(size - 3);
    memcpy(data, input + 3, size - 3);
    fq_error error;
    if (input[0] % 4 == 0) {
        size_t depth = (size_t)input[1] * 4 + 1;
        (void)fq_json_check(data, size - 3, depth, &error);
        CHECK(error.offset <= size - 3);
    } else if (input[0] % 4 == 1) {
        try_encode(input[1], data, size - 3);
    } else {
        try_decode(input[1], (size_t)input[2] % 8 + 1, data, size - 3);
    }
    free(data);
    return 0;
}

#ifndef FQ_LIBFUZZER

#define LONGEST 4096
#define FILES 1024

typedef struct {
    uint8_t *bytes;
    size_t size;
} seed;

static uint64_t state = UINT64_C(0x2545f4914f6cdd1d);

/* Return a random number below `limit` (xorshift64*). */
static size_t below(size_t limit) {
    state ^= state >> 12;
    state ^= state << 25;
    state ^= state >> 27;
    return (size_t)((state * UINT64_C(0x2545f4914f6cdd1d)) >> 33) % limit;
}

/* Change an input of at most LONGEST bytes in place; return its size. */
static size_t mutate(uint8_t *input, size_t size, const seed *other) {
    static const char *const words[] = {
        ",\x1e",  "{",       "}",        "[",         "]",     "\"",
        ":",      ",",       "\\u0000",  "\\ud83d",   "null",  "true",
        "1e400",  "0.1",     "-",        "\"n\":",    "\\",    "\xed\xa0\x80",
        "{\"n\":1}", "\"f\":1.5", "\"s\":\"x\"", "9223372036854775807"};
    size_t at = size ? below(size) : 0;
    switch (below(5)) {
    case 0: /* a bit */
        if (size) {
            input[at] ^= (uint8_t)(1U << below(8));
        }
        return size;
    case 1: /* a byte */
        if (size) {
            input[at] = (uint8_t)below(256);
        }
        return size;
    case 2: { /* less */
        size_t gone = size ? below(size - at) + 1 : 0;
        gone = size ? (gone > 16 ? 16 : gone) : 0;
        memmove(input + at, input + at + gone, size - at - gone);
        return size - gone;
    }
    case 3: { /* a word of JSON more */
        const char *word = words[below(sizeof words / sizeof *words)];
        size_t more = strlen(word);
        if (size + more > LONGEST) {
            return size;
        }
        memmove(input + at + more, input + at, size - at);
        memcpy(input + at, word, more);
        return size + more;
    }
    default: { /* the end of another */
        size_t from = other->size ? below(other->size) : 0;
        size_t more = other->size - from;
        more = more > LONGEST - at ? LONGEST - at : more;
        memcpy(input + at, other->bytes + from, more);
        return at + more;
    }
    }
}

static seed read_seed(const char *path) {
    seed made = {block(LONGEST), 0};
    FILE *file = fopen(path, "rb");
    if (file != NULL) {
        made.size = fread(made.bytes, 1, LONGEST, file);
        (void)fclose(file);
    }
    return made;
}

/* The sanitizers call this before they end the process. */
__attribute__((visibility("default"))) void __asan_on_error(void);
void __asan_on_error(void) {
    save();
}

int main(int count, char **arguments) {
    long runs = count > 1 ? strtol(arguments[1], NULL, 10) : 0;
    static seed seeds[FILES];
    static uint8_t input[LONGEST];
    size_t files = 0;
    for (int i = 2; i < count && files < FILES; i++) {
        seeds[files++] = read_seed(arguments[i]);
    }
    if (runs <= 0 || files == 0) {
        fprintf(stderr, "usage: fuzz RUNS FILE...\n");
        return 2;
    }
    for (long run = 0; run < runs; run++) {
        const seed *chosen = &seeds[(size_t)run % files];
        size_t size = chosen->size;
        memcpy(input, chosen->bytes, size);
        size_t changes = (size_t)run < files ? 0 : below(8) + 1;
        for (size_t i = 0; i < changes; i++) {
            const seed *other = &seeds[below(files)];
            size = mutate(input, size, other);
        }
        (void)LLVMFuzzerTestOneInput(input, size);
    }
    for (size_t i = 0; i < files; i++) {
        free(seeds[i].bytes);
    }
    printf("%ld runs over %zu files: clean\n", runs, files);
    return 0;
}
#endif
