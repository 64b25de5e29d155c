/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading the tables of a trace, group after group: each chunk adds rows. doc/FORMAT.md, sections
 * 3.4 to 3.6. Nothing that a chunk says is taken before it was checked.
 */
#include <stdlib.h>
#include <string.h>

#include "format/format.h"
#include "trace/frame_order.h"
#include "trace/read/reader.h"
#include "base/varint.h"

void *trace_keep(struct mayfly_trace *t, struct chunk_reader *c, uint64_t count, size_t item)
{
	void *memory = NULL;
	size_t room = 0;

	if (!chunk_grow(c, GROWING(t->block, t->block_room, t->blocks), 1) ||
	    !chunk_grow(c, (struct kept_array){&memory, &room, 0, item, false}, count + 1))
		return NULL;
	return t->block[t->blocks++] = memory;
}

size_t tables_read_count(struct table_reader *r, uint64_t most)
{
	uint64_t count = varint_u(&r->chunk.head);

	if (count <= most)
		return (size_t)count;
	tables_damaged(r);
	return 0;
}

/* Numbers of items, those of all groups together, must fit 32 bits. */
static size_t read_count(struct table_reader *r, size_t before)
{
	return tables_read_count(r, before < UINT32_MAX ? UINT32_MAX - 1 - before : 0);
}

/* ---- strings ---- */

void tables_read_texts(struct table_reader *r, const char ***text, size_t *texts, size_t *room)
{
	size_t count = read_count(r, *texts), size, found = 0, start = 0;
	const uint8_t *bytes;
	char *kept;

	if (!chunk_columns(&r->chunk, 1ull << COLUMN_STRING_BYTES))
		return;
	bytes = chunk_bytes(&r->chunk, COLUMN_STRING_BYTES, &size);
	if (!bytes)
		return;
	if (count > size || (size && bytes[size - 1])) {
		tables_damaged(r);
		return;
	}
	kept = trace_keep(r->t, &r->chunk, size, 1);
	if (!kept || !tables_grow(r, GROWING(*text, *room, *texts), count))
		return;
	memcpy(kept, bytes, size);
	while (start < size && found < count) {
		(*text)[*texts + found++] = kept + start;
		start += strlen(kept + start) + 1;
	}
	if (found != count || start != size)
		tables_damaged(r);
	*texts += found;
}

/* A column of string references. The order of the calls is the order of numbering. */
struct reference {
	struct table_reader *r;
	uint32_t last;
};

static uint32_t read_reference(struct reference *column, uint64_t code)
{
	struct table_reader *r = column->r;
	uint64_t number;

	if (code == 0)
		return 0;
	number = code == 1 ? r->next_string++ : code == 2 ? column->last : code - 3;
	if (number >= r->t->strings || number == 0) {
		tables_damaged(r);
		return 0;
	}
	column->last = (uint32_t)number;
	if (number >= r->string_end)
		r->string_end = (uint32_t)number + 1;
	return column->last;
}

/* The numbers of a column's strings. */
static const uint32_t *string_column(struct table_reader *r, unsigned id, size_t count)
{
	const uint64_t *code = chunk_numbers(&r->chunk, id, count);
	uint32_t *number = chunk_memory(&r->chunk, count, sizeof(*number));
	struct reference column = {.r = r};

	if (!code || !number)
		return NULL;
	for (size_t i = 0; i < count && !r->chunk.error; i++)
		number[i] = read_reference(&column, code[i]);
	return r->chunk.error ? NULL : number;
}

/* ---- modules and threads ---- */

uint64_t chunk_unit(struct chunk_reader *c)
{
	uint64_t unit = varint_u(&c->head);

	if (unit < 1 || unit > 1000000000)
		chunk_fail(c, MAYFLY_E_DAMAGED);
	return unit;
}

int64_t chunk_time(struct chunk_reader *c, int64_t count, uint64_t unit)
{
	int64_t ns;

	if (!__builtin_mul_overflow(count, (int64_t)unit, &ns) && ns <= TRACE_LATEST_NS &&
	    ns >= -TRACE_LATEST_NS)
		return ns;
	chunk_fail(c, MAYFLY_E_DAMAGED);
	return 0;
}

