/* SPDX-License-Identifier: Apache-2.0 */
/* Writing the tables, group after group. See tables.h and doc/FORMAT.md. */
#include "trace/write/tables.h"

#include <stdlib.h>
#include <string.h>

#include "format/format.h"
#include "format/numbering.h"
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
		w->error = error;
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
	if (!tables_reserve(w, &w->node, &w->node_room, 1, sizeof(*w->node), 0) ||
	    !tables_reserve(w, &w->depth, &w->depth_room, 1, sizeof(*w->depth), 0) ||
	    !tables_reserve(w, &w->node_number, &w->node_number_room, 1, sizeof(*w->node_number),
			    0xff))
		return false;
	w->node[0] = (struct mayfly_node){UINT32_MAX, UINT32_MAX};
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
	free(w->node);
	free(w->depth);
	free(w->chain_end);
	free(w->successors);
	free(w->entry);
	memset(w, 0, sizeof(*w));
}

/* ---- the columns of one group, until they are written ---- */

struct batch {
	struct table_writer *w;
	struct column_writer *columns;
	struct bytes *out;
	uint64_t *column[32];
	size_t used;
};

static uint64_t *new_column(struct batch *b, size_t count)
{
	uint64_t *value = calloc(count + 1, sizeof(*value));

	if (!value)
		tables_fail(b->w, MAYFLY_E_MEMORY);
	return b->column[b->used++] = value;
}

static void free_columns(struct batch *b)
{
	while (b->used)
		free(b->column[--b->used]);
}

