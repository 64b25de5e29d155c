/* SPDX-License-Identifier: Apache-2.0 */
/* What converted traces do not have: see absent.h. */
#include "answer/absent.h"

#include <string.h>

#include "answer/text_format.h"

/* In sentences, and in JSON. */
static const struct {
	uint32_t bit;
	const char *text, *name;
} things[] = {
    {MAYFLY_ABSENT_ALLOCATIONS, "allocations", "allocations"},
    {MAYFLY_ABSENT_TIMES, "times", "times"},
    {MAYFLY_ABSENT_PEAK, "the peak", "peak"},
    {MAYFLY_ABSENT_LIVE, "what was freed", "live"},
    {MAYFLY_ABSENT_ALLOCATED, "what was allocated and freed again", "allocated"},
    {MAYFLY_ABSENT_TEMPORARY, "temporary blocks", "temporary"},
    {MAYFLY_ABSENT_LIFETIMES, "lifetimes", "lifetimes"},
    {MAYFLY_ABSENT_SIZES, "sizes of single blocks", "sizes"},
    {MAYFLY_ABSENT_THREADS, "threads", "threads"},
    {MAYFLY_ABSENT_ERRORS, "how certain its estimates are", "errors"},
    {MAYFLY_ABSENT_BLOCKS, "numbers of blocks", "blocks"},
    {MAYFLY_ABSENT_PROCESS, "the process number", "process"},
    {MAYFLY_ABSENT_START, "the date", "start"},
    {MAYFLY_ABSENT_COMMAND, "the command line", "command"},
    {MAYFLY_ABSENT_MODULES, "where libraries were loaded", "modules"},
    {MAYFLY_ABSENT_SAMPLER, "which sampler was used", "sampler"},
};

#define THINGS (sizeof(things) / sizeof(*things))
#define ANY    UINT32_MAX

/* Not mentioned where there are no blocks at all. */
#define OF_BLOCKS                                                                                  \
	(MAYFLY_ABSENT_PEAK | MAYFLY_ABSENT_LIVE | MAYFLY_ABSENT_ALLOCATED |                       \
	 MAYFLY_ABSENT_TEMPORARY | MAYFLY_ABSENT_LIFETIMES | MAYFLY_ABSENT_SIZES |                 \
	 MAYFLY_ABSENT_ERRORS | MAYFLY_ABSENT_BLOCKS | MAYFLY_ABSENT_MODULES |                     \
	 MAYFLY_ABSENT_SAMPLER)

char *absent_text(char *buffer, size_t size, uint32_t absent)
{
	if (absent & MAYFLY_ABSENT_ALLOCATIONS)
		absent &= ~OF_BLOCKS;
	*buffer = 0;
	for (size_t i = 0; i < THINGS; i++)
		if (absent & things[i].bit)
			text_append(buffer, size, "%s%s", *buffer ? ", " : "", things[i].text);
	return buffer;
}

/* What keys of JSON depend on: one of these being absent makes them null. */
static const struct {
	const char *key;
	uint32_t absent;
} keys[] = {
    {"duration_ns", MAYFLY_ABSENT_TIMES},
    {"time_ns", MAYFLY_ABSENT_TIMES},
    {"peak_time_ns", MAYFLY_ABSENT_TIMES | MAYFLY_ABSENT_PEAK},
    {"snapshot_ns", MAYFLY_ABSENT_TIMES},
    {"snapshots", MAYFLY_ABSENT_TIMES},
    {"peak", MAYFLY_ABSENT_PEAK},
    {"live_at_end", MAYFLY_ABSENT_LIVE},
    {"allocated", MAYFLY_ABSENT_ALLOCATED},
    {"mode", MAYFLY_ABSENT_ALLOCATIONS},
    {"sampler", MAYFLY_ABSENT_ALLOCATIONS | MAYFLY_ABSENT_SAMPLER},
    {"interval_bytes", MAYFLY_ABSENT_ALLOCATIONS},
    {"frees", MAYFLY_ABSENT_LIVE | MAYFLY_ABSENT_ALLOCATED},
    {"temporary", MAYFLY_ABSENT_TEMPORARY},
    {"threads", MAYFLY_ABSENT_THREADS},
    {"thread_list", MAYFLY_ABSENT_THREADS},
    {"stderr", MAYFLY_ABSENT_ERRORS},
    {"low", MAYFLY_ABSENT_ERRORS},
    {"high", MAYFLY_ABSENT_ERRORS},
    {"samples", MAYFLY_ABSENT_ERRORS | MAYFLY_ABSENT_BLOCKS},
    {"blocks", MAYFLY_ABSENT_BLOCKS},
    {"pid", MAYFLY_ABSENT_PROCESS},
    {"parent_pid", MAYFLY_ABSENT_PROCESS},
    {"start_time", MAYFLY_ABSENT_START},
    {"command", MAYFLY_ABSENT_COMMAND},
    {"program", MAYFLY_ABSENT_COMMAND},
    /* No other tool counts these, or seeds its sampler. */
    {"seed", ANY},
    {"inherited", ANY},
    {"dropped_samples", ANY},
    {"dropped_frees", ANY},
    {"dropped_events", ANY},
    {"missed_frees", ANY},
    {"nested_blocks", ANY},
    {"nested_bytes", ANY},
    {"program_cpu_ns", ANY},
};

bool absent_key(const char *key, uint32_t absent)
{
	for (size_t i = 0; i < sizeof(keys) / sizeof(*keys); i++)
		if (keys[i].absent & absent && strcmp(keys[i].key, key) == 0)
			return true;
	return false;
}

void json_absent(struct json *j, const char *key, uint32_t absent)
{
	json_array(j, key);
	for (size_t i = 0; i < THINGS; i++)
		if (absent & things[i].bit)
			json_text(j, NULL, things[i].name);
	json_end(j);
}
