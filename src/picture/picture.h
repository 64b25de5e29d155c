/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The picture of a process's heap: who holds what. A process is frozen for it, or a core file is read; the
 * graph is made by the room heap; here are the names.
 *
 *	memory_source	memory, maps, threads
 *	loaded_modules	the program and its libraries, and their variables
 *	holder_list	who may hold blocks, and which memory is whose
 *	thread_roots	what threads hold
 */
#ifndef MAYFLY_PICTURE_H
#define MAYFLY_PICTURE_H

#include "heap/heap_graph.h"
#include "heap/heap_kinds.h"
#include "heap/heap_shared.h"
#include "picture/find_python.h"
#include "picture/holder_list.h"

#define PICTURE_WHY 500

struct picture_wishes {
	struct source_wishes source;
	struct debug_files files;
	const char *symbol_cache; /* folder, or NULL */
	bool waste;		  /* look for it: graph.waste */
	bool strings;		  /* with the beginnings of texts: graph.waste.text */
	/* Called now and then; done: 0 to 1. False: give up. May be NULL. */
	bool (*progress)(void *context, const char *what, double done);
	/* Called once the memory can be read, before it is; false: give up, for want of memory. May be NULL. */
	bool (*look)(void *context, struct memory_source *source);
	/* Called once the memory has been read, before the process that is held runs on. May be NULL. */
	void (*all_read)(void *context);
	void *context;
};

struct picture {
	pid_t pid; /* 0: the picture is of a core file */
	char program[64];
	unsigned int libc_version;
	enum python_state has_python;
	struct python_interpreter python;
	enum frozen_how how;
	int64_t frozen_ns; /* CLOCK_MONOTONIC while it was stopped; 0: it was not */
	int64_t stopped_ns;
	size_t threads, unstopped;
	char why_no_copy[FREEZE_WHY];
	uint64_t anonymous_bytes; /* mapped, that any allocator may have */
	struct holder_list holders;
	struct heap_graph graph;
	struct heap_shared shared;
	struct heap_type *type;
	const char **type_name;
	size_t types;
	struct demangle *names; /* that all of the above have */
};

/* False: why[] says why not, in one line without the process's name. */
bool picture_of_process(struct picture *p, pid_t pid, const struct picture_wishes *wishes,
			char *why, size_t size);
bool picture_of_core(struct picture *p, const char *path, const struct picture_wishes *wishes,
		     char *why, size_t size);
void picture_free(struct picture *p);
/* Lets threads go that stopped too late. A process that goes on after it has taken pictures calls it now and then. */
void picture_tend(void);

#endif
