/* SPDX-License-Identifier: Apache-2.0 */
/* Rules and the processes of a recording: see watch_list.h. */
#include "record/watch_list.h"

#include <stdlib.h>

#include "base/array.h"
#include "record/cgroup_limit.h"
#include "base/system/process_file.h"
#include "base/system/clock.h"

#define LIMIT_NS 1000000000ll /* limits change, and processes move to other cgroups */

bool watch_list_add(struct watch_list *l, const char *text, const struct watch_rule *rule)
{
	if (!array_reserve(&l->rule, &l->room, l->count, sizeof(*l->rule)))
		return false;
	l->rule[l->count++] = (struct watched_rule){.text = text, .rule = *rule};
	return true;
}

void watch_list_free(struct watch_list *l)
{
	free(l->rule);
	*l = (struct watch_list){0};
}

static bool needs_cgroup(const struct watch_list *l)
{
	for (size_t i = 0; i < l->count; i++)
		if (l->rule[i].rule.of_cgroup)
			return true;
	return false;
}

static bool read_rss(const struct recorder *one, uint64_t *bytes)
{
	*bytes = process_resident(one->process.pid);
	return *bytes > 0;
}

#define QUANTITY(key, name, read, grows) [WATCH_##key] = read,
static bool (*const readers[])(const struct recorder *, uint64_t *) = {WATCH_QUANTITIES(QUANTITY)};

static void read_limit(struct recorder_rules *of, pid_t pid, int64_t now)
{
	if (of->limit_ns && now - of->limit_ns < LIMIT_NS)
		return;
	of->limit_ns = now;
	of->cgroup_limit = cgroup_memory_limit(pid);
}

void watch_list_look(const struct watch_list *l, struct recorder *one)
{
	struct watch_reading now = {.now_ns = now_ns()};
	struct recorder_rules *of = &one->rules;

	if (!l->count || !recorder_is_watched(one))
		return;
	if (!of->state) {
		of->state = calloc(l->count, sizeof(*of->state));
		of->states = of->state ? l->count : 0;
	}
	for (size_t i = 0; i < WATCH_COUNT; i++)
		now.of[i].known = readers[i](one, &now.of[i].bytes);
	if (needs_cgroup(l))
		read_limit(of, one->process.pid, now.now_ns);
	now.cgroup_limit = of->cgroup_limit;
	/* After an exec the memory is the next image's, which has another spool. */
	for (size_t i = 0; i < of->states; i++)
		if (watch_rule_look(&l->rule[i].rule, &of->state[i], &now) &&
		    process_watch_writes(&one->process, one->spool))
			l->came_true(l->context, one, i);
}
