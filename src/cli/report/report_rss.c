/* SPDX-License-Identifier: Apache-2.0 */
/* report_rss.c: what the resident memory consists of (answer/rss.h). */
#include "cli/report/report.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "answer/counter_values.h"
#include "answer/rss.h"
#include "answer/text_format.h"

#define SPARKLINE_STEPS 48
#define PEAK_MISSED	1.05 /* the kernel's own maximum is above what was seen by this factor */
#define MAPPED_ROWS	8
/* Rows of at least this share of RSS are shown; the others of a kind are one row. */
#define MOST_ROWS   6u
#define SMALL_SHARE 0.02

struct shown_row {
	struct rss_row row;
	size_t others; /* it is the sum of this many small ones; 0: it is one */
	bool beside;   /* there are larger ones of its kind */
};

/* Context of tables. */
struct rss_table {
	const struct output *out;
	const struct rss *r;
	const struct shown_row *row;
};

/* ---- resident pages ---- */

static double larger(const struct rss_row *row)
{
	return fmax(fabs(row->resident[0]), fabs(row->resident[1]));
}

static void add_other(struct shown_row *to, const struct rss_row *from, size_t moments)
{
	to->others++;
	for (size_t k = 0; k < moments; k++)
		to->row.resident[k] += from->resident[k];
}

/* The rows to be shown: small ones of a kind become one. Returns their number; there is room for
 * all. */
static size_t choose_rows(const struct rss *r, struct shown_row *shown)
{
	double whole = fmax(r->moment[0].rss, r->moment[1].rss);
	size_t rows = 0, of_kind[RSS_KINDS] = {0};

	for (size_t i = 0; i < r->rows; i++) {
		const struct rss_row *from = &r->row[i];
		size_t number = of_kind[from->kind]++;
		struct shown_row *last = rows ? &shown[rows - 1] : NULL;

		if (larger(from) >= SMALL_SHARE * whole && number < MOST_ROWS) {
			shown[rows++].row = *from;
			continue;
		}
		if (!last || last->row.kind != from->kind || !last->others) {
			last = &shown[rows++];
			*last = (struct shown_row){.row = *from, .beside = number != 0};
			memset(last->row.resident, 0, sizeof(last->row.resident));
		}
		add_other(last, from, r->moments);
	}
	return rows;
}

static void put_name(char *text, size_t size, const struct rss_table *c, const struct rss_row *row)
{
	const struct rss *r = c->r;
	const struct rss_moment *last = &r->moment[r->moments - 1];
	char place[1024];

	snprintf(text, size, "%s", rss_kind_names[row->kind].name);
	if (row->kind == RSS_ARENAS)
		text_append(text, size, " (%.0f)", last->arenas);
	else if (row->kind == RSS_STACKS && last->stacks > 0)
		text_append(text, size, " (%.0f)", last->stacks);
	else if (row->kind == RSS_ALLOCATOR)
		text_append(text, size, " %s", row->name);
	else if (row->mapper)
		text_append(text, size, ", mapped by %s",
			    row->mapper->frame
				? frame_name(place, sizeof(place), r->trace, row->mapper->frame,
					     row->mapper->location)
				: "[no stack]");
	else if (*row->name)
		text_append(text, size, ": %s",
			    c->out->wide || *row->name != '/' ? row->name : path_base(row->name));
	else if (row->kind == RSS_ANONYMOUS && row->several)
		text_append(text, size, ", mapped by several");
	else if (row->kind == RSS_ANONYMOUS)
		text_append(text, size, "%s",
			    !r->by_kind	     ? ": heap, stacks, .data, .bss"
			    : !r->data_apart ? ", and .bss"
			    : r->by_mapping  ? ", mapped by unknown code"
					     : "");
	else if (row->kind == RSS_FILES && !r->data_apart)
		text_append(text, size,
			    r->by_kind ? ": code, .data, mapped files" : ": code, mapped files");
}

static const char *moment_title(const struct rss_moment *m)
{
	return strcmp(m->which, "peak") ? "AT THE END" : "AT THE PEAK";
}

static void put_row_cells(struct table *t, const struct rss_table *c, const struct shown_row *shown)
{
	const struct rss_row *row = &shown->row;
	char text[1024], bytes[FIGURE_TEXT];

	for (size_t k = 0; k < c->r->moments; k++) {
		double value = row->resident[k], rss = c->r->moment[k].rss;

		table_format(COLUMN(t, moment_title(&c->r->moment[k]), true), "%s%s",
			     value < 0 ? "-" : "", text_bytes(bytes, sizeof(bytes), fabs(value)));
		table_cell(COLUMN(t, "", true, 1, STYLE_DIM, true),
			   value >= 0 ? text_percent(text, sizeof(text), value, rss) : "");
	}
	if (shown->others > 1)
		text_format(text, sizeof(text), "%s%s", rss_kind_names[row->kind].name,
			    shown->beside ? ": others" : "");
	else
		put_name(text, sizeof(text), c, row);
	table_cell(COLUMN(t, "RESIDENT PAGES OF"), text);
}

