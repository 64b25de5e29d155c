/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Perfetto's traces with native heap profiles (heapprofd): packets, of which some have dumps of a
 * process's heaps. A dump has for each stack what was allocated and freed up to then.
 *
 *	packet: sequence, interned data (names, mappings, frames, stacks), profile
 *	profile: dumps of (process, heap, time), whose samples are (stack, bytes, ...)
 *
 * Interned data has numbers, for each sequence of packets and kind of data its own. It is read first,
 * since it may come in any packet. A dump of a heap that was dumped before begins a new moment:
 *
 *	points: (stack, moment, allocated, freed)	sorted, they are the rows
 *
 * The trace has the process of the first dump. Times count from that dump on.
 */
#include "convert/import/imports.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "convert/import/heap_profile.h"
#include "convert/import/packed.h"
#include "convert/import/protobuf_read.h"
#include "convert/perfetto_fields.h"

#define NONE	   RECORDING_NONE
#define MOST_HEAPS 32u
#define LOOKED_AT  ((size_t)16 << 10) /* bytes in which a format is recognised */
#define ITEM_COST  128

struct perfetto_item {
	const uint8_t *bytes;
	size_t size;
	uint64_t sequence;
	uint32_t made; /* frame or module; NONE: not yet made */
};

struct perfetto_point {
	uint32_t stack, moment; /* the number of the stack's item */
	uint64_t all, all_bytes, freed, freed_bytes;
};

struct perfetto_input {
	struct import *in;
	struct heap_profile profile;
	const uint8_t *data;
	size_t size;

	struct interner items; /* (field of InternedData, sequence, its number) */
	struct perfetto_item *item;
	size_t item_room;

	uint64_t pid, others, interval;
	bool has_dump, at_max, unknown; /* unknown: a stack that the file does not have */
	uint64_t heap[MOST_HEAPS];	/* that the current moment has a dump of: hashes of names */
	size_t heaps;
	uint64_t first_time, time; /* of the first dump, of the current moment */
	uint64_t sequence;	   /* of the current stack */

	int64_t *moment;
	size_t moments, moment_room;
	struct perfetto_point *point;
	size_t points, point_room;
};

/* ---- fields ---- */

static struct protobuf_field field_in(const uint8_t *bytes, size_t size, uint32_t wanted)
{
	struct protobuf in = protobuf_begin(bytes, size);
	struct protobuf_field f, found = {0};

	while (protobuf_next(&in, &f))
		if (f.number == wanted)
			found = f;
	return found;
}

static uint64_t number_of(const struct protobuf_field *message, uint32_t wanted)
{
	return field_in(message->bytes, message->size, wanted).value;
}

typedef void take_packet(struct perfetto_input *c, const struct protobuf_field *packet);

static void read_packets(struct perfetto_input *c, take_packet *take)
{
	struct protobuf in = protobuf_begin(c->data, c->size);
	struct protobuf_field f;

	while (!import_failed(c->in) && protobuf_next(&in, &f))
		if (f.number == TRACE_PACKET && f.bytes)
			take(c, &f);
	if (in.bad)
		import_problem(c->in, "cut off");
}

/* ---- interned data ---- */

static void add_interned(struct perfetto_input *c, const struct protobuf_field *f,
			 uint64_t sequence)
{
	const struct key key = {{f->number, sequence, number_of(f, STRING_IID)}};
	bool is_new = false;
	uint32_t number;

	import_spend(c->in, ITEM_COST);
	if (!import_grow(c->in, &c->item, c->items.count, &c->item_room, sizeof(*c->item)))
		return;
	number = interner_add(&c->items, key, &is_new);
	if (number == INTERNER_NONE)
		import_fail(c->in, MAYFLY_E_MEMORY);
	else if (is_new)
		c->item[number] = (struct perfetto_item){f->bytes, f->size, sequence, NONE};
}

static void take_interned(struct perfetto_input *c, const struct protobuf_field *packet)
{
	struct protobuf_field data = field_in(packet->bytes, packet->size, PACKET_INTERNED), f;
	uint64_t sequence = number_of(packet, PACKET_SEQUENCE);
	struct protobuf in = protobuf_begin(data.bytes, data.size);

	while (data.bytes && !import_failed(c->in) && protobuf_next(&in, &f))
		if (f.bytes)
			add_interned(c, &f, sequence);
}

/* NULL: it is not there. */
static struct perfetto_item *find_item(struct perfetto_input *c, uint32_t kind, uint64_t sequence,
				       uint64_t iid)
{
	uint32_t number = interner_find(&c->items, (struct key){{kind, sequence, iid}});

	return number == INTERNER_NONE ? NULL : &c->item[number];
}

