/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From traces of mayfly to CTF 1.8.
 *
 *	OUT/metadata		declares everything below: ctf_metadata.c
 *	OUT/thread-0-1234	a stream for each thread: packets of about PACKET_BYTES
 *	OUT/thread-1-1240
 *
 * The things that an event refers to (a stack, its frames, their modules) are events of their own.
 * Each is written into the same stream just before the first event of the whole trace that needs
 * it, with the same time. So names are written once, and memory is a bit for each stack and frame,
 * and a packet for each thread. Track events are merged with the thread's blocks by time. A packet
 * is appended to its file when it is full; files are not kept open, since there may be more threads
 * than a process may have open files.
 *
 *	event:	| id 5 bits, time 27 bits | fields ...		ids below 31
 *	or	| 31 5 bits, padding to a byte | id 32 | time 64 | fields ...
 */
#include "convert/export/exports.h"

#include "convert/export/ctf_metadata.h"
#include "convert/export/event_walk.h"
#include "answer/trace_names.h"
#include "answer/shown_stacks.h"
#include "base/bytes.h"
#include "base/array.h"
#include "base/rank_set.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PACKET_BYTES	 65536
#define ALL_PACKET_BYTES (64u << 20) /* all threads together: with many, packets are smaller */
#define LEAST_PACKET	 4096

struct stream {
	struct bytes packet; /* header and events so far; used 0: no packet is open */
	int64_t begin_ns, last_ns;
	uint64_t packets;
};

struct ctf {
	const struct mayfly_trace *trace;
	const struct mayfly_info *info;
	const char *folder;
	uint8_t uuid[CTF_UUID_BYTES];
	bool begun;
	int64_t zero_ns; /* time of the first event if it is before the start, else 0 */
	size_t packet_bytes;
	struct stream *stream; /* one for each thread */
	struct rank_set node_written, frame_written, module_written;
	uint32_t *path; /* of a node: frames, leaf first */
	size_t path_room;
	struct ctf_track_class *class; /* for each type of track events */
	uint64_t discarded;	       /* count for the headers of further packets */
	int error;		       /* the first one */
	/* Visits the same blocks in the order of events, not of times: finds their spans. */
	struct event_walk order;
	bool has_spans;
};

/* ---- packets ---- */

static void put_string(struct bytes *b, const char *text)
{
	bytes_put(b, text, strlen(text) + 1);
}

static void put_double(struct bytes *b, double value)
{
	uint64_t bits;

	memcpy(&bits, &value, sizeof(bits));
	bytes_put_fixed(b, bits, 8);
}

/* Offsets in a packet's header of fields that are known only at its end. */
#define AT_END_TIME 40
#define AT_CONTENT  48
#define AT_PACKET   56

static void ctf_begin_packet(struct ctf *c, uint32_t thread, int64_t time_ns)
{
	const struct mayfly_thread *t = mayfly_trace_thread(c->trace, thread);
	struct stream *s = &c->stream[thread];
	struct bytes *b = &s->packet;

	bytes_put_fixed(b, CTF_MAGIC, 4);
	bytes_put(b, c->uuid, sizeof(c->uuid));
	bytes_put_fixed(b, 0, 4);
	bytes_put_fixed(b, thread, 8);
	bytes_put_fixed(b, (uint64_t)time_ns, 8);
	for (int i = 0; i < 3; i++)
		bytes_put_fixed(b, 0, 8); /* AT_END_TIME, AT_CONTENT, AT_PACKET */
	bytes_put_fixed(b, s->packets++, 8);
	bytes_put_fixed(b, c->discarded, 8);
	bytes_put_fixed(b, t ? t->tid : 0, 4);
	put_string(b, t ? t->name : "");
	s->begin_ns = s->last_ns = time_ns;
}

static void set_word(struct bytes *b, size_t at, uint64_t value)
{
	for (size_t i = 0; i < 8 && at + i < b->used; i++)
		b->at[at + i] = (uint8_t)(value >> 8 * i);
}

