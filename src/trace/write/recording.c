/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The arrays of a recording and their growth. Strings, frames, nodes, types of track events and sets of
 * labels are distinct: each has a hash table beside its array. That of nodes holds (parent, frame,
 * node), and only the children of nodes that have many.
 */
#include "trace/write/recording.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/hash.h"

/* Makes room for one more item; false when out of memory. */
static bool items_room(struct recording *r, void *array, size_t used, size_t *size, size_t item)
{
	r->failed |= used >= RECORDING_NONE - 1 || !array_reserve(array, size, used, item);
	return !r->failed;
}

/* The number of a new item, which has been put behind `count` others. */
#define ADD_ITEM(r, array, count, size, ...)                                                       \
	(items_room(r, &(array), count, &(size), sizeof(*(array)))                                 \
	     ? ((array)[count] = __VA_ARGS__, (uint32_t)(count)++)                                 \
	     : 0)

static uint64_t hash_text(const char *text, size_t length)
{
	uint64_t h = length;

	while (length >= 8) {
		uint64_t word;

		memcpy(&word, text, 8);
		h = hash_mix(h ^ word);
		text += 8;
		length -= 8;
	}
	while (length--)
		h = h * 0x100000001b3u + (unsigned char)*text++;
	return hash_mix(h);
}

static uint64_t hash_string_at(const void *recording, uint32_t index)
{
	const struct recording *r = recording;
	const char *text = recording_text(r, index);

	return hash_text(text, strlen(text));
}

static uint64_t hash_frame(const struct recording_frame *f)
{
	return hash_mix(f->address ^ hash_mix((uint64_t)f->kind << 32 | f->module));
}

static uint64_t hash_frame_at(const void *recording, uint32_t index)
{
	const struct recording *r = recording;

	return hash_frame(&r->frame[index]);
}

/* Makes room in a hash table; false when out of memory. */
static bool index_room(struct recording *r, struct hash_index *x, size_t items,
		       uint64_t (*hash_at)(const void *recording, uint32_t item))
{
	bool room = hash_index_reserve(x, items, hash_at, r);

	r->failed |= !room;
	return room;
}

/* Makes room for one more node; false when out of memory. */
static bool grow_nodes(struct recording *r)
{
	return items_room(r, &r->node, r->nodes, &r->node_size, sizeof(*r->node)) &&
	       items_room(r, &r->links, r->nodes, &r->links_size, sizeof(*r->links));
}

struct recording *recording_new(void)
{
	struct recording *r = calloc(1, sizeof(*r));

	if (!r)
		return NULL;
	recording_string(r, "", 0);
	ADD_ITEM(r, r->label_set, r->label_sets, r->label_set_size, (struct recording_labels){0});
	/* The rows that are returned when there is no memory for others. */
	ADD_ITEM(r, r->module, r->modules, r->module_size, (struct recording_module){0});
	ADD_ITEM(r, r->thread, r->threads, r->thread_size, (struct recording_thread){0});
	ADD_ITEM(r, r->frame, r->frames, r->frame_size, (struct recording_frame){0});
	ADD_ITEM(r, r->location, r->locations, r->location_size, (struct recording_location){0});
	r->modules = r->threads = r->frames = r->locations = 0;
	if (r->failed || !grow_nodes(r)) {
		recording_free(r);
		return NULL;
	}
	r->node[0] = (struct mayfly_node){RECORDING_NONE, RECORDING_NONE};
	r->links[0] = (struct recording_links){.frame = RECORDING_NONE};
	r->nodes = 1;
	return r;
}

void recording_free(struct recording *r)
{
	if (!r)
		return;
	free(r->command);
	free(r->module);
	free(r->thread);
	free(r->frame);
	free(r->location);
	free(r->node);
	bytes_free(&r->text);
	free(r->string_start);
	free(r->string_index.slot);
	free(r->node_hash);
	free(r->links);
	free(r->frame_index.slot);
	free(r->track_type);
	free(r->track_type_index.slot);
	free(r->label_set);
	free(r->label_set_index.slot);
	free(r->label);
	free(r);
}

