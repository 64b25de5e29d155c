/* SPDX-License-Identifier: Apache-2.0 */
/* Instead of top_terminal.c where mayfly is built without ncurses: see top_terminal.h. */
#include "cli/top/top_terminal.h"

#include "terminal/message.h"

bool screen_begin(bool colour)
{
	(void)colour;
	return cli_fail("this build of mayfly lacks ncurses, which shows this on the terminal; "
			"install libncurses-dev and build it again, or use --once or --json");
}

void screen_end(void)
{
}

void screen_size(size_t *columns, size_t *lines)
{
	*columns = *lines = 1;
}

void screen_put(size_t line, const char *text, bool chosen)
{
	(void)line;
	(void)text;
	(void)chosen;
}

void screen_show(size_t line)
{
	(void)line;
}

int screen_key(int wait_ms)
{
	(void)wait_ms;
	return 'q';
}

void screen_said(char *text, size_t size)
{
	(void)size;
	*text = 0;
}