static char *stream_path(const struct ctf *c, uint32_t thread)
{
	const struct mayfly_thread *t = mayfly_trace_thread(c->trace, thread);
	char *path;

	if (asprintf(&path, "%s/thread-%" PRIu32 "-%" PRIu32, c->folder, thread, t ? t->tid : 0) <
	    0)
		return NULL;
	return path;
}

static int to_file(void *file, const void *bytes, size_t size)
{
	errno = 0;
	if (fwrite(bytes, 1, size, file) == size)
		return 0;
	return errno ? errno : EIO;
}

static int close_file(FILE *file, int error)
{
	if (fclose(file) != 0 && !error)
		error = errno ? errno : EIO;
	return error;
}

static int ctf_append(const char *path, const void *bytes, size_t size)
{
	FILE *file = fopen(path, "ab");

	return file ? close_file(file, to_file(file, bytes, size)) : errno;
}

static void ctf_fail(struct ctf *c, int error)
{
	if (!c->error)
		c->error = error;
}

static void ctf_end_packet(struct ctf *c, uint32_t thread)
{
	struct stream *s = &c->stream[thread];
	struct bytes *b = &s->packet;
	char *path;

	ctf_fail(c, b->failed ? MAYFLY_E_MEMORY : 0);
	if (c->error || b->used == 0)
		return;
	set_word(b, AT_END_TIME, (uint64_t)s->last_ns);
	set_word(b, AT_CONTENT, (uint64_t)b->used * 8);
	set_word(b, AT_PACKET, (uint64_t)b->used * 8);
	path = stream_path(c, thread);
	ctf_fail(c, path ? ctf_append(path, b->at, b->used) : MAYFLY_E_MEMORY);
	free(path);
	b->used = 0;
}

/* Begins an event, and a packet if none is open. */
static struct bytes *begin_event(struct ctf *c, uint32_t thread, uint32_t id, int64_t time_ns)
{
	struct stream *s = &c->stream[thread];
	struct bytes *b = &s->packet;

	if (b->used == 0)
		ctf_begin_packet(c, thread, time_ns);
	if (time_ns < s->last_ns)
		time_ns = s->last_ns;
	if (id < CTF_EXTENDED && time_ns - s->last_ns < INT64_C(1) << CTF_TIME_BITS) {
		bytes_put_fixed(b, id | (uint64_t)time_ns << CTF_ID_BITS, 4);
	} else {
		bytes_put_fixed(b, CTF_EXTENDED, 1);
		bytes_put_fixed(b, id, 4);
		bytes_put_fixed(b, (uint64_t)time_ns, 8);
	}
	s->last_ns = time_ns;
	return b;
}

/* ---- modules, frames, stacks ---- */

static void write_module(struct ctf *c, uint32_t thread, int64_t time_ns, uint32_t index)
{
	const struct mayfly_module *m = mayfly_trace_module(c->trace, index);
	char build_id[BUILD_ID_TEXT];
	struct bytes *b;

	if (!m || !rank_set_take(&c->module_written, index))
		return;
	b = begin_event(c, thread, CTF_MODULE, time_ns);
	bytes_put_fixed(b, index, 4);
	put_string(b, m->path);
	put_string(b, export_build_id(build_id, m));
	bytes_put_fixed(b, m->start, 8);
	bytes_put_fixed(b, m->end, 8);
	bytes_put_fixed(b, m->bias, 8);
}

static void put_place(struct ctf *c, struct bytes *b, const struct mayfly_frame *f,
		      const struct mayfly_location *l)
{
	const struct mayfly_module *m = mayfly_trace_module(c->trace, f->module);
	char name[4096];

	put_string(b, frame_shown_name(name, sizeof(name), f->kind, l ? l->function : "",
				       m ? m->path : "", f->address));
	put_string(b, l ? l->file : "");
	bytes_put_fixed(b, l ? l->line : 0, 4);
}