struct string_key {
	const char *text;
	size_t length;
};

static bool same_string(const void *recording, uint32_t string, const void *key)
{
	const struct recording *r = recording;
	const struct string_key *k = key;
	const char *present = recording_text(r, string);

	return strncmp(present, k->text, k->length) == 0 && !present[k->length];
}

static uint32_t *string_slot(const struct recording *r, const char *text, size_t length)
{
	return hash_index_find(&r->string_index, hash_text(text, length), same_string, r,
			       &(struct string_key){text, length});
}

static size_t length_of(const char *text, size_t length)
{
	const char *zero = length ? memchr(text, 0, length) : NULL;

	return zero ? (size_t)(zero - text) : length;
}

uint32_t recording_string(struct recording *r, const char *text, size_t length)
{
	uint32_t *slot, string;

	if (!length)
		text = "";
	length = length_of(text, length);
	if (!index_room(r, &r->string_index, r->strings, hash_string_at))
		return 0;
	slot = string_slot(r, text, length);
	if (*slot)
		return *slot - 1;
	if (length >= UINT32_MAX - r->text.used || !bytes_extend(&r->text, length + 1)) {
		r->failed = true;
		return 0;
	}
	string = ADD_ITEM(r, r->string_start, r->strings, r->strings_size, (uint32_t)r->text.used);
	if (r->failed)
		return 0;
	bytes_put(&r->text, text, length);
	bytes_put(&r->text, "", 1);
	*slot = string + 1;
	return string;
}

uint32_t recording_name(struct recording *r, const char *text)
{
	return recording_string(r, text, strlen(text));
}

uint32_t recording_event_text(struct recording *r, const char *text, size_t length)
{
	static const char more[] = "(more)";
	size_t before = r->strings;
	uint32_t string;

	if (r->event_texts >= RECORDING_EVENT_TEXTS) {
		length = length_of(text, length);
		string = length ? *string_slot(r, text, length) : 1;
		return string ? string - 1 : recording_string(r, more, sizeof(more) - 1);
	}
	string = recording_string(r, text, length);
	r->event_texts += r->strings - before;
	return string;
}

const char *recording_text(const struct recording *r, uint32_t string)
{
	return string < r->strings ? (const char *)r->text.at + r->string_start[string] : "";
}

static bool same_frame(const void *recording, uint32_t frame, const void *key)
{
	const struct recording *r = recording;
	const struct recording_frame *a = &r->frame[frame], *b = key;

	return a->kind == b->kind && a->module == b->module && a->address == b->address;
}

uint32_t recording_frame(struct recording *r, uint32_t kind, uint32_t module, uint64_t address)
{
	struct recording_frame frame = {.kind = kind, .module = module, .address = address};
	uint32_t *slot, index;

	if (!index_room(r, &r->frame_index, r->frames, hash_frame_at))
		return 0;
	slot = hash_index_find(&r->frame_index, hash_frame(&frame), same_frame, r, &frame);
	if (*slot)
		return *slot - 1;
	index = ADD_ITEM(r, r->frame, r->frames, r->frame_size, frame);
	if (!r->failed)
		*slot = index + 1;
	return index;
}

bool recording_move_frame(struct recording *r, uint32_t frame, uint32_t module, uint64_t address)
{
	struct recording_frame *f = &r->frame[frame], moved = *f;
	uint32_t *slot;

	moved.module = module;
	moved.address = address;
	slot = hash_index_find(&r->frame_index, hash_frame(&moved), same_frame, r, &moved);
	if (f->module != RECORDING_NONE || *slot)
		return false;
	/* The slot of its old place stays in use until the table grows; lookups compare it and go
	 * on. A frame moves at most once and there are more than twice as many slots as frames, so
	 * the slots do not run out. */
	*f = moved;
	*slot = frame + 1;
	return true;
}

/* The frames of a stack are looked up one after the other, each below the node found before,
 * millions of times a second. So the slots themselves hold what is compared, and few are in use. */
