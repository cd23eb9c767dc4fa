/* json.c - the rare half of the scanner: escapes, UTF-8, long numbers, and
 * values that are only walked over. json.h tells the rules.
 */
#include "json.h"

/* The largest exponent that is followed; what is larger is no double and
 * must only not overflow. */
#define EXPONENT_LIMIT 100000

static int hex_value(uint8_t byte) {
    if (byte >= '0' && byte <= '9') {
        return byte - '0';
    }
    byte |= 0x20;
    return byte >= 'a' && byte <= 'f' ? byte - 'a' + 10 : -1;
}

/* Return the 16 bits of the four digits at `at`, or -1. */
static int32_t hex_unit(const uint8_t *at, const uint8_t *end) {
    if (end - at < 4) {
        return -1;
    }
    int32_t unit = 0;
    for (int i = 0; i < 4; i++) {
        int value = hex_value(at[i]);
        if (value < 0) {
            return -1;
        }
        unit = unit * 16 + value;
    }
    return unit;
}

/* Finish a string in which something other than plain ASCII was met. */
int json_string_rest(json_cursor *cursor, json_text *text) {
    text->escaped = text->high = text->nul = 0;
    for (;;) {
        if (cursor->at >= cursor->end || *cursor->at < 0x20) {
            return FQ_ROW_SYNTAX;
        }
        uint8_t byte = *cursor->at;
        if (byte == '"') {
            break;
        }
        text->high |= byte >= 0x80;
        if (byte == '\\') {
            text->escaped = 1;
            cursor->at++;
            if (cursor->at >= cursor->end || *cursor->at < 0x20) {
                return FQ_ROW_SYNTAX;
            }
        }
        cursor->at++;
    }
    text->size = (size_t)(cursor->at - text->start);
    cursor->at++;
    if (text->high &&
        json_utf8_prefix(text->start, text->size) != text->size) {
        return FQ_ROW_TEXT;
    }
    return text->escaped ? json_check_escapes(text) : FQ_OK;
}

/* Return the bytes of the well-formed character at `at`, 0 if it is none:
 * table 3-7 of the Unicode standard. */
static size_t utf8_length(const uint8_t *at, const uint8_t *end) {
    size_t left = (size_t)(end - at);
    uint8_t first = at[0];
    if (first < 0x80) {
        return 1;
    }
    size_t length = first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
    if (first < 0xc2 || first > 0xf4 || left < length) {
        return 0;
    }
    uint8_t lowest = first == 0xe0 ? 0xa0 : first == 0xf0 ? 0x90 : 0x80;
    uint8_t highest = first == 0xed ? 0x9f : first == 0xf4 ? 0x8f : 0xbf;
    if (at[1] < lowest || at[1] > highest) {
        return 0;
    }
    for (size_t i = 2; i < length; i++) {
        if ((at[i] & 0xc0) != 0x80) {
            return 0;
        }
    }
    return length;
}

/* Return how many bytes from the start are well-formed UTF-8. */
size_t json_utf8_prefix(const uint8_t *data, size_t size) {
    const uint8_t *at = data, *end = data + size;
    while (at < end) {
        uint64_t bytes;
        if (end - at >= 8) {
            memcpy(&bytes, at, 8);
            if ((bytes & JSON_HIGHS) == 0) {
                at += 8;
                continue;
            }
        }
        size_t length = utf8_length(at, end);
        if (length == 0) {
            break;
        }
        at += length;
    }
    return (size_t)(at - data);
}

/* Check the escapes of a string in which no backslash is the last byte. */
int json_check_escapes(json_text *text) {
    const uint8_t *at = text->start, *end = text->start + text->size;
    while ((at = memchr(at, '\\', (size_t)(end - at))) != NULL) {
        if (end - at < 2 || memchr("\"\\/bfnrtu", at[1], 9) == NULL) {
            return FQ_ROW_SYNTAX;
        }
        if (at[1] != 'u') {
            at += 2;
            continue;
        }
        int32_t unit = hex_unit(at + 2, end);
        if (unit < 0) {
            return FQ_ROW_SYNTAX;
        }
        at += 6;
        text->nul |= unit == 0;
        if (unit >= 0xdc00 && unit <= 0xdfff) {
            return FQ_ROW_TEXT;
        }
        if (unit >= 0xd800 && unit <= 0xdbff) {
            if (end - at < 6 || at[0] != '\\' || at[1] != 'u') {
                return FQ_ROW_TEXT;
            }
            int32_t low = hex_unit(at + 2, end);
            if (low < 0xdc00 || low > 0xdfff) {
                return FQ_ROW_TEXT;
            }
            at += 6;
        }
    }
    return FQ_OK;
}

