/* SPDX-License-Identifier: Apache-2.0 */
/*
 * query.c: one question to a trace, answered in two passes over its events.
 *
 *	pass 1: which blocks are never freed (a bit each), and after which event the live bytes were
 *		largest, or the asked moment was reached
 *	pass 2: each block once, at its free or, when never freed, at its allocation; then all that
 *a filter wants to know of it is known. Sums per node of the tree, or per row when rows do not
 *depend on the stack.
 *
 * From the sums per node to rows (functions, lines, modules):
 *
 *	root                each node's frame has places (inlined functions are places of their
 *own);
 *	 +- main            each place has a row. total of a row = the sums of the subtrees below
 *the |   +- parse       nodes that have a place of this row while no node above them has, so that
 *	 |   |   +- parse   a recursive function's blocks count once: here the upper `parse` only.
 *	 +- start_thread
 *
 * For rows that are stacks, the tree is built again from places instead of frames, so that nodes
 * that print the same become one.
 *
 * Nothing here costs more than (nodes + places + events), except names of equal rows in a sort.
 */
#include <mayfly/trace.h>

#include "estimate.h"

#include <stdlib.h>
#include <string.h>

#define NONE UINT32_MAX

/* Stacks of the answer hold at most this many places in all; beyond, each is cut at its root. */
#define MAX_STACK_PLACES (4u << 20)

static const char hidden_text[] = "[hidden]";
static const char no_stack_text[] = "[no stack]";

/* ---- growing arrays ---- */

/* Makes room for item number `count` of the array that the pointer at `array` points to. */
static bool reserve(void *array, size_t *capacity, size_t count, size_t item_bytes)
{
	void *items, *grown;
	size_t wanted;

	if (count < *capacity)
		return true;
	wanted = *capacity ? *capacity * 2 : 64;
	if (wanted <= count)
		wanted = count + 1;
	if (wanted > SIZE_MAX / 2 / item_bytes)
		return false;
	memcpy(&items, array, sizeof(items));
	grown = realloc(items, wanted * item_bytes);
	if (!grown)
		return false;
	memcpy(array, &grown, sizeof(grown));
	*capacity = wanted;
	return true;
}

/* ---- keys to numbers ---- */

struct key {
	uint64_t word[4];
};

/* Numbers from 0 for distinct keys, in order of first appearance. */
struct numbering {
	struct key *key;
	size_t count, capacity;
	uint32_t *slot; /* open addressing: number + 1, or 0 */
	size_t slots;	/* a power of two */
};

static uint64_t mix(uint64_t x)
{
	x = (x ^ x >> 32) * 0xd6e8feb86659fd93u;
	x = (x ^ x >> 32) * 0xd6e8feb86659fd93u;
	return x ^ x >> 32;
}

static size_t key_hash(const struct key *k)
{
	uint64_t h = k->word[0] * 0x9e3779b97f4a7c15u + k->word[1];

	h = (h ^ h >> 29) * 0xbf58476d1ce4e5b9u + k->word[2];
	h = (h ^ h >> 32) * 0x94d049bb133111ebu + k->word[3];
	return (size_t)mix(h);
}

static bool key_equal(const struct key *a, const struct key *b)
{
	return a->word[0] == b->word[0] && a->word[1] == b->word[1] && a->word[2] == b->word[2] &&
	       a->word[3] == b->word[3];
}

static void place_slot(struct numbering *n, uint32_t number)
{
	size_t i = key_hash(&n->key[number]) & (n->slots - 1);

	while (n->slot[i])
		i = (i + 1) & (n->slots - 1);
	n->slot[i] = number + 1;
}

/* Makes room for `count` keys, to begin with or when there are more. */
static bool grow_slots(struct numbering *n, size_t count)
{
	size_t slots = n->slots ? n->slots : 256;
	uint32_t *slot;

	while (slots <= count * 2)
		slots *= 2;
	slot = calloc(slots, sizeof(*slot));
	if (!slot)
		return false;
	free(n->slot);
	n->slot = slot;
	n->slots = slots;
	for (size_t i = 0; i < n->count; i++)
		place_slot(n, (uint32_t)i);
	return true;
}

/* The number of a key; *is_new when it was not there. NONE: out of memory. */
static uint32_t number_of(struct numbering *n, struct key key, bool *is_new)
{
	size_t i;

	*is_new = false;
	if (n->count * 2 >= n->slots && !grow_slots(n, n->count))
		return NONE;
	for (i = key_hash(&key) & (n->slots - 1); n->slot[i]; i = (i + 1) & (n->slots - 1)) {
		if (key_equal(&n->key[n->slot[i] - 1], &key))
			return n->slot[i] - 1;
	}
	if (n->count >= NONE - 1 || !reserve(&n->key, &n->capacity, n->count, sizeof(*n->key)))
		return NONE;
	n->key[n->count] = key;
	n->slot[i] = (uint32_t)++n->count;
	*is_new = true;
	return (uint32_t)n->count - 1;
}

static void numbering_free(struct numbering *n)
{
	free(n->key);
	free(n->slot);
}

/* ---- the state of a query ---- */

#define KNOWN_FOCUS  1u /* a matcher was asked ... */
#define KNOWN_IGNORE 2u
#define KNOWN_HIDE   4u
#define IS_SHIFT     3 /* ... and its answer is in the bit that is 3 higher */
#define IS_FOCUS     (KNOWN_FOCUS << IS_SHIFT)
#define IS_IGNORE    (KNOWN_IGNORE << IS_SHIFT)
#define IS_HIDE	     (KNOWN_HIDE << IS_SHIFT)

struct text {
	const char *text;
	uint32_t same; /* the first text that reads the same */
	uint32_t next; /* chain of first texts with an equal hash, or NONE */
	uint8_t verdict;
};

/* A place that is not hidden, as a row or a stack of the answer shows it. */
struct frame_spots {
	uint32_t first, count; /* in query_state.spot, innermost first; first NONE: not yet made */
	bool hides;	       /* something of it was hidden */
};

/* A node that a kept block's stack goes through; parents first, 0 is the root. */
struct branch {
	uint32_t node, frame;
	uint32_t parent, first_child, next_sibling; /* branches or NONE */
	uint32_t leaf; /* group of the blocks allocated here, or stack; NONE: no code is left */
	bool hides;
	bool shares;	  /* its subtree's sum is that of its only child */
	uint32_t subtree; /* number in query_state.subtree, or NONE */
};

