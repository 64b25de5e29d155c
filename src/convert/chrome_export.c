/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Chrome's trace format ("Catapult" JSON), for chrome://tracing, Perfetto and Speedscope.
 *
 *	M	names of the process and its threads
 *	C	"live heap", "live blocks", "allocated": over time, STEPS points; "live heap by
 *		function": the functions that have the most at the peak, and the others
 *	i	"peak", and with options->samples each sample and its free
 *
 * Times are microseconds since the program's start, with three decimals: no nanosecond is lost.
 * Perfetto's importer knows the file by its first two bytes, `{"`.
 */
#include "convert/exports.h"

#include "convert/curve.h"
#include "convert/out.h"
#include "convert/shown_stacks.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define STEPS	  1000
#define FUNCTIONS 12

struct chrome {
	const struct mayfly_trace *trace;
	const struct mayfly_info *info;
	struct shown_stacks stacks; /* of samples */
	struct out out;
	uint32_t pid;
	bool any; /* an event was written */
};

/* Everything that all events have. The caller adds members, each after a comma, and calls end. */
static void begin(struct chrome *c, const char *phase, const char *name)
{
	out_text(&c->out, c->any ? ",\n{\"ph\":\"" : "\n{\"ph\":\"");
	c->any = true;
	out_text(&c->out, phase);
	out_text(&c->out, "\",\"pid\":");
	out_unsigned(&c->out, c->pid);
	out_text(&c->out, ",\"name\":");
	out_json(&c->out, name);
}

static void end(struct chrome *c)
{
	out_char(&c->out, '}');
}

static void put_time(struct chrome *c, int64_t ns)
{
	uint64_t size = ns < 0 ? -(uint64_t)ns : (uint64_t)ns;

	out_format(&c->out, ",\"ts\":%s%" PRIu64 ".%03u", ns < 0 ? "-" : "", size / 1000,
		   (unsigned)(size % 1000));
}

static void put_number(struct chrome *c, const char *name, double value)
{
	out_json(&c->out, name);
	out_format(&c->out, ":%.0f", isfinite(value) ? value : 0);
}

static uint32_t tid_of(const struct chrome *c, uint32_t index)
{
	const struct mayfly_thread *t = mayfly_trace_thread(c->trace, index);

	return t ? t->tid : 0;
}

/* ---- names ---- */

static void write_names(struct chrome *c)
{
	const char *slash = strrchr(c->info->program, '/');
	const char *program = slash ? slash + 1 : c->info->program;

	begin(c, "M", "process_name");
	out_text(&c->out, ",\"args\":{\"name\":");
	out_json(&c->out, *program ? program : "program");
	out_char(&c->out, '}');
	end(c);
	for (uint32_t i = 0; i < c->info->threads; i++) {
		const struct mayfly_thread *t = mayfly_trace_thread(c->trace, i);

		if (!t || !*t->name)
			continue;
		begin(c, "M", "thread_name");
		out_format(&c->out, ",\"tid\":%" PRIu32 ",\"args\":{\"name\":", t->tid);
		out_json(&c->out, t->name);
		out_char(&c->out, '}');
		end(c);
	}
}

/* ---- counters ---- */

static void write_counter(struct chrome *c, const char *name, int64_t time_ns, const char *series,
			  double value)
{
	begin(c, "C", name);
	put_time(c, time_ns);
	out_text(&c->out, ",\"args\":{");
	put_number(c, series, value);
	out_char(&c->out, '}');
	end(c);
}

static void write_functions(struct chrome *c, const struct curve *curve, size_t step)
{
	const struct mayfly_series *s = curve->series;
	char name[4096];

	begin(c, "C", "live heap by function");
	put_time(c, s->time_ns[step]);
	out_text(&c->out, ",\"args\":{");
	for (size_t row = 0; row < s->rows; row++) {
		if (row)
			out_char(&c->out, ',');
		put_number(c, curve_row_name(curve, row, name, sizeof(name)),
			   s->live_bytes[row * s->points + step]);
	}
	out_char(&c->out, '}');
	end(c);
}

static void write_peak(struct chrome *c, const struct curve *curve)
{
	write_counter(c, "live heap", curve->peak_ns, "bytes", curve->peak.bytes.estimate);
	begin(c, "i", "peak");
	put_time(c, curve->peak_ns);
	out_text(&c->out, ",\"s\":\"p\",\"args\":{");
	put_number(c, "live bytes", curve->peak.bytes.estimate);
	out_char(&c->out, ',');
	put_number(c, "standard error", curve->peak.bytes.stderror);
	out_char(&c->out, ',');
	put_number(c, "live blocks", curve->peak.blocks.estimate);
	out_format(&c->out, ",\"samples\":%" PRIu64 "}", curve->peak.samples);
	end(c);
}

