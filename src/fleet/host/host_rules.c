/* SPDX-License-Identifier: Apache-2.0 */
/* Which processes are recorded: see host_rules.h. */
#include "fleet/host/host_rules.h"

#include <fnmatch.h>
#include <math.h>
#include <string.h>

static const char *value_of(const struct host_facts *facts, const char *key)
{
	if (!strcmp(key, "service"))
		return facts->service;
	if (!strcmp(key, "program"))
		return facts->program;
	if (!strcmp(key, "cgroup"))
		return facts->cgroup;
	for (size_t i = 0; i < facts->labels; i++)
		if (!strcmp(facts->label[i].key, key + strlen("label.")))
			return facts->label[i].value;
	return NULL;
}

static bool matches(const struct host_rule *r, const struct host_facts *facts)
{
	for (size_t i = 0; i < r->matches; i++) {
		const char *value = value_of(facts, r->match[i].key);

		if (!value || fnmatch(r->match[i].glob, value, 0))
			return false;
	}
	return true;
}

const struct host_rule *host_rule_for(const struct host_config *c, const struct host_facts *facts)
{
	for (size_t i = 0; i < c->rules; i++)
		if (matches(&c->rule[i], facts))
			return &c->rule[i];
	return NULL;
}

bool host_turn(const struct host_rule *rule, uint64_t identity, uint64_t period)
{
	double place = ldexp((double)(identity >> 11), -53);

	return fmod(place + fmod((double)period * rule->share, 1), 1) < rule->share;
}
