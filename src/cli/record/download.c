/* SPDX-License-Identifier: Apache-2.0 */
/* What is downloaded from debuginfod servers: see download.h. */
#include "cli/record/download.h"

static bool take_none(const struct given *given, void *to)
{
	(void)given;
	((struct download *)to)->limit_ns = 0;
	return true;
}

const struct option_row download_rows[] = {
    {"no-debuginfod", .gone = "use --debuginfod-limit 0", OPTION_OWN(take_none)},
    {"debuginfod-limit", .rare = true, .argument = "TIME", OPTION_TIME(struct download, limit_ns),
     .help = "time that all downloads from the servers of DEBUGINFOD_URLS may take together "
	     "(default 30s); 0: ask none"},
    OPTION_END,
};
