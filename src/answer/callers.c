/* SPDX-License-Identifier: Apache-2.0 */
/* The program's own functions that call what allocates: see callers.h. */
#include "answer/callers.h"

#include <stdlib.h>
#include <string.h>

#include "answer/own_code.h"
#include "answer/texts.h"
#include "answer/trace_names.h"

#define NEARLY_ALL	 0.95
#define NEARLY_NOTHING	 (1 - NEARLY_ALL)
#define NOT_ON_STACKS	 SIZE_MAX
#define UNKNOWN_FUNCTION 256 /* bytes of a name that is made of a module and an address */

struct caller {
	const struct mayfly_row *row;
	bool is_entry;
	size_t distance; /* from the leaf, in the largest stack that it is on */
	size_t on_stack; /* the last one that it was found on, from 1 */
	/* Bytes of stacks: all that it is on, those where it is the innermost own function, and those
	 * where it is the innermost of the callers. */
	double found, innermost, innermost_caller;
};

struct callers {
	struct caller *caller; /* [count], the largest total first */
	size_t count;
	struct texts names; /* number: the index of the caller, or more */
	double own;	    /* bytes of stacks with functions of the program itself */
};

static const char *place_function(char *buffer, size_t size, const struct mayfly_place *place)
{
	return frame_shown_name(buffer, size, place->kind, place->function, place->module,
				place->address);
}

static const char *row_function(char *buffer, size_t size, const struct mayfly_row *row)
{
	return !*row->function && row->stack_length ? place_function(buffer, size, &row->stack[0])
						    : row->function;
}

static int compare_total(const void *a, const void *b)
{
	const struct caller *m = a, *n = b;
	const struct mayfly_row *x = m->row, *y = n->row;

	if (x->total.bytes.estimate != y->total.bytes.estimate)
		return x->total.bytes.estimate > y->total.bytes.estimate ? -1 : 1;
	if (x->total.blocks.estimate != y->total.blocks.estimate)
		return x->total.blocks.estimate > y->total.blocks.estimate ? -1 : 1;
	return (x > y) - (x < y); /* sorted by name */
}

/* A function that only allocates itself is among those that allocate. */
static bool is_caller(const struct mayfly_query *query, const struct mayfly_row *row)
{
	char buffer[UNKNOWN_FUNCTION];

	return row->total.bytes.estimate > row->self.bytes.estimate &&
	       row_sureness(query, row) >= FIGURE_RANGE &&
	       is_own_code(row_function(buffer, sizeof(buffer), row), row->module);
}

static bool find_callers(struct callers *c, const struct mayfly_query *query,
			 const struct mayfly_result *functions)
{
	char buffer[UNKNOWN_FUNCTION];
	size_t kept = 0;

	c->caller = calloc(functions->rows + 1, sizeof(*c->caller));
	if (!c->caller)
		return false;
	for (size_t i = 0; i < functions->rows; i++)
		if (is_caller(query, &functions->row[i]))
			c->caller[c->count++] = (struct caller){
			    .row = &functions->row[i],
			    .is_entry = is_entry(functions->row[i].function),
			    .distance = NOT_ON_STACKS,
			};
	qsort(c->caller, c->count, sizeof(*c->caller), compare_total);
	for (size_t i = 0; i < c->count; i++) {
		const char *name = row_function(buffer, sizeof(buffer), c->caller[i].row);
		uint32_t number = texts_number(&c->names, name);

		if (number == TEXTS_FAILED)
			return false;
		/* Functions of two modules of one name, without symbols, may have equal names. */
		if (number == kept)
			c->caller[kept++] = c->caller[i];
	}
	c->count = kept;
	return true;
}

/* order: of the stack, from 1. False: out of memory. */
static bool search_stack(struct callers *c, const struct mayfly_row *stack, size_t order)
{
	double bytes = stack->self.bytes.estimate;
	bool own_found = false, caller_found = false;
	char buffer[UNKNOWN_FUNCTION];

	for (size_t j = 0; j < stack->stack_length; j++) {
		const struct mayfly_place *place = &stack->stack[j];
		const char *function = place_function(buffer, sizeof(buffer), place);
		uint32_t number = texts_number(&c->names, function);
		struct caller *caller = number < c->count ? &c->caller[number] : NULL;

		if (number == TEXTS_FAILED)
			return false;
		if (!own_found && (caller || is_own_code(function, place->module))) {
			own_found = true;
			c->own += bytes;
			if (caller)
				caller->innermost += bytes;
		}
		if (!caller || caller->on_stack == order)
			continue;
		caller->on_stack = order;
		caller->found += bytes;
		if (!caller_found)
			caller->innermost_caller += bytes;
		caller_found = true;
		if (caller->distance == NOT_ON_STACKS)
			caller->distance = j;
	}
	return true;
}

/* Its memory is nearly all of the program's, and other callers that are named hold it. main() says
 * less: it is named only for memory that no other own function has. */
static bool only_passes_on(const struct callers *c, const struct caller *caller)
{
	if (caller->is_entry)
		return caller->innermost < NEARLY_NOTHING * caller->found;
	return caller->found >= NEARLY_ALL * c->own &&
	       caller->innermost_caller < NEARLY_NOTHING * caller->found;
}

static bool same_memory(const struct mayfly_row *a, const struct mayfly_row *b)
{
	return a->total.bytes.estimate == b->total.bytes.estimate &&
	       a->total.blocks.estimate == b->total.blocks.estimate;
}

/* In a chain of calls with the same memory, the one nearest to the leaf says most. */
static void choose(const struct callers *c, size_t top, struct ranking *ranking)
{
	size_t kept = 0, distance = NOT_ON_STACKS;

	for (size_t i = 0; i < c->count; i++) {
		const struct caller *caller = &c->caller[i];

		if (only_passes_on(c, caller))
			continue;
		if (kept && same_memory(ranking->row[kept - 1], caller->row)) {
			if (caller->distance >= distance)
				continue;
			kept--;
		} else if (top && kept == top) {
			break;
		}
		ranking->row[kept++] = caller->row;
		distance = caller->distance;
	}
	ranking->rows = kept;
}

bool rank_callers(const struct mayfly_query *query, const struct mayfly_result *functions,
		  const struct mayfly_result *stacks, size_t top, struct ranking *ranking)
{
	struct mayfly_query by_total = *query;
	struct callers c = {0};
	bool done;

	by_total.sort = MAYFLY_SORT_TOTAL;
	*ranking = (struct ranking){0};
	ranking->row = calloc(functions->rows + 1, sizeof(*ranking->row));
	done = ranking->row && find_callers(&c, &by_total, functions);
	for (size_t i = 0; done && i < stacks->rows && i < CALLERS_SEARCH_STACKS; i++)
		done = search_stack(&c, &stacks->row[i], i + 1);
	if (done)
		choose(&c, top, ranking);
	texts_free(&c.names);
	free(c.caller);
	return done;
}
