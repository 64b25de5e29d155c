/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A few programs on minigc's heap, and a profiler for them.
 *
 *	programs PROGRAM [RATE]
 *
 * With a rate (samples for each word; 0: the engine is off) it prints, from its own callbacks, where
 * the words were allocated and which are still live. Without one it traces into `mayfly record`'s
 * file, if that runs it.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "minigc.h"

/* ---- the mutator's side: frames ---- */

#define ENTER(name_, n)                                                                            \
	static const struct gc_function function_ = {name_, "programs.c"};                         \
	value root[n];                                                                             \
	struct gc_frame frame_ = {t->frame, &function_, 0, n, root};                               \
	for (int i_ = 0; i_ < (n); i_++)                                                           \
		root[i_] = GC_NIL;                                                                 \
	t->frame = &frame_
#define LEAVE() (t->frame = frame_.caller)
#define HERE()	(frame_.line = __LINE__)

/* ---- the programs ---- */

/* A binary tree, of which each node is two objects by one check: the node and its payload. */
static value tree(struct gc_thread *t, int depth)
{
	static const size_t fields[2] = {3, 2};
	ENTER("tree", 2);
	value object[2];

	if (depth > 0) {
		HERE();
		root[0] = tree(t, depth - 1);
		HERE();
		root[1] = tree(t, depth - 1);
	}
	HERE();
	gc_alloc_combined(t, fields, object, 2); /* the payload's place is the next line */
	GC_FIELD(object[0], 0) = root[0];
	GC_FIELD(object[0], 1) = root[1];
	GC_FIELD(object[0], 2) = object[1];
	LEAVE();
	return object[0];
}

static intptr_t run_tree(struct gc_thread *t)
{
	ENTER("run_tree", 1);
	for (int i = 0; i < 60; i++) {
		HERE();
		root[0] = tree(t, 13);
		gc_safe_point(t);
	}
	LEAVE();
	return 60;
}

/* A list that is reversed again and again: short lives. */
static value cons(struct gc_thread *t, value head, value tail)
{
	ENTER("cons", 2);
	value pair;

	root[0] = head;
	root[1] = tail;
	HERE();
	pair = gc_alloc(t, GC_RECORD, 2);
	GC_FIELD(pair, 0) = root[0];
	GC_FIELD(pair, 1) = root[1];
	LEAVE();
	return pair;
}

static value reverse(struct gc_thread *t, value list)
{
	ENTER("reverse", 2);
	root[0] = list;
	while (root[0] != GC_NIL) {
		HERE();
		root[1] = cons(t, GC_FIELD(root[0], 0), root[1]);
		root[0] = GC_FIELD(root[0], 1);
	}
	LEAVE();
	return root[1];
}

static intptr_t run_list(struct gc_thread *t)
{
	intptr_t sum = 0;

	ENTER("run_list", 1);
	for (int i = 0; i < 1000; i++) {
		HERE();
		root[0] = cons(t, GC_INT(i), root[0]);
	}
	for (int i = 0; i < 2000; i++) {
		HERE();
		root[0] = reverse(t, root[0]);
		gc_safe_point(t);
	}
	for (value v = root[0]; v != GC_NIL; v = GC_FIELD(v, 1))
		sum += GC_NUMBER(GC_FIELD(v, 0));
	LEAVE();
	return sum;
}

/* A table that only grows, of buffers in and outside the heap: the leak to find. */
static intptr_t run_cache(struct gc_thread *t)
{
	const size_t slots = 20000;

	ENTER("run_cache", 2);
	HERE();
	root[0] = gc_alloc(t, GC_RECORD, slots);
	for (size_t i = 0; i < slots; i++) {
		if (i % 16 == 0) {
			HERE();
			root[1] = gc_alloc_external(t, 10000);
		} else {
			HERE();
			root[1] = gc_alloc(t, GC_BYTES, 20 + i % 64);
		}
		if (i % 4 == 0)
			gc_set(t, root[0], i, root[1]);
		gc_safe_point(t);
	}
	LEAVE();
	return (intptr_t)slots;
}

