/* SPDX-License-Identifier: Apache-2.0 */
/* What the user has chosen on the terminal, and how keys change it. */
#ifndef MAYFLY_TOP_KEYS_H
#define MAYFLY_TOP_KEYS_H

#include "cli/top/top_frame.h"

enum top_prompt { PROMPT_NONE, PROMPT_FILTER, PROMPT_SNAPSHOT };

struct top_view {
	struct top *t;
	struct top_cursor cursor;
	bool paused, help, quit;
	bool ask;	    /* the questions have changed */
	bool other_filters; /* the command line has filters beside this one */
	size_t page;	    /* lines of the table that are shown */
	size_t label_key;   /* of the trace's keys, the one that is next */
	enum top_prompt prompt;
	char typed[512];   /* after it */
	char name[256];	   /* of the snapshot, unless another one is typed */
	char message[512]; /* instead of the list of keys, until the next one */
};

void top_key(struct top_view *v, int key);

#endif