/* The string that a field of an item names; no bytes: there is none. */
static struct protobuf_field string_of(struct perfetto_input *c, const struct perfetto_item *of,
				       uint32_t field, uint32_t kind)
{
	uint64_t iid = field_in(of->bytes, of->size, field).value;
	const struct perfetto_item *string = iid ? find_item(c, kind, of->sequence, iid) : NULL;
	struct protobuf_field none = {0};

	return string ? field_in(string->bytes, string->size, STRING_STR) : none;
}

static uint32_t perfetto_intern(struct perfetto_input *c, struct protobuf_field text)
{
	import_spend(c->in, text.size / 16 + 1);
	return text.bytes ? recording_string(c->in->tables, (const char *)text.bytes, text.size)
			  : 0;
}

/* The parts of a path, with a '/' before each. */
static uint32_t path_of(struct perfetto_input *c, const struct perfetto_item *mapping)
{
	struct protobuf in = protobuf_begin(mapping->bytes, mapping->size);
	struct protobuf_field f, text;
	const struct perfetto_item *part;
	char path[4096];
	size_t used = 0;

	while (protobuf_next(&in, &f)) {
		if (f.number != MAPPING_PATH || f.bytes)
			continue;
		part = find_item(c, DATA_MAPPING_PATHS, mapping->sequence, f.value);
		if (!part)
			continue;
		text = field_in(part->bytes, part->size, STRING_STR);
		if (!text.bytes || text.size >= sizeof(path) - used)
			continue;
		path[used++] = '/';
		memcpy(path + used, text.bytes, text.size);
		used += text.size;
	}
	return used ? recording_string(c->in->tables, path, used) : 0;
}

static uint32_t perfetto_module(struct perfetto_input *c, uint64_t sequence, uint64_t iid)
{
	struct perfetto_item *item = iid ? find_item(c, DATA_MAPPINGS, sequence, iid) : NULL;
	struct recording_module m = {0};
	struct protobuf_field id;

	if (!item || item->made != NONE)
		return item ? item->made : NONE;
	m.path = path_of(c, item);
	m.start = field_in(item->bytes, item->size, MAPPING_START).value;
	m.end = field_in(item->bytes, item->size, MAPPING_END).value;
	if (m.end < m.start)
		m.end = m.start;
	id = string_of(c, item, MAPPING_BUILD_ID, DATA_BUILD_IDS);
	if (id.bytes && id.size <= sizeof(m.build_id)) {
		memcpy(m.build_id, id.bytes, id.size);
		m.build_id_length = (uint32_t)id.size;
	}
	return item->made =
		   import_module(c->in, m, field_in(item->bytes, item->size, MAPPING_OFFSET).value);
}

static uint32_t perfetto_frame(struct perfetto_input *c, uint64_t sequence, uint64_t iid)
{
	struct perfetto_item *item = find_item(c, DATA_FRAMES, sequence, iid);
	struct recording_location place = {0};
	uint32_t module;
	uint64_t line;

	if (!item || item->made != NONE)
		return item ? item->made : NONE;
	module =
	    perfetto_module(c, sequence, field_in(item->bytes, item->size, FRAME_MAPPING).value);
	place.function =
	    perfetto_intern(c, string_of(c, item, FRAME_FUNCTION, DATA_FUNCTION_NAMES));
	place.file = perfetto_intern(c, string_of(c, item, FRAME_SOURCE, DATA_SOURCE_PATHS));
	line = field_in(item->bytes, item->size, FRAME_LINE).value;
	place.line = line <= UINT32_MAX ? (uint32_t)line : 0;
	if (place.function)
		item->made = heap_profile_named(&c->profile, module, &place);
	else
		item->made =
		    import_frame(c->in, module, field_in(item->bytes, item->size, FRAME_PC).value);
	return item->made;
}

/* ---- dumps ---- */

static uint64_t hash_of(struct protobuf_field name)
{
	uint64_t hash = 14695981039346656037u; /* FNV-1a */

	for (size_t i = 0; i < name.size; i++)
		hash = (hash ^ name.bytes[i]) * 1099511628211u;
	return hash;
}

static void begin_moment(struct perfetto_input *c, uint64_t time)
{
	uint64_t since = time > c->first_time ? time - c->first_time : 0;
	int64_t least = c->moments ? c->moment[c->moments - 1] + 1 : 1, at;

	at = since < (uint64_t)HEAP_PROFILE_LATEST_NS ? (int64_t)since : HEAP_PROFILE_LATEST_NS;
	IMPORT_APPEND(c->in, c->moment, c->moments, c->moment_room, at > least ? at : least);
	c->time = time;
	c->heaps = 0;
}

