/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The memory, the maps and the threads of a process that runs, of its frozen copy, or from a core
 * file. What the rest of the room sees of it is here.
 */
#ifndef MAYFLY_MEMORY_SOURCE_H
#define MAYFLY_MEMORY_SOURCE_H

#include <sys/types.h>

#include "attach/freeze.h"
#include "picture/process_maps.h"

#define SOURCE_WHY 400

struct source_thread {
	struct frozen_thread frozen;
	char name[32]; /* "" : not known */
};

/* A run of bytes that is held here. */
struct source_piece {
	uint64_t start, bytes;
	const uint8_t *at;
};

struct memory_source {
	pid_t pid; /* 0: a core file */
	char program[64];
	char root[32]; /* before paths of files, "/proc/PID/root"; "" */
	struct process_maps maps;
	struct source_thread *thread;
	size_t threads;
	int fd;			    /* /proc/PID/mem; -1: the pieces have all */
	int pages;		    /* pagemap of what fd reads; -1: it is not known */
	int touched;		    /* of the process itself */
	int image_pages;	    /* of the image; -1: it is a file */
	struct source_piece *piece; /* in order of addresses; they come before fd */
	size_t pieces;
	void *image; /* what the pieces point into, of */
	size_t image_bytes;
	bool image_is_mapped;
	struct freeze freeze;
	bool frozen;
};

struct source_wishes {
	bool no_stop, hold;
	int64_t most_stop_ns;
};

/* False: why[] says why not. */
bool memory_source_open_process(struct memory_source *s, pid_t pid,
				const struct source_wishes *wishes, char *why, size_t size);
bool memory_source_open_core(struct memory_source *s, const char *path, char *why, size_t size);
void memory_source_close(struct memory_source *s);

/* As heap_image.read and heap_image.skip_zeros; context is the source. */
bool memory_source_read(void *context, uint64_t address, void *to, size_t bytes);
uint64_t memory_source_skip_zeros(void *context, uint64_t address, uint64_t end);
/* A word; 0 when it cannot be read. */
uint64_t memory_source_word(struct memory_source *s, uint64_t address);

#endif