static const struct program {
	const char *name;
	intptr_t (*run)(struct gc_thread *t);
} programs[] = {{"tree", run_tree}, {"list", run_list}, {"cache", run_cache}};

/* ---- the client's side: a table of places ---- */

enum { SITES = 64 };

struct site {
	uint64_t code;
	uint64_t samples, live;
};

struct table {
	struct site site[SITES];
	uint64_t samples, promoted;
};

struct kept {
	struct site *site;
	uint64_t samples;
};

static void *on_alloc(void *client, const struct mayfly_memprof_block *block)
{
	struct table *table = client;
	struct kept *kept = malloc(sizeof(*kept));
	struct site *site = table->site;

	if (!kept || !block->depth) {
		free(kept);
		return MAYFLY_MEMPROF_IGNORE;
	}
	while (site->samples && site->code != block->frames[0] && site < table->site + SITES - 1)
		site++;
	site->code = block->frames[0];
	site->samples += block->n_samples;
	site->live += block->n_samples;
	table->samples += block->n_samples;
	*kept = (struct kept){site, block->n_samples};
	return kept;
}

static void on_promote(void *client, const struct mayfly_memprof_block *block, void *kept)
{
	(void)kept;
	((struct table *)client)->promoted += block->n_samples;
}

static void on_dealloc(void *client, const struct mayfly_memprof_block *block, void *kept)
{
	struct kept *k = kept;

	(void)client;
	(void)block;
	k->site->live -= k->samples;
	free(k);
}

static void on_discard(void *client, const struct mayfly_memprof_block *block, void *kept)
{
	(void)client;
	(void)block;
	free(kept);
}

static void print(struct gc_heap *heap, const struct table *table, double rate)
{
	printf("%12s %12s  place\n", "words", "live");
	for (int i = 0; i < SITES && table->site[i].samples; i++) {
		const struct site *site = &table->site[i];
		const struct mayfly_memprof_place *place;
		uint32_t count;

		place = mayfly_memprof_places(heap->profile, site->code, &count);
		printf("%12.0f %12.0f  %s (%s:%u)\n", (double)site->samples / rate,
		       (double)site->live / rate, place->function, place->file, place->line);
	}
	printf("%12.0f words of all, %.0f promoted\n", (double)table->samples / rate,
	       (double)table->promoted / rate);
}

int main(int argc, char **argv)
{
	static struct table table;
	struct mayfly_memprof_tracker tracker = {
	    .client = &table,
	    .alloc = on_alloc,
	    .promote = on_promote,
	    .dealloc = on_dealloc,
	    .discard = on_discard,
	};
	struct mayfly_memprof_options options = {.frames = 64, .seed = 1};
	struct gc_heap *heap = gc_heap_new();
	struct gc_thread *t;
	size_t i = 0;

	while (argc > 1 && i < sizeof(programs) / sizeof(*programs) &&
	       strcmp(programs[i].name, argv[1]) != 0)
		i++;
	if (argc < 2 || i == sizeof(programs) / sizeof(*programs) || !heap) {
		fprintf(stderr, "usage: programs tree|list|cache [RATE]\n");
		return 1;
	}
	if (argc > 2)
		options.rate = strtod(argv[2], NULL);
	else
		mayfly_memprof_trace(heap->profile);
	if (options.rate > 0 && mayfly_memprof_start(heap->profile, &options, &tracker)) {
		fprintf(stderr, "programs: the rate must be above 0 and at most 1\n");
		return 1;
	}
	t = gc_attach(heap);
	printf("%ld\n", (long)programs[i].run(t));
	gc_safe_point(t);
	if (options.rate > 0)
		print(heap, &table, options.rate);
	gc_detach(t);
	gc_heap_free(heap);
	return 0;
}