static void read_build_ids(struct table_reader *r, struct mayfly_module *m, size_t count)
{
	const uint64_t *length = chunk_numbers(&r->chunk, COLUMN_MODULE_BUILD_ID_LENGTH, count);
	size_t size = 0, used = 0;
	const uint8_t *ids = length ? chunk_bytes(&r->chunk, COLUMN_MODULE_BUILD_ID, &size) : NULL;
	uint8_t *kept = ids ? trace_keep(r->t, &r->chunk, size, 1) : NULL;

	if (!kept)
		return;
	memcpy(kept, ids, size);
	for (size_t i = 0; i < count; i++) {
		if (length[i] > size - used) {
			tables_damaged(r);
			return;
		}
		m[i].build_id = kept + used;
		m[i].build_id_length = (size_t)length[i];
		used += (size_t)length[i];
	}
}

static void read_modules(struct table_reader *r)
{
	struct mayfly_trace *t = r->t;
	struct chunk_reader *c = &r->chunk;
	size_t count = read_count(r, t->info.modules);
	uint64_t unit = chunk_unit(&r->chunk), last;
	const uint64_t *start, *size, *bias, *from;
	const uint32_t *path;
	struct mayfly_module *m;

	if (!chunk_columns(c, 0xa2aa))
		return;
	path = string_column(r, COLUMN_MODULE_PATH, count);
	start = chunk_numbers(c, COLUMN_MODULE_START, count);
	size = chunk_numbers(c, COLUMN_MODULE_SIZE, count);
	bias = chunk_numbers(c, COLUMN_MODULE_BIAS, count);
	from = chunk_numbers(c, COLUMN_MODULE_FROM, count);
	if (!tables_grow(r, GROWING(t->module, t->module_room, t->info.modules), count))
		return;
	m = t->module + t->info.modules;
	last = t->info.modules ? m[-1].start : 0;
	for (size_t i = 0; i < count; i++) {
		m[i].path = t->string[path[i]];
		m[i].problem = "";
		m[i].start = last + varint_unzigzag(start[i]);
		last = m[i].start;
		m[i].end = m[i].start + size[i];
		m[i].bias = m[i].start + varint_unzigzag(bias[i]);
		m[i].from_ns = chunk_time(&r->chunk, (int64_t)varint_unzigzag(from[i]), unit);
		m[i].to_ns = INT64_MAX;
	}
	read_build_ids(r, m, count);
	t->info.modules += count;
}

static void read_thread_table(struct table_reader *r)
{
	struct mayfly_trace *t = r->t;
	size_t count = read_count(r, t->info.threads);
	const uint64_t *tid, *row;
	const uint32_t *name;
	struct mayfly_thread *thread;
	uint32_t last;

	if (!chunk_columns(&r->chunk, 1ull << COLUMN_THREAD_TID | 1ull << COLUMN_THREAD_NAME |
					  1ull << COLUMN_THREAD_ROW))
		return;
	tid = chunk_numbers(&r->chunk, COLUMN_THREAD_TID, count);
	name = string_column(r, COLUMN_THREAD_NAME, count);
	row = chunk_numbers(&r->chunk, COLUMN_THREAD_ROW, count);
	if (!tables_grow(r, GROWING(t->thread, t->thread_room, t->info.threads), count))
		return;
	thread = t->thread + t->info.threads;
	last = t->info.threads ? thread[-1].tid : 0;
	for (size_t i = 0; i < count; i++) {
		last += (uint32_t)varint_unzigzag(tid[i]);
		thread[i].tid = last;
		thread[i].name = t->string[name[i]];
		if (row[i] > t->info.threads + i) {
			tables_damaged(r);
			return;
		}
		thread[i].row = (uint32_t)(t->info.threads + i - row[i]);
		if (row[i])
			thread[i].row = t->thread[thread[i].row].row;
	}
	t->info.threads += count;
}

/* ---- frames ---- */

/* A code frame that no name is known of. */
static const struct mayfly_location nowhere = {.function = "", .file = ""};

static void read_frames(struct table_reader *r)
{
	struct mayfly_trace *t = r->t;
	struct chunk_reader *c = &r->chunk;
	size_t count = read_count(r, t->info.frames);
	const uint64_t *kind, *module, *address;
	struct mayfly_frame *f;
	uint64_t last = 0;

	if (!chunk_columns(c, 0x2a))
		return;
	kind = chunk_numbers(c, COLUMN_FRAME_KIND, count);
	module = chunk_numbers(c, COLUMN_FRAME_MODULE, count);
	address = chunk_numbers(c, COLUMN_FRAME_ADDRESS, count);
	if (!tables_grow(r, GROWING(t->frame, t->frame_room, t->info.frames), count))
		return;
	f = t->frame + t->info.frames;
	for (size_t i = 0; i < count; i++) {
		if (kind[i] > MAYFLY_FRAME_ELIDED || module[i] > t->info.modules) {
			tables_damaged(r);
			return;
		}
		if (i && (kind[i] != kind[i - 1] || module[i] != module[i - 1]))
			last = 0;
		last += address[i];
		f[i].kind = (uint32_t)kind[i];
		f[i].module = (uint32_t)module[i] - 1;
		f[i].address = last;
		f[i].locations = f[i].kind == MAYFLY_FRAME_CODE;
		f[i].location = f[i].locations ? &nowhere : NULL;
	}
	t->info.frames += count;
}

