/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random programs on examples/minigc: what the engine tracks is what a shadow model says, after
 * every step.
 *
 * Each object has a serial number in field 0, and its allocation's line is that number, so that the
 * call stack of a sample tells which object was sampled, whenever the callback comes. The model
 * knows from the heap itself which objects have not been reclaimed.
 */
#include <setjmp.h>
#include <string.h>

#include "../examples/minigc/minigc.h"
#include "test.h"

enum { MOST = 15000, ROOTS = 64, STEPS = 1500, RUNS = 30, THREADS = 4, TURNS = 400 };

#define KEYS (2 * MOST) /* objects, and the memory outside of those with the number less MOST */

enum state { NEVER, SAMPLED, ENDED, DISCARDED };

struct model {
	struct gc_heap *heap;
	uint64_t random;
	uint32_t serial; /* the next one */
	enum state state[KEYS];
	uint8_t exists[KEYS], seen[KEYS];
	uint32_t key[2 * KEYS]; /* by the block's id */
	uint32_t live;		/* in state SAMPLED */
	uint32_t tracked;
	uint64_t events;
	int acting, all; /* callbacks do things; everything is sampled */
	volatile int jumps;
};

static struct model *m; /* under the heap's lock */
static jmp_buf out;
static const struct gc_function here = {"step", "test_memprof_gc.c"};

static uint64_t draw(uint64_t below)
{
	uint64_t z = m->random += 0x9e3779b97f4a7c15u;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
	z = (z ^ z >> 27) * 0x94d049bb133111ebu;
	return (z ^ z >> 31) % below;
}

/* ---- the client ---- */

static void act_in_callback(void);

static void *on_alloc(void *client, const struct mayfly_memprof_block *block)
{
	uint32_t key = (uint32_t)block->frames[0] & 0xffff;

	(void)client;
	CHECK(block->depth >= 1 && key < m->serial);
	if (block->source == MAYFLY_MEMPROF_EXTERNAL)
		key += MOST;
	CHECK(m->state[key] == NEVER, "%d: %d", (int)key, (int)m->state[key]);
	m->key[block->id] = key;
	m->state[key] = SAMPLED;
	m->live++;
	m->events++;
	act_in_callback();
	return (void *)(uintptr_t)key;
}

/* After a longjmp() out of its alloc a block has no `kept`. */
static uint32_t key_of(const struct mayfly_memprof_block *block, const void *kept)
{
	uint32_t key = m->key[block->id];

	CHECK(!kept || (uintptr_t)kept == key);
	return key;
}

static void on_end(const struct mayfly_memprof_block *block, const void *kept, enum state state)
{
	uint32_t key = key_of(block, kept);

	CHECK(m->state[key] == SAMPLED, "%d: %d", (int)key, (int)m->state[key]);
	m->state[key] = state;
	m->live--;
	m->events++;
}

static void on_promote(void *client, const struct mayfly_memprof_block *block, void *kept)
{
	(void)client;
	CHECK(block->promoted && m->state[key_of(block, kept)] == SAMPLED);
	m->events++;
	act_in_callback();
}

static void on_move(void *client, const struct mayfly_memprof_block *block, void *kept)
{
	(void)client;
	CHECK(!block->promoted && m->state[key_of(block, kept)] == SAMPLED);
	m->events++;
}

static void on_dealloc(void *client, const struct mayfly_memprof_block *block, void *kept)
{
	(void)client;
	on_end(block, kept, ENDED);
	act_in_callback();
}

static void on_discard(void *client, const struct mayfly_memprof_block *block, void *kept)
{
	(void)client;
	on_end(block, kept, DISCARDED);
}

/* ---- the comparison ---- */

static void note_existing(void *context, value object)
{
	intptr_t serial = GC_NUMBER(GC_FIELD(object, 0));

	(void)context;
	if (serial == 0)
		return; /* of a callback */
	m->exists[serial] = 1;
	if (gc_kind(((word *)object)[-1]) == GC_EXTERNAL)
		m->exists[MOST + serial] = 1;
}

static void note_tracked(void *context, const struct mayfly_memprof_block *block)
{
	uint32_t key = m->key[block->id];

	(void)context;
	m->tracked++;
	CHECK(m->state[key] == SAMPLED && !m->seen[key], "%d", (int)key);
	m->seen[key] = 1;
	/* Its address is right. */
	CHECK(key > MOST || GC_FIELD(block->block, 0) == GC_INT(key), "%d", (int)key);
}

