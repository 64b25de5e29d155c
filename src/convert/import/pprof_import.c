/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Heap profiles of pprof: one message (profile.proto) whose parts refer to each other by numbers
 * chosen by the writer, in any order. So it is read twice: first all tables, then the samples.
 *
 *	sample: location ids, leaf first; a value for each sample type
 *	location: mapping id, address, lines (innermost inlined first): function id, line
 *	function: name, file name; mapping: range, file, build-id
 *	texts are indices of strings, which come in order
 *
 * Values are taken as they are: writers of such files have weighted the samples already, and do not
 * give their number. So the errors of the figures are absent, unless the period is 1.
 */
#include "convert/import/imports.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "convert/import/heap_profile.h"
#include "convert/import/packed.h"
#include "convert/import/protobuf_read.h"
#include "convert/pprof_fields.h"
#include "match/expression.h"

#define NONE RECORDING_NONE

/* The names of value types, and what they mean here. */
enum { LIVE, LIVE_BYTES, ALL, ALL_BYTES, KINDS };
static const struct {
	const char *name;
	int kind;
} value_names[] = {
    {"inuse_objects", LIVE},
    {"inuse_space", LIVE_BYTES},
    {"alloc_objects", ALL},
    {"alloc_space", ALL_BYTES},
    /* node.js */
    {"objects", LIVE},
    {"space", LIVE_BYTES},
    /* Perfetto's heap profiler */
    {"Unreleased malloc count", LIVE},
    {"Unreleased malloc size", LIVE_BYTES},
    {"Total malloc count", ALL},
    {"Total malloc size", ALL_BYTES},
};

/* A row of a table: its id in the file, its message, and what it was converted to. */
struct item {
	uint64_t id;
	const uint8_t *bytes;
	size_t size;
	uint32_t made; /* frame or module; NONE: not yet made */
};

struct items {
	struct item *item;
	size_t count, room;
};

struct text {
	const uint8_t *bytes;
	size_t size;
};

struct pprof_input {
	struct import *in;
	struct heap_profile profile;
	const uint8_t *data;
	size_t size; /* up to the damage, if any */

	struct text *string;
	size_t strings, string_room;
	struct items table[PROFILE_FUNCTION + 1]; /* by field */

	struct value_type {
		uint64_t name, unit; /* indices of strings */
	} * type;
	size_t types, type_room;
	int column[KINDS]; /* kind -> index of the value, or -1 */
	uint64_t *value;   /* of the current sample */
	size_t values;

	uint64_t fact[PROFILE_LAST + 1]; /* its own numbers, by field */
	uint64_t period_unit, comment;
	uint64_t negative; /* stacks of which a value is left out because it is negative */
	double net[KINDS], kept[KINDS]; /* the sums with these, and without them */
};

/* ---- tables ---- */

/* The value of a field of a message; 0: the field is missing. */
static uint64_t number_in(const uint8_t *bytes, size_t size, uint32_t wanted)
{
	struct protobuf in = protobuf_begin(bytes, size);
	struct protobuf_field f;
	uint64_t value = 0;

	while (protobuf_next(&in, &f))
		if (f.number == wanted && !f.bytes)
			value = f.value;
	return value;
}

static void add_item(struct pprof_input *c, struct items *items, const struct protobuf_field *f)
{
	IMPORT_APPEND(c->in, items->item, items->count, items->room,
		      (struct item){number_in(f->bytes, f->size, 1), f->bytes, f->size, NONE});
}

static int compare_item(const void *a, const void *b)
{
	const struct item *x = a, *y = b;

	return x->id < y->id ? -1 : x->id > y->id;
}

static struct item *pprof_find(const struct items *items, uint64_t id)
{
	struct item wanted = {.id = id};

	if (!items->count)
		return NULL;
	/* Most writers count from 1. */
	if (id - 1 < items->count && items->item[id - 1].id == id)
		return &items->item[id - 1];
	return bsearch(&wanted, items->item, items->count, sizeof(wanted), compare_item);
}

