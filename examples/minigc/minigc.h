/* SPDX-License-Identifier: Apache-2.0 */
/*
 * minigc: a small garbage-collected heap that shows where a runtime calls mayfly/memprof.h.
 *
 *	thread's nursery (bump pointer)	  ── survives twice ──>	heap shared by all threads
 *	[objects, objects, ...at   limit   end]			pages of one size of objects; large ones
 *
 * The nursery is copied (minor collection), the shared heap marked and swept (major collection).
 * One lock, gc_heap.lock, belongs to the thread that runs; gc_yield() gives it to another.
 *
 * A value is a pointer to an object's first field, or an integer with its lowest bit set. An object
 * has one word, its header, before its first field.
 */
#ifndef MINIGC_H
#define MINIGC_H

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

#include <mayfly/memprof.h>

typedef uintptr_t word;
typedef word value;

#define GC_INT(n)      ((value)(n) << 1 | 1)
#define GC_NUMBER(v)   ((intptr_t)(v) >> 1)
#define GC_NIL	       GC_INT(0)
#define GC_FIELD(v, i) (((word *)(v))[i])

enum gc_kind {
	GC_RECORD = 0,	/* fields are values */
	GC_BYTES = 1,	/* fields are not looked at */
	GC_EXTERNAL = 2 /* owns memory outside: field 0 free for use, 1 the token, 2 the memory */
};

/* A header: | fields | kind: 4 bits | remembered | old age | marked | 1 |. In a nursery, one without
 * the lowest bit is the object's new address. */
#define GC_MARKED     2u
#define GC_AGED	      4u
#define GC_REMEMBERED 8u

static inline word gc_header(enum gc_kind kind, size_t fields)
{
	return (word)fields << 8 | (word)kind << 4 | 1;
}

static inline size_t gc_fields(word header)
{
	return header >> 8;
}

static inline enum gc_kind gc_kind(word header)
{
	return (enum gc_kind)(header >> 4 & 15);
}

/* A function of the program, as the profiler shows it. */
struct gc_function {
	const char *name, *file;
};

/* An activation of one: the roots in it, and where it is. */
struct gc_frame {
	struct gc_frame *caller;
	const struct gc_function *function;
	uint32_t line;
	uint32_t count;
	value *roots;
};

enum { GC_AREA_WORDS = 4096, GC_THREADS = 16, GC_SIZES = 32, GC_COMBINED = 8 };

struct gc_thread {
	word *at;    /* the next object begins here */
	word *limit; /* the allocation check: the end, or before the next sample */
	word *end;
	word *area; /* where the current half begins */
	struct gc_frame *frame;
	struct gc_heap *heap;
	struct mayfly_memprof_thread *sampler;
	uint32_t slot; /* of heap->nurseries */
};

struct gc_vector {
	word *item;
	size_t count, room;
};

struct gc_page;
struct gc_heap {
	struct mayfly_memprof *profile;
	pthread_mutex_t lock;
	struct gc_thread *thread[GC_THREADS];
	struct gc_thread *running;
	word *nurseries; /* two halves for each thread */
	struct gc_page *pages[GC_SIZES];
	word *free[GC_SIZES]; /* by number of fields; linked by field 0 */
	struct gc_page *large;
	struct gc_vector remembered; /* old objects that may point to young ones */
	struct gc_vector externals;  /* all objects of this kind */
	struct gc_vector todo;
	size_t old_words, next_major;
};

/* NULL: no memory. */
struct gc_heap *gc_heap_new(void);
void gc_heap_free(struct gc_heap *heap);

/* Waits for the lock. The thread has it until gc_yield() or gc_detach(). NULL: too many. */
struct gc_thread *gc_attach(struct gc_heap *heap);
void gc_detach(struct gc_thread *t);
void gc_yield(struct gc_thread *t);

/* Where callbacks may run, and so everything may move: at the end of a loop, for example. */
void gc_safe_point(struct gc_thread *t);

value gc_alloc_slow(struct gc_thread *t, enum gc_kind kind, size_t fields);

/* A new object with 1 to any number of fields, all GC_NIL if a collection could see them. */
static inline value gc_alloc(struct gc_thread *t, enum gc_kind kind, size_t fields)
{
	word *at = t->at;

	if ((size_t)(t->limit - at) < fields + 1)
		return gc_alloc_slow(t, kind, fields);
	t->at = at + fields + 1;
	*at = gc_header(kind, fields);
	for (size_t i = 1; i <= fields; i++)
		at[i] = GC_NIL;
	return (value)(at + 1);
}

/* Several records by one check. Their places are the frame's line, line + 1, ... */
void gc_alloc_combined(struct gc_thread *t, const size_t *fields, value *object, uint32_t count);

/* An object that owns `bytes` of malloc's memory. */
value gc_alloc_external(struct gc_thread *t, size_t bytes);

/* object.field[i] = v */
void gc_set(struct gc_thread *t, value object, size_t i, value v);

void gc_minor(struct gc_heap *heap);
void gc_major(struct gc_heap *heap);

/* Every object that has not been reclaimed. */
void gc_each(struct gc_heap *heap, void (*each)(void *context, value object), void *context);

static inline int gc_is_young(const struct gc_heap *heap, value v)
{
	return v - (word)heap->nurseries < 2 * GC_THREADS * GC_AREA_WORDS * sizeof(word);
}

#endif
