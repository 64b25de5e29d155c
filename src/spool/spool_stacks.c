/* SPDX-License-Identifier: Apache-2.0 */
/* From addresses to modules, frames and nodes: see spool_stacks.h. */
#include "spool/spool_stacks.h"

#include <stdlib.h>
#include <string.h>

#include "base/search.h"
#include "ocaml_events/ocaml_spelling.h"
#include "base/array.h"

#define MOST_RANGES                                                                                \
	16384u /* beyond, modules are not looked up: only a damaged spool has so many              \
		*/
#define MOST_PENDING 4096u

void stacks_begin(struct spool_stacks *t, struct recording *tables,
		  const struct trace_writer *writer)
{
	*t = (struct spool_stacks){.tables = tables, .writer = writer, .epoch = 1};
}

void stacks_free(struct spool_stacks *t)
{
	free(t->range);
	free(t->address);
	free(t->pending);
}

/* ---- modules ---- */

/* The first range that ends after the address. */
static size_t range_after(const struct spool_stacks *t, uint64_t address)
{
	return FIRST_THAT(i, 0, t->ranges, t->range[i].end > address);
}

static uint32_t module_at(const struct spool_stacks *t, uint64_t address)
{
	size_t i = range_after(t, address);

	return i < t->ranges && t->range[i].start <= address ? t->range[i].module : RECORDING_NONE;
}

static void close_module(struct spool_stacks *t, uint32_t module, int64_t now_ns)
{
	size_t kept = 0;

	t->tables->module[module].to_ns = now_ns;
	for (size_t i = 0; i < t->ranges; i++)
		if (t->range[i].module != module)
			t->range[kept++] = t->range[i];
	t->ranges = kept;
}

static bool insert_range(struct spool_stacks *t, size_t at, struct stacks_range range)
{
	if (!array_reserve(&t->range, &t->ranges_size, t->ranges, sizeof(*t->range)))
		return false;
	memmove(t->range + at + 1, t->range + at, (t->ranges - at) * sizeof(*t->range));
	t->range[at] = range;
	t->ranges++;
	return true;
}

/* Makes place in the ranges. A module whose start is covered is no longer mapped; of others a part
 * remains. */
static bool carve_out(struct spool_stacks *t, uint64_t start, uint64_t end, int64_t now_ns)
{
	for (;;) {
		size_t i = range_after(t, start);
		struct stacks_range *old, rest;
		uint64_t module_start;

		if (i == t->ranges || t->range[i].start >= end)
			return true;
		old = &t->range[i];
		module_start = t->tables->module[old->module].start;
		if (module_start >= start && module_start < end) {
			close_module(t, old->module, now_ns);
			continue;
		}
		rest = (struct stacks_range){end, old->end, old->module};
		if (old->start < start) {
			old->end = start;
			if (rest.end > end && !insert_range(t, i + 1, rest))
				return false;
		} else if (rest.end > end) {
			old->start = end;
		} else {
			memmove(old, old + 1, (t->ranges - i - 1) * sizeof(*old));
			t->ranges--;
		}
	}
}

static bool same_module(const struct recording *r, uint32_t index, const struct stacks_module *m)
{
	const struct recording_module *have = &r->module[index];
	const char *path = recording_text(r, have->path);

	return have->start == m->start && have->end == m->end && have->bias == m->bias &&
	       have->build_id_length == m->build_id_length &&
	       memcmp(have->build_id, m->build_id, m->build_id_length) == 0 &&
	       strnlen(path, m->path_length + 1) == m->path_length &&
	       memcmp(path, m->path, m->path_length) == 0;
}

/* The module of the parent that equals this one and has not been seen in the child so far. */
static uint32_t inherited_module(const struct spool_stacks *t, const struct stacks_module *m)
{
	for (uint32_t i = 0; i < t->inherited; i++)
		if (t->tables->module[i].to_ns == 0 && same_module(t->tables, i, m))
			return i;
	return RECORDING_NONE;
}

