/* SPDX-License-Identifier: Apache-2.0 */
/* mayfly report --fragmentation: whose blocks hold nearly empty pages. */
#ifndef MAYFLY_REPORT_FRAGMENTATION_H
#define MAYFLY_REPORT_FRAGMENTATION_H

#include "cli/open_trace.h"
#include "cli/output.h"
#include "cli/places.h"

struct fragmentation_request {
	const char *name;	      /* the file's, for messages */
	struct hidden_frames *hidden; /* which frames are not the place of an allocation */
	size_t top;		      /* rows; 0: all */
	bool json;
};

/* An exit status. */
int report_fragmentation(const struct opened_trace *file, const struct output *out,
			 const struct fragmentation_request *request);

#endif