/* What a row is made from. For stacks: a place, and the stacks have the sums. */
struct group {
	struct tally self, total;
	uint32_t function, file, module; /* texts; NONE: not all the same */
	uint32_t line, thread;
	int64_t low, high;
	uint64_t address; /* of the frame when by_address, of the mark */
	uint32_t kind;
	bool by_address, inlined;
	uint32_t depth; /* how many nodes of the path to the root have a place of this row */
};

/* A printed stack: its leaf and the stack without it. */
struct stack {
	uint32_t parent, place; /* place: a group */
	uint32_t length;
	uint32_t row; /* number of its sums; NONE: no block was allocated just here */
};

struct stack_sums {
	struct tally self, total;
	uint32_t stack;
};

struct moment {
	uint64_t events, samples; /* how many there are up to it */
	int64_t time_ns;
};

struct query_state {
	const struct mayfly_trace *trace;
	const struct mayfly_info *info;
	const struct mayfly_query *query;
	int error;

	/* pass 1 */
	uint64_t *freed; /* a bit for each sample */
	size_t freed_words;
	uint64_t largest_interval;
	struct moment moment;

	/* texts, by address and by what they say */
	struct numbering text_address;
	struct text *text;
	size_t text_capacity;
	uint32_t *text_hash; /* first of a chain, or NONE */
	size_t text_hash_size, distinct_texts;

	/* frames; a spot is the group of a place */
	struct frame_spots *frame;
	uint32_t *spot;
	size_t spots, spot_capacity;

	/* which blocks are kept by their node, by their thread: 0 not asked yet, 1 no, 2 yes */
	uint8_t *node_kept, *thread_kept; /* NULL: all */

	/* pass 2 */
	struct tally all;
	uint32_t *node_sum; /* node -> number in sum + 1 */
	struct tally *sum;
	uint32_t *sum_node;
	size_t sums, sum_capacity, sum_node_capacity;

	struct branch *branch;
	size_t branches;
	struct tally *subtree; /* no more than branches with a sum or with several children */
	size_t subtrees;

	struct numbering group_key;
	struct group *group; /* one for each key */
	size_t group_capacity;

	struct numbering stack_key; /* (parent stack, place) */
	struct stack *stack;	    /* one for each key */
	size_t stack_capacity;
	struct stack_sums *stack_sums;
	size_t stack_rows, stack_rows_capacity;
};

static bool fail(struct query_state *s, int error)
{
	if (!s->error)
		s->error = error;
	return false;
}

static void *zeroed(struct query_state *s, size_t count, size_t bytes)
{
	void *p = calloc(count ? count : 1, bytes);

	if (!p)
		fail(s, MAYFLY_E_MEMORY);
	return p;
}

/* ---- texts ---- */

static size_t text_slot(const struct query_state *s, const char *text)
{
	uint64_t h = 0xcbf29ce484222325u;

	for (; *text; text++)
		h = (h ^ (unsigned char)*text) * 0x100000001b3u;
	return (size_t)mix(h) & (s->text_hash_size - 1);
}

static void chain_text(struct query_state *s, uint32_t number)
{
	size_t slot = text_slot(s, s->text[number].text);

	s->text[number].next = s->text_hash[slot];
	s->text_hash[slot] = number;
}

static bool grow_text_hash(struct query_state *s)
{
	size_t size = s->text_hash_size ? s->text_hash_size * 2 : 256;
	uint32_t *hash = malloc(size * sizeof(*hash));

	if (!hash)
		return fail(s, MAYFLY_E_MEMORY);
	memset(hash, 0xff, size * sizeof(*hash));
	free(s->text_hash);
	s->text_hash = hash;
	s->text_hash_size = size;
	for (size_t i = 0; i < s->text_address.count; i++) {
		if (s->text[i].same == i)
			chain_text(s, (uint32_t)i);
	}
	return true;
}

/* The number of the first text that was seen to read like this one. 0 is "". */
static uint32_t text_number(struct query_state *s, const char *text)
{
	struct key key = {{(uintptr_t)text}};
	uint32_t number, other;
	bool is_new;

	if (s->distinct_texts >= s->text_hash_size && !grow_text_hash(s))
		return 0;
	if (!reserve(&s->text, &s->text_capacity, s->text_address.count, sizeof(*s->text)) ||
	    (number = number_of(&s->text_address, key, &is_new)) == NONE) {
		fail(s, MAYFLY_E_MEMORY);
		return 0;
	}
	if (!is_new)
		return s->text[number].same;
	s->text[number] = (struct text){.text = text, .same = number, .next = NONE};
	for (other = s->text_hash[text_slot(s, text)]; other != NONE; other = s->text[other].next) {
		if (strcmp(s->text[other].text, text) == 0) {
			s->text[number].same = other;
			return other;
		}
	}
	s->distinct_texts++;
	chain_text(s, number);
	return number;
}

/* Asks a matcher, once for each text. A name that is not known matches nothing. */
static bool text_matches(struct query_state *s, uint32_t text, const struct mayfly_match *match,
			 unsigned int known)
{
	struct text *t = &s->text[text];

	if (!match->matches || !*t->text)
		return false;
	if (!(t->verdict & known)) {
		t->verdict |= known;
		if (match->matches(match->context, t->text))
			t->verdict |= known << IS_SHIFT;
	}
	return t->verdict & known << IS_SHIFT;
}

static uint32_t module_text(struct query_state *s, uint32_t index)
{
	const struct mayfly_module *module = mayfly_trace_module(s->trace, index);

	return text_number(s, module ? module->path : "");
}

static bool location_matches(struct query_state *s, const struct mayfly_location *location,
			     uint32_t module, const struct mayfly_match *match, unsigned int known)
{
	return text_matches(s, text_number(s, location->function), match, known) ||
	       text_matches(s, text_number(s, location->file), match, known) ||
	       text_matches(s, module, match, known);
}

/* ---- groups: the rows, or the places of stacks ---- */

