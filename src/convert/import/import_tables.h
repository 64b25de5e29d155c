/* SPDX-License-Identifier: Apache-2.0 */
/* What readers of foreign files do alike with the tables of the trace that they make. */
#ifndef MAYFLY_IMPORT_TABLES_H
#define MAYFLY_IMPORT_TABLES_H

#include <stddef.h>
#include <stdint.h>

#include "trace/write/recording.h"

/* A limit for the memory that reading a file takes, so that a small file cannot claim a lot. */
struct budget {
	uint64_t left; /* bytes */
};

/* They return 0, MAYFLY_E_TOO_LARGE or MAYFLY_E_MEMORY. */

int budget_spend(struct budget *b, uint64_t bytes);
/* Makes room for one more item; array: the address of the array's pointer. New memory is zero. */
int budget_grow(struct budget *b, void *array, size_t used, size_t *room, size_t item);
/* Adds an item, the last argument, to an array of `count` ones. */
#define BUDGET_APPEND(b, array, count, room, ...)                                                  \
	({                                                                                         \
		int grown = budget_grow(b, &(array), count, &(room), sizeof(*(array)));            \
		if (!grown)                                                                        \
			(array)[(count)++] = __VA_ARGS__;                                          \
		grown;                                                                             \
	})

/* Adds a function to a frame; the earlier ones are inlined into it. No other frame may get one in
 * between. 0 or MAYFLY_E_MEMORY. */
int import_function(struct recording *t, uint32_t frame, const struct recording_location *place);
/* Counts the frames with a name, from the file or from the programs on this machine. */
void import_count_named(struct recording *t);
/* Sets the note, and whether the trace is complete: it is when there is no problem. 0 or
 * MAYFLY_E_MEMORY. */
int import_describe(struct recording *t, const char *problem, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* The same for a file that has events and no blocks, with all else that is known without blocks, but
 * the pid. what: the kind of file, for the note; left_out: "" if nothing was. */
int import_describe_events(struct recording *t, const char *what, uint64_t events,
			   int64_t duration_ns, const char *problem, const char *left_out);

#endif
