/* SPDX-License-Identifier: Apache-2.0 */
/* Writing the tables, group after group. See tables.h and doc/FORMAT.md. */
#include "trace/write/tables.h"

#include <stdlib.h>
#include <string.h>

#include "format/format.h"
#include "base/array.h"
#include "trace/frame_order.h"

/*
 * An entry of the list of frames that followed a frame, most recent first. Writer and reader look
 * at the first TRACE_MAX_RANK entries only.
 */
struct successor {
	uint32_t frame, next; /* next: entry + 1 */
};

static void tables_fail(struct table_writer *w, int error)
{
	if (!w->error)
		w->error = w->r->failed ? MAYFLY_E_MEMORY : error;
}

/* Makes room for `want` items; new memory is filled with `fill`. */
static bool tables_reserve(struct table_writer *w, void *array, size_t *room, size_t want,
			   size_t item, int fill)
{
	if (!array_reserve_filled(array, room, want, item, fill))
		tables_fail(w, MAYFLY_E_MEMORY);
	return !w->error;
}

bool tables_begin(struct table_writer *w, const struct recording *r)
{
	memset(w, 0, sizeof(*w));
	w->r = r;
	w->next_string = 1;
	if (!tables_reserve(w, &w->node_frame, &w->node_room, 1, sizeof(*w->node_frame), 0) ||
	    !tables_reserve(w, &w->depth, &w->depth_room, 1, sizeof(*w->depth), 0) ||
	    !tables_reserve(w, &w->node_number, &w->node_number_room, 1, sizeof(*w->node_number),
			    0xff))
		return false;
	w->node_number[0] = 0;
	w->nodes = w->nodes_written = 1;
	return true;
}

void tables_free(struct table_writer *w)
{
	free(w->thread_name);
	free(w->string_number);
	bytes_free(&w->text);
	free(w->frame_number);
	free(w->frame_order);
	free(w->node_number);
	free(w->node_frame);
	free(w->depth);
	free(w->chain_end);
	free(w->chain_parent);
	free(w->successors);
	free(w->entry);
	memset(w, 0, sizeof(*w));
}

/* ---- the chunks of one group ---- */

struct batch {
	struct table_writer *w;
	struct column_writer *columns;
	struct bytes *out;
};

static uint64_t *new_column(struct batch *b, struct chunk_maker *c, unsigned id, size_t count)
{
	uint64_t *value = chunk_add(c, id, count);

	if (!value)
		tables_fail(b->w, MAYFLY_E_MEMORY);
	return value;
}

/* Writes the chunk if it has rows. */
static void write_chunk(struct batch *b, struct chunk_maker *c, uint32_t type, bool rows)
{
	if (rows && !b->w->error)
		chunk_finish(c, b->columns, type, b->out);
	else
		chunk_drop(c);
	if (b->out->failed)
		tables_fail(b->w, MAYFLY_E_MEMORY);
}

/* ---- strings ---- */

/*
 * Codes references of one column: 0 the empty string, 1 the next string that was not used so far,
 * 2 the same as the column's last one, else 3 + its number.
 */
struct reference_column {
	uint64_t *value;
	size_t count;
	uint32_t last;
};

static uint64_t refer_to(struct table_writer *w, struct reference_column *c, uint32_t string)
{
	const char *text = recording_text(w->r, string);
	uint32_t *number;
	uint64_t code;

	if (!*text)
		return 0;
	if (!tables_reserve(w, &w->string_number, &w->string_room, w->r->strings, sizeof(*number),
			    0))
		return 0;
	number = &w->string_number[string];
	if (!*number) {
		*number = w->next_string++;
		bytes_put(&w->text, text, strlen(text) + 1);
		code = 1;
	} else if (*number == c->last) {
		code = 2;
	} else {
		code = 3 + (uint64_t)*number;
	}
	c->last = *number;
	return code;
}

static void add_reference(struct table_writer *w, struct reference_column *c, uint32_t string)
{
	c->value[c->count++] = refer_to(w, c, string);
}

