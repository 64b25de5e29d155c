/* SPDX-License-Identifier: Apache-2.0 */
/* What is wrong with a question: see question_said.h. */
#include "cli/question_said.h"

#include "answer/absent.h"
#include "terminal/message.h"
#include "fleet/http/server_url.h"

bool question_agrees(struct question *q)
{
	struct error_line c = {0};

	return question_check(q, &c) || cli_refuse("%s", c.text);
}

bool question_fits_time(const struct question *q, const char *path, const struct mayfly_info *info)
{
	struct error_line c = {0};

	return question_is_in_time(q, info, &c) || cli_fail("%s: %s", path, c.text);
}

const char *times_remedy(const char *path, uint32_t absent)
{
	return absent & MAYFLY_ABSENT_TIMES && server_url_is(path)
		   ? "; a question with every=5m is answered over time"
		   : "";
}

bool absent_said(const char *path, const struct mayfly_trace *trace, const struct question *q)
{
	uint32_t absent = mayfly_query_absent(trace, &q->query);
	uint32_t has = ~mayfly_trace_info(trace)->absent;
	char text[512];

	if (!absent)
		return false;
	/* A command without --metric cannot be told to use it. */
	cli_error("%s: the file that it comes from does not have %s%s", path,
		  absent_text(text, sizeof(text), absent),
		  absent & MAYFLY_ABSENT_ALLOCATIONS
		      ? "; it has events: see 'mayfly report --events'"
		  : *times_remedy(path, absent) ? times_remedy(path, absent)
		  : !q->metric_given		? ""
		  : absent & (MAYFLY_ABSENT_PEAK | MAYFLY_ABSENT_TEMPORARY | MAYFLY_ABSENT_LIVE |
			      MAYFLY_ABSENT_ALLOCATED)
		      ? (has & MAYFLY_ABSENT_LIVE ? "; ask for --metric live"
						  : "; ask for --metric allocated")
		      : "");
	return true;
}