static void write_frame(struct ctf *c, uint32_t thread, int64_t time_ns, uint32_t index)
{
	const struct mayfly_frame *f = mayfly_trace_frame(c->trace, index);
	struct bytes *b;

	if (!f || !rank_set_take(&c->frame_written, index))
		return;
	write_module(c, thread, time_ns, f->module);
	b = begin_event(c, thread, CTF_FRAME, time_ns);
	bytes_put_fixed(b, index, 4);
	bytes_put_fixed(b, f->module, 4);
	bytes_put_fixed(b, f->kind == MAYFLY_FRAME_CODE ? f->address : 0, 8);
	bytes_put_fixed(b, f->locations ? f->locations : 1, 4);
	for (size_t i = 0; i < f->locations; i++)
		put_place(c, b, f, &f->location[i]);
	if (f->locations == 0)
		put_place(c, b, f, NULL);
}

/* The frames from a node to the root. Returns how many there are. */
static size_t ctf_read_path(struct ctf *c, uint32_t node)
{
	size_t depth = 0;

	while (node) {
		struct mayfly_node n = mayfly_trace_node(c->trace, node);

		if (!ARRAY_ADD(c->path, c->path_room, depth, n.frame)) {
			ctf_fail(c, MAYFLY_E_MEMORY);
			break;
		}
		node = n.parent;
	}
	return depth;
}

static void write_stack(struct ctf *c, uint32_t thread, int64_t time_ns, uint32_t node)
{
	struct bytes *b;
	size_t depth;

	if (node == 0 || node >= c->info->nodes || !rank_set_take(&c->node_written, node))
		return;
	depth = ctf_read_path(c, node);
	for (size_t i = 0; i < depth; i++)
		write_frame(c, thread, time_ns, c->path[i]);
	b = begin_event(c, thread, CTF_STACK, time_ns);
	bytes_put_fixed(b, node, 4);
	bytes_put_fixed(b, depth, 4);
	for (size_t i = 0; i < depth; i++)
		bytes_put_fixed(
		    b, export_address(c->trace, mayfly_trace_frame(c->trace, c->path[i])), 8);
	for (size_t i = 0; i < depth; i++)
		bytes_put_fixed(b, c->path[i], 4);
}

/* ---- events ---- */

/* The bits that the metadata explains. */
static uint8_t flags_of(const struct mayfly_event *e)
{
	static const uint32_t flags[] = {MAYFLY_FLAG_REALLOC, MAYFLY_FLAG_TEMPORARY,
					 MAYFLY_FLAG_INHERITED, MAYFLY_FLAG_THINNED};
	uint8_t bits = 0;

	for (int i = 0; i < 4; i++)
		bits |= (uint8_t)((e->flags & flags[i] ? 1 : 0) << i);
	return bits;
}

static void ctf_put_span(struct bytes *b, const struct open_span *span)
{
	bytes_put_fixed(b, span && span->number != SPAN_NONE ? span->number + 1 : 0, 8);
}

/* Moves c->order to the current block. */
static void follow_order(struct ctf *c)
{
	int item = WALK_TRACK;

	while (c->has_spans && item == WALK_TRACK)
		item = event_walk_next(&c->order);
	ctf_fail(c, item < 0 ? item : 0);
}

static void write_block(struct ctf *c, const struct mayfly_event *e, int64_t time_ns)
{
	static const enum ctf_event ids[] = {CTF_ALLOC, CTF_FREE, CTF_PROMOTE};
	struct bytes *b;

	follow_order(c);
	if (e->kind == MAYFLY_ALLOC)
		write_stack(c, e->thread, time_ns, e->node);
	b = begin_event(c, e->thread, ids[e->kind], time_ns);
	bytes_put_fixed(b, e->sample, 8);
	bytes_put_fixed(b, e->size, 8);
	put_double(b, e->weight_bytes);
	if (e->kind == MAYFLY_ALLOC) {
		put_double(b, e->weight_blocks);
		bytes_put_fixed(b, e->node, 4);
		bytes_put_fixed(b, e->heap, 1);
	}
	if (e->kind != MAYFLY_PROMOTE)
		bytes_put_fixed(b, flags_of(e), 1);
	/* Never an empty text: babeltrace2 would repeat the previous one. */
	if (e->kind == MAYFLY_ALLOC && c->info->label_sets > 1)
		put_string(b, e->labels ? mayfly_trace_label_text(c->trace, e->labels) : "-");
	if (e->kind == MAYFLY_ALLOC && c->has_spans)
		ctf_put_span(b, event_walk_inside(&c->order, e->thread));
}

