/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names are the last that a recorder learns, so nothing after NAME refers to STRS (doc/FORMAT.md):
 *
 *	... | STRS | FRMS TREE | NAME | EVNT ... INFO | indx trailer		the trace
 *	    |      |           |      |               |
 *	copy  other    copy     other      copy         other places		what is made of it
 *
 * STRS is the chunk with the strings of NAME. Those that earlier chunks refer to, too, stay in it
 * with their numbers. A trace without such a chunk, or without NAME, gets one before NAME, or indx.
 */
#include "trace/rewrite/names_replace.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "trace/write/tables.h"

struct replacing {
	const struct mayfly_trace *t;
	const struct new_names *names;
	struct recording *r; /* the trace's tables, as the writer of NAME wants them */
	struct table_writer w;
	struct column_writer *columns;
	struct chunk_reader chunk;
	uint64_t budget;

	/* Places in the trace. Sizes are 0 where there is no such chunk. */
	size_t strings_at, strings_size, name_at, name_size, index_at;
	size_t texts;  /* strings at strings_at that stay */
	bool *renamed; /* threads that NAME gives another name */

	struct bytes strings, name, index; /* what takes their places */
};

/* ---- where everything is ---- */

/* Reads the STRS chunk at `at`, whose first string has the number `first`. */
static int see_strings(struct replacing *p, size_t at, size_t size, uint64_t *first)
{
	uint64_t count = varint_u(&p->chunk.head), kept = p->t->table_strings;

	if (p->chunk.head.bad || count > p->t->strings)
		return MAYFLY_E_DAMAGED;
	if (*first + count > kept) {
		if (p->strings_size)
			return MAYFLY_E_DAMAGED; /* no writer makes two such chunks */
		p->strings_at = at;
		p->strings_size = size;
		p->texts = *first < kept ? (size_t)(kept - *first) : 0;
	}
	*first += count;
	return 0;
}

static int see_names(struct replacing *p, size_t at, size_t size)
{
	const uint64_t *code;

	if (p->name_size)
		return MAYFLY_E_DAMAGED; /* one of them counts, the others are bad chunks */
	p->name_at = at;
	p->name_size = size;
	if (p->t->lost.names)
		return 0;
	varint_u(&p->chunk.head);
	varint_u(&p->chunk.head);
	if (!chunk_columns(&p->chunk, 1ull << COLUMN_THREAD_RENAMED | 0x15aaaa))
		return p->chunk.error;
	code = chunk_numbers(&p->chunk, COLUMN_THREAD_RENAMED, p->t->info.threads);
	for (size_t i = 0; code && i < p->t->info.threads; i++)
		p->renamed[i] = code[i] != 0;
	return p->chunk.error;
}

static int see_chunk(struct replacing *p, const struct chunk_header *h, size_t at,
		     uint64_t *strings)
{
	size_t size = TRACE_CHUNK_BYTES + h->stored;

	switch (h->type) {
	case TRACE_STRINGS:
	case TRACE_MODULES:
	case TRACE_THREADS:
	case TRACE_FRAMES:
		if (p->name_size)
			return MAYFLY_E_DAMAGED; /* NAME would not cover them */
		return h->type == TRACE_STRINGS ? see_strings(p, at, size, strings) : 0;
	case TRACE_NAMES:
		return see_names(p, at, size);
	case TRACE_INDEX:
		p->index_at = at;
		return 0;
	}
	return 0;
}

/* Whether the trailer follows at `end`, and the reader took the index. If the trailer or the index is
 * damaged, it did not take it: the copy's would be right, and differ from what was read. */
static bool is_whole(const struct replacing *p, size_t end)
{
	return p->t->indexed && p->t->size - end == TRACE_TRAILER_BYTES &&
	       bytes_load(p->t->data + end) == p->index_at;
}

static int find_chunks(struct replacing *p)
{
	size_t at = TRACE_HEADER_BYTES, size = p->t->size;
	uint64_t strings = 1;
	struct chunk_header h;

	while (!p->index_at) {
		int error = 0;

		if (chunk_find(p->t->data + at, size - at, false, &h))
			return MAYFLY_E_EMPTY;
		if (h.type == TRACE_STRINGS || (h.type == TRACE_NAMES && !p->t->lost.names)) {
			if (chunk_begin(&p->chunk, &h))
				error = see_chunk(p, &h, at, &strings);
			chunk_end(&p->chunk);
			error = error ? error : p->chunk.error;
		} else {
			error = see_chunk(p, &h, at, &strings);
		}
		if (error)
			return error;
		at += TRACE_CHUNK_BYTES + h.stored;
	}
	if (!is_whole(p, at))
		return MAYFLY_E_EMPTY;
	if (!p->name_size)
		p->name_at = p->index_at;
	if (!p->strings_size)
		p->strings_at = p->name_at;
	return 0;
}