/* After all callbacks: the tracked set is that of the sampled objects that exist. */
static void compare(void)
{
	for (int k = 0; k < GC_THREADS; k++)
		while (m->heap->thread[k] && mayfly_memprof_pending(m->heap->thread[k]->sampler))
			mayfly_memprof_run(m->heap->thread[k]->sampler);
	memset(m->exists, 0, sizeof(m->exists));
	memset(m->seen, 0, sizeof(m->seen));
	m->tracked = 0;
	gc_each(m->heap, note_existing, NULL);
	mayfly_memprof_each(m->heap->profile, note_tracked, NULL);
	CHECK(m->tracked == m->live, "%d tracked, %d in the model", (int)m->tracked, (int)m->live);
	for (uint32_t i = 1; i < MOST + m->serial; i = i == m->serial - 1 ? MOST + 1 : i + 1) {
		CHECK(m->state[i] != SAMPLED || m->exists[i], "%d is tracked, but reclaimed",
		      (int)i);
		CHECK(m->state[i] != SAMPLED || m->seen[i], "%d is lost", (int)i);
		CHECK(m->state[i] != ENDED || !m->exists[i], "%d has ended, but exists", (int)i);
		CHECK(!m->all || m->state[i] != NEVER || !m->exists[i], "%d was missed", (int)i);
		if (m->serial == 1)
			break;
	}
}

/* ---- the random program ---- */

static struct mayfly_memprof_tracker tracker = {NULL, on_alloc,	  on_promote, on_move,
						NULL, on_dealloc, on_discard};

static void start(void)
{
	static const double rates[] = {1, 0.3, 0.05, 0.004};
	struct mayfly_memprof_options options = {m->all ? 1 : rates[draw(4)], 4, draw(1 << 20)};

	mayfly_memprof_start(m->heap->profile, &options, &tracker);
}

static void number(value object)
{
	GC_FIELD(object, 0) = GC_INT(m->serial);
	m->serial++;
}

/* A callback allocates, collects, stops, starts, and is left. Its objects are not sampled. */
static void act_in_callback(void)
{
	struct gc_thread *t = m->heap->running;
	value junk;

	if (!m->acting)
		return;
	switch (draw(40)) {
	case 0:
		for (int i = 0; i < 50; i++) {
			junk = gc_alloc(t, GC_RECORD, 1 + draw(8));
			GC_FIELD(junk, 0) = GC_NIL;
		}
		junk = gc_alloc(t, GC_BYTES, 5000);
		break;
	case 1:
		gc_minor(m->heap);
		break;
	case 2:
		gc_major(m->heap);
		break;
	case 3:
		mayfly_memprof_stop(m->heap->profile);
		break;
	case 4:
		start();
		break;
	case 5:
		m->jumps++;
		longjmp(out, 1);
	}
}

static void allocate(struct gc_thread *t, struct gc_frame *f)
{
	value object[4];
	size_t fields[4];
	uint32_t count = 1 + (uint32_t)draw(4), at = (uint32_t)draw(ROOTS);

	f->line = m->serial;
	switch (draw(8)) {
	case 0: /* combined */
		for (uint32_t i = 0; i < count; i++)
			fields[i] = 2 + draw(6);
		gc_alloc_combined(t, fields, object, count);
		for (uint32_t i = 0; i < count; i++) {
			number(object[i]);
			f->roots[(at + i) % ROOTS] = object[i];
		}
		break;
	case 1: /* old, or large */
		f->roots[at] = gc_alloc(t, GC_RECORD, draw(4) ? 1100 : 9000);
		number(f->roots[at]);
		break;
	case 2:
		f->roots[at] = gc_alloc_external(t, 1 + draw(3000));
		number(f->roots[at]);
		break;
	default:
		f->roots[at] = gc_alloc(t, draw(3) ? GC_RECORD : GC_BYTES, 1 + draw(12));
		number(f->roots[at]);
		break;
	}
}

static void link_two(struct gc_thread *t, struct gc_frame *f)
{
	value from = f->roots[draw(ROOTS)], to = f->roots[draw(ROOTS)];
	word header;

	if (from & 1)
		return;
	header = ((word *)from)[-1];
	if (gc_kind(header) == GC_RECORD && gc_fields(header) > 1)
		gc_set(t, from, 1 + draw(gc_fields(header) - 1), to);
}