static void ctf_put_value(struct bytes *b, uint32_t type, union mayfly_value value)
{
	if (type == MAYFLY_FIELD_TEXT)
		put_string(b, value.text);
	else if (type == MAYFLY_FIELD_FLOAT)
		put_double(b, value.f);
	else
		bytes_put_fixed(b, value.u, 8);
}

static void write_track(struct ctf *c, const struct event_walk *w, int64_t time_ns)
{
	const struct mayfly_track_event *e = &w->track;
	const struct mayfly_track_type *type = mayfly_trace_track_type(c->trace, e->type);
	bool end = e->kind == MAYFLY_TRACK_END;
	struct bytes *b;

	write_stack(c, e->thread, time_ns, e->node);
	b = begin_event(c, e->thread, c->class[e->type].id + end, time_ns);
	for (size_t i = 0; i < type->fields && !end; i++)
		ctf_put_value(b, type->field[i].type, e->value[i]);
	if (c->class[e->type].has_stack && !end)
		bytes_put_fixed(b, e->node, 4);
	if (type->kind == MAYFLY_TYPE_SPAN)
		ctf_put_span(b, &w->span);
}

static int ctf_write_event(void *context, const struct event_walk *w)
{
	struct ctf *c = context;
	bool block = w->item == WALK_BLOCK;
	int64_t time_ns = block ? w->block.time_ns : w->track.time_ns;
	uint32_t thread = block ? w->block.thread : w->track.thread;

	if (!c->begun && time_ns < 0)
		c->zero_ns = time_ns;
	c->begun = true;
	time_ns -= c->zero_ns;
	if (block)
		write_block(c, &w->block, time_ns);
	else
		write_track(c, w, time_ns);
	if (c->stream[thread].packet.used >= c->packet_bytes)
		ctf_end_packet(c, thread);
	return c->error;
}

/* A packet without events. */
static void write_empty(struct ctf *c, int64_t time_ns)
{
	ctf_begin_packet(c, 0, time_ns);
	ctf_end_packet(c, 0);
}

/* Lost events: readers take the increase of a packet's count over the previous packet's. Their
 * threads are unknown, so they are reported at the end of stream 0. */
static void write_discarded(struct ctf *c)
{
	int64_t last_ns = 0;
	uint64_t lost = c->info->dropped_samples + c->info->dropped_frees + c->info->dropped_events;

	if (!lost)
		return;
	for (uint32_t i = 0; i < c->info->threads + 1; i++)
		if (c->stream[i].last_ns > last_ns)
			last_ns = c->stream[i].last_ns;
	if (c->stream[0].packets == 0)
		write_empty(c, 0);
	c->discarded = lost;
	write_empty(c, last_ns);
}

/* Readers reject a folder without any stream. */
static void end_streams(struct ctf *c)
{
	if (!c->begun)
		write_empty(c, 0);
	for (uint32_t i = 0; i < c->info->threads + 1; i++)
		ctf_end_packet(c, i);
	write_discarded(c);
}

static void ctf_write_events(struct ctf *c, const struct mayfly_query *query)
{
	const unsigned all = WALK_BLOCKS | WALK_PROMOTIONS | WALK_TRACKS;

	c->has_spans = ctf_has_spans(c->trace);
	if (c->has_spans)
		ctf_fail(c, event_walk_begin(&c->order, c->trace, query, all));
	if (!c->error)
		ctf_fail(c, event_walk_run(c->trace, query, all | WALK_BY_TIME | WALK_UNMATCHED,
					   ctf_write_event, c));
	if (c->has_spans)
		event_walk_end(&c->order);
	if (!c->error)
		end_streams(c);
}

