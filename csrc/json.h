/* json.h - the scanner: JSON as bytes, and nothing of jobs.
 *
 * DESIGN. A cursor walks from `at` to `end` and never reads at `end`. Each
 * function takes one thing off the cursor and returns FQ_OK, or a FQ_ROW_*
 * with the cursor at the byte to blame. What runs for every byte of a batch
 * is inline here; what is rare (escapes, UTF-8, nesting) is in json.c.
 * A raw control character is refused everywhere, 0x1e among them: a scan
 * never runs past the separator of its row.
 */
#ifndef FASTQ_JSON_H
#define FASTQ_JSON_H

#include <float.h>
#include <string.h>

#include "fastq.h"

typedef struct {
    const uint8_t *at;
    const uint8_t *end;
} json_cursor;

/* The inside of a string, without its quotes. */
typedef struct {
    const uint8_t *start;
    size_t size;
    int escaped; /* there is a backslash: json_unescape() it */
    int high;    /* there is a byte beyond ASCII */
    int nul;     /* there is an escaped NUL */
} json_text;

/* A number: (-1)^negative * digits * 10^exponent, if `exact`. */
typedef struct {
    const uint8_t *start;
    size_t size;
    uint64_t digits;
    int64_t exponent;
    int negative;
    int whole; /* no fraction and no exponent were written */
    int exact; /* `digits` holds all of them: at most 19 */
} json_number;

int json_string_rest(json_cursor *cursor, json_text *text);
size_t json_utf8_prefix(const uint8_t *data, size_t size);
int json_check_escapes(json_text *text);
size_t json_unescape(const uint8_t *data, size_t size, uint8_t *out);
int json_number_long(json_cursor *cursor, json_number *number);
int json_skip(json_cursor *cursor, size_t max_depth);

#define JSON_ONES UINT64_C(0x0101010101010101)
#define JSON_HIGHS UINT64_C(0x8080808080808080)

/* Return non-zero if one of 8 bytes is a quote, a backslash, a control
 * character or beyond ASCII. 8 bytes at once: 0.02 us less for a row with a
 * string of 20 bytes than byte by byte. */
static inline uint64_t json_odd_bytes(uint64_t bytes) {
    uint64_t quotes = bytes ^ (JSON_ONES * '"');
    uint64_t slashes = bytes ^ (JSON_ONES * '\\');
    uint64_t found = (bytes - JSON_ONES * 0x20) | (quotes - JSON_ONES) |
                     (slashes - JSON_ONES) | bytes;
    return found & JSON_HIGHS;
}

static inline void json_space(json_cursor *cursor) {
    while (cursor->at < cursor->end && *cursor->at <= ' ' &&
           (*cursor->at == ' ' || *cursor->at == '\n' || *cursor->at == '\r' ||
            *cursor->at == '\t')) {
        cursor->at++;
    }
}

/* Take `byte` if it is next. */
static inline int json_take(json_cursor *cursor, uint8_t byte) {
    if (cursor->at >= cursor->end || *cursor->at != byte) {
        return 0;
    }
    cursor->at++;
    return 1;
}

/* Take a string whose opening quote has been taken. Not-UTF-8 and wrong
 * escapes are refused. */
static inline int json_string(json_cursor *cursor, json_text *text) {
    const uint8_t *at = cursor->at;
    text->start = at;
    while (cursor->end - at >= 8) {
        uint64_t bytes;
        memcpy(&bytes, at, 8);
        if (json_odd_bytes(bytes)) {
            break;
        }
        at += 8;
    }
    while (at < cursor->end && *at >= 0x20 && *at < 0x80 && *at != '"' &&
           *at != '\\') {
        at++;
    }
    cursor->at = at;
    if (at < cursor->end && *at == '"') {
        text->size = (size_t)(at - text->start);
        text->escaped = text->high = text->nul = 0;
        cursor->at++;
        return FQ_OK;
    }
    return json_string_rest(cursor, text);
}

static inline int json_digit(const json_cursor *cursor) {
    return cursor->at < cursor->end && *cursor->at >= '0' && *cursor->at <= '9';
}

/* Take digits as long as `digits` has room for them: 18 in all. */
static inline size_t json_digits(json_cursor *cursor, json_number *number,
                                 size_t room) {
    const uint8_t *first = cursor->at;
    while (json_digit(cursor) && (size_t)(cursor->at - first) < room) {
        number->digits = number->digits * 10 + (uint64_t)(*cursor->at - '0');
        cursor->at++;
    }
    return (size_t)(cursor->at - first);
}

/* Take a number that begins here. */
static inline int json_number_take(json_cursor *cursor, json_number *number) {
    number->start = cursor->at;
    number->negative = json_take(cursor, '-');
    number->digits = 0;
    number->exponent = 0;
    number->whole = number->exact = 1;
    const uint8_t *first = cursor->at;
    size_t count = json_digits(cursor, number, 18);
    if (count == 0 || (count > 1 && *first == '0')) {
        cursor->at = first;
        return FQ_ROW_SYNTAX;
    }
    if (cursor->at < cursor->end && *cursor->at == '.') {
        cursor->at++;
        number->whole = 0;
        size_t places = json_digits(cursor, number, 18 - count);
        number->exponent = -(int64_t)places;
        if (places == 0) { /* wrong, or too many before the point */
            cursor->at = first;
            return json_number_long(cursor, number);
        }
    }
    if (cursor->at < cursor->end && (json_digit(cursor) ||
                                     (*cursor->at | 0x20) == 'e')) {
        cursor->at = first;
        return json_number_long(cursor, number);
    }
    number->size = (size_t)(cursor->at - number->start);
    return FQ_OK;
}

/* Take the rest of true, false or null. */
static inline int json_word(json_cursor *cursor, const char *word,
                            size_t size) {
    if ((size_t)(cursor->end - cursor->at) < size ||
        memcmp(cursor->at, word, size) != 0) {
        return FQ_ROW_SYNTAX;
    }
    cursor->at += size;
    return FQ_OK;
}

/* Compute the double if one multiplication or division of two exact doubles
 * gives it: then it is rounded once, as it must be. */
static inline int json_exact_double(const json_number *number, double *value) {
    /* Powers of ten that a double holds exactly. */
    static const double powers[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,
                                    1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                                    1e12, 1e13, 1e14, 1e15, 1e16, 1e17,
                                    1e18, 1e19, 1e20, 1e21, 1e22};
    if (number->whole && number->exact && number->size <= 18) {
        /* "-0" is the whole number 0 */
        *value = number->negative ? (double)-(int64_t)number->digits
                                  : (double)number->digits;
        return 1;
    }
    if (FLT_EVAL_METHOD != 0 || !number->exact ||
        number->digits > UINT64_C(1) << 53 || number->exponent < -22 ||
        number->exponent > 22) {
        return 0;
    }
    double digits = (double)number->digits;
    double power =
        powers[number->exponent < 0 ? -number->exponent : number->exponent];
    double scaled = number->exponent < 0 ? digits / power : digits * power;
    *value = number->negative ? -scaled : scaled;
    return 1;
}

#endif