static uint32_t group_number(struct query_state *s, struct key key, const struct group *fresh)
{
	bool is_new;
	uint32_t number;

	if (!reserve(&s->group, &s->group_capacity, s->group_key.count, sizeof(*s->group)) ||
	    (number = number_of(&s->group_key, key, &is_new)) == NONE) {
		fail(s, MAYFLY_E_MEMORY);
		return NONE;
	}
	if (is_new)
		s->group[number] = *fresh;
	return number;
}

static uint64_t pair(uint32_t low, uint32_t high)
{
	return low | (uint64_t)high << 32;
}

/* What makes two places the same row, or the same line of a printed stack. */
static struct key place_key(const struct group *p, enum mayfly_by by)
{
	if (by == MAYFLY_BY_STACK)
		return (struct key){{pair(p->kind, p->inlined), pair(p->function, p->file),
				     pair(p->module, p->line), p->address}};
	if (by == MAYFLY_BY_MODULE)
		return (struct key){{by, p->module}};
	if (p->by_address)
		return (struct key){{UINT64_MAX, p->module, p->address}};
	if (by == MAYFLY_BY_LINE)
		return (struct key){{by, pair(p->function, p->file), p->line}};
	return (struct key){{by, p->function}};
}

/* The group of a place. What its key leaves open is shown when all places of the group agree. */
static uint32_t place_group(struct query_state *s, const struct group *place)
{
	enum mayfly_by by = s->query->by;
	struct group fresh = *place, *g;
	uint32_t number;

	if (by == MAYFLY_BY_MODULE)
		fresh = (struct group){.module = place->module};
	else if (by == MAYFLY_BY_FUNCTION)
		fresh.line = 0;
	number = group_number(s, place_key(place, by), &fresh);
	if (number == NONE || by == MAYFLY_BY_MODULE)
		return number;
	g = &s->group[number];
	if (g->file != place->file)
		g->file = NONE;
	if (g->module != place->module)
		g->module = NONE;
	return number;
}

/* Blocks with no code on their stack, from the start or because all of it is hidden. */
static uint32_t special_group(struct query_state *s, bool hides)
{
	uint32_t text = text_number(s, hides ? hidden_text : no_stack_text);
	struct group place = {.function = text};

	if (s->query->by == MAYFLY_BY_MODULE)
		place.module = text;
	return place_group(s, &place);
}

/* ---- frames ---- */

static bool add_spot(struct query_state *s, struct frame_spots *f, const struct group *place)
{
	uint32_t group = place_group(s, place);

	if (group == NONE)
		return false;
	if (!reserve(&s->spot, &s->spot_capacity, s->spots, sizeof(*s->spot)))
		return fail(s, MAYFLY_E_MEMORY);
	s->spot[s->spots++] = group;
	f->count++;
	return true;
}

static bool add_location(struct query_state *s, struct frame_spots *f,
			 const struct mayfly_frame *frame, const struct mayfly_location *location)
{
	uint32_t module = module_text(s, frame->module);
	struct group place = {
	    .function = text_number(s, location->function),
	    .file = text_number(s, location->file),
	    .module = module,
	    .line = location->line,
	    .inlined = location->inlined,
	};

	if (location_matches(s, location, module, &s->query->hide, KNOWN_HIDE)) {
		f->hides = true;
		return true;
	}
	if (place.function == 0) {
		place.by_address = true;
		place.address = frame->address;
	}
	return add_spot(s, f, &place);
}

static const struct mayfly_location unknown_location = {.function = "", .file = ""};

static bool make_frame(struct query_state *s, struct frame_spots *f, uint32_t index)
{
	const struct mayfly_frame *frame = mayfly_trace_frame(s->trace, index);

	*f = (struct frame_spots){.first = (uint32_t)s->spots};
	if (!frame)
		return true;
	if (frame->kind != MAYFLY_FRAME_CODE) {
		struct group mark = {.kind = frame->kind, .address = frame->address};

		/* A mark is a line of a printed stack and nothing else. */
		return s->query->by != MAYFLY_BY_STACK || add_spot(s, f, &mark);
	}
	if (frame->locations == 0)
		return add_location(s, f, frame, &unknown_location);
	for (size_t i = 0; i < frame->locations; i++) {
		if (!add_location(s, f, frame, &frame->location[i]))
			return false;
	}
	return true;
}

static const struct frame_spots *frame_spots(struct query_state *s, uint32_t index)
{
	static const struct frame_spots nothing = {0};

	if (index >= s->info->frames)
		return &nothing;
	if (s->frame[index].first == NONE && !make_frame(s, &s->frame[index], index))
		return NULL;
	return &s->frame[index];
}

/* ---- filters ---- */

static unsigned int frame_verdict(struct query_state *s, uint32_t index)
{
	const struct mayfly_frame *frame = mayfly_trace_frame(s->trace, index);
	unsigned int verdict = 0;
	uint32_t module;

	if (!frame || frame->kind != MAYFLY_FRAME_CODE)
		return 0;
	module = module_text(s, frame->module);
	if (text_matches(s, module, &s->query->focus, KNOWN_FOCUS))
		verdict |= IS_FOCUS;
	if (text_matches(s, module, &s->query->ignore, KNOWN_IGNORE))
		verdict |= IS_IGNORE;
	for (size_t i = 0; i < frame->locations; i++) {
		const struct mayfly_location *l = &frame->location[i];

		if (location_matches(s, l, module, &s->query->focus, KNOWN_FOCUS))
			verdict |= IS_FOCUS;
		if (location_matches(s, l, module, &s->query->ignore, KNOWN_IGNORE))
			verdict |= IS_IGNORE;
	}
	return verdict;
}

/* Parents come first, so one pass over the nodes hands down what is above them. */
static bool filter_nodes(struct query_state *s)
{
	size_t nodes = s->info->nodes, frames = s->info->frames;
	bool all = !s->query->focus.matches;
	uint8_t *seen;

	if (all && !s->query->ignore.matches)
		return true;
	s->node_kept = zeroed(s, nodes, 1);
	seen = zeroed(s, frames, 1);
	if (!s->node_kept || !seen) {
		free(seen);
		return false;
	}
	for (size_t i = 0; i < frames; i++)
		seen[i] = (uint8_t)frame_verdict(s, (uint32_t)i);
	for (size_t i = 1; i < nodes; i++) {
		struct mayfly_node node = mayfly_trace_node(s->trace, i);

		s->node_kept[i] = node.parent < i ? s->node_kept[node.parent] : 0;
		if (node.frame < frames)
			s->node_kept[i] |= seen[node.frame];
	}
	free(seen);
	for (size_t i = 0; i < nodes; i++) {
		unsigned int verdict = s->node_kept[i];

		s->node_kept[i] = (all || verdict & IS_FOCUS) && !(verdict & IS_IGNORE);
	}
	return !s->error;
}