static int note_stack(void *context, const struct event_walk *w)
{
	struct ctf *c = context;

	c->class[w->track.type].has_stack |= w->track.node != 0;
	return 0;
}

/* Gives types their ids, and finds which of them have stacks: others get no field for them. */
static void make_classes(struct ctf *c, const struct mayfly_query *query)
{
	uint32_t id = CTF_FIRST_TRACK;

	for (size_t i = 0; i < c->info->track_types; i++) {
		c->class[i].id = id++;
		id += mayfly_trace_track_type(c->trace, i)->kind == MAYFLY_TYPE_SPAN;
	}
	ctf_fail(c, event_walk_run(c->trace, query, WALK_TRACKS | WALK_UNMATCHED, note_stack, c));
}

static int write_metadata(const struct ctf *c, const char *purpose)
{
	struct out out;
	FILE *file;
	char *path;
	int error;

	if (asprintf(&path, "%s/" CTF_METADATA, c->folder) < 0)
		return MAYFLY_E_MEMORY;
	file = fopen(path, "wb");
	error = file ? 0 : errno;
	free(path);
	if (!file)
		return error;
	out_begin(&out, to_file, file);
	ctf_metadata(&out, c->trace, c->class, purpose, c->uuid, c->zero_ns);
	return close_file(file, out_end(&out));
}

/* The same trace always gets the same UUID. */
static void make_uuid(struct ctf *c)
{
	uint64_t state[2] = {(uint64_t)c->info->start_real_ns,
			     c->info->seed ^ (uint64_t)c->info->pid << 32 ^ c->info->samples};

	for (int i = 0; i < CTF_UUID_BYTES; i++) {
		state[i / 8] = (state[i / 8] ^ state[i / 8] >> 31) * 0x9e3779b97f4a7c15u + 1;
		c->uuid[i] = (uint8_t)(state[i / 8] >> 56);
	}
	c->uuid[6] = (uint8_t)((c->uuid[6] & 0x0f) | 0x40);
	c->uuid[8] = (uint8_t)((c->uuid[8] & 0x3f) | 0x80);
}

static void make_tables(struct ctf *c)
{
	c->stream = calloc(c->info->threads + 1, sizeof(*c->stream));
	c->class = calloc(c->info->track_types + 1, sizeof(*c->class));
	c->packet_bytes = ALL_PACKET_BYTES / (c->info->threads + 1);
	if (c->packet_bytes > PACKET_BYTES)
		c->packet_bytes = PACKET_BYTES;
	if (c->packet_bytes < LEAST_PACKET)
		c->packet_bytes = LEAST_PACKET;
	if (!c->stream || !c->class || !rank_set_begin(&c->node_written, c->info->nodes) ||
	    !rank_set_begin(&c->frame_written, c->info->frames) ||
	    !rank_set_begin(&c->module_written, c->info->modules))
		ctf_fail(c, MAYFLY_E_MEMORY);
}

int export_ctf(const struct mayfly_trace *trace, const struct export_options *options,
	       const char *folder)
{
	struct ctf c = {.trace = trace, .info = mayfly_trace_info(trace), .folder = folder};

	make_tables(&c);
	make_uuid(&c);
	if (!c.error)
		make_classes(&c, options->query);
	if (!c.error)
		ctf_write_events(&c, options->query);
	if (!c.error)
		ctf_fail(&c, write_metadata(&c, options->purpose));
	for (size_t i = 0; c.stream && i < c.info->threads + 1; i++)
		bytes_free(&c.stream[i].packet);
	free(c.stream);
	rank_set_free(&c.node_written);
	rank_set_free(&c.frame_written);
	rank_set_free(&c.module_written);
	free(c.class);
	free(c.path);
	return c.error;
}

const char *ctf_left_out(const struct mayfly_trace *trace, const struct export_options *options)
{
	(void)options;
	return mayfly_trace_info(trace)->snapshot_ns
		   ? "blocks (a trace of snapshots has none); all other events are included"
		   : NULL;
}
