/* SPDX-License-Identifier: Apache-2.0 */
/* How a process is recorded now: see spool_status.h. */
#include "record/spool_status.h"

const char *spool_state_word(const struct spool_header *h)
{
	switch ((enum spool_state)atomic_load(&h->state)) {
	case SPOOL_WAITING:
		return "waiting";
	case SPOOL_OFF:
		return "stopped";
	case SPOOL_RUNNING:
		break;
	}
	return atomic_load(&h->control_enabled) ? "on" : "off";
}

uint64_t spool_interval(const struct spool_header *h)
{
	uint32_t log2 = atomic_load(&h->control_interval_log2);

	return h->mode == SPOOL_EXACT || log2 > SPOOL_INTERVAL_MAX_LOG2 ? 0 : 1ull << log2;
}

uint64_t spool_samples(const struct spool_header *h)
{
	uint64_t next = atomic_load(&h->next_sample_id);

	return next > h->first_sample_id ? next - h->first_sample_id : 0;
}