static void write_counters(struct chrome *c, const struct curve *curve)
{
	for (size_t i = 0; i < curve->steps && !c->out.error; i++) {
		const struct curve_step *step = &curve->step[i];

		/* Largest of the step, from its start on. */
		write_counter(c, "live heap", step->from_ns, "bytes", step->largest);
		if (curve->peak_ns >= step->from_ns &&
		    (curve->peak_ns < step->to_ns || i + 1 == curve->steps))
			write_peak(c, curve);
		write_counter(c, "live blocks", step->to_ns, "blocks", step->live_blocks);
		write_counter(c, "allocated", step->to_ns, "bytes", step->allocated_bytes);
		write_functions(c, curve, i);
	}
	if (curve->steps)
		write_counter(c, "live heap", curve->step[curve->steps - 1].to_ns, "bytes",
			      curve->step[curve->steps - 1].live_bytes);
}

/* ---- samples ---- */

/* Root first. False: out of memory. */
static bool put_stack(struct chrome *c, uint32_t node)
{
	const uint32_t *path;
	size_t length = shown_path(&c->stacks, node, &path);

	out_text(&c->out, ",\"stack\":[");
	for (size_t i = length; i-- > 0;) {
		const struct shown_frame *f = &c->stacks.frame[path[i]];

		for (uint32_t k = f->count; k-- > 0;) {
			if (i + 1 < length || k + 1 < f->count)
				out_char(&c->out, ',');
			out_json(&c->out,
				 shown_text(&c->stacks, c->stacks.line[f->first + k].name));
		}
	}
	out_char(&c->out, ']');
	return length > 0;
}

static bool write_sample(struct chrome *c, const struct mayfly_event *e)
{
	static const char *const kinds[] = {"alloc", "free", "promote"};
	bool done = true;

	begin(c, "i", kinds[e->kind]);
	put_time(c, e->time_ns);
	out_format(&c->out, ",\"s\":\"t\",\"tid\":%" PRIu32 ",\"args\":{\"sample\":%" PRIu64,
		   tid_of(c, e->thread), e->sample);
	out_format(&c->out, ",\"size\":%" PRIu64 ",", e->size);
	put_number(c, "weight", e->weight_bytes);
	if (e->kind == MAYFLY_ALLOC)
		done = put_stack(c, e->node);
	out_char(&c->out, '}');
	end(c);
	return done;
}

static int write_samples(struct chrome *c, const struct mayfly_query *query)
{
	struct mayfly_cursor *cursor;
	struct mayfly_event e;
	int more = shown_begin(&c->stacks, c->trace, query);

	if (!more)
		more = mayfly_cursor_open(c->trace, &cursor);
	if (more)
		return more;
	mayfly_cursor_promotions(cursor);
	while (!c->out.error && (more = mayfly_cursor_next(cursor, &e)) == 1)
		if (!write_sample(c, &e)) {
			more = MAYFLY_E_MEMORY;
			break;
		}
	mayfly_cursor_close(cursor);
	return more < 0 ? more : 0;
}

/* ---- all of it ---- */

static void write_head(struct chrome *c, const struct export_options *options)
{
	out_text(&c->out, "{\"displayTimeUnit\":\"ms\",\"otherData\":{\"made by\":");
	out_json(&c->out, "mayfly " MAYFLY_VERSION);
	out_text(&c->out, ",\"program\":");
	out_json(&c->out, *options->purpose ? options->purpose : c->info->program);
	out_format(&c->out,
		   ",\"interval bytes\":%" PRIu64 ",\"samples\":%" PRIu64
		   ",\"start, ns since 1970\":%" PRId64 "},\n\"traceEvents\":[",
		   c->info->interval_bytes, c->info->samples, c->info->start_real_ns);
}

int export_chrome(const struct mayfly_trace *trace, const struct export_options *options,
		  trace_sink *sink, void *context)
{
	struct chrome c = {.trace = trace, .info = mayfly_trace_info(trace)};
	struct curve curve;
	int error = curve_make(trace, options->query, STEPS, FUNCTIONS, &curve), finished;

	if (error)
		return error;
	c.pid = c.info->pid ? c.info->pid : 1;
	out_begin(&c.out, sink, context);
	write_head(&c, options);
	write_names(&c);
	write_counters(&c, &curve);
	if (options->samples)
		error = write_samples(&c, options->query);
	out_text(&c.out, "\n]}\n");
	finished = out_end(&c.out);
	shown_end(&c.stacks);
	curve_free(&curve);
	return error ? error : finished;
}
