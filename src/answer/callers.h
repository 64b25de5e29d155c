/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The functions of the program itself that call those which allocate. Where a chain of calls passes
 * the same memory on, the innermost function is named:
 *
 *	main            100 %    the entry holds everything through others: left out
 *	  run           100 %    passes 97 % of its memory on to load: left out
 *	    load         97 %    named, as none of its callees holds nearly all of this
 *	      parse      60 %    named
 *	      store      37 %    named
 *	    index         3 %    named
 */
#ifndef MAYFLY_CALLERS_H
#define MAYFLY_CALLERS_H

#include "answer/own_code.h"
#include "answer/rank.h"

#define CALLERS_SEARCH_STACKS 500

struct caller_question {
	const struct mayfly_trace *trace;
	const struct mayfly_query *query;
	struct own_code *own;
};

/*
 * Ranks rows by function by their totals; top: 0 for all. stacks: the largest stacks of the same
 * question. False: out of memory. ranking->row is to be freed.
 */
bool rank_callers(const struct caller_question *question, const struct mayfly_result *functions,
		  const struct mayfly_result *stacks, size_t top, struct ranking *ranking);

#endif