/* A dump that goes on in the next packet has the same heap and time. */
static void find_moment(struct perfetto_input *c, const struct protobuf_field *dump)
{
	uint64_t time = number_of(dump, DUMP_TIME);
	uint64_t heap = hash_of(field_in(dump->bytes, dump->size, DUMP_HEAP));
	size_t i = 0;

	if (!c->moments)
		c->first_time = time;
	while (i < c->heaps && c->heap[i] != heap)
		i++;
	if (!c->moments || (i < c->heaps && time != c->time))
		begin_moment(c, time);
	if ((i == c->heaps || !c->heaps) && c->heaps < MOST_HEAPS)
		c->heap[c->heaps++] = heap;
}

static void perfetto_sample(struct perfetto_input *c, const struct protobuf_field *sample,
			    uint64_t sequence)
{
	struct perfetto_point p = {.moment = (uint32_t)c->moments - 1,
				   .all = number_of(sample, SAMPLE_ALLOCS),
				   .all_bytes = number_of(sample, SAMPLE_ALLOCATED),
				   .freed = number_of(sample, SAMPLE_FREES),
				   .freed_bytes = number_of(sample, SAMPLE_FREED)};
	uint64_t most = number_of(sample, SAMPLE_MAX);

	p.stack = interner_find(
	    &c->items, (struct key){{DATA_CALLSTACKS, sequence, number_of(sample, SAMPLE_STACK)}});
	if (most) {
		c->at_max = true;
		p.all_bytes = most;
	}
	c->unknown |= p.stack == INTERNER_NONE;
	if (p.stack != INTERNER_NONE && p.all_bytes < TRACE_COUNTS_MAX && p.all < TRACE_COUNTS_MAX)
		IMPORT_APPEND(c->in, c->point, c->points, c->point_room, p);
}

static void take_dump(struct perfetto_input *c, const struct protobuf_field *dump,
		      uint64_t sequence)
{
	struct protobuf in = protobuf_begin(dump->bytes, dump->size);
	uint64_t pid = number_of(dump, DUMP_PID), interval = number_of(dump, DUMP_INTERVAL);
	struct protobuf_field f;

	if (!c->has_dump)
		c->pid = pid;
	c->has_dump = true;
	c->others += pid != c->pid;
	if (pid != c->pid)
		return;
	if (interval > c->interval)
		c->interval = interval;
	find_moment(c, dump);
	while (c->moments && !import_failed(c->in) && protobuf_next(&in, &f))
		if (f.number == DUMP_SAMPLE && f.bytes)
			perfetto_sample(c, &f, sequence);
}

static void take_profile(struct perfetto_input *c, const struct protobuf_field *packet)
{
	struct protobuf_field data = field_in(packet->bytes, packet->size, PACKET_PROFILE), f;
	uint64_t sequence = number_of(packet, PACKET_SEQUENCE);
	struct protobuf in = protobuf_begin(data.bytes, data.size);

	while (data.bytes && !import_failed(c->in) && protobuf_next(&in, &f))
		if (f.number == PROFILE_DUMPS && f.bytes)
			take_dump(c, &f, sequence);
}

/* ---- rows ---- */

static int perfetto_compare(const void *a, const void *b)
{
	const struct perfetto_point *x = a, *y = b;

	if (x->stack != y->stack)
		return x->stack < y->stack ? -1 : 1;
	return x->moment < y->moment ? -1 : x->moment > y->moment;
}

static int perfetto_take_frame(void *context, uint64_t iid)
{
	struct perfetto_input *c = context;
	uint32_t frame = perfetto_frame(c, c->sequence, iid);

	c->unknown |= frame == NONE;
	if (frame != NONE)
		heap_profile_frame(&c->profile, frame);
	return import_failed(c->in);
}

/* The file has the root first. */
static void perfetto_add_stack(struct perfetto_input *c, uint32_t number)
{
	const struct perfetto_item *stack = &c->item[number];
	struct protobuf in = protobuf_begin(stack->bytes, stack->size);
	size_t first = c->profile.frames, last;
	struct protobuf_field f;

	c->sequence = stack->sequence;
	while (!import_failed(c->in) && protobuf_next(&in, &f))
		if (f.number == CALLSTACK_FRAMES)
			protobuf_numbers(&f, perfetto_take_frame, c);
	for (last = c->profile.frames; first + 1 < last; first++) {
		uint32_t other = c->profile.frame[--last];

		c->profile.frame[last] = c->profile.frame[first];
		c->profile.frame[first] = other;
	}
}

