/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz target: takes any bytes for a rule about memory, and for /proc/PID/cgroup. */
#include <stdlib.h>
#include <string.h>

#include "record/cgroup_limit.h"
#include "record/watch_rules.h"

#include "fuzz_main.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = malloc(size + 1);
	struct watch_rule rule;
	const char *wanted;
	size_t at;

	if (!text)
		abort();
	memcpy(text, data, size);
	text[size] = 0;
	wanted = watch_rule_parse(text, &rule, &at);
	if (at > strlen(text) || (!wanted && (!(rule.limit > 0) || rule.for_ns < 0)))
		abort();
	cgroup_limit_of(text, "/proc/self/fdinfo");
	free(text);
	return 0;
}
