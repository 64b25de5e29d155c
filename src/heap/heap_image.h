/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The memory of a process, as this room sees it: what is mapped where, and a function that copies
 * bytes out of it. Whoever has the memory, a frozen copy, a core file or a fuzzer, fills it in. Every
 * word that comes out of it is hostile.
 */
#ifndef MAYFLY_HEAP_IMAGE_H
#define MAYFLY_HEAP_IMAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum heap_map_kind {
	HEAP_MAP_OTHER, /* holds no blocks of malloc and not its state */
	HEAP_MAP_ANONYMOUS,
	HEAP_MAP_BREAK, /* what brk() has made: "[heap]" */
	HEAP_MAP_DATA,	/* variables of a program or a library */
	HEAP_MAP_LIBC,	/* those of the C library: malloc's state is looked for here first */
};

struct heap_map {
	uint64_t start, end;
	enum heap_map_kind kind;
};

struct heap_image {
	/* Copies bytes; false: some of them cannot be read. */
	bool (*read)(void *context, uint64_t address, void *to, size_t bytes);
	/* The first address in here where anything but zeros may stand; `end`: there is none. NULL: it is not
	 * known. */
	uint64_t (*skip_zeros)(void *context, uint64_t address, uint64_t end);
	void *context;
	const struct heap_map *map; /* in order of addresses, none overlaps another */
	size_t maps;
};

/* Memory that is an allocator's own, with its blocks: no roots of the program's. In order of addresses. */
struct heap_range {
	uint64_t start, end;
};

struct heap_ranges {
	struct heap_range *range;
	size_t count;
};

void heap_ranges_sort(struct heap_ranges *r);

/* Why there is no picture. */
enum heap_trouble {
	HEAP_FINE,
	HEAP_NO_MEMORY,	    /* here, for the tables */
	HEAP_NO_MALLOC,	    /* glibc's malloc is not there, or has never been called */
	HEAP_OLD_LIBC,	    /* older than 2.31 */
	HEAP_NEW_LIBC,	    /* newer than 2.41 */
	HEAP_DAMAGED,	    /* where: what stands there cannot be */
	HEAP_UNREADABLE,    /* where: memory that should be there is not */
	HEAP_FOREIGN_BREAK, /* where: brk() was moved by others, and what follows was not found */
	HEAP_TOO_LARGE,	    /* more blocks, or more pointers between them, than can be numbered */
	HEAP_INTERRUPTED,   /* progress() said no */
};

struct heap_problem {
	enum heap_trouble trouble;
	uint64_t where; /* an address in the process; 0: none */
};

static inline bool heap_fail(struct heap_problem *p, enum heap_trouble trouble, uint64_t where)
{
	*p = (struct heap_problem){trouble, where};
	return false;
}

static inline uint64_t heap_skip_zeros(const struct heap_image *i, uint64_t address, uint64_t end)
{
	return i->skip_zeros ? i->skip_zeros(i->context, address, end) : address;
}

/* The map that an address is in; NULL: none. */
const struct heap_map *heap_map_at(const struct heap_image *image, uint64_t address);

/*
 * A window on the memory, for reading in rising order: one call of read() for many words.
 */
#define HEAP_WINDOW_BYTES (1u << 18)

struct heap_window {
	const struct heap_image *image;
	uint8_t *at; /* HEAP_WINDOW_BYTES */
	uint64_t start, end;
};

bool heap_window_begin(struct heap_window *w, const struct heap_image *image);
void heap_window_end(struct heap_window *w);

/* `bytes` bytes at the address, at most HEAP_WINDOW_BYTES; NULL: they cannot be read. Reads on as far as
 * `limit`, where what is wanted next may be. Valid until the next call. */
const uint8_t *heap_window_see(struct heap_window *w, uint64_t address, size_t bytes,
			       uint64_t limit);

/* One word; false: it cannot be read. */
bool heap_window_word(struct heap_window *w, uint64_t address, uint64_t limit, uint64_t *word);

#endif