/* ---- the tree ---- */

/* An entry of the list of frames that followed a frame, most recent first; see tables.c. */
struct successor {
	uint32_t frame, next;
};

static bool follow_rank(uint32_t *first, struct successor *entry, uint64_t rank, uint32_t *frame)
{
	uint32_t *link = first, found;

	while (--rank && *link)
		link = &entry[*link - 1].next;
	found = *link;
	if (!found)
		return false;
	*frame = entry[found - 1].frame;
	*link = entry[found - 1].next;
	entry[found - 1].next = *first;
	*first = found;
	return true;
}

/* Parents of the new nodes, from the chains. */
static bool read_chains(struct table_reader *r, size_t chains, size_t count)
{
	struct mayfly_trace *t = r->t;
	const uint32_t *parent = chunk_numbers32(&r->chunk, COLUMN_CHAIN_PARENT, chains);
	const uint32_t *length = chunk_numbers32(&r->chunk, COLUMN_CHAIN_LENGTH, chains);
	size_t next = t->info.nodes, end = next + count;

	if (!parent || !length)
		return false;
	for (size_t i = 0; i < chains; i++) {
		if (length[i] >= end - next || parent[i] >= next) {
			tables_damaged(r);
			return false;
		}
		t->node[next].parent = (uint32_t)(next - 1 - parent[i]);
		for (uint64_t k = 0; k <= length[i]; k++, next++) {
			if (k)
				t->node[next].parent = (uint32_t)(next - 1);
			r->depth[next] = (uint16_t)(r->depth[t->node[next].parent] + 1);
			if (r->depth[next] > TRACE_MAX_DEPTH) {
				tables_damaged(r);
				return false;
			}
		}
		t->chain_end[t->chains + i] = (uint32_t)(next - 1);
	}
	if (next != end)
		tables_damaged(r);
	return !r->chunk.error;
}

struct node_columns {
	const uint8_t *rank;
	const uint32_t *missed;
	const uint64_t *beside;
	size_t misses, besides, used, used_besides;
};

static bool read_node(struct table_reader *r, struct node_columns *c, struct mayfly_node *n,
		      uint64_t rank)
{
	struct mayfly_trace *t = r->t;
	uint32_t *list = &r->successors[n->parent ? t->node[n->parent].frame + 1 : 0];
	uint64_t frame = UINT64_MAX;

	if (rank)
		return rank <= TRACE_MAX_RANK && follow_rank(list, r->entry, rank, &n->frame);
	if (*list && c->used_besides < c->besides)
		frame = r->entry[*list - 1].frame + varint_unzigzag(c->beside[c->used_besides++]);
	else if (!*list && c->used < c->misses)
		frame = c->missed[c->used++];
	if (frame >= t->info.frames)
		return false;
	n->frame = (uint32_t)frame;
	r->entry[r->entries] = (struct successor){n->frame, *list};
	*list = (uint32_t)++r->entries;
	return true;
}

static bool grow_tree(struct table_reader *r, size_t count, size_t chains, size_t entries)
{
	struct mayfly_trace *t = r->t;

	return tables_grow(r, GROWING_DIRTY(t->node, t->node_room, t->info.nodes), count) &&
	       tables_grow(r, GROWING_DIRTY(r->depth, r->depth_room, t->info.nodes), count) &&
	       tables_grow(r, GROWING_DIRTY(t->chain_end, t->chain_room, t->chains), chains) &&
	       tables_grow(r, GROWING(r->successors, r->successors_room, 0),
			   (uint64_t)t->info.frames + 1) &&
	       tables_grow(r, GROWING(r->entry, r->entry_room, r->entries), entries);
}