static bool thread_matches(const struct mayfly_match *match, const struct mayfly_thread *thread)
{
	char number[16], *p = number + sizeof(number);
	uint32_t tid = thread->tid;

	if (match->matches(match->context, thread->name))
		return true;
	*--p = 0;
	do {
		*--p = (char)('0' + tid % 10);
		tid /= 10;
	} while (tid);
	return match->matches(match->context, p);
}

static bool filter_threads(struct query_state *s)
{
	if (!s->query->thread.matches)
		return true;
	s->thread_kept = zeroed(s, s->info->threads, 1);
	if (!s->thread_kept)
		return false;
	for (size_t i = 0; i < s->info->threads; i++) {
		const struct mayfly_thread *thread = mayfly_trace_thread(s->trace, i);

		s->thread_kept[i] = thread && thread_matches(&s->query->thread, thread);
	}
	return true;
}

/* ---- pass 1 ---- */

#define FOREVER INT64_MAX /* the lifetime of a block that is never freed */

static bool by_lifetime(const struct mayfly_query *q)
{
	return q->by == MAYFLY_BY_LIFETIME || q->min_lifetime_ns > 0 ||
	       q->max_lifetime_ns < INT64_MAX;
}

/* Whether a block's free must be known; otherwise pass 2 takes blocks as they are allocated. */
static bool needs_frees(const struct mayfly_query *q)
{
	return q->metric != MAYFLY_ALLOCATED || by_lifetime(q);
}

static bool needs_peak(const struct mayfly_query *q)
{
	return q->metric == MAYFLY_PEAK || (q->metric == MAYFLY_LIVE && q->at_ns == MAYFLY_AT_PEAK);
}

static bool was_freed(const struct query_state *s, uint64_t sample)
{
	return sample / 64 < s->freed_words && s->freed[sample / 64] >> sample % 64 & 1;
}

static bool note_sample(struct query_state *s, uint64_t samples)
{
	size_t words = s->freed_words;

	while (samples / 64 >= s->freed_words) {
		if (!reserve(&s->freed, &words, s->freed_words, sizeof(*s->freed)))
			return fail(s, MAYFLY_E_MEMORY);
		memset(s->freed + s->freed_words, 0, (words - s->freed_words) * 8);
		s->freed_words = words;
	}
	return true;
}

static void note_free(struct query_state *s, uint64_t sample)
{
	if (sample / 64 < s->freed_words)
		s->freed[sample / 64] |= 1ull << sample % 64;
}

static bool find_frees(struct query_state *s, struct mayfly_cursor *cursor)
{
	bool at_peak = needs_peak(s->query);
	struct mayfly_event e;
	struct moment now = {0};
	double live = 0, peak = 0;
	int more;

	while ((more = mayfly_cursor_next(cursor, &e)) == 1) {
		now.events++;
		now.time_ns = e.time_ns;
		if (e.kind == MAYFLY_ALLOC) {
			if (!note_sample(s, now.samples++))
				return false;
			live += e.weight_bytes;
		} else {
			note_free(s, e.sample);
			live -= e.weight_bytes;
		}
		if (at_peak ? live > peak : e.time_ns <= s->query->at_ns)
			s->moment = now;
		if (live > peak)
			peak = live;
	}
	return more == 0 || fail(s, more);
}

/* ---- pass 2 ---- */

static uint32_t size_group(struct query_state *s, uint64_t size)
{
	unsigned int bits = size > 1 ? 64 - (unsigned int)__builtin_clzll(size - 1) : 0;
	struct key key = {{MAYFLY_BY_SIZE, bits}};
	struct group g = {.low = bits > 0 ? (int64_t)(1ull << (bits - 1)) : 0};

	g.high = bits < 63 ? (int64_t)(1ull << bits) : INT64_MAX;
	if (bits == 64)
		g.low = INT64_MAX;
	return group_number(s, key, &g);
}

static uint32_t lifetime_group(struct query_state *s, int64_t lifetime)
{
	struct group g = {.low = 0, .high = 10};
	struct key key = {{MAYFLY_BY_LIFETIME}};

	if (lifetime == FOREVER) {
		g.low = g.high = INT64_MAX;
	} else {
		while (lifetime >= g.high && g.high < INT64_MAX / 10) {
			g.low = g.high;
			g.high *= 10;
		}
		if (lifetime >= g.high) {
			g.low = g.high;
			g.high = INT64_MAX - 1;
		}
	}
	key.word[1] = (uint64_t)g.high;
	return group_number(s, key, &g);
}

static uint32_t block_group(struct query_state *s, const struct mayfly_event *e, int64_t lifetime)
{
	struct key key = {{MAYFLY_BY_THREAD, e->alloc_thread}};
	struct group thread = {.thread = e->alloc_thread};

	if (s->query->by == MAYFLY_BY_SIZE)
		return size_group(s, e->size);
	if (s->query->by == MAYFLY_BY_LIFETIME)
		return lifetime_group(s, lifetime);
	return group_number(s, key, &thread);
}

static bool by_stack_of_block(const struct mayfly_query *q)
{
	return q->by == MAYFLY_BY_FUNCTION || q->by == MAYFLY_BY_LINE || q->by == MAYFLY_BY_STACK ||
	       q->by == MAYFLY_BY_MODULE;
}

/* The sum of the blocks that were allocated at a node. */
static struct tally *node_tally(struct query_state *s, uint32_t node)
{
	if (s->node_sum[node] == 0) {
		if (!reserve(&s->sum, &s->sum_capacity, s->sums, sizeof(*s->sum)) ||
		    !reserve(&s->sum_node, &s->sum_node_capacity, s->sums, sizeof(node))) {
			fail(s, MAYFLY_E_MEMORY);
			return NULL;
		}
		s->sum[s->sums] = (struct tally){0};
		s->sum_node[s->sums] = node;
		s->node_sum[node] = (uint32_t)++s->sums;
	}
	return &s->sum[s->node_sum[node] - 1];
}