static uint32_t add_stack_module(struct spool_stacks *t, const struct stacks_module *m,
				 int64_t now_ns)
{
	struct recording_module row = {
	    .path = recording_string(t->tables, (const char *)m->path, m->path_length),
	    .start = m->start,
	    .end = m->end,
	    .bias = m->bias,
	    .from_ns = now_ns,
	    .to_ns = INT64_MAX,
	    .build_id_length = (uint32_t)m->build_id_length,
	};

	memcpy(row.build_id, m->build_id, m->build_id_length);
	return recording_module(t->tables, &row);
}

/* The agent may notice a module only after its code has run. */
static void settle_pending(struct spool_stacks *t, uint32_t module)
{
	const struct recording_module *m = &t->tables->module[module];
	uint64_t chunks = t->writer ? trace_writer_chunks(t->writer) : 0;
	size_t kept = 0;

	for (size_t i = 0; i < t->pendings; i++) {
		struct stacks_pending p = t->pending[i];

		if (p.chunks != chunks)
			continue;
		if (p.address < m->start || p.address >= m->end)
			t->pending[kept++] = p;
		else
			recording_move_frame(t->tables, p.frame, module, p.address - m->bias);
	}
	t->pendings = kept;
}

bool stacks_module_seen(struct spool_stacks *t, const struct stacks_module *m, int64_t now_ns)
{
	struct stacks_module module = *m;
	uint32_t index = module_at(t, m->start);

	/* The tables have room for 32 bytes of a build-id; real ones have 8 to 20. */
	if (module.build_id_length > sizeof(t->tables->module->build_id))
		module.build_id_length = 0;
	if (index != RECORDING_NONE && same_module(t->tables, index, &module))
		return true; /* another writer has reported it before */
	if (m->start == m->end || t->ranges >= MOST_RANGES)
		return true;
	if (!carve_out(t, m->start, m->end, now_ns))
		return false;
	index = inherited_module(t, &module);
	if (index == RECORDING_NONE)
		index = add_stack_module(t, &module, now_ns);
	if (t->tables->failed || !insert_range(t, range_after(t, m->start),
					       (struct stacks_range){m->start, m->end, index}))
		return false;
	t->tables->module[index].to_ns = INT64_MAX;
	t->epoch++;
	settle_pending(t, index);
	return true;
}

bool stacks_module_gone(struct spool_stacks *t, uint64_t start, int64_t now_ns)
{
	uint32_t index = module_at(t, start);

	if (index != RECORDING_NONE && t->tables->module[index].start == start) {
		close_module(t, index, now_ns);
		t->epoch++;
	}
	return true;
}

bool stacks_resume(struct spool_stacks *t)
{
	for (uint32_t i = 0; i < t->tables->modules; i++) {
		const struct recording_module *m = &t->tables->module[i];

		if (m->to_ns == INT64_MAX && m->start < m->end && t->ranges < MOST_RANGES &&
		    !(carve_out(t, m->start, m->end, m->from_ns) &&
		      insert_range(t, range_after(t, m->start),
				   (struct stacks_range){m->start, m->end, i})))
			return false;
	}
	return true;
}

/* ---- frames ---- */

static void remember_pending(struct spool_stacks *t, uint64_t address, uint32_t frame)
{
	if (t->pendings == MOST_PENDING)
		return;
	if (!array_reserve(&t->pending, &t->pendings_size, t->pendings, sizeof(*t->pending)))
		t->tables->failed = true;
	else
		t->pending[t->pendings++] = (struct stacks_pending){
		    .address = address,
		    .chunks = t->writer ? trace_writer_chunks(t->writer) : 0,
		    .frame = frame,
		};
}

/* Four binary digits. A recursion that allocates at each depth would otherwise have a stack of its own
 * for each, with thousands of nodes, which needs more memory than there is. */
static uint64_t rounded(uint32_t count)
{
	uint32_t bits = 32 - (uint32_t)__builtin_clz(count | 1);

	return bits > 4 ? count & ~0u << (bits - 4) : count;
}

