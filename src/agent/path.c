/* SPDX-License-Identifier: Apache-2.0 */
/* Entering and leaving the sample path: see path.h. */
#include "agent/path.h"

void path_count_nested(size_t size)
{
	if (self.busy != BUSY_SAMPLING || atomic_load(&agent_state) != AGENT_ON)
		return;
	atomic_fetch_add_explicit(&spool_header->nested_blocks, 1, memory_order_relaxed);
	atomic_fetch_add_explicit(&spool_header->nested_bytes, size, memory_order_relaxed);
}

bool path_defer_free(void *block, void (*handle)(const struct deferred_free *free))
{
	uint32_t n = self.deferred_count;

	if (n >= DEFERRED_FREES) {
		atomic_fetch_add_explicit(&spool_header->dropped_frees, 1, memory_order_relaxed);
		return false;
	}
	self.deferred[n].block = (uintptr_t)block;
	self.deferred[n].ticks = agent_ticks();
	self.deferred[n].before_id = atomic_load(&spool_header->next_sample_id);
	self.free_deferred = handle;
	self.deferred_count = n + 1;
	return true;
}

/* After its destructor a thread cannot keep a writer: nothing would return it to the pool. */
void path_give_back_writer(void)
{
	if (UNLIKELY(self.state == THREAD_EXITING) && self.writer) {
		spool_release(self.writer);
		self.writer = NULL;
	}
}

COLD void path_finish(void)
{
	while (self.deferred_count) {
		struct deferred_free d = self.deferred[--self.deferred_count];

		self.free_deferred(&d);
	}
	path_give_back_writer();
}