void tables_write_texts(struct bytes *text, size_t count, uint32_t type,
			struct column_writer *columns, struct bytes *out)
{
	struct chunk_maker c = {.failed = text->failed, .columns = 1};

	if (!count)
		return;
	c.column[0] =
	    (struct column){.id = COLUMN_STRING_BYTES, .bytes = text->at, .size = text->used};
	bytes_put_u(&c.head, count);
	chunk_finish(&c, columns, type, out);
	text->used = 0;
}

/* ---- modules and threads ---- */

static int64_t module_time(int64_t ns)
{
	const int64_t most =
	    TRACE_LATEST_NS / 2; /* so that differences are within the limit, too */

	ns = ns > most ? most : ns < -most ? -most : ns;
	return ns / TRACE_UNIT_NS - (ns % TRACE_UNIT_NS < 0);
}

static void refer_to_paths(struct batch *b, struct chunk_maker *c)
{
	struct table_writer *w = b->w;
	struct reference_column path = {
	    .value = new_column(b, c, COLUMN_MODULE_PATH, w->r->modules - w->modules)};

	for (size_t i = w->modules; !w->error && i < w->r->modules; i++)
		add_reference(w, &path, w->r->module[i].path);
}

/* c: has the paths. */
static void write_modules(struct batch *b, struct chunk_maker *c)
{
	struct table_writer *w = b->w;
	const struct recording_module *module = w->r->module;
	size_t count = w->r->modules - w->modules;
	uint64_t *start = new_column(b, c, COLUMN_MODULE_START, count);
	uint64_t *size = new_column(b, c, COLUMN_MODULE_SIZE, count);
	uint64_t *bias = new_column(b, c, COLUMN_MODULE_BIAS, count);
	uint64_t *from = new_column(b, c, COLUMN_MODULE_FROM, count);
	uint64_t *id_length = new_column(b, c, COLUMN_MODULE_BUILD_ID_LENGTH, count);
	uint64_t last = w->modules ? module[w->modules - 1].start : 0;
	struct bytes ids = {0};

	for (size_t i = 0; !w->error && i < count; i++) {
		const struct recording_module *m = &module[w->modules + i];

		start[i] = varint_zigzag((int64_t)(m->start - last));
		size[i] = m->end - m->start;
		bias[i] = varint_zigzag((int64_t)(m->bias - m->start));
		from[i] = varint_zigzag(module_time(m->from_ns));
		id_length[i] = m->build_id_length;
		last = m->start;
		if (m->build_id_length > sizeof(m->build_id))
			tables_fail(w, MAYFLY_E_RANGE);
		else
			bytes_put(&ids, m->build_id, m->build_id_length);
	}
	if (ids.failed)
		tables_fail(w, MAYFLY_E_MEMORY);
	if (ids.used)
		c->column[c->columns++] = (struct column){
		    .id = COLUMN_MODULE_BUILD_ID, .bytes = ids.at, .size = ids.used};
	bytes_put_u(&c->head, count);
	bytes_put_u(&c->head, TRACE_UNIT_NS);
	write_chunk(b, c, TRACE_MODULES, count);
	bytes_free(&ids);
	w->modules += count;
}

static void list_threads(struct batch *b, struct chunk_maker *c)
{
	struct table_writer *w = b->w;
	const struct recording_thread *thread = w->r->thread;
	size_t count = w->r->threads - w->threads;
	uint64_t *tid = new_column(b, c, COLUMN_THREAD_TID, count);
	struct reference_column name = {.value = new_column(b, c, COLUMN_THREAD_NAME, count)};
	uint64_t *row = new_column(b, c, COLUMN_THREAD_ROW, count);
	uint32_t last = w->threads ? thread[w->threads - 1].tid : 0;

	tables_reserve(w, &w->thread_name, &w->thread_room, w->r->threads, sizeof(*w->thread_name),
		       0);
	for (size_t i = w->threads; !w->error && i < w->r->threads; i++) {
		*tid++ = varint_zigzag((int64_t)thread[i].tid - last);
		last = thread[i].tid;
		*row++ = i - thread[i].row;
		w->thread_name[i] = thread[i].name;
		add_reference(w, &name, thread[i].name);
	}
	bytes_put_u(&c->head, count);
}

