/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mayfly record --push: the options. A mayfly push --every of its own does the work, so that neither the
 * database nor the network can hold up the recorder. It is started anew, with words, and not only forked:
 * as long as it pushes, a fork would keep the recorder's locks on spools and a copy of its memory.
 */
#ifndef MAYFLY_RECORD_PUSH_H
#define MAYFLY_RECORD_PUSH_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "cli/option_table.h"

#define RECORD_PUSH_MOST 96u /* words for mayfly push */

struct record_push {
	const char *to; /* NULL: nothing is pushed */
	const char *every;
	const char *service; /* one of the words; NULL: not given */
	const char *word[RECORD_PUSH_MOST];
	size_t words;
	pid_t pid; /* of mayfly push --every; 0: not yet, -1: it cannot be started */
};

/* Their struct is struct record_push. */
extern const struct option_row record_push_rows[];

/* When all are known; listens: --service is for --listen, too. False after a line on stderr. */
bool record_push_check(const struct record_push *p, bool listens);

/* While the program runs. What fails has said so, and the recording goes on. */
void record_push_now_and_then(struct record_push *p, const char *spool, int64_t running_ns);
/* At the end: waits until the trace is pushed, for RECORD_PUSH_WAIT_S at most. NULL: there is none. */
void record_push_finish(struct record_push *p, const char *trace);

#define RECORD_PUSH_WAIT_S 10

#endif
