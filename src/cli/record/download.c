/* SPDX-License-Identifier: Apache-2.0 */
/* What is downloaded from debuginfod servers: see download.h. */
#include "cli/record/download.h"

#include "terminal/border.h"

#include <stdio.h>
#include <sys/ioctl.h>
#include <unistd.h>

const struct option_row download_rows[] = {
    {"no-debuginfod",
     .help = "ask no debuginfod server (default: those of DEBUGINFOD_URLS, when it is set)",
     OPTION_FLAG(struct download, off)},
    {"debuginfod-limit", .argument = "TIME", .least = 1, OPTION_TIME(struct download, limit_ns),
     .help = "time that all downloads from debuginfod may take together (default 30s)"},
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
