/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzz target: the fields of a pprof profile beside its samples, in a profile that is sound otherwise.
 * The input is a list of fields: the number, the kind, and
 *
 *	0  a number of 8 bytes		1  a length, and a text: the field has its number
 *	2  a length, and bytes
 */
#include <stdlib.h>
#include <string.h>

#include "convert/import/importer.h"
#include "convert/import/imports.h"
#include "base/bytes.h"

#include "fuzz_main.h"

static void put_number(struct bytes *b, uint64_t value)
{
	for (; value >= 0x80; value >>= 7)
		bytes_put(b, &(uint8_t){(uint8_t)(value | 0x80)}, 1);
	bytes_put(b, &(uint8_t){(uint8_t)value}, 1);
}

static void put_field(struct bytes *b, unsigned field, uint64_t value)
{
	put_number(b, field << 3);
	put_number(b, value);
}

static void put_bytes(struct bytes *b, unsigned field, const void *bytes, size_t size)
{
	put_number(b, field << 3 | 2);
	put_number(b, size);
	bytes_put(b, bytes, size);
}

static void put_pair(struct bytes *b, unsigned field, uint64_t first, uint64_t second)
{
	struct bytes inner = {0};

	put_field(&inner, 1, first);
	put_field(&inner, 2, second);
	put_bytes(b, field, inner.at, inner.used);
	bytes_free(&inner);
}

/* Two sample types, a stack of two, its functions. */
static void put_profile(struct bytes *b)
{
	static const char *const texts[] = {"",	     "inuse_objects", "count",
					    "bytes", "inuse_space",   "leaf_function",
					    "main",  "file.c"};
	static const uint8_t sample[] = {8, 1, 8, 2, 16, 4, 16, 200, 1};

	put_pair(b, 1, 1, 2);
	put_pair(b, 1, 4, 3);
	put_bytes(b, 2, sample, sizeof(sample));
	for (uint64_t i = 1; i <= 2; i++) {
		struct bytes location = {0};

		put_field(&location, 1, i);
		put_field(&location, 3, 0x1000 * i);
		put_pair(&location, 4, i, 10 * i);
		put_bytes(b, 4, location.at, location.used);
		bytes_free(&location);
		put_pair(b, 5, i, 4 + i);
	}
	for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++)
		put_bytes(b, 6, texts[i], strlen(texts[i]));
}

static void put_fields(struct bytes *b, const uint8_t *at, size_t size)
{
	uint64_t texts = 8;

	while (size >= 3) {
		unsigned field = at[0] % 20, kind = at[1] % 3;
		size_t length = kind ? at[2] : 8;
		uint64_t number = 0;

		at += kind ? 3 : 2;
		size -= kind ? 3 : 2;
		if (length > size)
			length = size;
		if (kind == 2) {
			put_bytes(b, field, at, length);
		} else if (kind == 1) {
			put_bytes(b, 6, at, length);
			put_field(b, field, texts++);
		} else {
			memcpy(&number, at, length);
			put_field(b, field, number);
		}
		at += length;
		size -= length;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct trace_buffer out = {0};
	struct import in = {.sink = trace_buffer_sink, .context = &out};
	struct bytes profile = {0};
	struct mayfly_trace *t;

	put_profile(&profile);
	put_fields(&profile, data, size);
	in.data = profile.at;
	in.size = profile.used;
	if (!profile.failed && import_run(&in, pprof_import) == 0) {
		if (mayfly_trace_open(out.bytes, out.used, &t))
			abort();
		mayfly_trace_close(t);
	}
	if (!memchr(in.report.left_out, 0, sizeof(in.report.left_out)) ||
	    !memchr(in.report.problem, 0, sizeof(in.report.problem)))
		abort();
	free(out.bytes);
	bytes_free(&profile);
	return 0;
}
