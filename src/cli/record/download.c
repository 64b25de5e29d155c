/* SPDX-License-Identifier: Apache-2.0 */
/* What is downloaded from debuginfod servers: see download.h. */
#include "cli/record/download.h"

#include "terminal/border.h"

#include <stdio.h>
#include <sys/ioctl.h>
#include <unistd.h>

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

void download_show(const char *text)
{
	struct winsize window;
	int columns = 80;

	/* A line that wraps could not be taken back. */
	if (!ioctl(STDERR_FILENO, TIOCGWINSZ, &window) && window.ws_col)
		columns = window.ws_col;
	border_sign(stderr, SIGN_CLEAR_LINE);
	if (*text)
		fprintf(stderr, "%.*s", columns - 1, text);
	fflush(stderr);
}
