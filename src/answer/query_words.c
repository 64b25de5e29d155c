/* SPDX-License-Identifier: Apache-2.0 */
/* Words for the values of a query. */
#include "answer/query_words.h"

#include <string.h>

#include "query/grouping.h"

const char *const metric_names[] = {"live",	 "peak",     "allocated", "leaked",
				    "temporary", "survived", "picture",	  NULL};
#define GROUPING_NAME(key, name, title, flags, absent) [MAYFLY_BY_##key] = name,
const char *const by_names[GROUPING_COUNT + 1] = {GROUPINGS(GROUPING_NAME)};
const char *const sort_names[] = {"self", "total", NULL};

uint32_t heaps_named(const char *name, size_t length)
{
	static const struct {
		const char *name;
		uint32_t heaps;
	} known[] = {
	    {"all", (1u << MAYFLY_HEAPS) - 1},
	    {"malloc", 1u << MAYFLY_HEAP_MALLOC},
	    {"ocaml", 1u << MAYFLY_HEAP_OCAML_MINOR | 1u << MAYFLY_HEAP_OCAML_MAJOR},
	    {"ocaml-minor", 1u << MAYFLY_HEAP_OCAML_MINOR},
	    {"ocaml-major", 1u << MAYFLY_HEAP_OCAML_MAJOR},
	    {"external", 1u << MAYFLY_HEAP_EXTERNAL},
	    {"pool", 1u << MAYFLY_HEAP_POOL | 1u << MAYFLY_HEAP_POOL_MAPPED},
	    {"pool-mapped", 1u << MAYFLY_HEAP_POOL_MAPPED},
	    {"mmap", 1u << MAYFLY_HEAP_MAPPING},
	};

	for (size_t i = 0; i < sizeof(known) / sizeof(*known); i++)
		if (strlen(known[i].name) == length && !memcmp(known[i].name, name, length))
			return known[i].heaps;
	return 0;
}
