/* SPDX-License-Identifier: Apache-2.0 */
/* Words for the values of a query, as options and JSON have them. */
#ifndef MAYFLY_QUERY_WORDS_H
#define MAYFLY_QUERY_WORDS_H

#include <mayfly/trace.h>

/* In the order of the enums; the lists end with NULL. */
extern const char *const metric_names[], *const by_names[], *const sort_names[];

/* The heaps (1 << enum mayfly_heap) that a name stands for: "malloc", "ocaml", "all"; 0: none. */
uint32_t heaps_named(const char *name, size_t length);

#endif