/* A row, or RSS below them. */
static void put_rss_row(struct table *t, const void *context, size_t i)
{
	const struct rss_table *c = context;

	if (c->row[i].row.kind < RSS_KINDS) {
		put_row_cells(t, c, &c->row[i]);
		return;
	}
	for (size_t k = 0; k < c->r->moments; k++) {
		table_bytes(COLUMN(t, moment_title(&c->r->moment[k]), true), c->r->moment[k].rss);
		table_cell(COLUMN(t, "", true, 1, STYLE_DIM, true), "");
	}
	table_cell(COLUMN(t, "RESIDENT PAGES OF"), "resident in all (RSS)");
}

static bool print_rows(const struct output *out, const struct rss *r)
{
	struct shown_row *row = calloc(r->rows + 2, sizeof(*row));
	size_t rows = row ? choose_rows(r, row) : 0;
	bool done = row != NULL;

	if (done) {
		row[rows].row.kind = RSS_KINDS;
		done =
		    table_print_rows(out, rows + 1, put_rss_row, &(struct rss_table){out, r, row});
	}
	free(row);
	return done;
}

/* ---- blocks ---- */

/* The allocator's own figures. It is not asked when the mappings are read. */
static bool is_allocators(unsigned int fact)
{
	return fact >= FACT_IN_USE && fact <= FACT_COMMITTED;
}

static bool fact_is_shown(const struct rss *r, unsigned int fact)
{
	for (size_t i = 0; i < r->moments; i++)
		if (r->moment[i].fact[fact] > 0)
			return true;
	return fact == FACT_LIVE;
}

/* How the trace knows it. */
static const char *fact_source(const struct rss *r, unsigned int fact)
{
	if (fact == FACT_LIVE || fact == FACT_SAMPLER)
		return mayfly_trace_info(r->trace)->mode == MAYFLY_EXACT ? "recorded" : "samples";
	return "at least";
}

static void put_fact_cell(struct table *t, const struct rss_table *c, const struct rss_moment *m,
			  unsigned int fact)
{
	char text[256];

	if (fact == FACT_LIVE)
		text_figure(text, sizeof(text), c->out->utf8, &m->live.bytes, m->live.samples);
	else
		text_bytes(text, sizeof(text), m->fact[fact]);
	table_cell(t, isnan(m->fact[fact]) ? "" : text);
}

static void put_fact(struct table *t, const void *context, size_t i)
{
	const struct rss_table *c = context;
	unsigned int fact = (unsigned int)i;

	if (is_allocators(fact) || !fact_is_shown(c->r, fact))
		return;
	for (size_t k = 0; k < c->r->moments; k++)
		put_fact_cell(COLUMN(t, moment_title(&c->r->moment[k]), true), c, &c->r->moment[k],
			      fact);
	table_cell(COLUMN(t, "SOURCE"), fact_source(c->r, fact));
	table_cell(COLUMN(t, "BLOCKS (resident or not)"), rss_fact_names[fact].name);
}

static bool print_facts(const struct output *out, const struct rss *r)
{
	return table_print_rows(out, FACTS, put_fact, &(struct rss_table){out, r, NULL});
}

/* The number of times at which the allocator was asked for a moment's figures. */
static size_t allocator_times(const struct rss *r)
{
	return r->moments == 2 && r->moment[0].allocator_ns == r->moment[1].allocator_ns
		   ? 1
		   : r->moments;
}

static void put_allocators_fact(struct table *t, const void *context, size_t i)
{
	const struct rss_table *c = context;
	unsigned int fact = (unsigned int)i;
	char title[64], time[FIGURE_TEXT];

	if (!is_allocators(fact) || !fact_is_shown(c->r, fact))
		return;
	for (size_t k = 0; k < allocator_times(c->r); k++) {
		text_duration(time, sizeof(time), (double)c->r->moment[k].allocator_ns);
		text_format(title, sizeof(title), "AT %s", time);
		put_fact_cell(COLUMN(t, title, true), c, &c->r->moment[k], fact);
	}
	text_format(title, sizeof(title), "BLOCKS, AS COUNTED BY %s", c->r->allocator);
	table_cell(COLUMN(t, title), rss_fact_names[fact].name);
}