static uint32_t make_stack_frame(struct spool_stacks *t, uint64_t address)
{
	size_t before = t->tables->frames;
	uint32_t module, frame;

	if (address & SPOOL_MARK_BIT) {
		if (SPOOL_MARK_KIND(address) == SPOOL_MARK_TRUNCATED)
			return recording_frame(t->tables, MAYFLY_FRAME_TRUNCATED, RECORDING_NONE,
					       0);
		return recording_frame(t->tables, MAYFLY_FRAME_ELIDED, RECORDING_NONE,
				       rounded(SPOOL_MARK_COUNT(address)));
	}
	address--;
	module = module_at(t, address);
	if (module != RECORDING_NONE)
		return recording_frame(t->tables, MAYFLY_FRAME_CODE, module,
				       address - t->tables->module[module].bias);
	frame = recording_frame(t->tables, MAYFLY_FRAME_CODE, RECORDING_NONE, address);
	if (frame == before)
		remember_pending(t, address, frame);
	return frame;
}

static bool grow_addresses(struct spool_stacks *t)
{
	size_t size = t->addresses_size ? 2 * t->addresses_size : 1024;
	struct stacks_address *old = t->address;

	if (t->addresses < t->addresses_size / 2)
		return true;
	t->address = calloc(size, sizeof(*t->address));
	if (!t->address) {
		t->address = old;
		return false;
	}
	for (size_t i = 0; i < t->addresses_size; i++) {
		size_t slot = (size_t)((old[i].address * 0x9e3779b97f4a7c15u) >> 32) & (size - 1);

		if (!old[i].epoch)
			continue;
		while (t->address[slot].epoch)
			slot = (slot + 1) & (size - 1);
		t->address[slot] = old[i];
	}
	t->addresses_size = size;
	free(old);
	return true;
}

/* The frame of an address by the current mappings. */
static uint32_t find_frame(struct spool_stacks *t, uint64_t address)
{
	struct stacks_address *found;
	size_t slot, mask;

	if (!grow_addresses(t)) {
		t->tables->failed = true;
		return 0;
	}
	mask = t->addresses_size - 1;
	slot = (size_t)((address * 0x9e3779b97f4a7c15u) >> 32) & mask;
	for (;; slot = (slot + 1) & mask) {
		found = &t->address[slot];
		if (!found->epoch || found->address == address)
			break;
	}
	if (found->epoch == t->epoch)
		return found->frame;
	if (!found->epoch)
		t->addresses++;
	found->address = address;
	found->epoch = t->epoch;
	found->frame = make_stack_frame(t, address);
	return found->frame;
}

/* ---- a writer's stack ---- */

void stack_begin_packet(struct spool_stack *s, size_t packet_bytes)
{
	if (s->used)
		memset(s->cache, 0, SPOOL_CACHE_SIZE * sizeof(*s->cache));
	s->used = false;
	s->depth = 0;
	s->work = 16 * (int64_t)packet_bytes;
}

void stack_free(struct spool_stack *s)
{
	free(s->cache);
	free(s->frame);
	*s = (struct spool_stack){0};
}

static bool stack_room(struct spool_stack *s, uint32_t more)
{
	return s->size - s->depth >= more ||
	       array_reserve(&s->frame, &s->size, (size_t)s->depth + more, sizeof(*s->frame));
}

/* There is room for it. */
static void push_frame(struct spool_stacks *t, struct spool_stack *s, uint64_t address,
		       uint32_t frame)
{
	uint32_t node = recording_node(t->tables, stack_node(s), frame);

	s->frame[s->depth].address = address;
	s->frame[s->depth++].node = node;
}

/* Frames that were found in an older epoch are looked up again. Real packets see few epochs; `work`
 * keeps a hostile one from doing so forever. */
static void renew(struct spool_stacks *t, struct spool_stack *s)
{
	uint32_t depth = s->depth;

	s->epoch = t->epoch;
	if (s->work < 0)
		return;
	s->work -= depth;
	s->depth = 0;
	while (s->depth < depth) {
		uint64_t address = s->frame[s->depth].address;

		push_frame(t, s, address, find_frame(t, address));
	}
}

/* A frame that is not in the cache of its packet yet. */
static enum stack_result read_literal(struct spool_stacks *t, struct spool_stack *s,
				      struct varint_in *in)
{
	uint64_t address = varint_fixed(in, 8);
	struct stacks_address *slot;
	uint32_t frame;

