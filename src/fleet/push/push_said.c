/* SPDX-License-Identifier: Apache-2.0 */
/* What is said of windows: see push_said.h. */
#include "fleet/push/push_said.h"

#include <stdio.h>
#include <time.h>

#include "terminal/message.h"

void push_say_window(struct push_said *s, const struct mayfly_info *info, bool ended)
{
	time_t now = time(NULL);
	struct tm tm;
	char at[16] = "";

	s->away = false;
	if (s->quiet)
		return;
	if (localtime_r(&now, &tm))
		strftime(at, sizeof(at), "%H:%M:%S", &tm);
	printf("%s process %u: pushed up to %.0f s after its start%s\n", at, info->pid,
	       (double)info->duration_ns / 1e9, ended ? "; it has ended" : "");
	fflush(stdout);
}

void push_say_away(struct push_said *s, const struct server_url *url, const char *why, bool last)
{
	if (!s->away)
		cli_error("%s: %s%s", url->shown, why,
			  last ? "" : "; the next window will be longer");
	s->away = true;
}