static bool is_text(const struct pprof_input *c, uint64_t number, const char *text)
{
	return number < c->strings && c->string[number].size == strlen(text) &&
	       memcmp(c->string[number].bytes, text, strlen(text)) == 0;
}

static struct text pprof_text(const struct pprof_input *c, uint64_t number)
{
	return number < c->strings ? c->string[number] : (struct text){(const uint8_t *)"", 0};
}

static uint32_t pprof_intern(struct pprof_input *c, uint64_t number)
{
	if (number >= c->strings)
		return 0;
	import_spend(c->in, c->string[number].size / 16 + 1);
	return recording_string(c->in->tables, (const char *)c->string[number].bytes,
				c->string[number].size);
}

static int take_comment(void *context, uint64_t value)
{
	struct pprof_input *c = context;

	if (!c->comment)
		c->comment = value;
	return 0;
}

static void take_table(struct pprof_input *c, const struct protobuf_field *f)
{
	if (f->number == PROFILE_COMMENT) {
		protobuf_numbers(f, take_comment, c);
		return;
	}
	if (!f->bytes) {
		if (f->number <= PROFILE_LAST)
			c->fact[f->number] = f->value;
		return;
	}
	switch (f->number) {
	case PROFILE_SAMPLE_TYPE:
		IMPORT_APPEND(c->in, c->type, c->types, c->type_room,
			      (struct value_type){number_in(f->bytes, f->size, VALUE_TYPE),
						  number_in(f->bytes, f->size, VALUE_UNIT)});
		break;
	case PROFILE_MAPPING:
	case PROFILE_LOCATION:
	case PROFILE_FUNCTION:
		add_item(c, &c->table[f->number], f);
		break;
	case PROFILE_STRING:
		IMPORT_APPEND(c->in, c->string, c->strings, c->string_room,
			      (struct text){f->bytes, f->size});
		break;
	case PROFILE_PERIOD_TYPE:
		c->period_unit = number_in(f->bytes, f->size, VALUE_UNIT);
		break;
	}
}

static void read_tables(struct pprof_input *c)
{
	struct protobuf in = protobuf_begin(c->data, c->size);
	struct protobuf_field f;

	while (!import_failed(c->in) && protobuf_next(&in, &f))
		take_table(c, &f);
	if (in.bad)
		import_problem(c->in, "cut off");
	for (int i = PROFILE_MAPPING; i <= PROFILE_FUNCTION; i++)
		if (c->table[i].count)
			qsort(c->table[i].item, c->table[i].count, sizeof(struct item),
			      compare_item);
}

/* ---- places ---- */

static unsigned nibble(char c)
{
	return c >= '0' && c <= '9'   ? (unsigned)(c - '0')
	       : c >= 'a' && c <= 'f' ? (unsigned)(c - 'a') + 10
				      : 16;
}

/* Takes a build-id in hexadecimal; other ids (Go has its own kind) are ignored. */
static void set_build_id(struct recording_module *m, const struct text *text)
{
	if (text->size % 2 || text->size / 2 > sizeof(m->build_id))
		return;
	for (size_t i = 0; i < text->size / 2; i++) {
		unsigned high = nibble((char)text->bytes[2 * i]);
		unsigned low = nibble((char)text->bytes[2 * i + 1]);

		if (high > 15 || low > 15)
			return;
		m->build_id[i] = (uint8_t)(high << 4 | low);
	}
	m->build_id_length = (uint32_t)(text->size / 2);
}

static uint32_t pprof_find_module(struct pprof_input *c, uint64_t id)
{
	struct item *item = id ? pprof_find(&c->table[PROFILE_MAPPING], id) : NULL;
	struct recording_module m = {0};
	uint64_t build_id;

	if (!item || item->made != NONE)
		return item ? item->made : NONE;
	m.start = number_in(item->bytes, item->size, MAPPING_START);
	m.end = number_in(item->bytes, item->size, MAPPING_LIMIT);
	m.path = pprof_intern(c, number_in(item->bytes, item->size, MAPPING_FILENAME));
	build_id = number_in(item->bytes, item->size, MAPPING_BUILD_ID);
	if (m.end < m.start)
		m.end = m.start;
	if (build_id < c->strings)
		set_build_id(&m, &c->string[build_id]);
	return item->made =
		   import_module(c->in, m, number_in(item->bytes, item->size, MAPPING_OFFSET));
}