	if (in->bad ||
	    (address & SPOOL_MARK_BIT && SPOOL_MARK_KIND(address) != SPOOL_MARK_TRUNCATED &&
	     SPOOL_MARK_KIND(address) != SPOOL_MARK_ELIDED))
		return STACK_DAMAGED;
	if (!s->cache) {
		s->cache = calloc(SPOOL_CACHE_SIZE, sizeof(*s->cache));
		if (!s->cache)
			return STACK_MEMORY;
	}
	frame = find_frame(t, address);
	slot = &s->cache[spool_cache_slot(address)];
	*slot = (struct stacks_address){.address = address, .frame = frame, .epoch = t->epoch};
	s->used = true;
	push_frame(t, s, address, frame);
	return STACK_DONE;
}

enum stack_result stack_change(struct spool_stacks *t, struct spool_stack *s, uint64_t pop,
			       uint64_t push, struct varint_in *in)
{
	const struct recording *r = t->tables;

	if (pop > s->depth || push > SPOOL_MAX_FRAMES - (s->depth - pop))
		return STACK_DAMAGED;
	s->depth -= (uint32_t)pop;
	if (s->epoch != t->epoch)
		renew(t, s);
	if (!stack_room(s, (uint32_t)push))
		return STACK_MEMORY;
	for (; push; push--) {
		uint32_t parent = stack_node(s), number;
		struct stacks_address *slot;
		struct stack_frame *top;

		if (varint_left(in) < 2)
			return STACK_DAMAGED;
		number = in->at[0] | (uint32_t)in->at[1] << 8;
		in->at += 2;
		if (number == SPOOL_FRAME_LITERAL) {
			enum stack_result result = read_literal(t, s, in);

			if (result != STACK_DONE)
				return result;
			continue;
		}
		if (number >= SPOOL_CACHE_SIZE || !s->used)
			return STACK_DAMAGED;
		slot = &s->cache[number];
		if (slot->epoch != t->epoch) {
			if (!slot->epoch) /* it was never filled */
				return STACK_DAMAGED;
			slot->frame = find_frame(t, slot->address);
			slot->epoch = t->epoch;
		}
		top = &s->frame[s->depth++];
		top->address = slot->address;
		/* Most often the stack goes on as it did the last time. */
		if (r->links[parent].frame == slot->frame)
			top->node = r->links[parent].child;
		else
			top->node = recording_node(t->tables, parent, slot->frame);
	}
	return r->failed ? STACK_MEMORY : STACK_DONE;
}

/* ---- places ---- */

/* Reads a text of the record: a string of the tables. */
static uint32_t read_place_text(struct spool_stacks *t, struct varint_in *in)
{
	uint64_t length = varint_u(in);
	const uint8_t *text = varint_bytes(in, length);

	return text && length ? recording_string(t->tables, (const char *)text, (size_t)length) : 0;
}

static uint32_t read_function(struct spool_stacks *t, uint64_t address, struct varint_in *in,
			      uint16_t *respelled)
{
	uint64_t length = varint_u(in);
	const uint8_t *text = varint_bytes(in, length);
	char name[2048];

	if (!text || !length || length >= sizeof(name))
		return 0;
	if (address & SPOOL_CODE_INTERPRETED)
		return recording_string(t->tables, (const char *)text, (size_t)length);
	memcpy(name, text, (size_t)length);
	return recording_string(t->tables, name, ocaml_spelling(name, (size_t)length, respelled));
}

static uint32_t read_place_number(struct varint_in *in)
{
	uint64_t number = varint_u(in);

	return number < UINT32_MAX ? (uint32_t)number : UINT32_MAX;
}

enum stack_result stacks_place(struct spool_stacks *t, uint64_t address, struct varint_in *in)
{
	uint64_t count = varint_u(in);
	uint32_t frame, first = (uint32_t)t->tables->locations;

	if (in->bad || count > SPOOL_OCAML_PLACES || address & SPOOL_MARK_BIT)
		return STACK_DAMAGED;
	frame = find_frame(t, address);
	for (uint64_t i = 0; i < count; i++) {
		struct recording_location l = {.inlined = i + 1 < count};

		l.function = read_function(t, address, in, &l.respelled);
		l.file = read_place_text(t, in);
		l.line = read_place_number(in);
		l.first_char = read_place_number(in);
		l.last_char = read_place_number(in);
		if (in->bad)
			return STACK_DAMAGED;
		recording_location(t->tables, &l);
	}
	if (t->tables->failed)
		return STACK_MEMORY;
	t->tables->frame[frame].first_location = first;
	t->tables->frame[frame].locations = (uint32_t)count;
	return STACK_DONE;
}

