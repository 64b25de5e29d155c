/* SPDX-License-Identifier: Apache-2.0 */
/* top_head.c: the lines about the whole process. */
#include "cli/top/top_frame.h"

#include <inttypes.h>
#include <string.h>

#include "answer/trace_facts.h"
#include "cli/trace_fields.h"

/* Commands that are shorter than this hardly tell anything. */
#define LEAST_COMMAND 12u

static void state_text(char *text, size_t size, const struct top *t)
{
	char time[FIGURE_TEXT] = "", process[64] = "";
	const struct mayfly_info *info = t->has_trace ? t->r.file.info : NULL;
	int pid = t->source.pid ? t->source.pid : info ? (int)info->pid : 0;

	if (info)
		text_duration(time, sizeof(time), (double)top_source_now(t));
	if (pid)
		snprintf(process, sizeof(process), "pid %d, ", pid);
	snprintf(text, size, "%s%s%s%s", process,
		 !t->source.goes_on	  ? "recorded for"
		 : t->source.recorded_off ? "recording is off"
					  : "recording",
		 *time && !(t->source.goes_on && t->source.recorded_off) ? " " : "",
		 t->source.goes_on && t->source.recorded_off ? "" : time);
}

static void put_title(struct top_frame *f, const struct top *t)
{
	size_t width = (size_t)f->o->width, room;
	static char command[NAME_BYTES];
	char state[256];

	state_text(state, sizeof(state), t);
	room = width > text_columns(state) + 2 ? width - text_columns(state) - 2 : 0;
	if (t->has_trace && !(t->r.file.info->absent & MAYFLY_ABSENT_COMMAND))
		command_line(command, sizeof(command), t->r.file.info);
	else
		snprintf(command, sizeof(command), "%s", t->source.path);
	frame_put_fitted(f, STYLE_BOLD, command, room > LEAST_COMMAND ? room : LEAST_COMMAND);
	frame_put(f, STYLE_PLAIN, "  ");
	frame_put_fitted(f, t->source.recorded_off ? STYLE_NOTE : STYLE_DIM, state,
			 width > f->columns ? width - f->columns : 1);
	frame_end_line(f);
}

/* Parts of a line: those that do not fit are left out. */
static void put_part(struct top_frame *f, const char *name, const char *value)
{
	size_t columns = text_columns(name) + text_columns(value) + (f->columns ? 4 : 1);

	if (f->columns && f->columns + columns > (size_t)f->o->width)
		return;
	if (f->columns)
		frame_put(f, STYLE_PLAIN, "   ");
	frame_put(f, STYLE_DIM, "%s ", name);
	frame_put(f, STYLE_PLAIN, "%s", value);
}

static void put_memory(struct top_frame *f, const struct top *t)
{
	const struct top_facts *facts = &t->facts;
	uint32_t absent = t->r.file.info->absent;
	char text[128], time[FIGURE_TEXT], both[256];

	if (!(absent & MAYFLY_ABSENT_LIVE))
		put_part(
		    f, "Live",
		    text_estimate(text, sizeof(text), f->o->utf8, &facts->summary.live_at_end));
	if (facts->rss >= 0)
		put_part(f, "RSS", text_bytes(text, sizeof(text), facts->rss));
	if (!(absent & MAYFLY_ABSENT_PEAK)) {
		text_estimate(text, sizeof(text), f->o->utf8, &facts->summary.peak);
		text_duration(time, sizeof(time), (double)facts->summary.peak_time_ns);
		snprintf(both, sizeof(both), "%s at %s", text, time);
		put_part(f, "Peak", both);
	}
	frame_end_line(f);
}

static void put_rates(struct top_frame *f, const struct top *t)
{
	const struct top_facts *facts = &t->facts;
	char bytes[FIGURE_TEXT], freed[FIGURE_TEXT], time[FIGURE_TEXT], text[256];

	if (facts->rate_ns) {
		text_bytes(bytes, sizeof(bytes), facts->allocated_rate);
		text_bytes(freed, sizeof(freed), facts->freed_rate);
		text_duration(time, sizeof(time), (double)facts->rate_ns);
		snprintf(text, sizeof(text), "%s/s, freed %s/s %s%s", bytes, freed,
			 t->source.goes_on ? "in the last " : "on average",
			 t->source.goes_on ? time : "");
		put_part(f, "Allocated", text);
	}
	if (!(t->r.file.info->absent & MAYFLY_ABSENT_ALLOCATED))
		put_part(f, facts->rate_ns ? "in all" : "Allocated",
			 text_estimate(text, sizeof(text), f->o->utf8, &facts->summary.allocated));
	frame_end_line(f);
}

static void put_samples(struct top_frame *f, const struct top *t)
{
	const struct mayfly_info *info = t->r.file.info;
	char text[320], interval[192], how[200] = "";

	if (!t->r.exact && info->interval_bytes > 1)
		snprintf(how, sizeof(how), " (%s)",
			 interval_text(interval, sizeof(interval), t->r.file.trace));
	snprintf(text, sizeof(text), "%" PRIu64 "%s, %" PRIu64 " of them freed",
		 trace_samples(info), how, trace_frees(info));
	put_part(f, t->r.exact ? "Blocks" : "Samples", text);
	if (info->dropped_samples) {
		snprintf(text, sizeof(text), "%" PRIu64, info->dropped_samples);
		put_part(f, "Lost", text);
	}
	frame_end_line(f);
}

static void put_curve(struct top_frame *f, const struct top *t)
{
	char line[TOP_STEPS * 4 + 1], end[FIGURE_TEXT];

	if (!t->facts.steps || !f->o->utf8)
		return;
	text_sparkline(line, sizeof(line), f->o, t->facts.live, t->facts.steps);
	frame_put(f, STYLE_DIM, "Live ");
	frame_put(f, STYLE_BAR, "%s", line);
	frame_put(f, STYLE_DIM, "  0 to %s",
		  text_duration(end, sizeof(end), (double)t->r.file.info->duration_ns));
	frame_end_line(f);
}

static void put_note(struct top_frame *f, const char *text)
{
	frame_put_fitted(f, STYLE_NOTE, text, (size_t)f->o->width);
	frame_end_line(f);
}

static void put_notes(struct top_frame *f, const struct top *t)
{
	char text[4400], ending[128];

	if (t->source.ended && t->has_trace) {
		snprintf(text, sizeof(text), "The process has ended (%s); this is what %s has.",
			 ending_text(ending, sizeof(ending), t->r.file.info), t->source.path);
		put_note(f, text);
	}
	if (!t->source.goes_on && t->has_trace && !t->r.file.info->complete) {
		snprintf(text, sizeof(text), "%s was cut off or is damaged: this is what it has.",
			 t->source.path);
		put_note(f, text);
	}
	if (!t->facts.known)
		put_note(f, t->has_trace ? "This trace cannot answer the question."
					 : "Nothing has been recorded so far.");
}

void frame_head(struct top_frame *f, const struct top *t)
{
	put_title(f, t);
	if (t->facts.known) {
		put_memory(f, t);
		put_rates(f, t);
		put_samples(f, t);
		put_curve(f, t);
	}
	put_notes(f, t);
}