/* ---- frames ---- */

/* Sorts numbers of the tables' frames. */
static void sort_frames(struct table_writer *w, uint32_t *frame, size_t count)
{
	struct frame_key *key = malloc((count + 1) * sizeof(*key));

	if (!key) {
		tables_fail(w, MAYFLY_E_MEMORY);
		return;
	}
	for (size_t i = 0; i < count; i++) {
		const struct recording_frame *f = &w->r->frame[frame[i]];

		key[i] = (struct frame_key){f->address, f->kind, f->module, frame[i]};
	}
	frame_keys_sort(key, count);
	for (size_t i = 0; i < count; i++)
		frame[i] = key[i].index;
	free(key);
}

/* Notes that a frame is needed. */
static bool need_frame(struct table_writer *w, uint32_t frame)
{
	const struct recording_frame *f = &w->r->frame[frame];

	if (frame >= w->r->frames || f->kind > MAYFLY_FRAME_ELIDED ||
	    (f->module != RECORDING_NONE && f->module >= w->r->modules)) {
		tables_fail(w, MAYFLY_E_RANGE);
		return false;
	}
	if (!tables_reserve(w, &w->frame_number, &w->frame_room, w->r->frames,
			    sizeof(*w->frame_number), 0xff))
		return false;
	if (w->frame_number[frame] != RECORDING_NONE)
		return true;
	if (!tables_reserve(w, &w->frame_order, &w->frame_order_room, w->frames + 1,
			    sizeof(*w->frame_order), 0))
		return false;
	w->frame_number[frame] = (uint32_t)w->frames;
	w->frame_order[w->frames++] = frame;
	return true;
}

/* Gives the new frames their numbers. */
static void number_new_frames(struct table_writer *w)
{
	size_t from = w->frames_written;

	if (from == w->frames || w->error)
		return;
	sort_frames(w, w->frame_order + from, w->frames - from);
	for (size_t i = from; i < w->frames; i++)
		w->frame_number[w->frame_order[i]] = (uint32_t)i;
}

static void write_frames(struct batch *b)
{
	struct table_writer *w = b->w;
	size_t count = w->frames - w->frames_written;
	struct chunk_maker c = {0};
	uint64_t *kind = new_column(b, &c, COLUMN_FRAME_KIND, count);
	uint64_t *module = new_column(b, &c, COLUMN_FRAME_MODULE, count);
	uint64_t *address = new_column(b, &c, COLUMN_FRAME_ADDRESS, count), last = 0;

	for (size_t i = 0; !w->error && i < count; i++) {
		const struct recording_frame *f =
		    &w->r->frame[w->frame_order[w->frames_written + i]];

		kind[i] = f->kind;
		module[i] = (uint64_t)(uint32_t)(f->module + 1);
		if (i && (kind[i] != kind[i - 1] || module[i] != module[i - 1]))
			last = 0;
		address[i] = f->address - last;
		last = f->address;
	}
	bytes_put_u(&c.head, count);
	write_chunk(b, &c, TRACE_FRAMES, count);
	w->frames_written = w->frames;
}

/* ---- the tree ---- */

/* Adds a node of the tables and those above it, `length` in all, below the file's node `parent`. */
static bool append_chain(struct table_writer *w, uint32_t node, size_t length, uint32_t parent)
{
	size_t first = w->nodes, end = first + length;

	if (w->depth[parent] + length > TRACE_MAX_DEPTH || end >= UINT32_MAX) {
		tables_fail(w, MAYFLY_E_RANGE);
		return false;
	}
	if (!tables_reserve(w, &w->node_frame, &w->node_room, end, sizeof(*w->node_frame), 0) ||
	    !tables_reserve(w, &w->depth, &w->depth_room, end, sizeof(*w->depth), 0) ||
	    !tables_reserve(w, &w->chain_end, &w->chain_room, w->chains + 1, sizeof(*w->chain_end),
			    0) ||
	    !tables_reserve(w, &w->chain_parent, &w->parent_room, w->chains - w->chains_written,
			    sizeof(*w->chain_parent), 0))
		return false;
	for (size_t i = length; i--; node = w->r->node[node].parent) {
		uint32_t number = (uint32_t)(first + i);

		if (!need_frame(w, w->r->node[node].frame))
			return false;
		/* The frame is the tables' until its group is written. */
		w->node_frame[number] = w->r->node[node].frame;
		w->depth[number] = (uint16_t)(w->depth[parent] + i + 1);
		w->node_number[node] = number;
	}
	w->nodes = end;
	w->chain_parent[w->chains - w->chains_written] = parent;
	w->chain_end[w->chains++] = (uint32_t)(end - 1);
	return true;
}

