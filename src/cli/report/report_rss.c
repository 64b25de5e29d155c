/* SPDX-License-Identifier: Apache-2.0 */
/* report_rss.c: what the resident memory consists of (answer/rss.h). */
#include "cli/report/report.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "answer/rss.h"
#include "answer/text_format.h"

#define SPARKLINE_STEPS 48
#define PEAK_MISSED	1.05 /* the kernel's own maximum is above what was seen by this factor */
#define MAPPED_ROWS	8
#define FAR_NS		1500000000ll

static char *part_text(char *buffer, size_t size, const struct output *out,
		       const struct rss_moment *m, unsigned int i)
{
	char bytes[FIGURE_TEXT];

	if (i == RSS_LIVE)
		return text_figure(buffer, size, out->utf8, &m->live.bytes, m->live.samples);
	text_bytes(bytes, sizeof(bytes), fabs(m->part[i]));
	return text_format(buffer, size, "%s%s", m->part[i] < 0 && strcmp(bytes, "0 B") ? "-" : "",
			   bytes);
}

static bool part_is_shown(const struct rss *r, unsigned int part)
{
	for (size_t i = 0; i < r->moments; i++)
		if (fabs(r->moment[i].part[part]) >= 1)
			return true;
	return part == RSS_LIVE || part == RSS_UNEXPLAINED;
}

/* Context of tables. */
struct rss_table {
	const struct output *out;
	const struct rss *r;
};

static bool put_part_cells(struct table *t, const struct rss_table *c, unsigned int part)
{
	char text[256];

	for (size_t k = 0; k < c->r->moments; k++) {
		const struct rss_moment *m = &c->r->moment[k];
		bool share = m->part[part] >= 0 && m->part[part] <= m->rss;

		if (!table_cell(t, part_text(text, sizeof(text), c->out, m, part)) ||
		    !table_cell(t, share ? text_percent(text, sizeof(text), m->part[part], m->rss)
					 : ""))
			return false;
	}
	snprintf(text, sizeof(text), "%s", rss_part_names[part].name);
	if (part == RSS_STACKS && c->r->moment[0].mappings)
		text_append(text, sizeof(text), " (%.0f)", c->r->moment[c->r->moments - 1].stacks);
	return table_cell(t, text);
}

/* The parts, and RSS below them. */
static bool put_rss_row(struct table *t, const void *context, size_t row)
{
	const struct rss_table *c = context;
	char text[FIGURE_TEXT];

	if (row < RSS_PARTS)
		return !part_is_shown(c->r, (unsigned int)row) ||
		       put_part_cells(t, c, (unsigned int)row);
	for (size_t k = 0; k < c->r->moments; k++)
		if (!table_cell(t, text_bytes(text, sizeof(text), c->r->moment[k].rss)) ||
		    !table_cell(t, ""))
			return false;
	return table_cell(t, "resident in all (RSS)");
}

static const char *moment_title(const struct rss_moment *m)
{
	return strcmp(m->which, "peak") ? "AT THE END" : "AT THE PEAK";
}

static bool print_parts(const struct output *out, const struct rss *r)
{
	struct column columns[5] = {{"", true, 0, STYLE_PLAIN, false},
				    {"", true, 1, STYLE_DIM, true},
				    {"", true, 0, STYLE_PLAIN, false},
				    {"", true, 1, STYLE_DIM, true},
				    {"WHAT", false, 0, STYLE_PLAIN, false}};

	for (size_t k = 0; k < r->moments; k++)
		columns[2 * k].title = moment_title(&r->moment[k]);
	columns[2 * r->moments] = columns[4];
	return table_print_rows(out, columns, 2 * r->moments + 1, RSS_PARTS + 1, put_rss_row,
				&(struct rss_table){out, r});
}

static void print_sparkline(const struct output *out, const char *name, const double *value,
			    size_t steps)
{
	char line[SPARKLINE_STEPS * 4 + 1], bytes[FIGURE_TEXT];
	double most = 0;

	for (size_t i = 0; i < steps; i++)
		most = fmax(most, value[i]);
	text_sparkline(line, sizeof(line), out, value, steps);
	print_styled(out, STYLE_BOLD, name);
	printf("%*s", (int)(FIELD_INDENT - strlen(name)), "");
	print_styled(out, STYLE_BAR, line);
	printf("  at most %s\n", text_bytes(bytes, sizeof(bytes), most));
}

static void print_over_time(const struct output *out, const struct rss *r)
{
	size_t room = (size_t)out->width - FIELD_INDENT - 20;
	size_t steps = room < SPARKLINE_STEPS ? room : SPARKLINE_STEPS;
	double value[SPARKLINE_STEPS];

	if (!out->utf8 || mayfly_trace_info(r->trace)->duration_ns <= 0 ||
	    out->width < FIELD_INDENT + 30)
		return;
	if (counter_steps(r->trace, "process.resident", value, steps))
		print_sparkline(out, "RSS", value, steps);
	if (!mayfly_timeline(r->trace, steps, value))
		print_sparkline(out, "Live heap", value, steps);
	if (counter_steps(r->trace, "glibc.free", value, steps))
		print_sparkline(out, "Free", value, steps);
	putchar('\n');
}

