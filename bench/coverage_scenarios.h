/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Programs of many shapes, made up from a seed: sequences of allocations and frees whose every
 * figure is known. bench/coverage.c samples them.
 *
 *	main --> group g --> function f, at the line of a site --> malloc
 *
 * A site is a call of malloc: a line of a function. Two sites share most functions, several
 * functions a group, and a site is mostly called by more than one group. A stack is a site with its
 * group.
 */
#ifndef MAYFLY_COVERAGE_SCENARIOS_H
#define MAYFLY_COVERAGE_SCENARIOS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define COVERAGE_NEVER	 UINT32_MAX
#define COVERAGE_STEP_NS 4000 /* from one event to the next; event e is at (e + 1) times this */

struct coverage_block {
	uint64_t size;
	uint32_t stack, thread, free_thread;
	uint32_t request;  /* 0: outside requests, without labels */
	uint32_t from, to; /* numbers of its events; COVERAGE_NEVER: not freed */
	bool temporary;	   /* its thread freed it and allocated nothing in between */
	bool realloc_alloc, realloc_free;
};

struct coverage_stack {
	uint32_t site, function, group;
};

struct coverage_stream {
	const char *name;
	struct coverage_block *block;
	size_t blocks, block_room;
	uint32_t *event; /* block << 1 | is a free */
	size_t events, event_room;
	struct coverage_stack *stack;
	uint64_t *site_address; /* of the call, in the program's file */
	uint32_t stacks, sites, functions, groups, threads;
	uint32_t tenants; /* 0: no labels */
	bool processes;	  /* each thread is a process with a trace of its own; they are merged */
	bool one_name;	  /* the threads of these processes have one name, and so one row */
};

/* The label of a request. */
static inline uint32_t coverage_tenant(const struct coverage_stream *s, uint32_t request)
{
	return request && s->tenants ? 1 + request % s->tenants : 0;
}

struct coverage_scenario {
	const char *name, *what;
	void (*tell)(void *maker);
	bool on_demand; /* takes long, or is about one thing: only when it is named */
};

extern const struct coverage_scenario coverage_scenarios[];
extern const size_t coverage_scenario_count;

/* The same stream each time. interval: some scenarios have blocks of about its size. */
struct coverage_stream *coverage_make(const struct coverage_scenario *scenario, uint64_t interval);
void coverage_free(struct coverage_stream *s);

#endif