static struct recording_edge *find_edge(const struct recording *r, uint32_t parent, uint32_t frame)
{
	unsigned __int128 product =
	    (unsigned __int128)((uint64_t)parent << 32 | frame) * 0x9e3779b97f4a7c15u;
	size_t mask = r->node_hash_size - 1;
	size_t slot = ((size_t)(product >> 64) ^ (size_t)product) & mask;
	struct recording_edge *e = &r->node_hash[slot];

	while (e->node && (e->parent != parent || e->frame != frame)) {
		slot = (slot + 1) & mask;
		e = &r->node_hash[slot];
	}
	return e;
}

/* There is room, and it is not there. */
static void put_edge(struct recording *r, uint32_t parent, uint32_t frame, uint32_t node)
{
	*find_edge(r, parent, frame) = (struct recording_edge){parent, frame, node};
	r->edges++;
}

/* Makes room for the children of a node that becomes crowded. */
static bool grow_edges(struct recording *r)
{
	size_t size = r->node_hash_size ? 2 * r->node_hash_size : 64, old_size = r->node_hash_size;
	struct recording_edge *old = r->node_hash;

	if (r->edges + RECORDING_LATEST + 1 <= old_size / 2)
		return true;
	r->node_hash = calloc(size, sizeof(*r->node_hash));
	if (!r->node_hash) {
		r->node_hash = old;
		r->failed = true;
		return false;
	}
	r->node_hash_size = size;
	for (size_t i = 0; i < old_size; i++)
		if (old[i].node)
			*find_edge(r, old[i].parent, old[i].frame) = old[i];
	free(old);
	return true;
}

/* The end of a node's list of children. */
struct list_end {
	uint32_t last, before; /* 0: none */
	unsigned count;
};

/* Puts a child in front of the list. The last one goes when there would be too many. */
static void put_first(struct recording *r, uint32_t parent, const struct list_end *end,
		      uint32_t node)
{
	struct recording_links *l = &r->links[parent];

	r->links[node].next = end->count ? l->child : 0;
	if (end->count == RECORDING_LATEST)
		r->links[end->before].next = RECORDING_MORE;
	l->frame = r->node[node].frame;
	l->child = node;
}

static void put_edges_of_list(struct recording *r, uint32_t parent)
{
	uint32_t node = r->links[parent].child;

	for (unsigned i = 0; i < RECORDING_LATEST; i++, node = r->links[node].next)
		put_edge(r, parent, r->node[node].frame, node);
}

static uint32_t add_child(struct recording *r, uint32_t parent, const struct list_end *end,
			  uint32_t frame)
{
	const uint32_t node = (uint32_t)r->nodes;

	if (!grow_nodes(r) || !grow_edges(r))
		return 0;
	r->node[node] = (struct mayfly_node){parent, frame};
	r->links[node] = (struct recording_links){.frame = RECORDING_NONE};
	if (end->count == RECORDING_LATEST) {
		if (r->links[end->last].next != RECORDING_MORE)
			put_edges_of_list(r, parent);
		put_edge(r, parent, frame, node);
	}
	put_first(r, parent, end, node);
	r->nodes++;
	return node;
}

/* The nodes of a stack were mostly made one after the other, and the next frame is mostly that of
 * the child that the node was found with last. That is tried first, which costs far fewer cache
 * misses. Most nodes have few children, and so are not in the hash table at all. */
uint32_t recording_node(struct recording *r, uint32_t parent, uint32_t frame)
{
	struct recording_links *l = &r->links[parent];
	struct list_end end = {0};
	const struct recording_edge *edge;

	if (l->frame == frame)
		return l->child;
	if (l->frame == RECORDING_NONE)
		return add_child(r, parent, &end, frame);
	end.last = l->child;
	for (end.count = 1;; end.count++) {
		uint32_t node = r->links[end.last].next;

		if (!node || node == RECORDING_MORE)
			break;
		if (r->node[node].frame == frame) {
			r->links[end.last].next = r->links[node].next;
			end.count = 1;
			put_first(r, parent, &end, node);
			return node;
		}
		end.before = end.last;
		end.last = node;
	}
	if (r->links[end.last].next != RECORDING_MORE)
		return add_child(r, parent, &end, frame);
	edge = find_edge(r, parent, frame);
	if (!edge->node)
		return add_child(r, parent, &end, frame);
	put_first(r, parent, &end, edge->node);
	return edge->node;
}

