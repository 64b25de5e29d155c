/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who may hold blocks: the holders of a process, and which memory is whose. Memory that one holder has
 * claimed is no other's: variables are claimed by their symbols, then the rest of each mapping goes to
 * whom the mapping belongs.
 */
#ifndef MAYFLY_HOLDER_LIST_H
#define MAYFLY_HOLDER_LIST_H

#include "heap/heap_edges.h"
#include "picture/loaded_modules.h"

enum holder_kind {
	HOLDER_VARIABLE,
	HOLDER_THREAD_LOCAL,
	HOLDER_UNNAMED,	  /* variables of a module that no symbol names */
	HOLDER_STACK,	  /* of a function of a thread */
	HOLDER_REGISTERS, /* of a thread */
	HOLDER_THREAD,	  /* what the C library keeps of a thread */
	HOLDER_MAPPING,	  /* memory that is neither of a module nor a stack */
};

struct holder {
	enum holder_kind kind;
	const char *name;   /* readable; a stack's is its function, or "" */
	const char *module; /* "" : none */
	uint64_t address;   /* in the process, of a variable, or of a mapping without a name */
	uint64_t in_block;  /* of a thread-local variable: from the begin of its module's block */
	pid_t tid;	    /* 0: of no thread */
	const char *thread; /* its name */
	uint8_t rank;	    /* as heap_question.rank */
};

struct claim {
	uint64_t start, end;
	uint32_t holder; /* HEAP_NONE: nobody's, and not looked at */
};

struct holder_list {
	struct holder *holder;
	size_t count, capacity;
	struct claim *claim;
	size_t claims, claim_capacity;
	struct heap_value *value;
	size_t values, value_capacity;
	struct heap_root *root;
	size_t roots, root_capacity;
	struct heap_map *map;
	size_t maps, map_capacity;
};

/* The number of a new holder; HEAP_NONE: out of memory. */
uint32_t holder_list_add(struct holder_list *l, struct holder holder);
bool holder_list_claim(struct holder_list *l, uint64_t start, uint64_t end, uint32_t holder);
bool holder_list_value(struct holder_list *l, uint64_t value, uint32_t holder);

/* Variables of all modules; those of threads are claimed by thread_roots. */
bool holder_list_variables(struct holder_list *l, const struct loaded_modules *m,
			   struct demangle *names);
/* When all is claimed: makes the roots and the maps of the image. */
bool holder_list_finish(struct holder_list *l, const struct memory_source *s,
			const struct loaded_modules *m, struct demangle *names);
void holder_list_free(struct holder_list *l);

/* A variable's readable name, without what the compiler adds: "cache" for "cache.2". */
const char *holder_variable_name(struct demangle *names, const char *name);

#endif
