/* SPDX-License-Identifier: Apache-2.0 */
/* mayfly report --survival: what becomes of blocks in OCaml's minor heap. */
#ifndef MAYFLY_REPORT_SURVIVAL_H
#define MAYFLY_REPORT_SURVIVAL_H

#include "open_trace.h"
#include "output.h"

struct survival_options {
	const struct mayfly_query *query; /* by function, line, stack or module */
	size_t top, depth;		  /* 0: all */
	bool all;			  /* also rows with few samples */
	bool json;
	bool json_top; /* --top was given: fewer rows in JSON, too */
};

/* Prints it. An exit status. */
int report_survival(const struct opened_trace *file, const struct output *o,
		    const struct survival_options *options);

#endif