uint32_t recording_module(struct recording *r, const struct recording_module *m)
{
	return ADD_ITEM(r, r->module, r->modules, r->module_size, *m);
}

struct recording_module recording_copy_module(struct recording *r, const struct mayfly_module *m)
{
	struct recording_module row = {
	    .path = recording_name(r, m->path),
	    .problem = recording_name(r, m->problem),
	    .start = m->start,
	    .end = m->end,
	    .bias = m->bias,
	    .from_ns = m->from_ns,
	    .to_ns = m->to_ns,
	};

	row.build_id_length =
	    (uint32_t)(m->build_id_length < sizeof(row.build_id) ? m->build_id_length
								 : sizeof(row.build_id));
	memcpy(row.build_id, m->build_id, row.build_id_length);
	return row;
}

uint32_t recording_thread(struct recording *r, uint32_t tid, uint32_t name)
{
	return ADD_ITEM(r, r->thread, r->threads, r->thread_size,
			(struct recording_thread){tid, name, (uint32_t)r->threads});
}

uint32_t recording_location(struct recording *r, const struct recording_location *l)
{
	return ADD_ITEM(r, r->location, r->locations, r->location_size, *l);
}

void recording_copy_locations(struct recording *r, uint32_t frame,
			      const struct mayfly_location *location, size_t count)
{
	r->frame[frame].first_location = (uint32_t)r->locations;
	for (size_t i = 0; i < count; i++) {
		const struct mayfly_location *l = &location[i];

		recording_location(r, &(struct recording_location){
					  .function = recording_name(r, l->function),
					  .file = recording_name(r, l->file),
					  .line = l->line,
					  .inlined = l->inlined,
					  .respelled = l->respelled,
					  .first_char = l->first_char,
					  .last_char = l->last_char,
				      });
	}
	r->frame[frame].locations = r->failed ? 0 : (uint32_t)count;
}

/* ---- types of track events ---- */

static uint64_t hash_type(const struct recording_track_type *t)
{
	uint64_t h = hash_mix((uint64_t)t->kind << 32 | t->name);

	h = hash_mix(h ^ ((uint64_t)t->category << 32 | t->unit));
	for (uint32_t i = 0; i < t->fields; i++)
		h = hash_mix(h ^ ((uint64_t)t->field[i].type << 32 | t->field[i].name));
	return h;
}

static uint64_t hash_type_at(const void *recording, uint32_t index)
{
	const struct recording *r = recording;

	return hash_type(&r->track_type[index]);
}

static bool same_track_type(const void *recording, uint32_t type, const void *key)
{
	const struct recording *r = recording;
	const struct recording_track_type *a = &r->track_type[type], *b = key;

	if (a->kind != b->kind || a->name != b->name || a->category != b->category ||
	    a->unit != b->unit || a->fields != b->fields)
		return false;
	for (uint32_t i = 0; i < a->fields; i++)
		if (a->field[i].type != b->field[i].type || a->field[i].name != b->field[i].name)
			return false;
	return true;
}

static bool type_can_be(const struct recording *r, const struct recording_track_type *t)
{
	if (t->kind > MAYFLY_TYPE_COUNTER || t->fields > RECORDING_FIELDS ||
	    t->name >= r->strings || t->category >= r->strings || t->unit >= r->strings)
		return false;
	for (uint32_t i = 0; i < t->fields; i++)
		if (t->field[i].type > MAYFLY_FIELD_FLOW || t->field[i].name >= r->strings)
			return false;
	return t->kind != MAYFLY_TYPE_COUNTER ||
	       (t->fields && t->field[0].type <= MAYFLY_FIELD_FLOAT);
}