/* A table of its own, as these are the figures of other moments. */
static bool print_allocators_facts(const struct output *out, const struct rss *r)
{
	unsigned int fact = FACT_IN_USE;

	while (is_allocators(fact) && !fact_is_shown(r, fact))
		fact++;
	if (!r->allocator || !is_allocators(fact))
		return true;
	putchar('\n');
	return table_print_rows(out, FACTS, put_allocators_fact, &(struct rss_table){out, r, NULL});
}

/* ---- over time ---- */

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
	char peak[FIGURE_TEXT], end[FIGURE_TEXT];
	const struct rss_moment *m = &r->moment[0];

	text_duration(peak, sizeof(peak), (double)m->time_ns);
	if (r->moments == 2) {
		size_t times = maps ? maps->points : 2;

		text_duration(end, sizeof(end), (double)r->moment[1].time_ns);
		if (times == 1)
			print_wrapped(out, STYLE_DIM, 0,
				      "Both are at %s, the only moment at which the mappings were "
				      "read.",
				      end);
		else if (m->time_ns == r->moment[1].time_ns)
			print_wrapped(out, STYLE_DIM, 0,
				      "The peak is at %s, the last of %zu moments at which the "
				      "mappings were read.",
				      end, times);
		else
			print_wrapped(out, STYLE_DIM, 0,
				      "The peak is at %s, the end at %s: of %zu moments at which "
				      "the mappings were read, the one with most resident and the "
				      "last.",
				      peak, end, times);
	}
	if (r->moments == 2 && r->highest > PEAK_MISSED * m->rss)
		print_wrapped(out, STYLE_NOTE, 0, "At another moment RSS was higher: up to %s.",
			      text_bytes(peak, sizeof(peak), r->highest));
	if (r->moments == 2 && own &&
	    fabs(last_value(own) - r->moment[1].rss) > 0.05 * r->moment[1].rss)
		print_wrapped(out, STYLE_NOTE, 0, "When the program exited, RSS was %s.",
			      text_bytes(end, sizeof(end), last_value(own)));
}

static void put_mapped_cells(struct table *t, const void *context, size_t i)
{
	const struct rss_table *c = context;
	const struct mapped_row *row = &c->r->mapped.row[i];
	char text[1024];

	for (size_t k = 0; k < c->r->moments; k++)
		table_bytes(COLUMN(t, moment_title(&c->r->moment[k]), true), (double)row->bytes[k]);
	table_cell(COLUMN(t, "ACCESS"), row->access);
	table_cell(COLUMN(t, "MAPPED BY"), rss_mapper(text, sizeof(text), c->r, row, c->out->wide));
}

static bool print_mapped(const struct output *out, const struct rss *r)
{
	size_t shown = r->mapped.rows < MAPPED_ROWS ? r->mapped.rows : MAPPED_ROWS;
	size_t more = r->mapped.rows - shown;

	if (!shown)
		return true;
	print_wrapped(out, STYLE_PLAIN, 0,
		      "Memory mapped by code other than the C library, resident or not:");
	if (!table_print_rows(out, shown, put_mapped_cells, &(struct rss_table){out, r, NULL}))
		return false;
	if (more)
		print_wrapped(out, STYLE_DIM, 0, "%zu smaller %s not shown.", more,
			      more == 1 ? "one is" : "ones are");
	if (r->mapped.incomplete)
		print_wrapped(out, STYLE_NOTE, 0, "Some events were lost; this may be wrong.");
	putchar('\n');
	return true;
}

/* The same sentence, with other figures. */
static bool says_the_same(const char *a, const char *b)
{
	const char *const figures = "0123456789. KMGTB";

	for (;; a++, b++) {
		a += strspn(a, figures);
		b += strspn(b, figures);
		if (*a != *b || !*a)
			return *a == *b;
	}
}

static int print_rss_text(const struct output *out, const struct rss *r)
{
	char line[1024];
	char before[1024] = "";

	print_over_time(out, r);
	if (!print_rows(out, r))
		return cli_error("out of memory");
	putchar('\n');
	if (!print_facts(out, r) || !print_allocators_facts(out, r))
		return cli_error("out of memory");
	putchar('\n');
	for (size_t i = 0; i < r->moments; i++) {
		if (!rss_advice(r, &r->moment[i], line, sizeof(line)) ||
		    says_the_same(line, before))
			continue;
		print_wrapped(out, STYLE_BOLD, 0, "At the %s: %s", r->moment[i].which, line);
		memcpy(before, line, sizeof(before));
	}
	if (*before)
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
