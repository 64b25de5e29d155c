/* SPDX-License-Identifier: Apache-2.0 */
/* The options and the progress of what is downloaded from debuginfod servers (symbols/debug_server.h). */
#ifndef MAYFLY_DOWNLOAD_H
#define MAYFLY_DOWNLOAD_H

#include <stdint.h>

#include "question/option_row.h"

struct download {
	int64_t limit_ns; /* of all downloads together; 0: there are none */
};

#define DOWNLOAD_DEFAULTS                                                                          \
	{                                                                                          \
		.limit_ns = 30000000000ll                                                          \
	}

extern const struct option_row download_rows[];

#endif
