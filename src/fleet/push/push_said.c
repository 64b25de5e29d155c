/* SPDX-License-Identifier: Apache-2.0 */
/* What is said of windows: see push_said.h. */
#include "fleet/push/push_said.h"

#include <stdio.h>
#include <time.h>

#include "answer/figures.h"
#include "base/system/clock.h"
#include "terminal/message.h"

/* The time of day. */
static const char *time_text(char text[16])
{
	time_t now = time(NULL);
	struct tm tm;

	if (!localtime_r(&now, &tm) || !strftime(text, 16, "%H:%M:%S", &tm))
		*text = 0;
	return text;
}

void push_say_window(struct push_said *s, const struct mayfly_info *info, bool ended)
{
	char at[16];

	if (s->quiet)
		return;
	printf("%s process %u: pushed up to %.0f s after its start%s\n", time_text(at), info->pid,
	       (double)info->duration_ns / 1e9, ended ? "; it has ended" : "");
	fflush(stdout);
}

void push_say_away(struct push_said *s, const struct server_url *url, const char *why, bool last)
{
	char at[16];

	if (!s->away) {
		s->away_ns = now_ns();
		cli_error("%s: %s, at %s%s", url->shown, why, time_text(at),
			  last ? "" : "; the next window will be longer");
	}
	s->away = true;
}

void push_say_back(struct push_said *s, const struct server_url *url)
{
	char at[16], length[FIGURE_TEXT];

	if (s->away)
		cli_error("%s: takes windows again, at %s, after %s", url->shown, time_text(at),
			  text_duration(length, sizeof(length), (double)(now_ns() - s->away_ns)));
	s->away = false;
}
