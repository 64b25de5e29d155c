/* SPDX-License-Identifier: Apache-2.0 */
/* Jitdump files: see jit_dump.h. */
#include "record/jit_dump.h"

#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/array.h"
#include "base/interner.h"

#define MAGIC	     0x4a695444u
#define HEADER_BYTES 40u
#define RECORD_BYTES 16u
#define LOAD_BYTES   56u
#define MOVE_BYTES   64u
#define LINES_BYTES  32u
#define ENTRY_BYTES  16u  /* and the file's name */
#define SAME_FILE    0xff /* as a name: that of the entry before */
#define LONGEST_NAME 4096u

enum { CODE_LOAD, CODE_MOVE, DEBUG_INFO };

struct dump {
	struct interner places; /* where code begins -> number in code[] */
	struct jit_code *code;	/* what is there now */
	size_t room;
	struct jit_code lines; /* of the last DEBUG_INFO; only its lines */
	void (*found)(void *context, const struct jit_code *code);
	void *context;
};

static uint32_t number_32(const uint8_t *at)
{
	uint32_t number;

	memcpy(&number, at, sizeof(number));
	return number;
}

static uint64_t number_64(const uint8_t *at)
{
	uint64_t number;

	memcpy(&number, at, sizeof(number));
	return number;
}

static bool add_code(struct dump *d, const struct jit_code *code)
{
	struct key key = {{code->start}};
	bool fresh;
	uint32_t number = interner_add(&d->places, key, &fresh);

	if (number == INTERNER_NONE || !array_reserve(&d->code, &d->room, number, sizeof(*d->code)))
		return false;
	d->code[number] = *code;
	d->found(d->context, code);
	return true;
}

/* pid, tid, place, place, size, index; then the name and the code itself. */
static bool take_load(struct dump *d, const uint8_t *record, size_t size)
{
	struct jit_code code = {0};
	const uint8_t *end;

	if (size <= LOAD_BYTES)
		return true;
	code.start = number_64(record + 32);
	code.size = number_64(record + 40);
	code.name = (const char *)record + LOAD_BYTES;
	end = memchr(code.name, 0, size - LOAD_BYTES);
	if (!end || code.name == (const char *)end || code.start + code.size < code.start)
		return true;
	code.name_length = (size_t)(end - (const uint8_t *)code.name);
	if (code.name_length > LONGEST_NAME)
		code.name_length = LONGEST_NAME;
	if (d->lines.lines && d->lines.lines_start == code.start) {
		code.lines = d->lines.lines;
		code.lines_size = d->lines.lines_size;
		code.lines_count = d->lines.lines_count;
		code.lines_start = code.start;
	}
	d->lines.lines = NULL;
	return add_code(d, &code);
}

/* pid, tid, place, old place, new place, size, index */
static bool take_move(struct dump *d, const uint8_t *record, size_t size)
{
	struct jit_code code;
	struct key key = {{0}};
	uint32_t number;

	if (size < MOVE_BYTES)
		return true;
	key.word[0] = number_64(record + 32);
	number = interner_find(&d->places, key);
	if (number == INTERNER_NONE)
		return true;
	code = d->code[number];
	code.start = number_64(record + 40);
	return code.start + code.size < code.start || add_code(d, &code);
}

static void take_lines(struct dump *d, const uint8_t *record, size_t size)
{
	d->lines = (struct jit_code){0};
	if (size < LINES_BYTES)
		return;
	d->lines.lines_start = number_64(record + 16);
	d->lines.lines_count = number_64(record + 24);
	d->lines.lines = record + LINES_BYTES;
	d->lines.lines_size = size - LINES_BYTES;
}

static bool take_record(struct dump *d, const uint8_t *record, size_t size)
{
	switch (number_32(record)) {
	case CODE_LOAD:
		return take_load(d, record, size);
	case CODE_MOVE:
		return take_move(d, record, size);
	case DEBUG_INFO:
		take_lines(d, record, size);
		return true;
	}
	return true; /* the end, unwinding information, or newer than this */
}

bool jit_dump_read(const uint8_t *data, size_t size,
		   void (*found)(void *context, const struct jit_code *code), void *context)
{
	struct dump d = {.found = found, .context = context};
	bool memory = true;
	size_t at, length;

	/* The magic number of another byte order is another number. */
	if (size < HEADER_BYTES || number_32(data) != MAGIC || number_32(data + 8) < HEADER_BYTES)
		return true;
	for (at = number_32(data + 8); memory && at <= size && size - at >= RECORD_BYTES;
	     at += length) {
		length = number_32(data + at + 4);
		if (length < RECORD_BYTES || length > size - at)
			break;
		memory = take_record(&d, data + at, length);
	}
	free(d.code);
	interner_free(&d.places);
	return memory;
}

/* The last entry at the highest address up to this one. */
bool jit_code_line(const struct jit_code *code, uint64_t address, struct jit_line *line)
{
	const uint8_t *at = code->lines, *end = at + code->lines_size;
	uint64_t pc = address - code->start + code->lines_start, best = code->lines_start;
	const uint8_t *file = NULL;
	bool known = false;

	if (!code->lines)
		return false;
	for (uint64_t i = 0; i < code->lines_count && end - at > ENTRY_BYTES; i++) {
		uint64_t place = number_64(at);
		const uint8_t *name = at + ENTRY_BYTES;
		const uint8_t *stop = memchr(name, 0, (size_t)(end - name));
		uint32_t number = number_32(at + 8);

		if (!stop)
			break;
		if (stop - name != 1 || *name != SAME_FILE)
			file = name;
		if (file && place >= best && place <= pc) {
			best = place;
			line->file = (const char *)file;
			line->file_length = strnlen((const char *)file, LONGEST_NAME);
			line->line = number;
			known = number <= INT32_MAX && number > 0 && *file;
		}
		at = stop + 1;
	}
	return known;
}