/* Adds one function of a place. */
static void pprof_add_line(struct pprof_input *c, const struct protobuf_field *f, uint32_t frame)
{
	uint64_t id = number_in(f->bytes, f->size, LINE_FUNCTION);
	uint64_t line = number_in(f->bytes, f->size, LINE_LINE);
	struct item *function = pprof_find(&c->table[PROFILE_FUNCTION], id);
	struct recording_location place = {.line = line > UINT32_MAX ? 0 : (uint32_t)line};

	if (function) {
		place.function =
		    pprof_intern(c, number_in(function->bytes, function->size, FUNCTION_NAME));
		place.file =
		    pprof_intern(c, number_in(function->bytes, function->size, FUNCTION_FILENAME));
	}
	import_spend(c->in, 64);
	import_function(c->in->tables, frame, &place);
}

static void pprof_name_frame(struct pprof_input *c, const struct item *location, uint32_t frame)
{
	struct recording *t = c->in->tables;
	struct recording_frame *made = &t->frame[frame];
	struct protobuf in = protobuf_begin(location->bytes, location->size);
	struct protobuf_field f;

	while (!import_failed(c->in) && protobuf_next(&in, &f))
		if (f.number == 4 && f.bytes)
			pprof_add_line(c, &f, frame);
	/* A line without a function is useless. */
	if (made->locations == 1 && !t->location[made->first_location].function)
		made->first_location = made->locations = 0;
}

/* Some writers have no addresses, or several places at one: such places get unused addresses. */
static void pprof_make_frame(struct pprof_input *c, struct item *location)
{
	struct recording *t = c->in->tables;
	uint64_t address = number_in(location->bytes, location->size, LOCATION_ADDRESS);
	uint64_t number = (uint64_t)(location - c->table[PROFILE_LOCATION].item);
	size_t before = t->frames;
	uint32_t module =
	    pprof_find_module(c, number_in(location->bytes, location->size, LOCATION_MAPPING));

	if (module != NONE && address)
		address -= t->module[module].bias;
	if (address)
		location->made = import_frame(c->in, module, address);
	if (!address || t->frames == before)
		location->made = import_frame(c->in, module, UINT64_MAX - number);
	pprof_name_frame(c, location, location->made);
}

/* ---- samples ---- */

static int take_location(void *context, uint64_t id)
{
	struct pprof_input *c = context;
	struct item *location = pprof_find(&c->table[PROFILE_LOCATION], id);

	if (!location)
		return MAYFLY_E_DAMAGED;
	if (location->made == NONE)
		pprof_make_frame(c, location);
	heap_profile_frame(&c->profile, location->made);
	return 0;
}

static int take_value(void *context, uint64_t value)
{
	struct pprof_input *c = context;

	if (c->values < c->types)
		c->value[c->values++] = value;
	return 0;
}

static uint64_t value_of(const struct pprof_input *c, int kind)
{
	return c->column[kind] < 0 ? 0 : c->value[c->column[kind]];
}

/* A difference of two profiles has negative values, which a trace cannot hold: neither what is less
 * than nothing, nor what is live of that. */
static void leave_out_negative(struct pprof_input *c, struct heap_figures *f)
{
	bool live = (int64_t)f->live < 0 || (int64_t)f->live_bytes < 0;
	bool all = (int64_t)f->all < 0 || (int64_t)f->all_bytes < 0;

	c->net[LIVE_BYTES] += (double)(int64_t)f->live_bytes;
	c->net[ALL_BYTES] += (double)(int64_t)f->all_bytes;
	c->negative += live || all;
	if (live || all)
		f->live = f->live_bytes = 0;
	if (all)
		f->all = f->all_bytes = 0;
	c->kept[LIVE_BYTES] += (double)f->live_bytes;
	c->kept[ALL_BYTES] += (double)f->all_bytes;
}