static bool add_block(struct query_state *s, const struct mayfly_event *e, int64_t lifetime)
{
	struct tally *t;

	if (by_stack_of_block(s->query)) {
		t = node_tally(s, e->node < s->info->nodes ? e->node : 0);
	} else {
		uint32_t group = block_group(s, e, lifetime);

		t = group == NONE ? NULL : &s->group[group].self;
	}
	if (!t)
		return false;
	tally_add(t, s->info->sampler, e->interval, e->size, e->hits);
	return true;
}

static bool metric_wants(const struct query_state *s, const struct mayfly_event *e, uint64_t number)
{
	bool freed = e->kind == MAYFLY_FREE;

	switch (s->query->metric) {
	case MAYFLY_LIVE:
	case MAYFLY_PEAK:
		return e->sample < s->moment.samples && (!freed || number > s->moment.events);
	case MAYFLY_LEAKED:
		return !freed;
	case MAYFLY_TEMPORARY:
		return freed && e->flags & MAYFLY_FLAG_TEMPORARY;
	default:
		return true;
	}
}

/* e: the block's free, or its allocation when its free is not asked for or does not exist. */
static bool wanted(const struct query_state *s, const struct mayfly_event *e, int64_t lifetime)
{
	const struct mayfly_query *q = s->query;

	if (e->alloc_time_ns < q->from_ns)
		return false;
	if (q->to_ns != INT64_MAX && e->alloc_time_ns >= q->to_ns)
		return false;
	if (e->size < q->min_size || e->size > q->max_size)
		return false;
	if (lifetime < q->min_lifetime_ns || lifetime > q->max_lifetime_ns)
		return false;
	if (s->thread_kept &&
	    (e->alloc_thread >= s->info->threads || !s->thread_kept[e->alloc_thread]))
		return false;
	return !s->node_kept || s->node_kept[e->node < s->info->nodes ? e->node : 0];
}

static int64_t block_lifetime(const struct mayfly_event *e)
{
	if (e->kind == MAYFLY_ALLOC)
		return FOREVER;
	return e->time_ns > e->alloc_time_ns ? e->time_ns - e->alloc_time_ns : 0;
}

static bool add_blocks(struct query_state *s, struct mayfly_cursor *cursor)
{
	bool frees = needs_frees(s->query);
	struct mayfly_event e;
	uint64_t number = 0;
	int more;

	while ((more = mayfly_cursor_next(cursor, &e)) == 1) {
		int64_t lifetime = block_lifetime(&e);

		number++;
		if (e.kind == MAYFLY_ALLOC) {
			if (e.hits > 0 && s->largest_interval < e.interval)
				s->largest_interval = e.interval;
			if (frees && was_freed(s, e.sample))
				continue;
		} else if (!frees) {
			continue;
		}
		if (metric_wants(s, &e, number) && wanted(s, &e, lifetime) &&
		    !add_block(s, &e, lifetime))
			return false;
	}
	return more == 0 || fail(s, more);
}

static bool run_pass(struct query_state *s,
		     bool (*pass)(struct query_state *s, struct mayfly_cursor *cursor))
{
	struct mayfly_cursor *cursor;
	int error = mayfly_cursor_open(s->trace, &cursor);
	bool done;

	if (error)
		return fail(s, error);
	done = pass(s, cursor);
	mayfly_cursor_close(cursor);
	return done;
}

static bool read_blocks(struct query_state *s)
{
	s->largest_interval = s->info->interval_bytes;
	if (by_stack_of_block(s->query)) {
		s->node_sum = zeroed(s, s->info->nodes, sizeof(*s->node_sum));
		if (!s->node_sum)
			return false;
	}
	if (needs_frees(s->query) && !run_pass(s, find_frees))
		return false;
	return run_pass(s, add_blocks);
}

/* ---- from nodes to groups ---- */

/* Numbers the nodes on the way from the root to all nodes that have a sum. */
static bool make_branches(struct query_state *s)
{
	size_t nodes = s->info->nodes ? s->info->nodes : 1;
	uint32_t *branch_of = zeroed(s, nodes, sizeof(*branch_of));

	if (!branch_of)
		return false;
	branch_of[0] = 1;
	s->branches = 1;
	for (size_t i = 0; i < s->sums; i++) {
		for (uint32_t n = s->sum_node[i]; !branch_of[n]; s->branches++) {
			uint32_t parent = mayfly_trace_node(s->trace, n).parent;

			branch_of[n] = 1;
			n = parent < n ? parent : 0;
		}
	}
	s->branch = malloc(s->branches * sizeof(*s->branch));
	if (!s->branch) {
		free(branch_of);
		return fail(s, MAYFLY_E_MEMORY);
	}
	s->branches = 0;
	for (size_t n = 0; n < nodes; n++) {
		struct mayfly_node node;
		struct branch *b;

		if (!branch_of[n])
			continue;
		node = mayfly_trace_node(s->trace, n);
		b = &s->branch[s->branches];
		branch_of[n] = (uint32_t)s->branches++;
		*b = (struct branch){.node = (uint32_t)n, .frame = n > 0 ? node.frame : NONE};
		b->parent = n > 0 ? branch_of[node.parent < n ? node.parent : 0] : NONE;
		b->first_child = b->next_sibling = b->leaf = b->subtree = NONE;
	}
	free(branch_of);
	return true;
}

static const struct tally *branch_sum(const struct query_state *s, const struct branch *b)
{
	uint32_t sum = s->node_sum[b->node];

	return sum > 0 ? &s->sum[sum - 1] : NULL;
}

static struct tally *new_subtree(struct query_state *s, struct branch *b, const struct tally *from)
{
	b->subtree = (uint32_t)s->subtrees;
	b->shares = false;
	s->subtree[s->subtrees] = *from;
	return &s->subtree[s->subtrees++];
}