uint32_t tables_new_node(struct table_writer *w, uint32_t node)
{
	uint32_t at = node;
	size_t length = 0;

	if (w->error)
		return RECORDING_NONE;
	if (node < w->node_number_room && w->node_number[node] != RECORDING_NONE)
		return w->node_number[node];
	if (node >= w->r->nodes) {
		tables_fail(w, MAYFLY_E_RANGE);
		return RECORDING_NONE;
	}
	if (!tables_reserve(w, &w->node_number, &w->node_number_room, w->r->nodes,
			    sizeof(*w->node_number), 0xff))
		return RECORDING_NONE;
	for (; w->node_number[at] == RECORDING_NONE; at = w->r->node[at].parent) {
		if (length == TRACE_MAX_DEPTH || w->r->node[at].parent >= at) {
			tables_fail(w, MAYFLY_E_RANGE);
			return RECORDING_NONE;
		}
		length++;
	}
	return append_chain(w, node, length, w->node_number[at]) ? w->node_number[node]
								 : RECORDING_NONE;
}

/* The place of `frame` in the list that begins at *first, counted from 1; 0: it was not there.
 * Moves it to the front. */
static uint64_t find_successor(struct table_writer *w, uint32_t *first, uint32_t frame)
{
	uint32_t *link = first, found;

	for (uint64_t rank = 1; *link && rank <= TRACE_MAX_RANK; rank++) {
		found = *link;
		if (w->entry[found - 1].frame == frame) {
			*link = w->entry[found - 1].next;
			w->entry[found - 1].next = *first;
			*first = found;
			return rank;
		}
		link = &w->entry[found - 1].next;
	}
	if (!tables_reserve(w, &w->entry, &w->entry_room, w->entries + 1, sizeof(*w->entry), 0))
		return 0;
	w->entry[w->entries] = (struct successor){frame, *first};
	*first = (uint32_t)++w->entries;
	return 0;
}

struct node_columns {
	uint64_t *rank, *missed, *beside;
	size_t count, misses, besides;
};

static void add_tree_node(struct table_writer *w, struct node_columns *c, size_t node,
			  size_t parent)
{
	uint32_t frame = w->frame_number[w->node_frame[node]], *first, front;

	w->node_frame[node] = frame;
	first = &w->successors[parent ? w->node_frame[parent] + 1 : 0];
	front = *first ? w->entry[*first - 1].frame + 1 : 0;
	c->rank[c->count] = find_successor(w, first, frame);
	if (c->rank[c->count++])
		return;
	/* The frames that follow one call are mostly in one function, so their numbers are close.
	 * */
	if (front)
		c->beside[c->besides++] = varint_zigzag((int64_t)frame - (front - 1));
	else
		c->missed[c->misses++] = frame;
}