static void pprof_add_row(struct pprof_input *c)
{
	struct heap_figures f = {value_of(c, LIVE), value_of(c, LIVE_BYTES), value_of(c, ALL),
				 value_of(c, ALL_BYTES)};

	leave_out_negative(c, &f);
	if (!f.live && !f.live_bytes && !f.all && !f.all_bytes)
		c->profile.frames = c->profile.row_first;
	else
		heap_profile_row(&c->profile, &f);
}

/* False: it is damaged. */
static bool take_sample(struct pprof_input *c, const struct protobuf_field *sample)
{
	struct protobuf in = protobuf_begin(sample->bytes, sample->size);
	struct protobuf_field f;
	bool good = true;

	c->values = 0;
	memset(c->value, 0, c->types * sizeof(*c->value));
	while (good && protobuf_next(&in, &f)) {
		if (f.number == SAMPLE_LOCATION)
			good = !protobuf_numbers(&f, take_location, c);
		else if (f.number == SAMPLE_VALUE)
			good = !protobuf_numbers(&f, take_value, c);
	}
	if (!good || in.bad)
		return false;
	pprof_add_row(c);
	return true;
}

static void read_samples(struct pprof_input *c)
{
	struct protobuf in = protobuf_begin(c->data, c->size);
	struct protobuf_field f;
	bool good = true;

	c->value = calloc(c->types, sizeof(*c->value));
	if (!c->value)
		import_fail(c->in, MAYFLY_E_MEMORY);
	while (good && !import_failed(c->in) && protobuf_next(&in, &f))
		if (f.number == PROFILE_SAMPLE && f.bytes)
			good = take_sample(c, &f);
	if (good)
		return;
	import_problem(c->in, "a sample with an unknown location");
	c->profile.frames = c->profile.row_first;
}

/* ---- the kind of profile ---- */

/* What values there are, for a report that begins with `why`; those of bytes can be chosen. */
static void refuse_types(struct pprof_input *c, const char *why)
{
	char *text = c->in->report.problem;
	size_t size = sizeof(c->in->report.problem), used;
	bool of_bytes = false;

	/* If the file was cut off, the names may be in the missing part. */
	if (*text || c->strings <= 1) {
		snprintf(text, size, "cut off before the names of its values; create it again");
		import_fail(c->in, MAYFLY_E_DAMAGED);
		return;
	}
	import_fail(c->in, MAYFLY_E_ABSENT);
	snprintf(text, size, "%s; its values are", why);
	for (size_t i = 0; i < c->types && i < 12; i++) {
		struct text name = pprof_text(c, c->type[i].name);

		of_bytes |= is_text(c, c->type[i].unit, "bytes");
		used = strlen(text);
		if (name.size < 64 && used < size)
			snprintf(text + used, size - used, "%s %.*s", i ? "," : "", (int)name.size,
				 (const char *)name.bytes);
	}
	used = strlen(text);
	if (of_bytes && !c->in->options.sample_type)
		snprintf(text + used, size - used, ": mayfly import --sample-type NAME");
}

/* "alloc_objects" for "alloc_space": the count that has its name but for the last word. -1: none. */
static int find_count_of(const struct pprof_input *c, struct text bytes)
{
	const uint8_t *last = memrchr(bytes.bytes, '_', bytes.size);
	size_t stem = last ? (size_t)(last - bytes.bytes) + 1 : 0;

	for (size_t i = 0; stem && i < c->types && i < INT32_MAX; i++) {
		struct text name = pprof_text(c, c->type[i].name);

		if (is_text(c, c->type[i].unit, "count") && name.size > stem &&
		    memcmp(name.bytes, bytes.bytes, stem) == 0 &&
		    !memchr(name.bytes + stem, '_', name.size - stem))
			return (int)i;
	}
	return -1;
}