/* ---- forks ---- */

/* Each is made when first needed, as a child inherits few of them. */
struct stacks_heritage {
	struct spool_stacks *child;
	const struct recording *parent;
	uint32_t *module, *node;
	uint32_t path[SPOOL_MAX_FRAMES]; /* of heritage_node(): too large for a stack in wasm */
};

static uint32_t *unknown_indices(size_t count)
{
	uint32_t *index = malloc((count + 1) * sizeof(*index));

	if (index)
		memset(index, 0xff, (count + 1) * sizeof(*index));
	return index;
}

struct stacks_heritage *heritage_begin(struct spool_stacks *child, const struct recording *parent)
{
	struct stacks_heritage *h = calloc(1, sizeof(*h));

	if (!h)
		return NULL;
	h->child = child;
	h->parent = parent;
	h->module = unknown_indices(parent->modules);
	h->node = unknown_indices(parent->nodes);
	if (!h->module || !h->node) {
		heritage_end(h);
		return NULL;
	}
	h->node[0] = 0;
	return h;
}

void heritage_end(struct stacks_heritage *h)
{
	h->child->inherited = (uint32_t)h->child->tables->modules;
	free(h->module);
	free(h->node);
	free(h);
}

/* It counts as unmapped until the child reports it. */
static uint32_t heritage_module(struct stacks_heritage *h, uint32_t module)
{
	struct recording_module m = h->parent->module[module];

	if (h->module[module] != RECORDING_NONE)
		return h->module[module];
	m.path = recording_name(h->child->tables, recording_text(h->parent, m.path));
	m.problem = 0;
	m.from_ns = m.to_ns = 0;
	h->module[module] = recording_module(h->child->tables, &m);
	return h->module[module];
}

/* Copies the locations that the parent's runtime has reported. The child's reports a place again
 * only when it meets it. */
static void heritage_locations(struct stacks_heritage *h, const struct recording_frame *from,
			       uint32_t frame)
{
	struct recording *r = h->child->tables;

	if (!from->locations || r->frame[frame].locations)
		return;
	r->frame[frame].first_location = (uint32_t)r->locations;
	for (uint32_t i = 0; i < from->locations; i++) {
		struct recording_location l = h->parent->location[from->first_location + i];

		l.function = recording_name(r, recording_text(h->parent, l.function));
		l.file = recording_name(r, recording_text(h->parent, l.file));
		recording_location(r, &l);
	}
	r->frame[frame].locations = r->failed ? 0 : from->locations;
}

static uint32_t heritage_frame(struct stacks_heritage *h, uint32_t frame)
{
	const struct recording_frame *f = &h->parent->frame[frame];
	uint32_t module = RECORDING_NONE, copy;

	if (f->module != RECORDING_NONE)
		module = heritage_module(h, f->module);
	copy = recording_frame(h->child->tables, f->kind, module, f->address);
	heritage_locations(h, f, copy);
	return copy;
}

/* Climbs to the first known one, then makes nodes on the way back. */
uint32_t heritage_node(struct stacks_heritage *h, uint32_t node)
{
	size_t depth = 0;
	uint32_t here;

	while (h->node[node] == RECORDING_NONE && depth < SPOOL_MAX_FRAMES) {
		h->path[depth++] = node;
		node = h->parent->node[node].parent;
	}
	here = h->node[node];
	while (depth && here != RECORDING_NONE) {
		uint32_t frame = heritage_frame(h, h->parent->node[h->path[--depth]].frame);

		here = recording_node(h->child->tables, here, frame);
		h->node[h->path[depth]] = here;
	}
	return here;
}

bool heritage_truncated(const struct stacks_heritage *h, uint32_t node)
{
	const struct recording *r = h->parent;

	while (node && r->node[node].parent)
		node = r->node[node].parent;
	return node && r->frame[r->node[node].frame].kind == MAYFLY_FRAME_TRUNCATED;
}
