/* SPDX-License-Identifier: Apache-2.0 */
/* The program's own functions that call what allocates: see callers.h. */
#include "answer/callers.h"

#include <stdlib.h>
#include <string.h>

#include "answer/own_code.h"
#include "answer/texts.h"
#include "answer/trace_names.h"

#define NEARLY_ALL     0.95
#define NEARLY_NOTHING (1 - NEARLY_ALL)
#define NO_CALLER      SIZE_MAX

struct caller {
	const struct mayfly_row *row;
	bool is_entry;
	size_t on_stack; /* the last one that it was found on, from 1 */
	/* Bytes of stacks: all that it is on, and those where it is the innermost own function. */
	double found, innermost;
	/* The caller that most of its bytes come through, directly below its innermost place on a
	 * stack; there is one if votes of more than half are for it. Then, how many are. */
	size_t next;
	double votes, passed;
};

struct callers {
	struct caller *caller; /* [count], the largest total first */
	size_t count;
	struct texts names; /* number: the index of the caller, or more */
	const struct mayfly_trace *trace;
	struct own_code *own;
};

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
static bool is_caller(const struct callers *c, const struct mayfly_query *query,
		      const struct mayfly_row *row)
{
	char buffer[UNKNOWN_FUNCTION];

	return row->total.bytes.estimate > row->self.bytes.estimate &&
	       row_confidence(query, row) >= FIGURE_RANGE &&
	       code_kind(c->own, c->trace, row_function(buffer, sizeof(buffer), row), row->file,
			 row->module) == CODE_OWN;
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
		if (is_caller(c, query, &functions->row[i]))
			c->caller[c->count++] = (struct caller){
			    .row = &functions->row[i],
			    .is_entry =
				is_entry(functions->row[i].function, functions->row[i].file),
			    .next = NO_CALLER,
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

/* The stacks vote: a caller with more than half of the votes is the last one that is left. */
static void vote(struct caller *caller, size_t next, double bytes)
{
	if (caller->next == next) {
		caller->votes += bytes;
	} else if (bytes > caller->votes) {
		caller->next = next;
		caller->votes = bytes - caller->votes;
	} else {
		caller->votes -= bytes;
	}
}

/*
 * Finds the callers on a stack: from the leaf, each at its innermost place. count: whether votes
 * are counted, the second time. order: the number of the stack and pass, from 1. False: out of memory.
 */
static bool search_stack(struct callers *c, const struct mayfly_row *stack, size_t order,
			 bool count)
{
	double bytes = stack->self.bytes.estimate;
	bool own_found = false;
	size_t below = NO_CALLER;
	char buffer[UNKNOWN_FUNCTION];

	for (size_t j = 0; j < stack->stack_length; j++) {
		const struct mayfly_place *place = &stack->stack[j];
		const char *function = place_function(buffer, sizeof(buffer), place);
		uint32_t number = texts_number(&c->names, function);
		struct caller *caller = number < c->count ? &c->caller[number] : NULL;

		if (number == TEXTS_FAILED)
			return false;
		if (!own_found && (caller || code_kind(c->own, c->trace, function, place->file,
						       place->module) == CODE_OWN)) {
			own_found = true;
			if (caller && !count)
				caller->innermost += bytes;
		}
		if (!caller)
			continue;
		if (caller->on_stack != order) {
			caller->on_stack = order;
			if (!count)
				caller->found += bytes;
			if (!count && below != NO_CALLER)
				vote(caller, below, bytes);
			if (count && below != NO_CALLER && caller->next == below)
				caller->passed += bytes;
		}
		below = number;
	}
	return true;
}

static bool search_stacks(struct callers *c, const struct mayfly_result *stacks)
{
	size_t most = stacks->rows < CALLERS_SEARCH_STACKS ? stacks->rows : CALLERS_SEARCH_STACKS;

	for (size_t i = 0; i < 2 * most; i++)
		if (!search_stack(c, &stacks->row[i % most], i + 1, i >= most))
			return false;
	return true;
}

/* Its memory is nearly all of one function that it calls: that one says more. main() is named only
 * for memory that no other own function has. */
static bool only_passes_on(const struct caller *caller)
{
	if (caller->is_entry)
		return caller->innermost < NEARLY_NOTHING * caller->found || !caller->found;
	return caller->passed > 0 && caller->passed >= NEARLY_ALL * caller->found;
}

static void choose(const struct callers *c, size_t top, struct ranking *ranking)
{
	for (size_t i = 0; i < c->count && (!top || ranking->rows < top); i++)
		if (!only_passes_on(&c->caller[i]))
			ranking->row[ranking->rows++] = c->caller[i].row;
}

bool rank_callers(const struct caller_question *question, const struct mayfly_result *functions,
		  const struct mayfly_result *stacks, size_t top, struct ranking *ranking)
{
	struct mayfly_query by_total = *question->query;
	struct callers c = {.trace = question->trace, .own = question->own};
	bool done;

	by_total.sort = MAYFLY_SORT_TOTAL;
	*ranking = (struct ranking){0};
	ranking->row = calloc(functions->rows + 1, sizeof(*ranking->row));
	done = ranking->row && find_callers(&c, &by_total, functions) && search_stacks(&c, stacks);
	if (done)
		choose(&c, top, ranking);
	texts_free(&c.names);
	free(c.caller);
	return done;
}