static void write_tree(struct batch *b)
{
	struct table_writer *w = b->w;
	size_t count = w->nodes - w->nodes_written, chains = w->chains - w->chains_written;
	struct chunk_maker tree = {0};
	uint64_t *parent = new_column(b, &tree, COLUMN_CHAIN_PARENT, chains);
	uint64_t *length = new_column(b, &tree, COLUMN_CHAIN_LENGTH, chains);
	struct node_columns c = {
	    .rank = new_column(b, &tree, COLUMN_NODE_RANK, count),
	    .missed = new_column(b, &tree, COLUMN_NODE_FRAME, count),
	    .beside = new_column(b, &tree, COLUMN_NODE_BESIDE, count),
	};
	size_t start = w->nodes_written;

	tables_reserve(w, &w->successors, &w->successors_room, w->frames + 1,
		       sizeof(*w->successors), 0);
	for (size_t i = 0; !w->error && i < chains; i++) {
		size_t end = (size_t)w->chain_end[w->chains_written + i] + 1;

		parent[i] = start - 1 - w->chain_parent[i];
		length[i] = end - start - 1;
		add_tree_node(w, &c, start, w->chain_parent[i]);
		for (size_t node = start + 1; node < end; node++)
			add_tree_node(w, &c, node, node - 1);
		start = end;
	}
	tree.column[3].count = c.misses;
	tree.column[4].count = c.besides;
	bytes_put_u(&tree.head, count);
	bytes_put_u(&tree.head, chains);
	bytes_put_u(&tree.head, c.misses);
	bytes_put_u(&tree.head, c.besides);
	write_chunk(b, &tree, TRACE_TREE, count);
	w->nodes_written = w->nodes;
	w->chains_written = w->chains;
}

/* ---- names ---- */

/* The locations of a frame of the tables. */
static const struct recording_location *locations_of(struct table_writer *w, uint32_t frame,
						     uint32_t *count)
{
	const struct recording_frame *f = &w->r->frame[frame];

	*count = f->locations;
	if (f->first_location > w->r->locations ||
	    f->locations > w->r->locations - f->first_location) {
		tables_fail(w, MAYFLY_E_RANGE);
		*count = 0;
	}
	return *count ? &w->r->location[f->first_location] : NULL;
}

static void name_modules(struct batch *b, struct chunk_maker *c)
{
	struct table_writer *w = b->w;
	uint64_t *to = new_column(b, c, COLUMN_MODULE_TO, w->r->modules);
	struct reference_column problem = {
	    .value = new_column(b, c, COLUMN_MODULE_PROBLEM, w->r->modules)};

	for (size_t i = 0; !w->error && i < w->r->modules; i++) {
		const struct recording_module *m = &w->r->module[i];

		if (m->to_ns != INT64_MAX)
			to[i] = 1 + varint_zigzag(module_time(m->to_ns) - module_time(m->from_ns));
		add_reference(w, &problem, m->problem);
	}
}

static void rename_threads(struct batch *b, struct chunk_maker *c)
{
	struct table_writer *w = b->w;
	struct reference_column name = {.value =
					    new_column(b, c, COLUMN_THREAD_RENAMED, w->r->threads)};

	for (size_t i = 0; !w->error && i < w->r->threads; i++)
		if (w->r->thread[i].name != w->thread_name[i])
			name.value[i] = 1 + refer_to(w, &name, w->r->thread[i].name);
}

/* frame: all frames in use, sorted. */
static void name_lines(struct batch *b, struct chunk_maker *c, const uint32_t *frame,
		       size_t locations)
{
	struct table_writer *w = b->w;
	uint64_t *line = new_column(b, c, COLUMN_LOCATION_LINE, locations);
	uint64_t *inlined = new_column(b, c, COLUMN_LOCATION_INLINED, locations);
	uint64_t *first = new_column(b, c, COLUMN_LOCATION_FIRST, locations);
	uint64_t *length = new_column(b, c, COLUMN_LOCATION_LENGTH, locations);
	uint64_t *respelled = new_column(b, c, COLUMN_LOCATION_RESPELLED, locations);
	uint32_t *last = calloc(w->r->strings + 1, sizeof(*last)), count;
	size_t used = 0;

	if (!last)
		tables_fail(w, MAYFLY_E_MEMORY);
	for (size_t i = 0; !w->error && i < w->frames; i++) {
		const struct recording_location *l = locations_of(w, frame[i], &count);

		for (uint32_t k = 0; k < count; k++, used++) {
			line[used] = varint_zigzag((int64_t)l[k].line - last[l[k].file]);
			last[l[k].file] = l[k].line;
			/* Written as the difference from what is expected: all but the outermost
			 * one are inlined. */
			inlined[used] = l[k].inlined != (k + 1 < count);
			respelled[used] = l[k].respelled;
			first[used] = l[k].first_char;
			length[used] = varint_zigzag((int64_t)l[k].last_char - l[k].first_char);
		}
	}
	free(last);
}