/* The values that were asked for are what was allocated if their name says so, else what is live. */
static void choose_type(struct pprof_input *c, const char *wanted)
{
	char why[128];

	for (size_t i = 0; i < c->types && i < INT32_MAX; i++) {
		struct text name = pprof_text(c, c->type[i].name);
		bool all = memmem(name.bytes, name.size, "alloc", 5);

		if (!is_text(c, c->type[i].name, wanted))
			continue;
		if (!is_text(c, c->type[i].unit, "bytes"))
			break;
		c->column[all ? ALL_BYTES : LIVE_BYTES] = (int)i;
		c->column[all ? ALL : LIVE] = find_count_of(c, name);
		return;
	}
	snprintf(why, sizeof(why), "but without values '%.60s' of bytes", wanted);
	refuse_types(c, why);
}

static void choose_known_types(struct pprof_input *c)
{
	for (size_t i = 0; i < c->types && i < INT32_MAX; i++)
		for (size_t n = 0; n < sizeof(value_names) / sizeof(*value_names); n++)
			if (is_text(c, c->type[i].name, value_names[n].name) &&
			    c->column[value_names[n].kind] < 0)
				c->column[value_names[n].kind] = (int)i;
	if (c->column[LIVE_BYTES] < 0 && c->column[ALL_BYTES] < 0)
		refuse_types(c, "but not a heap profile");
}

static void choose_columns(struct pprof_input *c)
{
	for (int k = 0; k < KINDS; k++)
		c->column[k] = -1;
	if (c->in->options.sample_type)
		choose_type(c, c->in->options.sample_type);
	else
		choose_known_types(c);
	if (c->column[LIVE_BYTES] < 0)
		c->profile.absent |= MAYFLY_ABSENT_LIVE;
	if (c->column[ALL_BYTES] < 0)
		c->profile.absent |= MAYFLY_ABSENT_ALLOCATED;
	if ((c->column[LIVE_BYTES] >= 0 && c->column[LIVE] < 0) ||
	    (c->column[ALL_BYTES] >= 0 && c->column[ALL] < 0))
		c->profile.absent |= MAYFLY_ABSENT_BLOCKS;
}

/* NULL: there is none, or it cannot be followed, which the report says then. */
static struct expression *read_expression(struct pprof_input *c, const char *field, uint64_t number)
{
	struct expression *e;
	const char *why;
	char *text;

	if (!number || number >= c->strings || !c->string[number].size ||
	    c->string[number].size > 65536 ||
	    memchr(c->string[number].bytes, 0, c->string[number].size) ||
	    asprintf(&text, "^(%.*s)$", (int)c->string[number].size,
		     (const char *)c->string[number].bytes) < 0)
		return NULL;
	e = expression_new(text, &why);
	if (!e && !*c->in->report.left_out)
		snprintf(c->in->report.left_out, sizeof(c->in->report.left_out),
			 "its %s, which cannot be used as a regular expression: %s", field, why);
	free(text);
	return e;
}

/* Frames that the file itself asks to leave out, with all their callees. */
static bool is_dropped(const void *context, const struct recording *t, uint32_t frame)
{
	const struct expression *const *expression = context;
	const struct recording_frame *f = &t->frame[frame];
	const char *name;

	if (!f->locations)
		return false;
	name = recording_text(t, t->location[f->first_location + f->locations - 1].function);
	if (!expression_matches(expression[0], name))
		return false;
	return !expression[1] || !expression_matches(expression[1], name);
}

/* All that the trace says is too large by what is left out, so its note has the right sums. */
static void say_negative(struct pprof_input *c)
{
	static const struct {
		int kind;
		const char *name;
	} sums[] = {{LIVE_BYTES, "live"}, {ALL_BYTES, "allocated"}};
	char *out = c->in->report.left_out;
	size_t room = sizeof(c->in->report.left_out), n;

	n = (size_t)snprintf(out, room,
			     "%" PRIu64
			     " stacks with negative values: it is a difference of two profiles",
			     c->negative);
	for (size_t i = 0; i < sizeof(sums) / sizeof(sums[0]); i++)
		if (c->net[sums[i].kind] != c->kept[sums[i].kind] && n < room)
			n += (size_t)snprintf(
			    out + n, room - n, ", whose %s bytes are %.0f instead of %.0f",
			    sums[i].name, c->net[sums[i].kind], c->kept[sums[i].kind]);
}