/* Adds a child's subtree to its parent's. Long chains of nodes share one sum. */
static void hand_up(struct query_state *s, struct branch *parent, const struct branch *child)
{
	const struct tally *from = &s->subtree[child->subtree];

	if (parent->subtree == NONE) {
		parent->subtree = child->subtree;
		parent->shares = true;
		return;
	}
	if (parent->shares)
		new_subtree(s, parent, &s->subtree[parent->subtree]);
	tally_merge(&s->subtree[parent->subtree], from);
}

/* Sums of subtrees, and lists of children. A tree has fewer forks than ends, and ends have sums. */
static bool link_branches(struct query_state *s)
{
	s->subtree = malloc((2 * s->sums + 1) * sizeof(*s->subtree));
	if (!s->subtree)
		return fail(s, MAYFLY_E_MEMORY);
	for (size_t i = 0; i < s->branches; i++) {
		const struct tally *own = branch_sum(s, &s->branch[i]);

		if (own) {
			new_subtree(s, &s->branch[i], own);
			tally_merge(&s->all, own);
		}
	}
	for (size_t i = s->branches; i-- > 1;) {
		struct branch *b = &s->branch[i], *parent = &s->branch[b->parent];

		hand_up(s, parent, b);
		b->next_sibling = parent->first_child;
		parent->first_child = (uint32_t)i;
	}
	return true;
}

static bool enter(struct query_state *s, struct branch *b)
{
	const struct frame_spots *f = frame_spots(s, b->frame);
	const struct tally *own = branch_sum(s, b);

	if (!f)
		return false;
	if (b->parent != NONE) {
		b->leaf = s->branch[b->parent].leaf;
		b->hides = s->branch[b->parent].hides;
	}
	b->hides |= f->hides;
	if (f->count > 0)
		b->leaf = s->spot[f->first];
	for (uint32_t i = 0; i < f->count; i++) {
		struct group *g = &s->group[s->spot[f->first + i]];

		if (g->depth++ == 0)
			tally_merge(&g->total, &s->subtree[b->subtree]);
	}
	if (own) {
		uint32_t leaf = b->leaf == NONE ? special_group(s, b->hides) : b->leaf;

		if (leaf == NONE)
			return false;
		tally_merge(&s->group[leaf].self, own);
		if (b->leaf == NONE)
			tally_merge(&s->group[leaf].total, own);
	}
	return true;
}

static void leave(struct query_state *s, const struct branch *b)
{
	const struct frame_spots *f = frame_spots(s, b->frame);

	for (uint32_t i = 0; f && i < f->count; i++)
		s->group[s->spot[f->first + i]].depth--;
}

/* Depth first, by the links: a deep tree needs no deep recursion. */
static bool walk_branches(struct query_state *s)
{
	uint32_t at = 0;

	for (;;) {
		if (!enter(s, &s->branch[at]))
			return false;
		if (s->branch[at].first_child != NONE) {
			at = s->branch[at].first_child;
			continue;
		}
		for (;;) {
			leave(s, &s->branch[at]);
			if (at == 0)
				return true;
			if (s->branch[at].next_sibling != NONE)
				break;
			at = s->branch[at].parent;
		}
		at = s->branch[at].next_sibling;
	}
}

/* ---- from nodes to printed stacks ---- */

static uint32_t push_place(struct query_state *s, uint32_t parent, uint32_t place)
{
	struct key key = {{parent, place}};
	uint32_t number;
	bool is_new;

	if (!reserve(&s->stack, &s->stack_capacity, s->stack_key.count, sizeof(*s->stack)) ||
	    (number = number_of(&s->stack_key, key, &is_new)) == NONE) {
		fail(s, MAYFLY_E_MEMORY);
		return NONE;
	}
	if (is_new) {
		uint32_t below = parent == NONE ? 0 : s->stack[parent].length;

		s->stack[number] = (struct stack){parent, place, below + 1, NONE};
	}
	return number;
}

static bool add_to_stack(struct query_state *s, uint32_t number, const struct tally *sum)
{
	struct stack *stack = &s->stack[number];

	if (stack->row == NONE) {
		if (!reserve(&s->stack_sums, &s->stack_rows_capacity, s->stack_rows,
			     sizeof(*s->stack_sums)))
			return fail(s, MAYFLY_E_MEMORY);
		s->stack_sums[s->stack_rows] = (struct stack_sums){.stack = number};
		stack->row = (uint32_t)s->stack_rows++;
	}
	tally_merge(&s->stack_sums[stack->row].self, sum);
	return true;
}

/* A stack that has lost all its code to `hide` is one place, marks or not. */
static uint32_t own_stack(struct query_state *s, const struct branch *b, bool has_code)
{
	if (has_code || (b->leaf != NONE && !b->hides))
		return b->leaf;
	return push_place(s, NONE, special_group(s, b->hides));
}

static bool stack_branch(struct query_state *s, struct branch *b, uint8_t *has_code)
{
	const struct frame_spots *f = frame_spots(s, b->frame);
	const struct tally *own = branch_sum(s, b);
	size_t number = (size_t)(b - s->branch);
	uint32_t stack;

	if (!f)
		return false;
	if (b->parent != NONE) {
		b->leaf = s->branch[b->parent].leaf;
		b->hides = s->branch[b->parent].hides;
		has_code[number] = has_code[b->parent];
	}
	b->hides |= f->hides;
	for (uint32_t i = f->count; i-- > 0;) {
		uint32_t place = s->spot[f->first + i];

		has_code[number] |= s->group[place].kind == MAYFLY_FRAME_CODE;
		b->leaf = push_place(s, b->leaf, place);
		if (b->leaf == NONE)
			return false;
	}
	if (!own)
		return true;
	stack = own_stack(s, b, has_code[number]);
	return stack != NONE && add_to_stack(s, stack, own);
}

/* Adds the sums of longer stacks to those of the stacks that they go on from. */
static bool total_stacks(struct query_state *s)
{
	size_t count = s->stack_key.count;
	uint32_t *nearest = malloc((count + 1) * sizeof(*nearest)); /* row, of it or below it */

	if (!nearest)
		return fail(s, MAYFLY_E_MEMORY);
	/* A stack is longer than its parent, which therefore has the lower number. */
	for (size_t i = 0; i < count; i++) {
		uint32_t parent = s->stack[i].parent, row = s->stack[i].row;

		nearest[i] = row != NONE ? row : parent != NONE ? nearest[parent] : NONE;
	}
	for (size_t i = count; i-- > 0;) {
		const struct stack *stack = &s->stack[i];
		struct stack_sums *sums;

		if (stack->row == NONE)
			continue;
		sums = &s->stack_sums[stack->row];
		tally_merge(&sums->total, &sums->self);
		if (stack->parent != NONE && nearest[stack->parent] != NONE)
			tally_merge(&s->stack_sums[nearest[stack->parent]].total, &sums->total);
	}
	free(nearest);
	return true;
}

