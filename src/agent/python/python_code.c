/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Code objects of CPython: see python_code.h.
 *
 * What identifies one is its names, its first line and its table of lines. In exact mode each free is
 * seen, so that an object which has been compared need not be again until its memory is freed.
 */
#include "agent/python/python_code.h"

#include "agent/records.h"

#define NAME_BYTES 512u
#define LINES_MOST (16u << 20) /* bytes of a table of lines */

struct python_layout python_layout;
const void *python_code_type;

static inline uintptr_t word_at(const char *object, size_t offset)
{
	return *(const uintptr_t *)(object + offset);
}

static inline uint64_t size_of(const char *object)
{
	return word_at(object, 16); /* ob_size, and the length of a string */
}

static uint64_t units_of(const char *object)
{
	if (!python_layout.code_code)
		return size_of(object);
	return size_of((const char *)word_at(object, python_layout.code_code)) / 2;
}

#define BYTES_DATA 32 /* in a bytes object */
#define TEXT_HASH  24 /* in a string */
#define TEXT_STATE 32

/* A long table of lines is represented by 16 words at equal distances and the last one. */
static uint64_t hash_of(const char *object)
{
	const char *lines = (const char *)word_at(object, python_layout.code_linetable);
	const char *at = lines + BYTES_DATA;
	uint64_t size = size_of(lines), step = 8 * (1 + size / 128), k = 0;
	uint64_t hash =
	    codes_mix(*(const uint32_t *)(object + python_layout.code_firstlineno), size);

	for (; k + 8 <= size; k += step)
		hash = codes_mix(hash, word_at(at, k));
	if (size >= 8)
		hash = codes_mix(hash, word_at(at, size - 8));
	for (k = 0; size < 8 && k < size; k++)
		hash = codes_mix(hash, (uint8_t)at[k]);
	return codes_mix(
	    hash, word_at((const char *)word_at(object, python_layout.code_qualname), TEXT_HASH));
}

static __attribute__((noinline)) struct code *compare_code(const char *object, uint32_t version)
{
	struct code_seen seen = {
	    .object = object,
	    .part = {word_at(object, python_layout.code_filename),
		     word_at(object, python_layout.code_qualname),
		     word_at(object, python_layout.code_linetable)},
	    .units = units_of(object),
	    .hash = hash_of(object),
	};

	return codes_compared(&seen, version);
}

/* ---- texts ---- */

static size_t put_utf8(char *out, uint32_t c)
{
	if (c < 0x80) {
		out[0] = (char)c;
		return 1;
	}
	if (c < 0x800) {
		out[0] = (char)(0xc0 | c >> 6);
		out[1] = (char)(0x80 | (c & 63));
		return 2;
	}
	if (c < 0x10000) {
		out[0] = (char)(0xe0 | c >> 12);
		out[1] = (char)(0x80 | (c >> 6 & 63));
		out[2] = (char)(0x80 | (c & 63));
		return 3;
	}
	out[0] = (char)(0xf0 | (c >> 18 & 7));
	out[1] = (char)(0x80 | (c >> 12 & 63));
	out[2] = (char)(0x80 | (c >> 6 & 63));
	out[3] = (char)(0x80 | (c & 63));
	return 4;
}

/* Copies a string object as UTF-8. Of a long one the end is kept if it is a path. */
static void copy_text(char *out, const char *text, bool keep_end)
{
	uint32_t state = *(const uint32_t *)(text + TEXT_STATE);
	uint32_t kind = state >> 2 & 7;
	bool compact = state >> 5 & 1, ascii = state >> 6 & 1;
	uint64_t length = size_of(text), from = 0;
	const char *data = text + (ascii ? python_layout.text : python_layout.wide_text);
	size_t used = 0;

	if (!compact)
		length = 0;
	if (keep_end && length > NAME_BYTES / 4)
		from = ascii && length < NAME_BYTES ? 0 : length - NAME_BYTES / 4;
	for (uint64_t i = from; i < length && used + 5 < NAME_BYTES; i++) {
		uint32_t c = kind == 1	 ? ((const uint8_t *)data)[i]
			     : kind == 2 ? ((const uint16_t *)data)[i]
					 : ((const uint32_t *)data)[i];

		used += put_utf8(out + used, c);
	}
	out[used] = 0;
}

/* ---- lines ---- */

static uint32_t read_number(const uint8_t **at, const uint8_t *end)
{
	uint32_t number = 0, shift = 0;

	while (*at < end) {
		uint8_t byte = *(*at)++;

		number |= (uint32_t)(byte & 63) << shift;
		shift += 6;
		if (!(byte & 64) || shift > 30)
			break;
	}
	return number;
}

