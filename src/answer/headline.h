/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The answer in one sentence: which function of the program itself allocated most of the memory, and
 * who called it.
 *
 *	At the peak, 61 % (±3) of 812 MiB was allocated in Cache::find (cache.cc:88), called by
 *	handle_request.
 *
 * A second one tells of mappings of the program's own, if they were more than that.
 */
#ifndef MAYFLY_HEADLINE_H
#define MAYFLY_HEADLINE_H

#include "answer/callers.h"

struct headline_answers {
	const struct mayfly_result *functions,
	    *stacks;		       /* the largest stacks of the same question */
	const struct ranking *callers; /* of rank_callers() */
};

#define HEADLINE_BYTES 2048

/* Writes the sentence, or "" when too little is known. Returns the buffer. */
char *headline_text(char *buffer, size_t size, bool utf8, const struct caller_question *question,
		    const struct headline_answers *answers);

#endif
