/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Labels: what the program says of what its threads allocate. LABEL and LABELS records of
 * format/spool_format.h.
 *
 *	self.label[]: the thread's ──── differ? ────> LABELS record, then SAMPLE or ALLOC
 *	writer->label[]: in force in its packet ──^
 *
 * Pushing and popping writes nothing; whoever is about to write a block's record compares.
 */
#ifndef MAYFLY_LABELS_H
#define MAYFLY_LABELS_H

#include "agent/agent.h"
#include "agent/spool.h"

/* The number of a label, which is the same for equal texts. 0: there is no room for more. */
uint32_t labels_number(const char *key, const char *value);

/* Of this thread; in signal handlers, too. */
void labels_push(uint32_t number);
void labels_pop(void);

/* On the path: one label more, that of a pool; 0: no more. */
void labels_set_pool(uint32_t number);

/* Makes this thread's labels those of the packet, and room for `bytes` behind that. False: no room;
 * the record must be dropped. */
bool labels_write(struct writer *w, size_t bytes);

static inline bool labels_ready(struct writer *w, size_t bytes)
{
	return LIKELY(w->label_version == self.label_version) || labels_write(w, bytes);
}

#endif