static int32_t read_signed(const uint8_t **at, const uint8_t *end)
{
	uint32_t number = read_number(at, end);

	return number & 1 ? -(int32_t)(number >> 1) : (int32_t)(number >> 1);
}

/*
 * The table has an entry for each run of 1 to 8 instructions. Its first byte is 1, 4 bits of kind, 3
 * bits of length; the columns that follow are skipped by the next byte whose top bit is set.
 */
enum { ONE_LINE = 10, NO_COLUMNS = 13, LONG = 14, NO_LINE = 15 };

static uint32_t line_in(const uint8_t *at, const uint8_t *end, int32_t line, uint64_t unit)
{
	uint64_t here = 0;

	while (at < end) {
		uint32_t kind = *at >> 3 & 15;

		here += (*at++ & 7) + 1;
		if (kind == LONG || kind == NO_COLUMNS)
			line += read_signed(&at, end);
		else if (kind >= ONE_LINE && kind < NO_COLUMNS)
			line += (int32_t)kind - ONE_LINE;
		if (here > unit)
			return kind == NO_LINE || line < 0 ? 0 : (uint32_t)line;
		while (at < end && !(*at & 0x80))
			at++;
	}
	return 0;
}

/* 3.8 and 3.9: pairs of bytes until the next line begins, and by how much that is larger. */
static uint32_t line_in_38(const uint8_t *at, const uint8_t *end, int32_t line, uint64_t unit)
{
	uint64_t here = 0;

	for (; end - at >= 2; at += 2) {
		here += at[0];
		if (here > 2 * unit)
			break;
		line += (int8_t)at[1];
	}
	return line < 0 ? 0 : (uint32_t)line;
}

/* 3.10: pairs of for how many bytes a line goes on, and by how much it is larger than the one before;
 * NO_LINE_310: there is none. */
#define NO_LINE_310 (-128)

static uint32_t line_in_310(const uint8_t *at, const uint8_t *end, int32_t line, uint64_t unit)
{
	uint64_t here = 0;

	for (; end - at >= 2; at += 2) {
		bool none = (int8_t)at[1] == NO_LINE_310;

		here += at[0];
		if (!none)
			line += (int8_t)at[1];
		if (here > 2 * unit)
			return none || line < 0 ? 0 : (uint32_t)line;
	}
	return 0;
}

uint32_t python_code_line(const char *code, uint64_t unit)
{
	const char *lines = (const char *)word_at(code, python_layout.code_linetable);
	uint64_t length = size_of(lines);
	const uint8_t *at = (const uint8_t *)lines + BYTES_DATA;
	const uint8_t *end = at + (length < LINES_MOST ? length : LINES_MOST);
	int32_t line = *(const int32_t *)(code + python_layout.code_firstlineno);

	switch (python_layout.lines) {
	case PYTHON_LINES:
		return line_in(at, end, line, unit);
	case PYTHON_LINES_310:
		return line_in_310(at, end, line, unit);
	case PYTHON_LINES_38:
		break;
	}
	return line_in_38(at, end, line, unit);
}

static COLD void write_place(struct writer *w, const char *object, uint64_t address, uint64_t unit)
{
	char function[NAME_BYTES], file[NAME_BYTES];
	struct records_place place = {function, file, python_code_line(object, unit), 0, 0};

	copy_text(function, (const char *)word_at(object, python_layout.code_qualname), false);
	copy_text(file, (const char *)word_at(object, python_layout.code_filename), true);
	records_place(w, agent_ticks(), address, &place, 1);
}

uint64_t python_code_find(struct writer *w, struct codes_latest *latest, const char *object,
			  uintptr_t instruction)
{
	uint32_t version = codes_frees_seen();
	uint64_t unit = (instruction - (uintptr_t)object - python_layout.code_bytecode) / 2;
	struct code *code;
	uint64_t address;
	bool is_new;

	/* Without references it is being taken apart, and its strings may be gone. */
	if (!object || (uintptr_t)object & 7 || word_at(object, 0) == 0 ||
	    word_at(object, 8) != (uintptr_t)python_code_type)
		return 0;
	code = codes_known(object, version);
	if (!code)
		code = compare_code(object, version);
	if (!code)
		return 0;
	address = codes_address(code, &unit, &is_new);
	if (UNLIKELY(is_new))
		write_place(w, object, address, unit);
	if (version)
		codes_keep_latest(latest, object, instruction, address);
	return address;
}
