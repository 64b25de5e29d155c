/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writing INFO: each field of TRACE_INFO_FIELDS (format.h) by the type of its member. A field that
 * is absent is 0 or empty; one that comes again, in a later INFO, replaces the first.
 */
#include "trace/write/info_write.h"

#include <string.h>

#include "format/format.h"
#include "base/varint.h"

/* The field of this id in the first INFO, NULL when it has none. */
static const uint8_t *field_before(const struct bytes *before, unsigned id, size_t *length)
{
	struct varint_in in = varint_begin(before->at, before->used);

	while (varint_left(&in)) {
		uint64_t here = varint_u(&in), size = varint_u(&in);
		const uint8_t *bytes = varint_bytes(&in, size);

		*length = (size_t)size;
		if (here == id)
			return bytes;
	}
	return NULL;
}

/* A field that differs from what the first INFO has. */
static void put_info_field(struct bytes *b, const struct bytes *before, unsigned id,
			   const void *data, size_t length)
{
	size_t old_length = 0;
	const uint8_t *old = field_before(before, id, &old_length);
	bool nothing =
	    length == 0 || (length == 1 && *(const uint8_t *)data == 0 && id != FIELD_COMMAND);

	if (old ? old_length == length && memcmp(old, data, length) == 0 : nothing)
		return;
	bytes_put_u(b, id);
	bytes_put_u(b, length);
	bytes_put(b, data, length);
}

struct info_writer {
	const struct recording *r;
	const struct bytes *before;
	struct bytes *fields;
};

static void put_info_u64(struct info_writer *i, unsigned id, const uint64_t *value)
{
	uint8_t coded[10];

	put_info_field(i->fields, i->before, id, coded, varint_store(coded, *value));
}

static void put_info_u32(struct info_writer *i, unsigned id, const uint32_t *value)
{
	put_info_u64(i, id, &(uint64_t){*value});
}

static void put_info_bool(struct info_writer *i, unsigned id, const bool *value)
{
	put_info_u64(i, id, &(uint64_t){*value});
}

static void put_info_s64(struct info_writer *i, unsigned id, const int64_t *value)
{
	put_info_u64(i, id, &(uint64_t){varint_zigzag(*value)});
}

static void put_info_s32(struct info_writer *i, unsigned id, const int32_t *value)
{
	put_info_s64(i, id, &(int64_t){*value});
}

static void put_info_double(struct info_writer *i, unsigned id, const double *value)
{
	uint64_t bits;

	memcpy(&bits, value, sizeof(bits));
	put_info_u64(i, id, &bits);
}

static void put_info_text(struct info_writer *i, unsigned id, const char *const *text)
{
	put_info_field(i->fields, i->before, id, *text, strlen(*text));
}

/* The arguments stand together, so that they can be replaced together. */
static void put_info_command(struct info_writer *i, unsigned id, const char *const *const *unused)
{
	const struct recording *r = i->r;
	struct bytes b = {0};

	(void)unused;
	for (size_t k = 0; k < r->command_count; k++) {
		const char *text = recording_text(r, r->command[k]);

		bytes_put(&b, text, strlen(text) + 1);
	}
	put_info_field(i->fields, i->before, id, b.at ? b.at : (uint8_t *)"", b.used);
	i->fields->failed |= b.failed;
	bytes_free(&b);
}

void info_write(const struct recording *r, const struct mayfly_info *info,
		const struct bytes *before, struct bytes *fields)
{
	struct info_writer i = {r, before, fields};
	struct mayfly_info all = *info;
	const struct mayfly_info *from = &all;

	/* What is from outside, and a reader refuses otherwise. */
	if (all.duration_ns < 0)
		all.duration_ns = 0;
	if (all.duration_ns > TRACE_LATEST_NS)
		all.duration_ns = TRACE_LATEST_NS;
	all.version = MAYFLY_VERSION;
	all.program = recording_text(r, r->program);
	all.off_text = recording_text(r, r->off_text);
	all.note = recording_text(r, r->note);
	all.title = recording_text(r, r->title);
	all.entry = recording_text(r, r->entry);
	all.host = recording_text(r, r->host);
	all.runtime_parameters = recording_text(r, r->runtime_parameters);
	all.context = recording_text(r, r->context);
#define PUT(name, id, member)                                                                      \
	_Generic(&from->member, const uint32_t *: put_info_u32, const uint64_t *: put_info_u64,              \
		 const int32_t *: put_info_s32, const int64_t *: put_info_s64, const bool *: put_info_bool,       \
		 const double *: put_info_double, const char *const *: put_info_text,                       \
		 const char *const *const *: put_info_command)(&i, id, &from->member);
	TRACE_INFO_FIELDS(PUT)
#undef PUT
}
