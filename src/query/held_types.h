/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What holders hold, by type: the blocks of the heap's picture that a query keeps, by MAYFLY_BY_HOLDER
 * and MAYFLY_BY_TYPE at once, for some of the holders.
 *
 *	holder		g_sessions		s_cache
 *	types		Session  896 K		65 to 128 bytes  60 K
 *			std::string  120 K
 */
#ifndef MAYFLY_HELD_TYPES_H
#define MAYFLY_HELD_TYPES_H

#include <mayfly/trace.h>

struct held_type {
	const char *name;  /* "": not known; then the class of MAYFLY_BY_SIZE: */
	int64_t low, high; /* as in struct mayfly_row */
	struct mayfly_estimate sum;
};

struct held_list {
	size_t types;
	const struct held_type *type; /* the largest first */
};

struct held_types {
	size_t holders;
	const struct held_list *of; /* in the order of the question */
};

/*
 * holder: indices in the picture, each once. `metric`, `by` and `sort` of the query are not used. The
 * names are the trace's. MAYFLY_E_ABSENT: there is no picture; MAYFLY_E_RANGE: there is no such holder;
 * MAYFLY_E_TOO_LARGE: there are more than 2^24 cells of holders by types.
 */
int held_types_run(const struct mayfly_trace *trace, const struct mayfly_query *query,
		   const uint32_t *holder, size_t holders, struct held_types **types);
void held_types_free(struct held_types *types);

#endif