static size_t put_utf8(uint32_t point, uint8_t *out) {
    if (point < 0x80) {
        out[0] = (uint8_t)point;
        return 1;
    }
    if (point < 0x800) {
        out[0] = (uint8_t)(0xc0 | point >> 6);
        out[1] = (uint8_t)(0x80 | (point & 0x3f));
        return 2;
    }
    if (point < 0x10000) {
        out[0] = (uint8_t)(0xe0 | point >> 12);
        out[1] = (uint8_t)(0x80 | (point >> 6 & 0x3f));
        out[2] = (uint8_t)(0x80 | (point & 0x3f));
        return 3;
    }
    out[0] = (uint8_t)(0xf0 | point >> 18);
    out[1] = (uint8_t)(0x80 | (point >> 12 & 0x3f));
    out[2] = (uint8_t)(0x80 | (point >> 6 & 0x3f));
    out[3] = (uint8_t)(0x80 | (point & 0x3f));
    return 4;
}

static uint8_t unescaped(uint8_t letter) {
    switch (letter) {
    case 'b':
        return '\b';
    case 'f':
        return '\f';
    case 'n':
        return '\n';
    case 'r':
        return '\r';
    case 't':
        return '\t';
    default:
        return letter;
    }
}

/* Write a string that json_check_escapes() has passed; returns its bytes,
 * never more than `size`: the shortest escape of a character is not shorter
 * than its UTF-8. */
size_t json_unescape(const uint8_t *data, size_t size, uint8_t *out) {
    const uint8_t *at = data, *end = data + size;
    uint8_t *to = out;
    while (at < end) {
        const uint8_t *slash = memchr(at, '\\', (size_t)(end - at));
        size_t plain = (size_t)((slash ? slash : end) - at);
        memcpy(to, at, plain);
        to += plain;
        at += plain;
        if (slash == NULL) {
            break;
        }
        if (at[1] != 'u') {
            *to++ = unescaped(at[1]);
            at += 2;
            continue;
        }
        uint32_t point = (uint32_t)hex_unit(at + 2, end);
        at += 6;
        if (point >= 0xd800 && point <= 0xdbff) {
            uint32_t low = (uint32_t)hex_unit(at + 2, end);
            point = 0x10000 + ((point - 0xd800) << 10) + (low - 0xdc00);
            at += 6;
        }
        to += put_utf8(point, to);
    }
    return (size_t)(to - out);
}

/* Add digits to the number; leading zeros are no digits of it. */
static size_t more_digits(json_cursor *cursor, json_number *number) {
    const uint8_t *first = cursor->at;
    while (json_digit(cursor)) {
        /* 19 digits are below 10^19 < 2^64 */
        if (number->digits >= UINT64_C(1000000000000000000)) {
            number->exact = 0;
        } else {
            number->digits =
                number->digits * 10 + (uint64_t)(*cursor->at - '0');
        }
        cursor->at++;
    }
    return (size_t)(cursor->at - first);
}

/* Take a number with a fraction, an exponent or more than 18 digits, from
 * its first digit on; a leading zero has been found to stand alone. */
int json_number_long(json_cursor *cursor, json_number *number) {
    number->digits = 0;
    number->exponent = 0;
    number->whole = 1;
    more_digits(cursor, number);
    if (json_take(cursor, '.')) {
        number->whole = 0;
        size_t count = more_digits(cursor, number);
        if (count == 0) {
            return FQ_ROW_SYNTAX;
        }
        number->exponent = -(int64_t)count;
    }
    if (cursor->at < cursor->end && (*cursor->at | 0x20) == 'e') {
        number->whole = 0;
        cursor->at++;
        int minus = json_take(cursor, '-');
        if (!minus) {
            (void)json_take(cursor, '+');
        }
        if (!json_digit(cursor)) {
            return FQ_ROW_SYNTAX;
        }
        int64_t exponent = 0;
        for (; json_digit(cursor); cursor->at++) {
            if (exponent < EXPONENT_LIMIT) {
                exponent = exponent * 10 + (*cursor->at - '0');
            }
        }
        number->exponent += minus ? -exponent : exponent;
    }
    number->size = (size_t)(cursor->at - number->start);
    return FQ_OK;
}