/* ---- the tables ---- */

static int number_strings(struct replacing *p)
{
	uint32_t kept = p->t->table_strings;

	for (uint32_t i = 1; i < kept; i++) {
		uint32_t string = recording_name(p->r, p->t->string[i]);

		if (!array_reserve_filled(&p->w.string_number, &p->w.string_room, string,
					  sizeof(*p->w.string_number), 0))
			return MAYFLY_E_MEMORY;
		if (!p->w.string_number[string])
			p->w.string_number[string] = i;
	}
	p->w.next_string = kept;
	for (size_t i = kept - p->texts; i < kept; i++)
		bytes_put(&p->w.text, p->t->string[i], strlen(p->t->string[i]) + 1);
	return p->w.text.failed ? MAYFLY_E_MEMORY : 0;
}

static void fill_modules(struct replacing *p)
{
	for (size_t i = 0; i < p->t->info.modules; i++) {
		struct recording_module to = recording_copy_module(p->r, &p->t->module[i]);

		if (p->names->cured && p->names->cured[i])
			to.problem = 0;
		recording_module(p->r, &to);
	}
}

static int fill_threads(struct replacing *p)
{
	size_t count = p->t->info.threads;

	p->w.thread_name = calloc(count + 1, sizeof(*p->w.thread_name));
	if (!p->w.thread_name)
		return MAYFLY_E_MEMORY;
	p->w.thread_room = count + 1;
	for (size_t i = 0; i < count; i++) {
		const struct mayfly_thread *t = &p->t->thread[i];
		uint32_t name = recording_name(p->r, t->name);

		recording_thread(p->r, t->tid, name);
		p->w.thread_name[i] = p->renamed[i] ? RECORDING_NONE : name;
	}
	return 0;
}

/* A frame that NAME has no location for; the reader has made it one. */
static bool has_no_location(const struct mayfly_frame *f)
{
	return f->kind == MAYFLY_FRAME_CODE && f->locations == 1 && !*f->location->function &&
	       !*f->location->file && !f->location->line;
}

/* Frames keep their numbers, also where a file has one twice. late[]: for each frame 1 + the number of its new name, or 0. */
static int fill_frames(struct replacing *p, const uint32_t *late)
{
	size_t count = p->t->info.frames;

	p->w.frame_order = calloc(count + 1, sizeof(*p->w.frame_order));
	if (!p->w.frame_order ||
	    !array_reserve(&p->r->frame, &p->r->frame_size, count, sizeof(*p->r->frame)))
		return MAYFLY_E_MEMORY;
	p->w.frame_order_room = count + 1;
	p->r->frames = count;
	p->w.frames = p->w.frames_written = count;
	for (uint32_t i = 0; i < count; i++) {
		const struct mayfly_frame *f = &p->t->frame[i];
		const struct late_name *n = late[i] ? &p->names->name[late[i] - 1] : NULL;

		p->r->frame[i] = (struct recording_frame){
		    .kind = f->kind, .module = f->module, .address = f->address};
		p->w.frame_order[i] = i;
		if (n)
			recording_copy_locations(p->r, i, p->names->location + n->first, n->count);
		else if (!has_no_location(f))
			recording_copy_locations(p->r, i, f->location, f->locations);
	}
	return p->r->failed ? MAYFLY_E_MEMORY : 0;
}

static int fill_named_frames(struct replacing *p)
{
	uint32_t *late = calloc(p->t->info.frames + 1, sizeof(*late));
	int error = MAYFLY_E_MEMORY;

	for (size_t i = 0; late && i < p->names->names; i++)
		late[p->names->name[i].frame] = (uint32_t)i + 1;
	if (late)
		error = fill_frames(p, late);
	free(late);
	return error;
}

static int fill_tables(struct replacing *p)
{
	int error;

	p->r = recording_new();
	if (!p->r || !tables_begin(&p->w, p->r))
		return MAYFLY_E_MEMORY;
	error = number_strings(p);
	fill_modules(p);
	if (!error)
		error = fill_threads(p);
	if (!error)
		error = fill_named_frames(p);
	p->w.modules = p->t->info.modules;
	p->w.threads = p->t->info.threads;
	return error;
}

/* ---- the index ---- */