static void read_tree(struct table_reader *r)
{
	struct mayfly_trace *t = r->t;
	size_t count = read_count(r, t->info.nodes), chains = read_count(r, 0);
	struct node_columns c = {.misses = read_count(r, 0), .besides = read_count(r, 0)};

	if (chains > count || c.misses > count || c.besides > count - c.misses)
		tables_damaged(r);
	if (!chunk_columns(&r->chunk, 0x2aa) ||
	    !grow_tree(r, count, chains, c.misses + c.besides) || !read_chains(r, chains, count))
		return;
	c.rank = chunk_numbers8(&r->chunk, COLUMN_NODE_RANK, count);
	c.missed = chunk_numbers32(&r->chunk, COLUMN_NODE_FRAME, c.misses);
	c.beside = chunk_numbers(&r->chunk, COLUMN_NODE_BESIDE, c.besides);
	for (size_t i = 0; !r->chunk.error && i < count; i++)
		if (!read_node(r, &c, &t->node[t->info.nodes + i], c.rank[i]))
			tables_damaged(r);
	if (c.used != c.misses || c.used_besides != c.besides)
		tables_damaged(r);
	t->info.nodes += count;
	t->chains += chains;
}

/* ---- names ---- */

/* What NAME says, all of which is read before any of it counts: where it is damaged, the trace goes
 * without names. */
struct read_names {
	const uint32_t *problem; /* string, of each module */
	int64_t *to_ns;
	uint32_t *renamed; /* 1 + string, of each thread; 0: the name stays */
	const uint64_t *listed;
	const struct frame_key *key;
};

static void read_module_names(struct table_reader *r, uint64_t unit, struct read_names *n)
{
	struct mayfly_trace *t = r->t;
	size_t count = t->info.modules;
	const uint64_t *to = chunk_numbers(&r->chunk, COLUMN_MODULE_TO, count);

	n->problem = string_column(r, COLUMN_MODULE_PROBLEM, count);
	n->to_ns = chunk_memory(&r->chunk, count, sizeof(*n->to_ns));
	for (size_t i = 0; !r->chunk.error && i < count; i++) {
		int64_t ns = to[i]
				 ? chunk_time(&r->chunk, (int64_t)varint_unzigzag(to[i] - 1), unit)
				 : INT64_MAX;

		n->to_ns[i] = ns;
		if (to[i] && __builtin_add_overflow(t->module[i].from_ns, ns, &n->to_ns[i]))
			tables_damaged(r);
	}
}

static void read_thread_names(struct table_reader *r, struct read_names *n)
{
	size_t count = r->t->info.threads;
	const uint64_t *code = chunk_numbers(&r->chunk, COLUMN_THREAD_RENAMED, count);
	struct reference name = {.r = r};

	n->renamed = chunk_memory(&r->chunk, count, sizeof(*n->renamed));
	for (size_t i = 0; !r->chunk.error && i < count; i++)
		if (code[i])
			n->renamed[i] = 1 + read_reference(&name, code[i] - 1);
}

static void read_locations(struct table_reader *r, size_t count)
{
	struct mayfly_trace *t = r->t;
	struct chunk_reader *c = &r->chunk;
	const uint32_t *function = string_column(r, COLUMN_LOCATION_FUNCTION, count);
	const uint32_t *file = string_column(r, COLUMN_LOCATION_FILE, count);
	const uint64_t *line = chunk_numbers(c, COLUMN_LOCATION_LINE, count);
	const uint64_t *inlined = chunk_numbers(c, COLUMN_LOCATION_INLINED, count);
	const uint64_t *first = chunk_numbers(c, COLUMN_LOCATION_FIRST, count);
	const uint64_t *length = chunk_numbers(c, COLUMN_LOCATION_LENGTH, count);
	const uint64_t *respelled = chunk_numbers(c, COLUMN_LOCATION_RESPELLED, count);
	uint32_t *last = chunk_memory(c, t->strings, sizeof(*last));

	if (c->error)
		return;
	t->location = trace_keep(t, c, count, sizeof(*t->location));
	for (size_t i = 0; !c->error && i < count; i++) {
		struct mayfly_location *l = &t->location[i];

		l->function = t->string[function[i]];
		l->file = t->string[file[i]];
		last[file[i]] += (uint32_t)varint_unzigzag(line[i]);
		l->line = last[file[i]];
		l->first_char = (uint32_t)first[i];
		l->last_char = l->first_char + (uint32_t)varint_unzigzag(length[i]);
		l->respelled = (uint16_t)respelled[i];
		l->inlined = inlined[i] != 0; /* until then: is unexpected */
	}
}

