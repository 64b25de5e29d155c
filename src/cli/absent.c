/* SPDX-License-Identifier: Apache-2.0 */
/* What converted traces do not have: see absent.h. */
#include "cli/absent.h"

#include <stdio.h>
#include <string.h>

#include "cli/message.h"

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
};

#define THINGS (sizeof(things) / sizeof(*things))
#define ANY    UINT32_MAX

/* Where there are no blocks at all, it goes without saying that nothing is known of them. */
#define OF_BLOCKS                                                                                  \
	(MAYFLY_ABSENT_PEAK | MAYFLY_ABSENT_LIVE | MAYFLY_ABSENT_ALLOCATED |                       \
	 MAYFLY_ABSENT_TEMPORARY | MAYFLY_ABSENT_LIFETIMES | MAYFLY_ABSENT_SIZES |                 \
	 MAYFLY_ABSENT_ERRORS | MAYFLY_ABSENT_BLOCKS | MAYFLY_ABSENT_MODULES)

char *absent_text(char *buffer, size_t size, uint32_t absent)
{
	size_t used = 0;

	if (absent & MAYFLY_ABSENT_ALLOCATIONS)
		absent &= ~OF_BLOCKS;
	*buffer = 0;
	for (size_t i = 0; i < THINGS && used < size; i++) {
		int added = 0;

		if (absent & things[i].bit)
			added = snprintf(buffer + used, size - used, "%s%s", used ? ", " : "",
					 things[i].text);
		used += added > 0 ? (size_t)added : 0;
	}
	return buffer;
}

void print_absent(const struct output *o, const struct mayfly_info *info)
{
	char text[512];

	if (info->absent)
		print_field(o, "Unknown", "%s: the file that this comes from does not have them",
			    absent_text(text, sizeof(text), info->absent));
}

bool absent_said(const char *path, const struct mayfly_trace *trace, const struct question *q)
{
	uint32_t absent = mayfly_query_absent(trace, &q->query);
	uint32_t has = ~mayfly_trace_info(trace)->absent;
	char text[512];

	if (!absent)
		return false;
	/* Who named no metric may have no option for it. */
	cli_error("%s: the file that it comes from does not have %s%s", path,
		  absent_text(text, sizeof(text), absent),
		  absent & MAYFLY_ABSENT_ALLOCATIONS
		      ? "; it has events: see 'mayfly report --events'"
		  : !q->metric_given ? ""
		  : absent & (MAYFLY_ABSENT_PEAK | MAYFLY_ABSENT_TEMPORARY | MAYFLY_ABSENT_LIVE |
			      MAYFLY_ABSENT_ALLOCATED)
		      ? (has & MAYFLY_ABSENT_LIVE ? "; ask for --metric live"
						  : "; ask for --metric allocated")
		      : "");
	return true;
}

/* ---- JSON ---- */

/* What keys depend on: one of these being absent makes them null. */
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
    {"sampler", MAYFLY_ABSENT_ALLOCATIONS},
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
    {"nested_blocks", ANY},
    {"nested_bytes", ANY},
    {"program_cpu_ns", ANY},
};

static bool is_absent(const char *key, uint32_t absent)
{
	for (size_t i = 0; i < sizeof(keys) / sizeof(*keys); i++)
		if (keys[i].absent & absent && strcmp(keys[i].key, key) == 0)
			return true;
	return false;
}

/* Objects within objects and lists are few levels deep. */
static void drop(json_t *value, uint32_t absent)
{
	const char *key;
	json_t *part;
	size_t i;

	if (json_is_array(value))
		json_array_foreach(value, i, part) drop(part, absent);
	if (!json_is_object(value))
		return;
	json_object_foreach(value, key, part)
	{
		if (is_absent(key, absent))
			json_object_set_new(value, key, json_null());
		else
			drop(part, absent);
	}
}

json_t *json_drop_absent(json_t *object, uint32_t absent)
{
	if (object && absent)
		drop(object, absent);
	return object;
}

json_t *json_absent(uint32_t absent)
{
	json_t *list = json_array();

	for (size_t i = 0; list && i < THINGS; i++) {
		if (absent & things[i].bit &&
		    json_array_append_new(list, json_string(things[i].name)) != 0) {
			json_decref(list);
			return NULL;
		}
	}
	return list;
}