static void step(struct gc_thread *t, struct gc_frame *f)
{
	switch (draw(30)) {
	case 0:
		gc_minor(m->heap);
		break;
	case 1:
		if (draw(4) == 0)
			gc_major(m->heap);
		break;
	case 2:
		if (draw(4) == 0 && !m->all)
			mayfly_memprof_stop(m->heap->profile);
		break;
	case 3:
		start();
		break;
	case 4:
		if (draw(20) == 0 && !m->all)
			mayfly_memprof_discard(m->heap->profile);
		break;
	case 5:
	case 6:
	case 7:
		f->roots[draw(ROOTS)] = GC_NIL;
		break;
	case 8:
	case 9:
	case 10:
	case 11:
		link_two(t, f);
		break;
	default:
		for (uint64_t i = draw(12); i > 0; i--)
			allocate(t, f);
		break;
	}
	if (draw(4) == 0)
		gc_safe_point(t);
}

static void new_model(struct model *model, uint64_t seed, int acting, int all)
{
	memset(model, 0, sizeof(*model));
	m = model;
	m->random = seed;
	m->serial = 1;
	m->all = all;
	m->acting = acting;
	m->heap = gc_heap_new();
	start();
}

static void begin_frame(struct gc_thread *t, struct gc_frame *f, value *roots)
{
	for (int i = 0; i < ROOTS; i++)
		roots[i] = GC_NIL;
	*f = (struct gc_frame){t->frame, &here, 0, ROOTS, roots};
	t->frame = f;
}

/* All roots are gone: the dead are all told. */
static void end_model(void)
{
	struct gc_thread *t = gc_attach(m->heap);
	struct mayfly_memprof_counts counts;

	gc_major(m->heap);
	compare();
	CHECK(m->live == 0, "%d", (int)m->live);
	mayfly_memprof_get_counts(m->heap->profile, &counts);
	CHECK(counts.tracked == 0 && counts.dropped == 0);
	gc_detach(t);
	gc_heap_free(m->heap);
}

static void run_steps(uint64_t seed, int acting, int all)
{
	static struct model model;
	static value roots[ROOTS];
	static struct gc_frame frame;
	struct gc_thread *volatile t;
	volatile int i;

	new_model(&model, seed, acting, all);
	t = gc_attach(m->heap);
	begin_frame(t, &frame, roots);
	for (i = 0; i < STEPS && m->serial < MOST - 100; i++) {
		if (setjmp(out))
			mayfly_memprof_unwound(t->sampler);
		else
			step(t, &frame);
		/* A callback that is left in the comparison is left to the next round. */
		if (setjmp(out))
			mayfly_memprof_unwound(t->sampler);
		else if (!acting || i % 8 == 0)
			compare();
	}
	m->acting = 0;
	t->frame = NULL;
	gc_detach(t);
	end_model();
	CHECK(m->events > 100 || !all);
}

static void test_quiet(void)
{
	for (uint64_t seed = 1; seed <= RUNS; seed++)
		run_steps(seed, 0, 0);
}

static void test_acting_callbacks(void)
{
	int jumps = 0;

	for (uint64_t seed = 1; seed <= RUNS; seed++) {
		run_steps(1000 + seed, 1, 0);
		jumps += m->jumps;
	}
	CHECK(jumps > 100, "%d", jumps);
}

/* At rate 1 every object is sampled, so that none is missed. */
static void test_everything(void)
{
	for (uint64_t seed = 1; seed <= RUNS / 4; seed++)
		run_steps(2000 + seed, 0, 1);
}

static void *thread_main(void *argument)
{
	struct gc_thread *t = gc_attach(m->heap);
	value roots[ROOTS];
	struct gc_frame frame;

	(void)argument;
	begin_frame(t, &frame, roots);
	for (int i = 0; i < TURNS && m->serial < MOST - 100; i++) {
		step(t, &frame);
		compare();
		gc_yield(t);
	}
	t->frame = NULL;
	gc_detach(t);
	return NULL;
}

static void test_threads(void)
{
	static struct model model;

	for (uint64_t seed = 1; seed <= RUNS / 4; seed++) {
		pthread_t thread[THREADS];

		new_model(&model, 3000 + seed, 0, seed % 2);
		for (int i = 0; i < THREADS; i++)
			CHECK(pthread_create(&thread[i], NULL, thread_main, NULL) == 0);
		for (int i = 0; i < THREADS; i++)
			pthread_join(thread[i], NULL);
		end_model();
	}
}

int main(void)
{
	RUN(test_quiet);
	RUN(test_acting_callbacks);
	RUN(test_everything);
	RUN(test_threads);
	DONE();
}
