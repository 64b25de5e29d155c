/* SPDX-License-Identifier: Apache-2.0 */
/* Sampled blocks of runtimes' own heaps: see runtime_blocks.h. */
#include "agent/events/runtime_blocks.h"

#include <string.h>

#include "agent/records.h"

#define RUNTIME_WORD 8 /* bytes: rates are for each of these */

struct runtime_blocks runtime_blocks = {
    .rate = AGENT_OCAML_RATE,
    .interval_log2 = SPOOL_INTERVAL_DEFAULT_LOG2,
    .interval_bytes = 800000,
    .frames = 128,
};

void runtime_blocks_set_rate(double rate)
{
	double least = RUNTIME_WORD / (double)(1ull << SPOOL_INTERVAL_MAX_LOG2), bytes;
	uint32_t log2 = 0;

	if (rate < least)
		rate = least;
	bytes = RUNTIME_WORD / rate;
	while (log2 < SPOOL_INTERVAL_MAX_LOG2 && bytes >= (double)(2ull << log2))
		log2++;
	runtime_blocks.rate = rate;
	runtime_blocks.interval_log2 = log2;
	runtime_blocks.interval_bytes = (uint64_t)bytes;
}

void runtime_blocks_tell_rate(void)
{
	uint64_t bits;

	memcpy(&bits, &runtime_blocks.rate, sizeof(bits));
	atomic_store(&spool_header->ocaml_rate, bits);
	atomic_store(&spool_header->ocaml_interval_log2, runtime_blocks.interval_log2);
}

/* `kept` holds a block's id and, for the sum of live bytes, its hits. */
#define ID_BITS	  44
#define HITS_MOST ((1u << (62 - ID_BITS)) - 1)

static int64_t weight(uint64_t hits)
{
	return (int64_t)((hits < HITS_MOST ? hits : HITS_MOST) * runtime_blocks.interval_bytes);
}

static uint64_t id_of(intptr_t kept)
{
	return (uint64_t)kept & ((1ull << ID_BITS) - 1);
}

void runtime_blocks_drop(void)
{
	struct spool_header *h = spool_header;

	if (h) /* none in a child that is not followed */
		atomic_fetch_add_explicit(&h->dropped_samples, 1, memory_order_relaxed);
}

bool runtime_blocks_record(struct writer *w, uint64_t bytes, uint64_t hits, uint32_t heap,
			   uint32_t common, intptr_t *kept)
{
	struct spool_header *h = spool_header;
	uint64_t ticks = agent_ticks(), id;

	id = atomic_fetch_add_explicit(&h->next_sample_id, 1, memory_order_relaxed);
	if (!records_ocaml_sample(w, ticks, id, bytes, hits, heap, common))
		return false;
	if (hits > HITS_MOST)
		hits = HITS_MOST;
	atomic_fetch_add_explicit(&h->live_bytes, weight(hits), memory_order_relaxed);
	atomic_fetch_add_explicit(&h->live_samples, 1, memory_order_relaxed);
	*kept = (intptr_t)(hits << ID_BITS | (id & ((1ull << ID_BITS) - 1)));
	return true;
}

void runtime_blocks_promoted(struct writer *w, intptr_t kept)
{
	if (w)
		records_promote(w, agent_ticks(), id_of(kept));
}

void runtime_blocks_collected(struct writer *w, intptr_t kept)
{
	struct spool_header *h = spool_header;

	atomic_fetch_sub_explicit(&h->live_bytes, weight((uint64_t)kept >> ID_BITS),
				  memory_order_relaxed);
	atomic_fetch_sub_explicit(&h->live_samples, 1, memory_order_relaxed);
	atomic_fetch_add_explicit(&h->frees, 1, memory_order_relaxed);
	if (w)
		records_free(w, agent_ticks(), id_of(kept), 0);
	else
		atomic_fetch_add_explicit(&h->dropped_frees, 1, memory_order_relaxed);
}
