/* SPDX-License-Identifier: Apache-2.0 */
/* The heap: see minigc.h. Each call of mayfly_memprof_* says why it is there. */
#include "minigc.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { PAGE_WORDS = 8192, NURSERY_MOST = GC_AREA_WORDS / 4, FIRST_MAJOR = 1 << 16 };

struct gc_page {
	struct gc_page *next;
	size_t words;  /* of the whole mapping */
	size_t object; /* words of each object; large: of the only one */
	word data[];
};

static void out_of_memory(void)
{
	fputs("minigc: out of memory\n", stderr);
	exit(1);
}

static void *map(size_t words)
{
	void *p = mmap(NULL, words * sizeof(word), PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		out_of_memory();
	return p;
}

static void push(struct gc_vector *v, word item)
{
	if (v->count == v->room) {
		v->room = v->room ? 2 * v->room : 256;
		v->item = realloc(v->item, v->room * sizeof(word));
		if (!v->item)
			out_of_memory();
	}
	v->item[v->count++] = item;
}

static inline word *header_of(value v)
{
	return (word *)v - 1;
}

static inline int is_pointer(value v)
{
	return !(v & 1);
}

/* ---- what the profiler asks ---- */

/* A code is a function and a line: opaque to the library, cheap for us. */
static uint32_t call_stack(void *host, uint32_t entry, uint64_t *frames, uint32_t most)
{
	struct gc_heap *heap = host;
	uint32_t n = 0;

	for (struct gc_frame *f = heap->running->frame; f && n < most; f = f->caller, n++) {
		/* The objects of a combined allocation have places of their own. */
		uint32_t line = f->line + (n == 0 ? entry : 0);

		frames[n] = (uint64_t)(uintptr_t)f->function << 16 | (line & 0xffff);
	}
	return n;
}

static uint32_t decode(void *host, uint64_t code, struct mayfly_memprof_place *places,
		       uint32_t most)
{
	const struct gc_function *f = (const struct gc_function *)(uintptr_t)(code >> 16);

	(void)host;
	(void)most;
	places[0].function = f->name;
	places[0].file = f->file;
	places[0].line = code & 0xffff;
	return 1;
}

/* ---- threads ---- */

struct gc_heap *gc_heap_new(void)
{
	struct gc_heap *heap = calloc(1, sizeof(*heap));
	struct mayfly_memprof_host host = {
	    .host = heap,
	    .unit_bytes = sizeof(word),
	    .callstack = call_stack,
	    .decode = decode,
	};

	if (!heap)
		return NULL;
	heap->profile = mayfly_memprof_create(&host);
	if (!heap->profile) {
		free(heap);
		return NULL;
	}
	mayfly_memprof_set_name(heap->profile, "minigc");
	heap->nurseries = map(2 * GC_THREADS * GC_AREA_WORDS);
	heap->next_major = FIRST_MAJOR;
	pthread_mutex_init(&heap->lock, NULL);
	return heap;
}

static void free_pages(struct gc_page *page)
{
	while (page) {
		struct gc_page *next = page->next;

		munmap(page, page->words * sizeof(word));
		page = next;
	}
}

void gc_heap_free(struct gc_heap *heap)
{
	mayfly_memprof_destroy(heap->profile);
	for (size_t i = 0; i < heap->externals.count; i++)
		free((void *)GC_FIELD(heap->externals.item[i], 2));
	for (int i = 0; i < GC_SIZES; i++)
		free_pages(heap->pages[i]);
	free_pages(heap->large);
	munmap(heap->nurseries, 2 * GC_THREADS * GC_AREA_WORDS * sizeof(word));
	free(heap->remembered.item);
	free(heap->externals.item);
	free(heap->todo.item);
	pthread_mutex_destroy(&heap->lock);
	free(heap);
}

/* A new area, or the same after a collection: the limit must stand before the next sample. */
static void set_limit(struct gc_thread *t)
{
	t->end = t->area + GC_AREA_WORDS;
	t->limit = mayfly_memprof_limit(t->sampler, t->at, t->end);
}

struct gc_thread *gc_attach(struct gc_heap *heap)
{
	struct gc_thread *t = calloc(1, sizeof(*t));
	uint32_t slot = 0;

	if (!t)
		return NULL;
	t->heap = heap;
	t->sampler = mayfly_memprof_attach(heap->profile);
	pthread_mutex_lock(&heap->lock);
	while (slot < GC_THREADS && heap->thread[slot])
		slot++;
	if (!t->sampler || slot == GC_THREADS) {
		pthread_mutex_unlock(&heap->lock);
		if (t->sampler)
			mayfly_memprof_detach(t->sampler, NULL);
		free(t);
		return NULL;
	}
	heap->thread[slot] = heap->running = t;
	t->slot = slot;
	t->at = t->area = heap->nurseries + 2 * slot * GC_AREA_WORDS;
	set_limit(t);
	return t;
}

void gc_yield(struct gc_thread *t)
{
	pthread_mutex_unlock(&t->heap->lock);
	pthread_mutex_lock(&t->heap->lock);
	t->heap->running = t;
}

void gc_safe_point(struct gc_thread *t)
{
	if (mayfly_memprof_pending(t->sampler))
		mayfly_memprof_run(t->sampler);
}

/* ---- the shared heap ---- */

static word *put_header(word *at, enum gc_kind kind, size_t fields)
{
	*at = gc_header(kind, fields);
	for (size_t i = 1; i <= fields; i++)
		at[i] = GC_NIL;
	return at + 1;
}

static void add_page(struct gc_heap *heap, size_t fields)
{
	struct gc_page *page = map(PAGE_WORDS);
	size_t object = fields + 1;
	word *end = (word *)page + PAGE_WORDS;

	page->words = PAGE_WORDS;
	page->object = object;
	page->next = heap->pages[fields];
	heap->pages[fields] = page;
	for (word *at = page->data; at + object <= end; at += object) {
		at[1] = (word)heap->free[fields]; /* its header is 0: free */
		heap->free[fields] = at;
	}
}

/* Room for an object, with its header. */
static word *take_old(struct gc_heap *heap, size_t fields)
{
	word *at;

	heap->old_words += fields + 1;
	if (fields >= GC_SIZES) {
		size_t words = sizeof(struct gc_page) / sizeof(word) + fields + 1;
		struct gc_page *page = map(words);

		page->words = words;
		page->object = fields + 1;
		page->next = heap->large;
		heap->large = page;
		return page->data;
	}
	if (!heap->free[fields])
		add_page(heap, fields);
	at = heap->free[fields];
	heap->free[fields] = (word *)at[1];
	return at;
}

static value alloc_old(struct gc_thread *t, enum gc_kind kind, size_t fields)
{
	struct gc_heap *heap = t->heap;
	value v;

	if (heap->old_words > heap->next_major)
		gc_major(heap);
	v = (value)put_header(take_old(heap, fields), kind, fields);
	/* It has not come from the nursery, so no limit has seen it. */
	mayfly_memprof_alloc(t->sampler, v, fields + 1, (uint32_t)kind);
	return v;
}

/* ---- allocation ---- */

/* Room in the nursery, which half a nursery always has after a collection. */
static void make_room(struct gc_thread *t, size_t words)
{
	/* Callbacks of earlier samples run here, where a collection may come anyway. */
	gc_safe_point(t);
	if ((size_t)(t->end - t->at) < words)
		gc_minor(t->heap);
	if (t->heap->old_words > t->heap->next_major)
		gc_major(t->heap);
}

/* The check has failed: for want of room, or because the next sample is in these objects. */
static void carve(struct gc_thread *t, const enum gc_kind *kinds, const size_t *fields,
		  value *object, uint32_t count)
{
	struct mayfly_memprof_part part[GC_COMBINED];
	size_t words = 0;

	for (uint32_t i = 0; i < count; i++)
		words += fields[i] + 1;
	make_room(t, words);
	for (uint32_t i = 0; i < count; i++) {
		object[i] = (value)put_header(t->at, kinds[i], fields[i]);
		t->at += fields[i] + 1;
		part[i].block = object[i];
		part[i].size = fields[i] + 1;
		part[i].kind = (uint32_t)kinds[i];
		part[i].entry = i;
	}
	/* Which of them were sampled, and where the next sample is. */
	if (t->at > t->limit)
		t->limit = mayfly_memprof_carved(t->sampler, part, count, t->at, t->end);
}

value gc_alloc_slow(struct gc_thread *t, enum gc_kind kind, size_t fields)
{
	value v;

	if (fields >= NURSERY_MOST)
		return alloc_old(t, kind, fields);
	carve(t, &kind, &fields, &v, 1);
	return v;
}

void gc_alloc_combined(struct gc_thread *t, const size_t *fields, value *object, uint32_t count)
{
	enum gc_kind kinds[GC_COMBINED] = {GC_RECORD};
	size_t words = 0;

	for (uint32_t i = 0; i < count; i++)
		words += fields[i] + 1;
	if ((size_t)(t->limit - t->at) < words) {
		carve(t, kinds, fields, object, count);
		return;
	}
	for (uint32_t i = 0; i < count; i++) {
		object[i] = (value)put_header(t->at, GC_RECORD, fields[i]);
		t->at += fields[i] + 1;
	}
}

value gc_alloc_external(struct gc_thread *t, size_t bytes)
{
	value v = gc_alloc(t, GC_EXTERNAL, 3);
	void *memory = malloc(bytes);

	if (!memory)
		out_of_memory();
	GC_FIELD(v, 2) = (word)memory;
	/* Not words of the heap, but memory that this object keeps. */
	GC_FIELD(v, 1) = (word)mayfly_memprof_external(t->sampler, bytes, GC_EXTERNAL);
	push(&t->heap->externals, v);
	return v;
}

void gc_set(struct gc_thread *t, value object, size_t i, value v)
{
	struct gc_heap *heap = t->heap;
	word *header = header_of(object);

	GC_FIELD(object, i) = v;
	if (is_pointer(v) && gc_is_young(heap, v) && !gc_is_young(heap, object) &&
	    !(*header & GC_REMEMBERED)) {
		*header |= GC_REMEMBERED;
		push(&heap->remembered, object);
	}
}

/* ---- minor collection ---- */

/* Where a young object is from now on: in the other half of its nursery, or old. */
static value copy(struct gc_heap *heap, value v, int promote)
{
	word *from = header_of(v), *to, header;
	struct gc_thread *t;
	size_t words;

	if (!is_pointer(v) || !gc_is_young(heap, v))
		return v;
	header = *from;
	if (!(header & 1))
		return header;
	t = heap->thread[(size_t)(from - heap->nurseries) / (2 * GC_AREA_WORDS)];
	if (from >= t->area && from < t->area + GC_AREA_WORDS)
		return v; /* t->area is already the half that is copied to */
	words = gc_fields(header) + 1;
	if (promote || header & GC_AGED) {
		to = take_old(heap, words - 1);
		header &= ~(word)GC_AGED;
	} else {
		to = t->at;
		t->at += words;
		header |= GC_AGED;
	}
	memcpy(to, from, words * sizeof(word));
	*to = header;
	*from = (word)(to + 1);
	push(&heap->todo, (word)(to + 1));
	return (value)(to + 1);
}

/* Copies what the object points to. An old object that points to a young one is remembered. */
static void scan(struct gc_heap *heap, value v, int promote)
{
	word *header = header_of(v);
	int young = 0;

	if (gc_kind(*header) != GC_RECORD)
		return;
	for (size_t i = 0; i < gc_fields(*header); i++) {
		value to = GC_FIELD(v, i) = copy(heap, GC_FIELD(v, i), promote);

		young |= is_pointer(to) && gc_is_young(heap, to);
	}
	if (young && !gc_is_young(heap, v)) {
		*header |= GC_REMEMBERED;
		push(&heap->remembered, v);
	}
}

static void copy_roots(struct gc_heap *heap, int promote)
{
	struct gc_vector before = heap->remembered;

	for (int k = 0; k < GC_THREADS; k++)
		for (struct gc_frame *f = heap->thread[k] ? heap->thread[k]->frame : NULL; f;
		     f = f->caller)
			for (uint32_t i = 0; i < f->count; i++)
				f->roots[i] = copy(heap, f->roots[i], promote);
	memset(&heap->remembered, 0, sizeof(heap->remembered));
	for (size_t i = 0; i < before.count; i++) {
		*header_of(before.item[i]) &= ~(word)GC_REMEMBERED;
		scan(heap, before.item[i], promote);
	}
	free(before.item);
	while (heap->todo.count)
		scan(heap, heap->todo.item[--heap->todo.count], promote);
}

static void end_external(struct gc_thread *t, value v)
{
	free((void *)GC_FIELD(v, 2));
	mayfly_memprof_external_freed(t->sampler, GC_FIELD(v, 1));
}

/* The young ones among the owners of external memory have moved, or died. */
static void minor_externals(struct gc_heap *heap)
{
	struct gc_vector *v = &heap->externals;
	size_t kept = 0;

	for (size_t i = 0; i < v->count; i++) {
		word header = *header_of(v->item[i]);

		if (!gc_is_young(heap, v->item[i]))
			v->item[kept++] = v->item[i];
		else if (!(header & 1))
			v->item[kept++] = header;
		else
			end_external(heap->running, v->item[i]);
	}
	v->count = kept;
}

/* The object left its new address in place of its header. */
static enum mayfly_memprof_fate fate(void *context, uintptr_t *block)
{
	word header = *header_of(*block);

	if (header & 1)
		return MAYFLY_MEMPROF_DIED;
	*block = header;
	return gc_is_young(context, header) ? MAYFLY_MEMPROF_STAYS_YOUNG : MAYFLY_MEMPROF_PROMOTED;
}

static void minor(struct gc_heap *heap, int promote)
{
	for (int k = 0; k < GC_THREADS; k++) {
		struct gc_thread *t = heap->thread[k];

		if (t) /* the other half */
			t->at = t->area =
			    heap->nurseries + 2 * k * GC_AREA_WORDS +
			    (t->area == heap->nurseries + 2 * k * GC_AREA_WORDS ? GC_AREA_WORDS
										: 0);
	}
	copy_roots(heap, promote);
	minor_externals(heap);
	for (int k = 0; k < GC_THREADS; k++) {
		if (heap->thread[k]) {
			/* While the old copies are still there. */
			mayfly_memprof_moved(heap->thread[k]->sampler, fate, heap);
			set_limit(heap->thread[k]);
		}
	}
}

void gc_minor(struct gc_heap *heap)
{
	struct gc_thread *t = heap->running;

	minor(heap, 0);
	/* Survivors may fill the nursery again. */
	if (t->end - t->at < GC_AREA_WORDS / 2)
		minor(heap, 1);
}

/* ---- major collection ---- */

static void mark(struct gc_heap *heap, value v)
{
	if (!is_pointer(v) || *header_of(v) & GC_MARKED)
		return;
	*header_of(v) |= GC_MARKED;
	if (gc_kind(*header_of(v)) == GC_RECORD)
		push(&heap->todo, v);
}

static int is_marked(void *context, uintptr_t *block)
{
	(void)context;
	return (*header_of(*block) & GC_MARKED) != 0;
}

static void sweep_page(struct gc_heap *heap, struct gc_page *page)
{
	word *end = (word *)page + page->words;

	for (word *at = page->data; at + page->object <= end; at += page->object) {
		if (*at & GC_MARKED) {
			*at &= ~(word)GC_MARKED;
		} else if (*at) {
			*at = 0;
			at[1] = (word)heap->free[page->object - 1];
			heap->free[page->object - 1] = at;
			heap->old_words -= page->object;
		}
	}
}

static void sweep(struct gc_heap *heap)
{
	struct gc_vector *v = &heap->externals;
	size_t kept = 0;

	for (size_t i = 0; i < v->count; i++) {
		if (*header_of(v->item[i]) & GC_MARKED)
			v->item[kept++] = v->item[i];
		else
			end_external(heap->running, v->item[i]);
	}
	v->count = kept;
	for (int i = 0; i < GC_SIZES; i++)
		for (struct gc_page *page = heap->pages[i]; page; page = page->next)
			sweep_page(heap, page);
	for (struct gc_page **at = &heap->large; *at;) {
		struct gc_page *page = *at;

		if (page->data[0] & GC_MARKED) {
			page->data[0] &= ~(word)GC_MARKED;
			at = &page->next;
			continue;
		}
		*at = page->next;
		heap->old_words -= page->object;
		munmap(page, page->words * sizeof(word));
	}
}

void gc_major(struct gc_heap *heap)
{
	minor(heap, 1);
	for (int k = 0; k < GC_THREADS; k++)
		for (struct gc_frame *f = heap->thread[k] ? heap->thread[k]->frame : NULL; f;
		     f = f->caller)
			for (uint32_t i = 0; i < f->count; i++)
				mark(heap, f->roots[i]);
	while (heap->todo.count) {
		value v = heap->todo.item[--heap->todo.count];

		for (size_t i = 0; i < gc_fields(*header_of(v)); i++)
			mark(heap, GC_FIELD(v, i));
	}
	/* Nothing young is left, and what is not marked is about to go. */
	mayfly_memprof_sweep(heap->running->sampler, is_marked, heap);
	sweep(heap);
	heap->next_major = 2 * heap->old_words + FIRST_MAJOR;
}

/* ---- the rest ---- */

void gc_detach(struct gc_thread *t)
{
	struct gc_heap *heap = t->heap;

	minor(heap, 1);
	gc_safe_point(t);
	minor(heap, 1); /* what the callbacks have allocated */
	mayfly_memprof_detach(t->sampler, NULL);
	heap->thread[t->slot] = NULL;
	heap->running = NULL;
	pthread_mutex_unlock(&heap->lock);
	free(t);
}

static void each_in_page(struct gc_page *page, void (*each)(void *context, value object),
			 void *context)
{
	word *end = (word *)page + page->words;

	for (word *at = page->data; at + page->object <= end; at += page->object)
		if (*at)
			each(context, (value)(at + 1));
}

void gc_each(struct gc_heap *heap, void (*each)(void *context, value object), void *context)
{
	for (int k = 0; k < GC_THREADS; k++) {
		struct gc_thread *t = heap->thread[k];

		for (word *at = t ? t->area : NULL; at && at < t->at; at += gc_fields(*at) + 1)
			each(context, (value)(at + 1));
	}
	for (int i = 0; i < GC_SIZES; i++)
		for (struct gc_page *page = heap->pages[i]; page; page = page->next)
			each_in_page(page, each, context);
	for (struct gc_page *page = heap->large; page; page = page->next)
		each_in_page(page, each, context);
}