static bool make_stacks(struct query_state *s)
{
	uint8_t *has_code = zeroed(s, s->branches, 1);
	bool done = has_code != NULL && grow_slots(&s->stack_key, s->branches);

	for (size_t i = 0; done && i < s->branches; i++)
		done = stack_branch(s, &s->branch[i], has_code);
	free(has_code);
	if (!done)
		return fail(s, MAYFLY_E_MEMORY);
	return total_stacks(s);
}

static bool make_groups(struct query_state *s)
{
	if (!by_stack_of_block(s->query)) {
		for (size_t i = 0; i < s->group_key.count; i++) {
			s->group[i].total = s->group[i].self;
			tally_merge(&s->all, &s->group[i].self);
		}
		return true;
	}
	s->frame = malloc((s->info->frames + 1) * sizeof(*s->frame));
	if (!s->frame)
		return fail(s, MAYFLY_E_MEMORY);
	for (size_t i = 0; i < s->info->frames; i++)
		s->frame[i].first = NONE;
	if (!make_branches(s) || !link_branches(s))
		return false;
	if (s->sums == 0)
		return true;
	return s->query->by == MAYFLY_BY_STACK ? make_stacks(s) : walk_branches(s);
}

/* ---- the answer ---- */

/* What mayfly_result_free frees. */
struct answer {
	struct mayfly_result result; /* first: the caller's pointer is to it */
	struct mayfly_row *row;
	struct mayfly_place *place;
	size_t places;
};

static const char *group_text(const struct query_state *s, uint32_t text)
{
	return text == NONE ? "" : s->text[text].text;
}

static struct mayfly_place group_place(const struct query_state *s, const struct group *g)
{
	return (struct mayfly_place){
	    .function = group_text(s, g->function),
	    .file = group_text(s, g->file),
	    .module = group_text(s, g->module),
	    .line = g->line,
	    .address = g->address,
	    .kind = g->kind,
	    .inlined = g->inlined,
	};
}

static bool tally_empty(const struct tally *t)
{
	return t->seen_blocks == 0 && t->exact_count == 0;
}

/*
 * The interval that blocks of at least this size may have gone unseen at; 0: none, since the
 * stratified sampler takes all blocks from its interval up.
 */
static uint64_t unseen_interval(const struct query_state *s, uint64_t smallest)
{
	if (smallest < s->query->min_size)
		smallest = s->query->min_size;
	if (s->info->sampler == MAYFLY_STRATIFIED && smallest >= s->largest_interval)
		return 0;
	return s->largest_interval;
}

static void make_row(const struct query_state *s, struct mayfly_row *row, const struct group *g)
{
	bool by_size = s->query->by == MAYFLY_BY_SIZE;
	uint64_t interval = unseen_interval(s, by_size ? (uint64_t)g->low + 1 : 0);

	*row = (struct mayfly_row){
	    .function = group_text(s, g->function),
	    .file = group_text(s, g->file),
	    .module = group_text(s, g->module),
	    .line = g->line,
	    .thread = g->thread,
	    .low = g->low,
	    .high = g->high,
	};
	row->self = tally_estimate(&g->self, interval);
	row->total = row->self;
	if (memcmp(&g->self, &g->total, sizeof(g->self)) != 0)
		row->total = tally_estimate(&g->total, interval);
}

/* Rows of anything but stacks. An unknown function's row has its frame as a stack of one. */
static bool make_rows(struct query_state *s, struct answer *a)
{
	size_t count = s->group_key.count;

	a->row = malloc((count + 1) * sizeof(*a->row));
	a->place = malloc((count + 1) * sizeof(*a->place));
	if (!a->row || !a->place)
		return fail(s, MAYFLY_E_MEMORY);
	for (size_t i = 0; i < count; i++) {
		const struct group *g = &s->group[i];
		struct mayfly_row *row = &a->row[a->result.rows];

		if (tally_empty(&g->total))
			continue;
		make_row(s, row, g);
		if (g->by_address && s->query->by != MAYFLY_BY_MODULE) {
			a->place[a->places] = group_place(s, g);
			row->stack = &a->place[a->places++];
			row->stack_length = 1;
		}
		a->result.rows++;
	}
	return true;
}

/* Copies a stack leaf first, at most `limit` places; a mark says what was cut. */
static size_t copy_stack(const struct query_state *s, struct mayfly_place *place, uint32_t stack,
			 size_t limit)
{
	size_t count = 0;

	for (; stack != NONE; stack = s->stack[stack].parent) {
		if (count + 1 >= limit && s->stack[stack].length > 1) {
			place[count++] = (struct mayfly_place){
			    .function = "",
			    .file = "",
			    .module = "",
			    .kind = MAYFLY_FRAME_ELIDED,
			    .address = s->stack[stack].length,
			};
			break;
		}
		place[count++] = group_place(s, &s->group[s->stack[stack].place]);
	}
	return count;
}

static bool make_stack_rows(struct query_state *s, struct answer *a)
{
	size_t rows = s->stack_rows, places = 0, limit = SIZE_MAX;

	for (size_t i = 0; i < rows; i++)
		places += s->stack[s->stack_sums[i].stack].length;
	if (places > MAX_STACK_PLACES) {
		limit = MAX_STACK_PLACES / rows + 2;
		places = rows * limit;
	}
	a->row = malloc((rows + 1) * sizeof(*a->row));
	a->place = malloc((places + 1) * sizeof(*a->place));
	if (!a->row || !a->place)
		return fail(s, MAYFLY_E_MEMORY);
	for (size_t i = 0; i < rows; i++) {
		const struct stack_sums *sums = &s->stack_sums[i];
		struct mayfly_row *row = &a->row[i];

		*row = (struct mayfly_row){.function = "", .file = "", .module = ""};
		row->self = tally_estimate(&sums->self, unseen_interval(s, 0));
		row->total = row->self;
		if (memcmp(&sums->self, &sums->total, sizeof(sums->self)) != 0)
			row->total = tally_estimate(&sums->total, unseen_interval(s, 0));
		row->stack = &a->place[a->places];
		row->stack_length = copy_stack(s, &a->place[a->places], sums->stack, limit);
		a->places += row->stack_length;
	}
	a->result.rows = rows;
	return true;
}