/* Take a value that is neither an object nor an array. */
static int skip_scalar(json_cursor *cursor) {
    json_text text;
    json_number number;
    switch (*cursor->at) {
    case '"':
        cursor->at++;
        return json_string(cursor, &text);
    case 't':
        return json_word(cursor, "true", 4);
    case 'f':
        return json_word(cursor, "false", 5);
    case 'n':
        return json_word(cursor, "null", 4);
    default:
        return json_number_take(cursor, &number);
    }
}

/* Take a key and its colon. */
static int skip_key(json_cursor *cursor) {
    json_text text;
    json_space(cursor);
    if (!json_take(cursor, '"')) {
        return FQ_ROW_SYNTAX;
    }
    int code = json_string(cursor, &text);
    if (code != FQ_OK) {
        return code;
    }
    json_space(cursor);
    return json_take(cursor, ':') ? FQ_OK : FQ_ROW_SYNTAX;
}

#define WORDS 16 /* 1024 levels: one bit each, so no recursion */

/* Close what can be closed and take the comma after that; `depth` 0 means
 * that the value is complete. */
static int skip_ends(json_cursor *cursor, const uint64_t *objects,
                     size_t *depth) {
    while (*depth > 0) {
        size_t level = *depth - 1;
        int object = objects[level / 64] >> level % 64 & 1;
        json_space(cursor);
        if (json_take(cursor, ',')) {
            return object ? skip_key(cursor) : FQ_OK;
        }
        if (!json_take(cursor, object ? '}' : ']')) {
            return FQ_ROW_SYNTAX;
        }
        --*depth;
    }
    return FQ_OK;
}

/* Take any value, nested at most `max_depth` (<= 1024) deep. */
int json_skip(json_cursor *cursor, size_t max_depth) {
    uint64_t objects[WORDS] = {0};
    size_t depth = 0;
    do {
        json_space(cursor);
        if (cursor->at >= cursor->end) {
            return FQ_ROW_SYNTAX;
        }
        int code;
        uint8_t opening = *cursor->at;
        if (opening == '{' || opening == '[') {
            if (depth >= max_depth || depth >= (size_t)WORDS * 64) {
                return FQ_ROW_DEPTH;
            }
            uint64_t bit = UINT64_C(1) << depth % 64;
            uint64_t *word = &objects[depth / 64];
            *word = opening == '{' ? *word | bit : *word & ~bit;
            depth++;
            cursor->at++;
            json_space(cursor);
            if (json_take(cursor, opening == '{' ? '}' : ']')) {
                depth--;
                code = skip_ends(cursor, objects, &depth);
            } else {
                code = opening == '{' ? skip_key(cursor) : FQ_OK;
            }
        } else {
            code = skip_scalar(cursor);
            if (code == FQ_OK) {
                code = skip_ends(cursor, objects, &depth);
            }
        }
        if (code != FQ_OK) {
            return code;
        }
    } while (depth > 0);
    return FQ_OK;
}

int fq_json_check(const char *data, size_t size, size_t max_depth,
                  fq_error *error) {
    const uint8_t *start = (const uint8_t *)data;
    json_cursor cursor = {start, start + size};
    error->row = 0;
    error->offset = 0;
    if (max_depth == 0 || max_depth > (size_t)WORDS * 64) {
        return error->code = FQ_E_ARGUMENT;
    }
    int code = json_skip(&cursor, max_depth);
    json_space(&cursor);
    if (code == FQ_OK && cursor.at != cursor.end) {
        code = FQ_ROW_SYNTAX;
    }
    error->offset = (size_t)(cursor.at - start);
    return error->code = code;
}
