/* SPDX-License-Identifier: Apache-2.0 */
/* What a recording holds now, as a trace: see snapshot.h. */
#include "cli/control/snapshot.h"

#include <time.h>

#include "terminal/message.h"
#include "cli/target.h"
#include "trace/rewrite/merge.h"

/* A program that has recorded nothing so far is asked again, so often and after this time. */
#define ATTEMPTS 5
#define PAUSE_NS 200000000l

int snapshot_open(struct live_session *session, const char *spool, struct live_trace *live)
{
	const struct timespec pause = {.tv_nsec = PAUSE_NS};
	int error = live_trace_open(session, spool, LIVE_WAIT_ALL, live);

	for (unsigned int i = 0; error == MAYFLY_E_EMPTY && i < ATTEMPTS; i++) {
		nanosleep(&pause, NULL);
		error = live_trace_open(session, spool, LIVE_WAIT_ALL, live);
	}
	return error;
}

static int write_state(const char *spool, const char *output, bool force,
		       const struct live_trace *live)
{
	struct trace_merge *merge = trace_merge_new(MERGE_FROM_START);
	struct target target;
	bool stay;
	int error;

	if (!merge)
		return cli_error("out of memory");
	if (!target_open(&target, output, force)) {
		trace_merge_free(merge);
		return CLI_FAILED;
	}
	error = trace_merge_add(merge, live->trace, &stay);
	if (!error)
		error = trace_merge_write(merge, "made while the program ran (mayfly ctl snapshot)",
					  target_sink, &target);
	trace_merge_free(merge);
	if (!error)
		return target_finish(&target) ? CLI_OK : CLI_FAILED;
	target_drop(&target, error > 0 ? error : 0);
	return error < 0 ? cli_error("%s: %s", spool, mayfly_error_text(error)) : CLI_FAILED;
}

int snapshot_write(const char *spool, const char *output, bool force)
{
	struct live_session *session = live_session_new();
	struct live_trace live;
	int status, error;

	if (!session)
		return cli_error("out of memory");
	error = snapshot_open(session, spool, &live);
	if (error) {
		status = cli_error("%s: %s", spool, mayfly_error_text(error));
	} else {
		live_trace_say_whole(&live);
		status = write_state(spool, output, force, &live);
		live_trace_close(&live);
	}
	live_session_free(session);
	return status;
}