static uint64_t less(uint64_t all, uint64_t part)
{
	return all > part ? all - part : 0;
}

/* The points of a stack, from point[i] on. Figures of the file count from the begin. */
static size_t perfetto_add_points(struct perfetto_input *c, size_t i)
{
	uint32_t stack = c->point[i].stack;
	uint64_t all = 0, all_bytes = 0;

	while (i < c->points && c->point[i].stack == stack) {
		struct perfetto_point sum = {.moment = c->point[i].moment};
		struct heap_point p = {.step = sum.moment};

		for (; i < c->points && c->point[i].stack == stack &&
		       c->point[i].moment == sum.moment;
		     i++) {
			sum.all += c->point[i].all;
			sum.all_bytes += c->point[i].all_bytes;
			sum.freed += c->point[i].freed;
			sum.freed_bytes += c->point[i].freed_bytes;
		}
		p.live = less(sum.all, sum.freed);
		p.live_bytes = less(sum.all_bytes, sum.freed_bytes);
		p.all = less(sum.all, all);
		p.all_bytes = less(sum.all_bytes, all_bytes);
		all = sum.all;
		all_bytes = sum.all_bytes;
		heap_profile_point(&c->profile, &p);
	}
	return i;
}

static void perfetto_add_rows(struct perfetto_input *c)
{
	const struct heap_figures none = {0};

	if (c->points)
		qsort(c->point, c->points, sizeof(*c->point), perfetto_compare);
	for (size_t i = 0; i < c->points && !import_failed(c->in);) {
		perfetto_add_stack(c, c->point[i].stack);
		i = perfetto_add_points(c, i);
		heap_profile_row(&c->profile, &none);
	}
}

/* ---- the whole file ---- */

static void perfetto_describe(struct perfetto_input *c)
{
	struct import_report *report = &c->in->report;
	struct recording *t = c->in->tables;

	if (c->others)
		snprintf(report->left_out, sizeof(report->left_out),
			 "%" PRIu64 " dumps of other processes than %" PRIu64
			 "; traceconv profile makes a pprof file of each",
			 c->others, c->pid);
	if (c->unknown)
		import_problem(c->in, "stacks that it does not have");
	import_describe(c->in,
			"converted from heapprofd's dumps in a Perfetto trace; times count from "
			"the first of %zu dumps%s%s",
			c->moments, c->others ? "; left out " : "", report->left_out);
	t->info.pid = c->pid <= INT32_MAX ? (uint32_t)c->pid : 0;
	t->info.duration_ns = c->moment[c->moments - 1];
	c->profile.interval = c->interval == 1 ? 0 : c->interval ? c->interval : 1;
	c->profile.steps = (uint32_t)c->moments;
	c->profile.step_at = c->moment;
	c->profile.is_cut = heap_profile_is_allocator;
	c->profile.known = MAYFLY_ABSENT_PROCESS;
	c->profile.absent = MAYFLY_ABSENT_START | MAYFLY_ABSENT_COMMAND |
			    (c->profile.interval ? MAYFLY_ABSENT_BLOCKS : 0) |
			    (c->at_max ? MAYFLY_ABSENT_ALLOCATED : 0);
}

void perfetto_import(struct import *in)
{
	struct perfetto_input c = {.in = in};
	uint8_t *plain = import_unpack(in, &c.size);

	c.data = plain;
	heap_profile_begin(&c.profile, in);
	read_packets(&c, take_interned);
	read_packets(&c, take_profile);
	if (!import_failed(in) && !c.moments) {
		snprintf(in->report.problem, sizeof(in->report.problem),
			 "but without a profile of heapprofd");
		import_fail(in, MAYFLY_E_ABSENT);
	}
	if (!import_failed(in)) {
		perfetto_add_rows(&c);
		perfetto_describe(&c);
		heap_profile_write(&c.profile);
	}
	heap_profile_end(&c.profile);
	interner_free(&c.items);
	free(c.item);
	free(c.moment);
	free(c.point);
	free(plain);
}

/* Its first packets, of which one names its sequence. */
bool perfetto_recognise(const void *data, size_t size)
{
	uint8_t begin[LOOKED_AT];
	struct protobuf in = protobuf_begin(begin, packed_peek(data, size, begin, sizeof(begin)));
	struct protobuf_field f;

	while (protobuf_next(&in, &f)) {
		if (f.number != TRACE_PACKET || !f.bytes)
			return false;
		if (number_of(&f, PACKET_SEQUENCE))
			return true;
	}
	return false;
}