static void print_times(const struct output *out, const struct rss *r)
{
	const struct mayfly_counter *maps = counter_named(r->trace, "maps.resident");
	const struct mayfly_counter *own = counter_named(r->trace, "self.resident");
	char peak[FIGURE_TEXT], end[FIGURE_TEXT], asked[FIGURE_TEXT];
	const struct rss_moment *m = &r->moment[0];

	text_duration(peak, sizeof(peak), (double)m->time_ns);
	if (r->moments == 2) {
		text_duration(end, sizeof(end), (double)r->moment[1].time_ns);
		print_wrapped(out, STYLE_DIM, 0,
			      "The peak is at %s, the end at %s: of %zu moment%s at which the "
			      "mappings were read, the one with most resident and the last.",
			      peak, end, maps->points, maps->points == 1 ? "" : "s");
	}
	if (r->allocator && llabs(m->allocator_ns - m->time_ns) > FAR_NS)
		print_wrapped(out, STYLE_DIM, 0, "For the peak, %s reported its figures at %s.",
			      r->allocator,
			      text_duration(asked, sizeof(asked), (double)m->allocator_ns));
	if (r->moments == 2 && r->highest > PEAK_MISSED * m->rss)
		print_wrapped(out, STYLE_NOTE, 0, "Between two of them RSS was higher: up to %s.",
			      text_bytes(peak, sizeof(peak), r->highest));
	if (r->moments == 2 && own &&
	    fabs(last_value(own) - r->moment[1].rss) > 0.05 * r->moment[1].rss)
		print_wrapped(out, STYLE_NOTE, 0, "When the program exited, RSS was %s.",
			      text_bytes(end, sizeof(end), last_value(own)));
	if (!r->allocator)
		print_wrapped(out, STYLE_NOTE, 0,
			      "The allocator gave no figures: what it keeps free is part of the "
			      "other anonymous memory.");
}

/* "function  file.c:12". */
static char *caller_text(char *buffer, size_t size, const struct output *out, const struct rss *r,
			 const struct mapped_row *row)
{
	char place[1024];

	if (!row->frame)
		return text_format(buffer, size, "[no stack]");
	frame_name(buffer, size, r->trace, row->frame, row->location);
	if (!row->location || !*row->location->file)
		return buffer;
	return text_append(buffer, size, "  %s",
			   location_text(place, sizeof(place), row->location->file,
					 row->location->line, "-", out->wide));
}

static bool put_mapped_cells(struct table *t, const void *context, size_t i)
{
	const struct rss_table *c = context;
	const struct mapped_row *row = &c->r->mapped.row[i];
	char text[1024];

	for (size_t k = 0; k < c->r->moments; k++)
		if (!table_cell(t, text_bytes(text, sizeof(text), (double)row->bytes[k])))
			return false;
	return table_cell(t, row->access) &&
	       table_cell(t, caller_text(text, sizeof(text), c->out, c->r, row));
}

static bool print_mapped(const struct output *out, const struct rss *r)
{
	struct column columns[MAPPED_MOMENTS + 2] = {0};
	size_t shown = r->mapped.rows < MAPPED_ROWS ? r->mapped.rows : MAPPED_ROWS;
	size_t more = r->mapped.rows - shown;

	if (!shown)
		return true;
	for (size_t k = 0; k < r->moments; k++)
		columns[k] = (struct column){moment_title(&r->moment[k]), .right = true};
	columns[r->moments].title = "ACCESS";
	columns[r->moments + 1].title = "MAPPED BY";
	print_wrapped(out, STYLE_PLAIN, 0,
		      "Memory mapped by code other than the C library, resident or not:");
	if (!table_print_rows(out, columns, r->moments + 2, shown, put_mapped_cells,
			      &(struct rss_table){out, r}))
		return false;
	if (more)
		print_wrapped(out, STYLE_DIM, 0, "%zu smaller %s not shown.", more,
			      more == 1 ? "one is" : "ones are");
	if (r->mapped.incomplete)
		print_wrapped(out, STYLE_NOTE, 0, "Some events were lost; this may be wrong.");
	putchar('\n');
	return true;
}

static int print_rss_text(const struct output *out, const struct rss *r)
{
	char line[1024];
	enum rss_part before = RSS_PARTS;
	bool any = false;

	print_over_time(out, r);
	if (!print_parts(out, r))
		return cli_error("out of memory");
	putchar('\n');
	for (size_t i = 0; i < r->moments; i++) {
		enum rss_part which = rss_advice(r, &r->moment[i], line, sizeof(line));

		if (which == before || which == RSS_PARTS)
			continue;
		print_wrapped(out, STYLE_BOLD, 0, "At the %s: %s", r->moment[i].which, line);
		before = which;
		any = true;
	}
	if (any)
		putchar('\n');
	if (!print_mapped(out, r))
		return cli_error("out of memory");
	print_times(out, r);
	return cli_finish();
}

int report_print_rss(struct report *r)
{
	struct rss rss;
	int error, status;

	if (!rss_is_known(r->file.trace))
		return cli_error(
		    "%s: does not record resident memory; 'mayfly record' does, for programs that "
		    "run for some milliseconds, and 'mayfly merge' drops it",
		    r->path);
	error = rss_begin(&rss, r->file.trace);
	if (error) {
		status = cli_error("%s: %s", r->path, mayfly_error_text(error));
	} else if (r->json) {
		struct json j = json_document();

		json_rss(&j, &rss);
		status = json_print(&j);
	} else {
		status = print_rss_text(&r->out, &rss);
	}
	rss_end(&rss);
	return status;
}