/* The frames in the order in which NAME has them. */
static const struct frame_key *sorted_frames(struct table_reader *r)
{
	size_t count = r->t->info.frames;
	struct frame_key *key = chunk_memory(&r->chunk, count, sizeof(*key));

	for (size_t i = 0; key && i < count; i++) {
		const struct mayfly_frame *f = &r->t->frame[i];

		key[i] = (struct frame_key){f->address, f->kind, f->module, (uint32_t)i};
	}
	if (key)
		frame_keys_sort(key, count);
	return key;
}

/* The module into which named frames outside of all modules belong; UINT32_MAX: none. Where frames
 * are in it already, they were written with their names, and the others are not of it. */
static uint32_t jit_module(const struct mayfly_trace *t)
{
	size_t jit = 0;

	while (jit < t->info.modules && strcmp(t->module[jit].path, TRACE_JIT_MODULE) != 0)
		jit++;
	for (size_t i = 0; i < t->info.frames; i++)
		if (t->frame[i].module == jit)
			return UINT32_MAX;
	return jit < t->info.modules ? (uint32_t)jit : UINT32_MAX;
}

static void read_frame_names(struct table_reader *r, size_t locations, struct read_names *n)
{
	size_t count = r->t->info.frames, used = 0;

	n->listed = chunk_numbers(&r->chunk, COLUMN_FRAME_LOCATIONS, count);
	n->key = sorted_frames(r);
	for (size_t i = 0; !r->chunk.error && i < count; i++) {
		if (n->listed[i] > locations - used)
			tables_damaged(r);
		else
			used += (size_t)n->listed[i];
	}
	if (used != locations)
		tables_damaged(r);
}

static void set_frame_names(struct mayfly_trace *t, const struct read_names *n)
{
	uint32_t jit = jit_module(t);
	size_t used = 0;

	for (size_t i = 0; i < t->info.frames; i++) {
		struct mayfly_frame *f = &t->frame[n->key[i].index];

		if (!n->listed[i])
			continue;
		f->locations = (size_t)n->listed[i];
		f->location = t->location + used;
		for (size_t k = 0; k < f->locations; k++)
			t->location[used + k].inlined ^= k + 1 < f->locations;
		used += f->locations;
		/* It had been written before it had a name. */
		if (f->kind == MAYFLY_FRAME_CODE && f->module == UINT32_MAX)
			f->module = jit;
		t->info.frames_symbolized += *f->location->function != 0;
	}
}

static void set_names(struct mayfly_trace *t, const struct read_names *n)
{
	for (size_t i = 0; i < t->info.modules; i++) {
		t->module[i].problem = t->string[n->problem[i]];
		t->module[i].to_ns = n->to_ns[i];
	}
	for (size_t i = 0; i < t->info.threads; i++)
		if (n->renamed[i])
			t->thread[i].name = t->string[n->renamed[i] - 1];
	set_frame_names(t, n);
}

static void note_table_strings(struct table_reader *r)
{
	if (r->t && !r->named)
		r->t->table_strings = r->string_end <= r->next_string ? r->next_string : 0;
}

static void read_name_chunk(struct table_reader *r)
{
	size_t locations = read_count(r, 0);
	uint64_t unit = chunk_unit(&r->chunk);
	struct read_names n;

	if (r->named || r->t->lost.names)
		tables_damaged(r);
	note_table_strings(r);
	r->named = true;
	if (!chunk_columns(&r->chunk, 0x15aaaa))
		return;
	read_module_names(r, unit, &n);
	read_thread_names(r, &n);
	read_frame_names(r, locations, &n);
	read_locations(r, locations);
	if (!r->chunk.error)
		set_names(r->t, &n);
}

/* ---- all of them ---- */

bool tables_read(struct table_reader *r, uint32_t type)
{
	switch (type) {
	case TRACE_STRINGS:
		tables_read_texts(r, &r->t->string, &r->t->strings, &r->t->string_room);
		return true;
	case TRACE_MODULES:
		read_modules(r);
		return true;
	case TRACE_THREADS:
		read_thread_table(r);
		return true;
	case TRACE_FRAMES:
		read_frames(r);
		return true;
	case TRACE_TREE:
		read_tree(r);
		return true;
	case TRACE_NAMES:
		read_name_chunk(r);
		return true;
	}
	return false;
}

void tables_read_end(struct table_reader *r)
{
	note_table_strings(r);
	free(r->depth);
	free(r->successors);
	free(r->entry);
}
