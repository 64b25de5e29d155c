/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Labels that the program attaches to what its threads allocate. LABEL and LABELS records of
 * format/spool_format.h.
 *
 *	self.label[]: the thread's ──── differ? ────> LABELS record, then SAMPLE or ALLOC
 *	writer->label[]: in force in its packet ──^
 *
 * Pushing and popping writes nothing. The labels are compared before a block's record is written.
 */
#ifndef MAYFLY_LABELS_H
#define MAYFLY_LABELS_H

#include "agent/agent.h"
#include "agent/spool.h"

/* The number of a label: equal texts have equal numbers. 0: there is no room for more. */
uint32_t labels_number(const char *key, const char *value);

/* The labels of this thread. Also in signal handlers. */
void labels_push(uint32_t number);
void labels_pop(void);

/* On the path: one label more, that of a pool; 0: without it again. */
void labels_set_pool(uint32_t number);

/* Makes this thread's labels those of the packet, with room for `bytes` after that. False: no room;
 * the record must be dropped. */
bool labels_write(struct writer *w, size_t bytes);

static inline bool labels_ready(struct writer *w, size_t bytes)
{
	return LIKELY(w->label_version == self.label_version) || labels_write(w, bytes);
}

#endif