/* Where a chunk of the trace lies from now on. */
static uint64_t new_place(const struct replacing *p, uint64_t at)
{
	uint64_t to = at;

	if (at > p->strings_at)
		to += p->strings.used - p->strings_size;
	if (at > p->name_at)
		to += p->name.used - p->name_size;
	return to;
}

/* Copies the index entries with other places. */
static void move_entries(struct replacing *p, struct bytes *to)
{
	const struct mayfly_info *info = &p->t->info;
	struct varint_in *in = &p->chunk.head;
	uint64_t count = varint_u(in), at = 0, last = 0;
	/* Unsigned, zigzag or not: a number is copied as it stands. */
	size_t numbers = 5 + (info->mode == MAYFLY_EXACT || info->snapshot_ns ? 2 : 0);

	bytes_put_u(to, count);
	bytes_put_u(to, varint_u(in));
	for (uint64_t i = 0; i < count && !in->bad && !to->failed; i++) {
		uint64_t place;

		at += varint_u(in);
		place = new_place(p, at);
		bytes_put_u(to, place - last);
		last = place;
		for (size_t k = 0; k < numbers; k++)
			bytes_put_u(to, varint_u(in));
	}
	if (in->bad || varint_left(in))
		chunk_fail(&p->chunk, MAYFLY_E_DAMAGED);
}

static int make_index(struct replacing *p)
{
	uint64_t at = p->index_at + p->strings.used - p->strings_size + p->name.used - p->name_size;
	struct bytes entries = {0}, *out = &p->index;
	struct chunk_header h;

	if (chunk_find(p->t->data + p->index_at, p->t->size - p->index_at, false, &h))
		return MAYFLY_E_DAMAGED;
	if (chunk_begin(&p->chunk, &h))
		move_entries(p, &entries);
	chunk_end(&p->chunk);
	out->failed |= entries.failed;
	if (!out->failed && !p->chunk.error) {
		chunk_write(p->columns, out, TRACE_INDEX, &entries, NULL, 0);
		bytes_put_fixed(out, at, 8);
	}
	bytes_free(&entries);
	if (p->chunk.error)
		return p->chunk.error;
	if (!out->failed)
		bytes_put_fixed(out, trace_checksum(0, out->at + out->used - 8, 8), 4);
	bytes_put_fixed(out, 0, 4);
	bytes_put(out, TRACE_END_MAGIC, 8);
	return out->failed ? MAYFLY_E_MEMORY : 0;
}

/* ---- the copy ---- */

static int write_copy(const struct replacing *p, trace_sink *sink, void *context)
{
	const uint8_t *data = p->t->data;
	const size_t between = p->strings_at + p->strings_size, after = p->name_at + p->name_size;
	const struct {
		const void *bytes;
		size_t size;
	} part[] = {
	    {data, p->strings_at},
	    {p->strings.at, p->strings.used},
	    {data + between, p->name_at - between},
	    {p->name.at, p->name.used},
	    {data + after, p->index_at - after},
	    {p->index.at, p->index.used},
	};
	int error = 0;

	for (size_t i = 0; i < sizeof(part) / sizeof(*part) && !error; i++)
		error = part[i].size ? sink(context, part[i].bytes, part[i].size) : 0;
	return error;
}

static int make_chunks(struct replacing *p)
{
	int error = find_chunks(p);

	if (!error)
		error = fill_tables(p);
	if (error)
		return error;
	tables_write_names(&p->w, p->texts, p->columns, &p->strings, &p->name);
	return p->w.error ? p->w.error : make_index(p);
}

int trace_replace_names(const struct mayfly_trace *t, const struct new_names *names,
			trace_sink *sink, void *context)
{
	struct replacing p = {.t = t, .names = names, .budget = trace_budget(t)};
	int error = MAYFLY_E_MEMORY;

	if (!t->table_strings || t->table_strings > t->strings)
		return MAYFLY_E_DAMAGED;
	p.renamed = calloc(t->info.threads + 1, sizeof(*p.renamed));
	p.columns = column_writer_new(trace_writer_level(t->info.samples));
	p.chunk.compress = compress_new(0);
	p.chunk.budget = &p.budget;
	if (p.renamed && p.columns && p.chunk.compress)
		error = make_chunks(&p);
	if (!error)
		error = write_copy(&p, sink, context);
	tables_free(&p.w);
	recording_free(p.r);
	compress_free(p.chunk.compress);
	column_writer_free(p.columns);
	free(p.renamed);
	bytes_free(&p.strings);
	bytes_free(&p.name);
	bytes_free(&p.index);
	return error;
}