static void pprof_describe(struct pprof_input *c)
{
	struct recording *t = c->in->tables;
	uint64_t period = c->fact[PROFILE_PERIOD];
	bool known = c->comment && c->comment < c->strings;
	const struct text none = {(const uint8_t *)"", 0}, *comment = &none;

	if (known)
		comment = &c->string[c->comment];
	if (c->negative)
		say_negative(c);
	import_describe(c->in, "converted from a pprof heap profile%s%.*s%s%s",
			known ? ", comment " : "", comment->size < 256 ? (int)comment->size : 0,
			(const char *)comment->bytes, c->negative ? "; left out " : "",
			c->in->report.left_out);
	c->profile.absent |= MAYFLY_ABSENT_COMMAND;
	if ((int64_t)c->fact[PROFILE_TIME_NANOS] > 0)
		t->info.start_real_ns = (int64_t)c->fact[PROFILE_TIME_NANOS];
	else
		c->profile.absent |= MAYFLY_ABSENT_START;
	/* A period of 1: everything was counted. No period, or one in another unit: unknown. */
	if (!is_text(c, c->period_unit, "bytes") || period > (uint64_t)1 << 50)
		period = 0;
	if (period != 1)
		c->profile.interval = period ? period : 1;
}

static void write_out(struct pprof_input *c)
{
	struct expression *drop = read_expression(c, "drop_frames", c->fact[PROFILE_DROP_FRAMES]);
	struct expression *keep =
	    drop ? read_expression(c, "keep_frames", c->fact[PROFILE_KEEP_FRAMES]) : NULL;
	const struct expression *both[2] = {drop, keep};

	if (drop) {
		c->profile.is_cut = is_dropped;
		c->profile.cut_context = both;
	}
	heap_profile_write(&c->profile);
	expression_free(drop);
	expression_free(keep);
}

void pprof_import(struct import *in)
{
	struct pprof_input c = {.in = in};
	uint8_t *plain = import_unpack(in, &c.size);

	if (in->error)
		return;
	c.data = plain;
	heap_profile_begin(&c.profile, in);
	read_tables(&c);
	choose_columns(&c);
	read_samples(&c);
	pprof_describe(&c);
	if (!import_failed(in))
		write_out(&c);
	heap_profile_end(&c.profile);
	free(c.string);
	for (int i = PROFILE_MAPPING; i <= PROFILE_FUNCTION; i++)
		free(c.table[i].item);
	free(c.type);
	free(c.value);
	free(plain);
}

/* Whether it can be a value type: a message of one or two small numbers. */
static bool is_type(const struct protobuf_field *f)
{
	struct protobuf in = protobuf_begin(f->bytes, f->size);
	struct protobuf_field part;

	if (!f->bytes || !f->size || f->size > 24)
		return false;
	while (protobuf_next(&in, &part))
		if (part.bytes || part.number > 2)
			return false;
	return !in.bad;
}

static bool is_profile_field(const struct protobuf_field *f)
{
	switch (f->number) {
	case PROFILE_SAMPLE_TYPE:
	case PROFILE_PERIOD_TYPE:
		return is_type(f);
	case PROFILE_COMMENT:
		return true;
	case PROFILE_SAMPLE:
	case PROFILE_MAPPING:
	case PROFILE_LOCATION:
	case PROFILE_FUNCTION:
	case PROFILE_STRING:
		return f->bytes != NULL;
	}
	return f->number <= PROFILE_LAST && !f->bytes;
}

/* There is no magic number: the first fields must be fields of a profile and include a value type.
 * Go's profiles begin with the period, others with the value type. */
bool pprof_recognise(const void *data, size_t size)
{
	uint8_t bytes[512];
	size_t used = packed_peek(data, size, bytes, sizeof(bytes));
	struct protobuf in = protobuf_begin(bytes, used);
	struct protobuf_field f;
	bool found = false;

	for (int i = 0; i < 8 && protobuf_next(&in, &f); i++) {
		if (!is_profile_field(&f))
			return false;
		found |= f.number == PROFILE_SAMPLE_TYPE;
	}
	return found;
}
