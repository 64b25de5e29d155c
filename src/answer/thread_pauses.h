/* SPDX-License-Identifier: Apache-2.0 */
/* The pauses for OCaml's collector in each thread, and in each domain of OCaml 5. */
#ifndef MAYFLY_THREAD_PAUSES_H
#define MAYFLY_THREAD_PAUSES_H

#include <mayfly/trace.h>

#include <stdbool.h>
#include <stddef.h>

#define PAUSE_TYPES 4 /* the most that are told apart */

struct pause_sum {
	uint64_t count;
	int64_t total_ns, max_ns;
};

struct pauses_of_thread {
	uint32_t thread;
	struct pause_sum of[PAUSE_TYPES];
};

struct thread_pauses {
	uint32_t type[PAUSE_TYPES]; /* of spans, minor collections first */
	size_t types;
	struct pauses_of_thread *row; /* threads with pauses, those that paused longest first */
	size_t rows;
};

/* Phases of OCaml's collector in which the program waits. */
bool is_pause(const struct mayfly_track_type *type);

/* The pauses of the query's threads that began in its window, of the types that `spans`, its answer,
 * has. 0 or a negative enum mayfly_error. */
int thread_pauses_find(struct thread_pauses *p, const struct mayfly_trace *trace,
		       const struct mayfly_query *query, const struct mayfly_spans *spans);
void thread_pauses_free(struct thread_pauses *p);

#endif
