/* SPDX-License-Identifier: Apache-2.0 */
/* The client that passes samples on to mayfly's agent, for the program's trace. */
#include "mayfly/mayfly.h"
#include "memprof/codes.h"
#include "memprof/tracked.h"

#define TRACED_FRAMES 1024u

static const struct mayfly_agent_heaps *find_agent(void)
{
	const struct mayfly_agent_heaps *agent;

	MAYFLY_TABLE_(agent, "mayfly_agent_heaps");
	return agent && agent->size >= offsetof(struct mayfly_agent_heaps, allocated_in) ? agent
											 : NULL;
}

static void *trace_alloc(void *client, const struct mayfly_memprof_block *block)
{
	const struct mayfly_agent_heaps *agent = find_agent();
	struct profile *p = client;
	uint64_t addresses[TRACED_FRAMES];
	uint64_t kept;

	for (uint32_t i = 0; i < block->depth; i++)
		addresses[i] = codes_address(p->codes, &p->host, block->frames[i], agent);
	if (p->name[0] && agent->size >= sizeof(*agent))
		kept = agent->allocated_in(p->name, block, block->size * p->host.unit_bytes,
					   addresses);
	else
		kept = agent->allocated(block, block->size * p->host.unit_bytes, addresses);
	return kept ? (void *)(uintptr_t)kept : MAYFLY_MEMPROF_IGNORE;
}

static void trace_promote(void *client, const struct mayfly_memprof_block *block, void *kept)
{
	(void)client;
	(void)block;
	find_agent()->promoted((uint64_t)(uintptr_t)kept);
}

static void trace_dealloc(void *client, const struct mayfly_memprof_block *block, void *kept)
{
	(void)client;
	(void)block;
	find_agent()->freed((uint64_t)(uintptr_t)kept);
}

int mayfly_memprof_trace(struct mayfly_memprof *profile)
{
	const struct mayfly_agent_heaps *agent = find_agent();
	struct profile *p = (struct profile *)profile;
	struct mayfly_memprof_tracker tracker = {
	    .client = p,
	    .alloc = trace_alloc,
	    .promote = trace_promote,
	    .dealloc = trace_dealloc,
	};
	struct mayfly_memprof_options options = {0};

	if (agent)
		options.rate = agent->begin(&options.frames) * p->host.unit_bytes / 8;
	if (!(options.rate > 0))
		return MAYFLY_MEMPROF_ABSENT;
	if (options.rate > 1)
		return MAYFLY_MEMPROF_INVALID;
	if (options.frames > TRACED_FRAMES)
		options.frames = TRACED_FRAMES;
	options.seed = (uint64_t)(uintptr_t)p;
	return mayfly_memprof_start(profile, &options, &tracker);
}
