/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The functions of the program itself that call those which allocate: the ones to be named when the
 * functions that allocate are push_back() and operator[].
 *
 *	main            100 %    holds everything through others: left out
 *	  run           100 %    same
 *	    load         97 %    the innermost own function that holds nearly everything: named
 *	      std::...   97 %    not the program's own
 *	    index         3 %    named
 */
#ifndef MAYFLY_CALLERS_H
#define MAYFLY_CALLERS_H

#include "answer/rank.h"

#define CALLERS_SEARCH_STACKS 500

/*
 * Ranks rows by function by their totals; top: 0 for all. stacks: the largest stacks of the same
 * question. False: out of memory. ranking->row is to be freed.
 */
bool rank_callers(const struct mayfly_query *query, const struct mayfly_result *functions,
		  const struct mayfly_result *stacks, size_t top, struct ranking *ranking);

#endif