#define COMPARE(a, b)                                                                              \
	do {                                                                                       \
		if ((a) != (b))                                                                    \
			return (a) < (b) ? -1 : 1;                                                 \
	} while (0)

static int compare_text(const char *a, const char *b)
{
	return a == b ? 0 : strcmp(a, b);
}

static int compare_three(const char *a1, const char *b1, const char *a2, const char *b2,
			 const char *a3, const char *b3)
{
	int order = compare_text(a1, b1);

	if (order == 0)
		order = compare_text(a2, b2);
	return order ? order : compare_text(a3, b3);
}

/* What places and rows both have. */
#define COMPARE_NAMES(a, b)                                                                        \
	compare_three((a)->function, (b)->function, (a)->file, (b)->file, (a)->module, (b)->module)

static int compare_places(const struct mayfly_place *a, const struct mayfly_place *b)
{
	int order = COMPARE_NAMES(a, b);

	if (order != 0)
		return order;
	COMPARE(a->line, b->line);
	COMPARE(a->kind, b->kind);
	COMPARE(a->address, b->address);
	COMPARE(a->inlined, b->inlined);
	return 0;
}

static int compare_names(const struct mayfly_row *a, const struct mayfly_row *b)
{
	int order = COMPARE_NAMES(a, b);

	if (order != 0)
		return order;
	COMPARE(a->line, b->line);
	COMPARE(a->thread, b->thread);
	COMPARE(a->low, b->low);
	COMPARE(a->high, b->high);
	for (size_t i = 0; i < a->stack_length && i < b->stack_length; i++) {
		order = compare_places(&a->stack[i], &b->stack[i]);
		if (order != 0)
			return order;
	}
	COMPARE(a->stack_length, b->stack_length);
	return 0;
}

static int compare_self(const void *x, const void *y)
{
	const struct mayfly_row *a = x, *b = y;

	COMPARE(b->self.bytes.estimate, a->self.bytes.estimate);
	COMPARE(b->total.bytes.estimate, a->total.bytes.estimate);
	return compare_names(a, b);
}

static int compare_total(const void *x, const void *y)
{
	const struct mayfly_row *a = x, *b = y;

	COMPARE(b->total.bytes.estimate, a->total.bytes.estimate);
	COMPARE(b->self.bytes.estimate, a->self.bytes.estimate);
	return compare_names(a, b);
}

static int64_t answer_time(const struct query_state *s)
{
	const struct mayfly_query *q = s->query;

	if (needs_peak(q))
		return s->moment.time_ns;
	if (q->metric == MAYFLY_LIVE && q->at_ns != MAYFLY_AT_END)
		return q->at_ns;
	if (q->metric != MAYFLY_LIVE && q->to_ns < s->info->duration_ns)
		return q->to_ns;
	return s->info->duration_ns;
}

static struct answer *make_answer(struct query_state *s)
{
	struct answer *a = zeroed(s, 1, sizeof(*a));
	bool done;

	if (!a)
		return NULL;
	done = s->query->by == MAYFLY_BY_STACK ? make_stack_rows(s, a) : make_rows(s, a);
	if (!done) {
		mayfly_result_free(&a->result);
		return NULL;
	}
	a->result.row = a->row;
	a->result.time_ns = answer_time(s);
	a->result.total = tally_estimate(&s->all, unseen_interval(s, 0));
	qsort(a->row, a->result.rows, sizeof(*a->row),
	      s->query->sort == MAYFLY_SORT_TOTAL ? compare_total : compare_self);
	return a;
}

static void state_free(struct query_state *s)
{
	numbering_free(&s->text_address);
	numbering_free(&s->group_key);
	numbering_free(&s->stack_key);
	free(s->freed);
	free(s->text);
	free(s->text_hash);
	free(s->frame);
	free(s->spot);
	free(s->node_kept);
	free(s->thread_kept);
	free(s->node_sum);
	free(s->sum);
	free(s->sum_node);
	free(s->branch);
	free(s->subtree);
	free(s->stack_sums);
	free(s->group);
	free(s->stack);
}

static bool query_valid(const struct mayfly_query *q)
{
	return q->metric <= MAYFLY_TEMPORARY && q->by <= MAYFLY_BY_LIFETIME &&
	       q->sort <= MAYFLY_SORT_TOTAL;
}

void mayfly_query_defaults(struct mayfly_query *query)
{
	*query = (struct mayfly_query){
	    .metric = MAYFLY_PEAK,
	    .by = MAYFLY_BY_FUNCTION,
	    .sort = MAYFLY_SORT_SELF,
	    .at_ns = MAYFLY_AT_END,
	    .to_ns = INT64_MAX,
	    .max_size = UINT64_MAX,
	    .max_lifetime_ns = INT64_MAX,
	};
}

int mayfly_query_run(const struct mayfly_trace *trace, const struct mayfly_query *query,
		     struct mayfly_result **result)
{
	struct query_state s = {.trace = trace, .query = query};
	struct answer *a = NULL;

	if (!query_valid(query))
		return MAYFLY_E_RANGE;
	s.info = mayfly_trace_info(trace);
	text_number(&s, unknown_location.function); /* "" is number 0 */
	if (!s.error && filter_nodes(&s) && filter_threads(&s) && read_blocks(&s) &&
	    make_groups(&s) && !s.error)
		a = make_answer(&s);
	if (s.error && a) {
		mayfly_result_free(&a->result);
		a = NULL;
	}
	state_free(&s);
	if (a)
		*result = &a->result;
	return s.error;
}

void mayfly_result_free(struct mayfly_result *result)
{
	struct answer *a = (struct answer *)result;

	if (!a)
		return;
	free(a->row);
	free(a->place);
	free(a);
}
