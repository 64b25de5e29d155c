/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The picture of a heap joined with a recording: for each recorded block that is live, who holds it.
 *
 *	exact		number in the trace <-- stream --> address <-- picture --> holder
 *	sampled		number <-- stream --> sample <-- the agent's table --> address <-- picture --> holder
 */
#ifndef MAYFLY_HEAP_HELD_H
#define MAYFLY_HEAP_HELD_H

#include <mayfly/trace.h>

#include "format/spool_format.h"
#include "picture/picture.h"
#include "spool/spool_stream.h"

/* The agent's table of live samples, as it was when the process was frozen. */
struct heap_samples {
	struct spool_live_entry *sample; /* by id; turned: the address itself */
	size_t count;
};

/* False: it cannot be read, or there is no memory. */
bool heap_samples_read(struct heap_samples *s, const struct spool_header *h,
		       struct memory_source *source);
void heap_samples_free(struct heap_samples *s);

/* The stream has come to the picture's moment, and no further. samples: NULL of an exact recording. False: no
 * memory. Texts live as long as the picture; heap_held_free() frees the rest. */
bool heap_held_find(struct mayfly_picture *to, const struct picture *p,
		    const struct spool_stream *stream, const struct heap_samples *samples);
/* The same of all blocks, numbered in the order of the heap: a picture that stands for itself
 * (heap_trace.h). */
bool heap_held_all(struct mayfly_picture *to, const struct picture *p);
void heap_held_free(struct mayfly_picture *p);

#endif