static void write_chunk(struct batch *b, uint32_t type, struct bytes *head,
			const struct column *column, size_t columns)
{
	if (!b->w->error)
		chunk_write(b->columns, b->out, type, head, column, columns);
	if (head->failed || b->out->failed)
		tables_fail(b->w, MAYFLY_E_MEMORY);
	bytes_free(head);
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

static void write_strings(struct batch *b, size_t count)
{
	struct table_writer *w = b->w;
	const struct column column = {
	    .id = COLUMN_STRING_BYTES, .bytes = w->text.at, .size = w->text.used};
	struct bytes head = {0};

	if (w->text.failed)
		tables_fail(w, MAYFLY_E_MEMORY);
	if (!count)
		return;
	bytes_put_u(&head, count);
	write_chunk(b, TRACE_STRINGS, &head, &column, 1);
	w->text.used = 0;
}

/* ---- modules and threads ---- */

static int64_t module_time(int64_t ns)
{
	return ns / TRACE_UNIT_NS - (ns % TRACE_UNIT_NS < 0);
}

static uint64_t *module_paths(struct batch *b)
{
	struct table_writer *w = b->w;
	struct reference_column path = {.value = new_column(b, w->r->modules - w->modules)};

	for (size_t i = w->modules; !w->error && i < w->r->modules; i++)
		add_reference(w, &path, w->r->module[i].path);
	return path.value;
}

static void write_modules(struct batch *b, const uint64_t *path)
{
	struct table_writer *w = b->w;
	const struct recording_module *module = w->r->module;
	size_t count = w->r->modules - w->modules;
	uint64_t *start = new_column(b, count), *size = new_column(b, count);
	uint64_t *bias = new_column(b, count), *from = new_column(b, count);
	uint64_t *id_length = new_column(b, count);
	struct bytes head = {0}, ids = {0};
	uint64_t last = w->modules ? module[w->modules - 1].start : 0;

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
	if (count) {
		const struct column column[] = {
		    {COLUMN_MODULE_PATH, path, count},
		    {COLUMN_MODULE_START, start, count},
		    {COLUMN_MODULE_SIZE, size, count},
		    {COLUMN_MODULE_BIAS, bias, count},
		    {COLUMN_MODULE_FROM, from, count},
		    {COLUMN_MODULE_BUILD_ID_LENGTH, id_length, count},
		    {COLUMN_MODULE_BUILD_ID, NULL, 0, ids.at, ids.used},
		};

		bytes_put_u(&head, count);
		bytes_put_u(&head, TRACE_UNIT_NS);
		write_chunk(b, TRACE_MODULES, &head, column, ids.used ? 7 : 6);
	}
	bytes_free(&ids);
	w->modules += count;
}

static uint64_t *thread_names(struct batch *b)
{
	struct table_writer *w = b->w;
	struct reference_column name = {.value = new_column(b, w->r->threads - w->threads)};

	tables_reserve(w, &w->thread_name, &w->thread_room, w->r->threads, sizeof(*w->thread_name),
		       0);
	for (size_t i = w->threads; !w->error && i < w->r->threads; i++) {
		w->thread_name[i] = w->r->thread[i].name;
		add_reference(w, &name, w->r->thread[i].name);
	}
	return name.value;
}

static void write_threads(struct batch *b, const uint64_t *name)
{
	struct table_writer *w = b->w;
	const struct recording_thread *thread = w->r->thread;
	size_t count = w->r->threads - w->threads;
	uint64_t *tid = new_column(b, count);
	uint32_t last = w->threads ? thread[w->threads - 1].tid : 0;
	struct bytes head = {0};

	for (size_t i = 0; !w->error && i < count; i++) {
		uint32_t tid_now = thread[w->threads + i].tid;

		tid[i] = varint_zigzag((int64_t)tid_now - last);
		last = tid_now;
	}
	if (count) {
		const struct column column[] = {
		    {COLUMN_THREAD_TID, tid, count},
		    {COLUMN_THREAD_NAME, name, count},
		};

		bytes_put_u(&head, count);
		write_chunk(b, TRACE_THREADS, &head, column, 2);
	}
	w->threads += count;
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
	uint64_t *kind = new_column(b, count), *module = new_column(b, count);
	uint64_t *address = new_column(b, count), last = 0;
	struct bytes head = {0};

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
	if (count) {
		const struct column column[] = {
		    {COLUMN_FRAME_KIND, kind, count},
		    {COLUMN_FRAME_MODULE, module, count},
		    {COLUMN_FRAME_ADDRESS, address, count},
		};

		bytes_put_u(&head, count);
		write_chunk(b, TRACE_FRAMES, &head, column, 3);
	}
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
	if (!tables_reserve(w, &w->node, &w->node_room, end, sizeof(*w->node), 0) ||
	    !tables_reserve(w, &w->depth, &w->depth_room, end, sizeof(*w->depth), 0) ||
	    !tables_reserve(w, &w->chain_end, &w->chain_room, w->chains + 1, sizeof(*w->chain_end),
			    0))
		return false;
	for (size_t i = length; i--; node = w->r->node[node].parent) {
		uint32_t number = (uint32_t)(first + i);

		if (!need_frame(w, w->r->node[node].frame))
			return false;
		/* The frame is the tables' until its group is written. */
		w->node[number] =
		    (struct mayfly_node){i ? number - 1 : parent, w->r->node[node].frame};
		w->depth[number] = (uint16_t)(w->depth[parent] + i + 1);
		w->node_number[node] = number;
	}
	w->nodes = end;
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

static void add_tree_node(struct table_writer *w, struct node_columns *c, struct mayfly_node *n)
{
	uint32_t *first, front;

	n->frame = w->frame_number[n->frame];
	first = &w->successors[n->parent ? w->node[n->parent].frame + 1 : 0];
	front = *first ? w->entry[*first - 1].frame + 1 : 0;
	c->rank[c->count] = find_successor(w, first, n->frame);
	if (c->rank[c->count++])
		return;
	/* The frames that follow one call are mostly in one function, so their numbers are close.
	 * */
	if (front)
		c->beside[c->besides++] = varint_zigzag((int64_t)n->frame - (front - 1));
	else
		c->missed[c->misses++] = n->frame;
}

static void write_tree(struct batch *b)
{
	struct table_writer *w = b->w;
	size_t count = w->nodes - w->nodes_written, chains = w->chains - w->chains_written;
	uint64_t *parent = new_column(b, chains), *length = new_column(b, chains);
	struct node_columns c = {new_column(b, count), new_column(b, count), new_column(b, count)};
	size_t start = w->nodes_written;
	struct bytes head = {0};

	tables_reserve(w, &w->successors, &w->successors_room, w->frames + 1,
		       sizeof(*w->successors), 0);
	for (size_t i = 0; !w->error && i < chains; i++) {
		size_t end = (size_t)w->chain_end[w->chains_written + i] + 1;

		parent[i] = start - 1 - w->node[start].parent;
		length[i] = end - start - 1;
		start = end;
	}
	for (size_t i = w->nodes_written; !w->error && i < w->nodes; i++)
		add_tree_node(w, &c, &w->node[i]);
	if (count) {
		const struct column column[] = {
		    {COLUMN_CHAIN_PARENT, parent, chains},
		    {COLUMN_CHAIN_LENGTH, length, chains},
		    {COLUMN_NODE_RANK, c.rank, count},
		    {COLUMN_NODE_FRAME, c.missed, c.misses},
		    {COLUMN_NODE_BESIDE, c.beside, c.besides},
		};

		bytes_put_u(&head, count);
		bytes_put_u(&head, chains);
		bytes_put_u(&head, c.misses);
		bytes_put_u(&head, c.besides);
		write_chunk(b, TRACE_TREE, &head, column, 5);
	}
	w->nodes_written = w->nodes;
	w->chains_written = w->chains;
}

/* ---- names ---- */

struct name_columns {
	uint64_t *to, *problem, *renamed, *listed, *function, *file, *line, *inlined;
	uint64_t *first, *length; /* characters */
	uint32_t *frame;	  /* all frames in use, sorted */
	size_t locations;
};

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

static void name_modules(struct batch *b, struct name_columns *c)
{
	struct table_writer *w = b->w;
	struct reference_column problem = {.value = new_column(b, w->r->modules)};

	c->to = new_column(b, w->r->modules);
	c->problem = problem.value;
	for (size_t i = 0; !w->error && i < w->r->modules; i++) {
		const struct recording_module *m = &w->r->module[i];

		if (m->to_ns != INT64_MAX)
			c->to[i] =
			    1 + varint_zigzag(module_time(m->to_ns) - module_time(m->from_ns));
		add_reference(w, &problem, m->problem);
	}
}

static void rename_threads(struct batch *b, struct name_columns *c)
{
	struct table_writer *w = b->w;
	struct reference_column name = {.value = new_column(b, w->r->threads)};

	c->renamed = name.value;
	for (size_t i = 0; !w->error && i < w->threads; i++)
		if (w->r->thread[i].name != w->thread_name[i])
			name.value[i] = 1 + refer_to(w, &name, w->r->thread[i].name);
}

static void name_lines(struct batch *b, struct name_columns *c)
{
	struct table_writer *w = b->w;
	uint32_t *last = calloc(w->r->strings + 1, sizeof(*last)), count;
	size_t used = 0;

	c->line = new_column(b, c->locations);
	c->inlined = new_column(b, c->locations);
	c->first = new_column(b, c->locations);
	c->length = new_column(b, c->locations);
	if (!last)
		tables_fail(w, MAYFLY_E_MEMORY);
	for (size_t i = 0; !w->error && i < w->frames; i++) {
		const struct recording_location *l = locations_of(w, c->frame[i], &count);

		for (uint32_t k = 0; k < count; k++, used++) {
			c->line[used] = varint_zigzag((int64_t)l[k].line - last[l[k].file]);
			last[l[k].file] = l[k].line;
			/* Written as the difference from what is expected: all but the outermost
			 * one are inlined. */
			c->inlined[used] = l[k].inlined != (k + 1 < count);
			c->first[used] = l[k].first_char;
			c->length[used] = varint_zigzag((int64_t)l[k].last_char - l[k].first_char);
		}
	}
	free(last);
}

static void list_frame_names(struct batch *b, struct name_columns *c)
{
	struct table_writer *w = b->w;
	struct reference_column function = {0}, file = {0};
	uint32_t count;

	c->listed = new_column(b, w->frames);
	c->frame = malloc((w->frames + 1) * sizeof(*c->frame));
	if (!c->frame)
		tables_fail(w, MAYFLY_E_MEMORY);
	if (w->error)
		return;
	if (w->frames)
		memcpy(c->frame, w->frame_order, w->frames * sizeof(*c->frame));
	sort_frames(w, c->frame, w->frames);
	for (size_t i = 0; !w->error && i < w->frames; i++) {
		const struct recording_location *l = locations_of(w, c->frame[i], &count);

		for (uint32_t k = 0; k < count; k++)
			if (l[k].function >= w->r->strings || l[k].file >= w->r->strings)
				tables_fail(w, MAYFLY_E_RANGE);
		c->listed[i] = count;
		c->locations += count;
	}
	c->function = function.value = new_column(b, c->locations);
	c->file = file.value = new_column(b, c->locations);
	/* Column by column, as the reader meets them. */
	for (size_t i = 0; !w->error && i < w->frames; i++) {
		const struct recording_location *l = locations_of(w, c->frame[i], &count);

		for (uint32_t k = 0; k < count; k++)
			add_reference(w, &function, l[k].function);
	}
	for (size_t i = 0; !w->error && i < w->frames; i++) {
		const struct recording_location *l = locations_of(w, c->frame[i], &count);

		for (uint32_t k = 0; k < count; k++)
			add_reference(w, &file, l[k].file);
	}
	name_lines(b, c);
}

static void write_name_chunk(struct batch *b, const struct name_columns *c)
{
	const struct table_writer *w = b->w;
	const struct column column[] = {
	    {COLUMN_MODULE_TO, c->to, w->modules},
	    {COLUMN_MODULE_PROBLEM, c->problem, w->modules},
	    {COLUMN_THREAD_RENAMED, c->renamed, w->threads},
	    {COLUMN_FRAME_LOCATIONS, c->listed, w->frames},
	    {COLUMN_LOCATION_FUNCTION, c->function, c->locations},
	    {COLUMN_LOCATION_FILE, c->file, c->locations},
	    {COLUMN_LOCATION_LINE, c->line, c->locations},
	    {COLUMN_LOCATION_INLINED, c->inlined, c->locations},
	    {COLUMN_LOCATION_FIRST, c->first, c->locations},
	    {COLUMN_LOCATION_LENGTH, c->length, c->locations},
	};
	struct bytes head = {0};

	if (w->error)
		return;
	bytes_put_u(&head, c->locations);
	bytes_put_u(&head, TRACE_UNIT_NS);
	write_chunk(b, TRACE_NAMES, &head, column, 10);
}

/* ---- a group ---- */

void tables_write(struct table_writer *w, struct column_writer *columns, struct bytes *out,
		  bool names)
{
	struct batch b = {.w = w, .columns = columns, .out = out};
	struct name_columns c = {0};
	uint32_t strings = w->next_string;
	uint64_t *path = module_paths(&b), *name = thread_names(&b);

	number_new_frames(w);
	if (names) {
		name_modules(&b, &c);
		rename_threads(&b, &c);
		list_frame_names(&b, &c);
	}
	write_strings(&b, w->next_string - strings);
	write_modules(&b, path);
	write_threads(&b, name);
	write_frames(&b);
	write_tree(&b);
	if (names)
		write_name_chunk(&b, &c);
	free_columns(&b);
	free(c.frame);
}