static void list_frame_names(struct batch *b, struct chunk_maker *c)
{
	struct table_writer *w = b->w;
	uint64_t *listed = new_column(b, c, COLUMN_FRAME_LOCATIONS, w->frames);
	uint32_t *frame = malloc((w->frames + 1) * sizeof(*frame)), count;
	struct reference_column function = {0}, file = {0};
	size_t locations = 0;

	if (!frame)
		tables_fail(w, MAYFLY_E_MEMORY);
	if (w->error)
		goto out;
	if (w->frames)
		memcpy(frame, w->frame_order, w->frames * sizeof(*frame));
	sort_frames(w, frame, w->frames);
	for (size_t i = 0; !w->error && i < w->frames; i++) {
		const struct recording_location *l = locations_of(w, frame[i], &count);

		for (uint32_t k = 0; k < count; k++)
			if (l[k].function >= w->r->strings || l[k].file >= w->r->strings)
				tables_fail(w, MAYFLY_E_RANGE);
		listed[i] = count;
		locations += count;
	}
	function.value = new_column(b, c, COLUMN_LOCATION_FUNCTION, locations);
	file.value = new_column(b, c, COLUMN_LOCATION_FILE, locations);
	/* Column by column, as the reader meets them. */
	for (size_t i = 0; !w->error && i < w->frames; i++) {
		const struct recording_location *l = locations_of(w, frame[i], &count);

		for (uint32_t k = 0; k < count; k++)
			add_reference(w, &function, l[k].function);
	}
	for (size_t i = 0; !w->error && i < w->frames; i++) {
		const struct recording_location *l = locations_of(w, frame[i], &count);

		for (uint32_t k = 0; k < count; k++)
			add_reference(w, &file, l[k].file);
	}
	name_lines(b, c, frame, locations);
	bytes_put_u(&c->head, locations);
	bytes_put_u(&c->head, TRACE_UNIT_NS);
out:
	free(frame);
}

static void list_names(struct batch *b, struct chunk_maker *c)
{
	name_modules(b, c);
	rename_threads(b, c);
	list_frame_names(b, c);
}

void tables_write_names(struct table_writer *w, size_t texts, struct column_writer *columns,
			struct bytes *strings, struct bytes *name)
{
	struct batch b = {.w = w, .columns = columns, .out = name};
	uint32_t before = w->next_string;
	struct chunk_maker c = {0};

	list_names(&b, &c);
	if (!w->error)
		tables_write_texts(&w->text, texts + w->next_string - before, TRACE_STRINGS,
				   columns, strings);
	write_chunk(&b, &c, TRACE_NAMES, true);
	if (strings->failed)
		tables_fail(w, MAYFLY_E_MEMORY);
}

/* ---- a group ---- */

void tables_write(struct table_writer *w, struct column_writer *columns, struct bytes *out,
		  bool names)
{
	struct batch b = {.w = w, .columns = columns, .out = out};
	struct chunk_maker module_chunk = {0}, thread_chunk = {0}, name_chunk = {0};
	uint32_t strings = w->next_string;

	/* All references come first: the strings must be written before them. */
	refer_to_paths(&b, &module_chunk);
	list_threads(&b, &thread_chunk);
	number_new_frames(w);
	if (names)
		list_names(&b, &name_chunk);
	if (!w->error)
		tables_write_texts(&w->text, w->next_string - strings, TRACE_STRINGS, columns, out);
	write_modules(&b, &module_chunk);
	write_chunk(&b, &thread_chunk, TRACE_THREADS, w->r->threads > w->threads);
	w->threads = w->r->threads;
	write_frames(&b);
	write_tree(&b);
	write_chunk(&b, &name_chunk, TRACE_NAMES, names);
}