uint32_t recording_track_type(struct recording *r, const struct recording_track_type *type)
{
	uint32_t *slot, index;

	if (!type_can_be(r, type) ||
	    !index_room(r, &r->track_type_index, r->track_types, hash_type_at))
		return RECORDING_NONE;
	slot = hash_index_find(&r->track_type_index, hash_type(type), same_track_type, r, type);
	if (*slot)
		return *slot - 1;
	if (r->track_types == MAYFLY_TRACK_TYPES)
		return RECORDING_NONE;
	index = ADD_ITEM(r, r->track_type, r->track_types, r->track_type_size, *type);
	if (r->failed)
		return RECORDING_NONE;
	*slot = index + 1;
	return index;
}

uint32_t recording_copy_track_type(struct recording *r, const struct mayfly_track_type *from)
{
	struct recording_track_type type = {
	    .kind = from->kind,
	    .name = recording_name(r, from->name),
	    .category = recording_name(r, from->category),
	    .unit = recording_name(r, from->unit),
	    .fields = (uint32_t)from->fields,
	};

	for (size_t i = 0; i < from->fields && i < RECORDING_FIELDS; i++) {
		type.field[i].type = from->field[i].type;
		type.field[i].name = recording_name(r, from->field[i].name);
	}
	return recording_track_type(r, &type);
}

/* ---- sets of labels ---- */

struct labels_key {
	const struct recording_label *label;
	uint32_t count;
};

static uint64_t hash_labels(const struct recording_label *label, uint32_t count)
{
	uint64_t h = count;

	for (uint32_t i = 0; i < count; i++)
		h = hash_mix(h ^ ((uint64_t)label[i].key << 32 | label[i].value));
	return h;
}

static uint64_t hash_labels_at(const void *recording, uint32_t index)
{
	const struct recording *r = recording;
	const struct recording_labels *s = &r->label_set[index];

	return hash_labels(s->count ? r->label + s->first : NULL, s->count);
}

static bool same_labels(const void *recording, uint32_t set, const void *key)
{
	const struct recording *r = recording;
	const struct recording_labels *s = &r->label_set[set];
	const struct labels_key *k = key;

	if (s->count != k->count)
		return false;
	for (uint32_t i = 0; i < k->count; i++)
		if (r->label[s->first + i].key != k->label[i].key ||
		    r->label[s->first + i].value != k->label[i].value)
			return false;
	return true;
}

/* Appends the set. */
static uint32_t new_labels(struct recording *r, const struct recording_label *label, uint32_t count)
{
	const struct recording_labels set = {(uint32_t)r->labels, count};

	if (r->label_sets == MAYFLY_LABEL_SETS)
		return RECORDING_NONE;
	for (uint32_t i = 0; i < count; i++)
		ADD_ITEM(r, r->label, r->labels, r->label_size, label[i]);
	count = ADD_ITEM(r, r->label_set, r->label_sets, r->label_set_size, set);
	return r->failed ? RECORDING_NONE : count;
}

uint32_t recording_labels(struct recording *r, const struct recording_label *label, uint32_t count)
{
	uint32_t *slot, set;

	if (!count)
		return 0;
	if (count > RECORDING_LABELS ||
	    !index_room(r, &r->label_set_index, r->label_sets, hash_labels_at))
		return RECORDING_NONE;
	for (uint32_t i = 0; i < count; i++)
		if (label[i].key >= r->strings || label[i].value >= r->strings)
			return RECORDING_NONE;
	slot = hash_index_find(&r->label_set_index, hash_labels(label, count), same_labels, r,
			       &(struct labels_key){label, count});
	if (*slot)
		return *slot - 1;
	set = new_labels(r, label, count);
	if (set != RECORDING_NONE)
		*slot = set + 1;
	return set;
}

uint32_t recording_copy_labels(struct recording *r, const struct mayfly_label *from, size_t count)
{
	struct recording_label label[RECORDING_LABELS];

	for (size_t i = 0; i < count && i < RECORDING_LABELS; i++)
		label[i] = (struct recording_label){recording_name(r, from[i].key),
						    recording_name(r, from[i].value)};
	return recording_labels(r, label, (uint32_t)count);
}
