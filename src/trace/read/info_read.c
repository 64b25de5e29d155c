/* SPDX-License-Identifier: Apache-2.0 */
/* Reading INFO: each field of TRACE_INFO_FIELDS (format.h) by the type of its member. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "format/format.h"
#include "base/varint.h"
#include "trace/read/reader.h"

/* A copy that ends with a zero. */
static char *keep_info_text(struct table_reader *r, const uint8_t *bytes, size_t length)
{
	char *text = trace_keep(r->t, &r->chunk, length, 1);

	if (!text)
		return NULL;
	return memcpy(text, bytes, length);
}

static void get_info_command(struct table_reader *r, const uint8_t *bytes, size_t length,
			     const char *const **to)
{
	struct mayfly_trace *t = r->t;
	char *text = keep_info_text(r, bytes, length), *end = text + length;
	size_t count = 0, room = 0;
	const char **command = NULL;

	if (!text)
		return;
	for (size_t i = 0; i < length; i++)
		count += !bytes[i];
	if (length && bytes[length - 1])
		chunk_fail(&r->chunk, MAYFLY_E_DAMAGED);
	if (!tables_grow(r, GROWING(command, room, 0), count))
		return;
	free(t->command);
	*to = t->command = command;
	for (t->info.command_count = 0; text < end; text += strlen(text) + 1)
		command[t->info.command_count++] = text;
}

static void get_info_text(struct table_reader *r, const uint8_t *bytes, size_t length,
			  const char **to)
{
	*to = keep_info_text(r, bytes, length);
}

static void get_info_u64(struct table_reader *r, const uint8_t *bytes, size_t length, uint64_t *to)
{
	struct varint_in in = varint_begin(bytes, length);

	*to = length ? varint_u(&in) : 0;
	if (in.bad)
		chunk_fail(&r->chunk, MAYFLY_E_DAMAGED);
}

static void get_info_u32(struct table_reader *r, const uint8_t *bytes, size_t length, uint32_t *to)
{
	uint64_t value;

	get_info_u64(r, bytes, length, &value);
	*to = value < UINT32_MAX ? (uint32_t)value : UINT32_MAX; /* too much stays too much */
}

static void get_info_bool(struct table_reader *r, const uint8_t *bytes, size_t length, bool *to)
{
	uint64_t value;

	get_info_u64(r, bytes, length, &value);
	*to = value != 0;
}

static void get_info_s64(struct table_reader *r, const uint8_t *bytes, size_t length, int64_t *to)
{
	uint64_t value;

	get_info_u64(r, bytes, length, &value);
	*to = (int64_t)varint_unzigzag(value);
}

static void get_info_s32(struct table_reader *r, const uint8_t *bytes, size_t length, int32_t *to)
{
	int64_t value;

	get_info_s64(r, bytes, length, &value);
	*to = (int32_t)value;
}

static void get_info_double(struct table_reader *r, const uint8_t *bytes, size_t length, double *to)
{
	uint64_t value;

	get_info_u64(r, bytes, length, &value);
	memcpy(to, &value, sizeof(value));
}

/* One field. What an unknown one holds is not looked at. */
static void get_info_field(struct table_reader *r, uint64_t id, const uint8_t *bytes, size_t length)
{
	struct mayfly_info *info = &r->t->info;

	switch (id) {
#define GET(name, id, member)                                                                                  \
	case FIELD_##name:                                                                                     \
		_Generic(&info->member, uint32_t *: get_info_u32, uint64_t *: get_info_u64,                  \
			 int32_t *: get_info_s32, int64_t *: get_info_s64, bool *: get_info_bool,                 \
			 double *: get_info_double, const char **: get_info_text,                            \
			 const char *const **: get_info_command)(r, bytes, length, &info->member); \
		return;
		TRACE_INFO_FIELDS(GET)
#undef GET
	}
	if (id & 1)
		chunk_fail(&r->chunk, MAYFLY_E_VERSION);
}

/* How the events are to be read must be known before they come. */
static void check_info_field(struct table_reader *r, uint64_t id)
{
	bool early = id == FIELD_MODE || id == FIELD_SNAPSHOT;

	if ((early && r->t->chunks) || (id == FIELD_SNAPSHOT && r->t->info.snapshot_ns <= 0))
		chunk_fail(&r->chunk, MAYFLY_E_DAMAGED);
}

/* Intervals of OCaml's heaps are 2^k times a number from 1 to 2, the same for the whole trace. */
static void read_ocaml_rate(struct table_reader *r)
{
	struct mayfly_info *info = &r->t->info;
	int exponent;

	r->t->ocaml_scale = 1;
	if (!info->ocaml_interval_bytes)
		info->ocaml_rate = 0;
	else if (info->ocaml_rate == 0)
		info->ocaml_rate = 8 / (double)info->ocaml_interval_bytes;
	else if (!(info->ocaml_rate > 1e-12 && info->ocaml_rate <= 2))
		chunk_fail(&r->chunk, MAYFLY_E_DAMAGED);
	else
		r->t->ocaml_scale = 2 * frexp(8 / info->ocaml_rate, &exponent);
}

void info_read(struct table_reader *r)
{
	struct varint_in *in = &r->chunk.head;
	struct mayfly_info *info = &r->t->info;

	while (!r->chunk.error && varint_left(in)) {
		uint64_t id = varint_u(in), length = varint_u(in);
		const uint8_t *bytes = varint_bytes(in, length);

		if (!bytes) {
			chunk_fail(&r->chunk, MAYFLY_E_DAMAGED);
			return;
		}
		get_info_field(r, id, bytes, (size_t)length);
		check_info_field(r, id);
	}
	if (info->mode > MAYFLY_EXACT || info->sampler > MAYFLY_POISSON)
		chunk_fail(&r->chunk, MAYFLY_E_VERSION);
	if (info->duration_ns < 0 || info->duration_ns > TRACE_LATEST_NS)
		chunk_fail(&r->chunk, MAYFLY_E_DAMAGED);
	if (info->ending > MAYFLY_END_RUNNING)
		info->ending = MAYFLY_END_UNKNOWN;
	info->heaps &= (1u << MAYFLY_HEAPS) - 1;
	if (info->interval_bytes == 0)
		info->interval_bytes = 1;
	/* Threads of one name are joined there, so that no line of samples is known. */
	if (info->pid == 0 && info->processes == 0)
		info->grouped = false;
	read_ocaml_rate(r);
}
