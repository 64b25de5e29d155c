/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Chrome's trace format ("Catapult" JSON), for chrome://tracing, Perfetto and Speedscope.
 *
 *	M	names of the process and its threads
 *	C	"live heap", "live blocks", "allocated": over time, STEPS points; "live heap by
 *		function": the functions with the most at the peak, and all others; "live heap by
 *		KEY" for each label key; measurements of the process
 *	i	"peak"; "allocated by KEY" at the end, with the figures of each value and their
 *		errors; with options->samples each sample and its free
 *	B E	spans, each nested in the open one of its thread; if spans overlap otherwise, those
 *		above one that ends are closed with it and continue as new slices
 *	i C	instants, on their thread; values of counters
 *	s t f	flows: the first, next and last event of each, bound to the enclosing slice
 *
 * Times are microseconds since the program's start, with three decimals to keep nanoseconds.
 * Perfetto's importer recognises the file by its first two bytes, `{"`.
 */
#include "convert/export/exports.h"

#include "answer/by_label.h"
#include "convert/export/curve.h"
#include "convert/export/event_walk.h"
#include "convert/out.h"
#include "answer/shown_stacks.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define STEPS	  1000
#define FUNCTIONS 12

#define OWN_CATEGORY "program" /* of event types that the program defined */

struct chrome {
	struct export_job *job;
	const struct mayfly_trace *trace;
	const struct mayfly_info *info;
	struct out *out; /* that of `job` */
	struct track_survey survey;
	struct curve curve;
	uint32_t pid;
	bool any;     /* some event has been written */
	bool members; /* its arguments have some */
};

/* Writes the common members of an event; name may be NULL. The caller adds members, each after a
 * comma, and calls chrome_end(). */
static void chrome_begin(struct chrome *c, const char *phase, const char *name)
{
	out_text(c->out, c->any ? ",\n{\"ph\":\"" : "\n{\"ph\":\"");
	c->any = true;
	out_text(c->out, phase);
	out_text(c->out, "\",\"pid\":");
	out_unsigned(c->out, c->pid);
	if (name) {
		out_text(c->out, ",\"name\":");
		out_json(c->out, name);
	}
}

static void chrome_end(struct chrome *c)
{
	out_char(c->out, '}');
}

static void chrome_put_time(struct chrome *c, int64_t ns)
{
	uint64_t size = ns < 0 ? -(uint64_t)ns : (uint64_t)ns;
	unsigned rest = (unsigned)(size % 1000);
	char digits[] = {'.', (char)('0' + rest / 100), (char)('0' + rest / 10 % 10),
			 (char)('0' + rest % 10)};

	out_text(c->out, ns < 0 ? ",\"ts\":-" : ",\"ts\":");
	out_unsigned(c->out, size / 1000);
	out_bytes(c->out, digits, sizeof(digits));
}

/* Up to the first of an event's arguments; they end with end_arguments(). */
static void begin_arguments(struct chrome *c)
{
	out_text(c->out, ",\"args\":{");
	c->members = false;
}

/* In front of each member of the arguments. */
static void comma(struct chrome *c)
{
	if (c->members)
		out_char(c->out, ',');
	c->members = true;
}

static void chrome_put_number(struct chrome *c, const char *name, double value)
{
	comma(c);
	out_json(c->out, name);
	out_format(c->out, ":%.0f", isfinite(value) ? value : 0);
}

static void end_arguments(struct chrome *c)
{
	out_text(c->out, "}}");
}

static uint32_t tid_of(const struct chrome *c, uint32_t index)
{
	const struct mayfly_thread *t = mayfly_trace_thread(c->trace, index);

	return t ? t->tid : 0;
}

static void chrome_put_thread(struct chrome *c, uint32_t index)
{
	out_text(c->out, ",\"tid\":");
	out_unsigned(c->out, tid_of(c, index));
}

/* ---- names ---- */

static void write_names(struct chrome *c)
{
	const char *slash = strrchr(c->info->program, '/');
	const char *program = slash ? slash + 1 : c->info->program;

	chrome_begin(c, "M", "process_name");
	out_text(c->out, ",\"args\":{\"name\":");
	out_json(c->out, *program ? program : "program");
	end_arguments(c);
	for (uint32_t i = 0; i < c->info->threads; i++) {
		const struct mayfly_thread *t = mayfly_trace_thread(c->trace, i);

		if (!t || !*t->name)
			continue;
		chrome_begin(c, "M", "thread_name");
		out_format(c->out, ",\"tid\":%" PRIu32 ",\"args\":{\"name\":", t->tid);
		out_json(c->out, t->name);
		out_char(c->out, '}');
		chrome_end(c);
	}
}

/* ---- counters ---- */

static void write_counter(struct chrome *c, const char *name, int64_t time_ns, const char *series,
			  double value)
{
	chrome_begin(c, "C", name);
	chrome_put_time(c, time_ns);
	begin_arguments(c);
	chrome_put_number(c, series, value);
	end_arguments(c);
}

static void write_functions(struct chrome *c, const struct curve *curve, size_t step)
{
	const struct mayfly_series *s = curve->series;
	char name[4096];

	chrome_begin(c, "C", "live heap by function");
	chrome_put_time(c, s->time_ns[step]);
	begin_arguments(c);
	for (size_t row = 0; row < s->rows; row++)
		chrome_put_number(c, curve_row_name(curve, row, name, sizeof(name)),
				  s->live_bytes[row * s->points + step]);
	end_arguments(c);
}

/* The report's figure. In a trace of samples it may be a little below or above the largest value of
 * its step: see peak.h. */
static void write_peak(struct chrome *c, const struct curve *curve)
{
	write_counter(c, "live heap", curve->peak_ns, "bytes", curve->peak.bytes.estimate);
	chrome_begin(c, "i", "peak");
	chrome_put_time(c, curve->peak_ns);
	out_text(c->out, ",\"s\":\"p\"");
	begin_arguments(c);
	chrome_put_number(c, "live bytes", curve->peak.bytes.estimate);
	chrome_put_number(c, "standard error", curve->peak.bytes.stderror);
	chrome_put_number(c, "live blocks", curve->peak.blocks.estimate);
	out_format(c->out, ",\"samples\":%" PRIu64 "}", curve->peak.samples);
	chrome_end(c);
}

static void write_counters(struct chrome *c)
{
	const struct curve *curve = &c->curve;

	for (size_t i = 0; i < curve->steps && !c->out->error; i++) {
		const struct curve_step *step = &curve->step[i];

		/* The largest value of the step is drawn from its start. */
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

/* ---- labels ---- */

static void write_values(struct chrome *c, const struct by_label *b, size_t step)
{
	const struct mayfly_series *s = b->series;
	char name[4096];

	by_label_title(name, sizeof(name), "live heap", b);
	chrome_begin(c, "C", name);
	chrome_put_time(c, s->time_ns[step]);
	begin_arguments(c);
	for (size_t i = 0; i < b->values; i++)
		chrome_put_number(c, b->value[i].name, s->live_bytes[i * s->points + step]);
	end_arguments(c);
}

static void put_label_value(struct chrome *c, const struct label_value *v)
{
	struct label_figure figure[LABEL_FIGURES];

	label_figures(v, figure);
	out_json(c->out, v->name);
	out_text(c->out, ":{");
	for (size_t i = 0; i < LABEL_FIGURES; i++) {
		if (i)
			out_char(c->out, ',');
		out_format(c->out, "\"%s\":%" PRIu64, figure[i].name, figure[i].value);
	}
	out_char(c->out, '}');
}

static void write_sums(struct chrome *c, const struct by_label *b)
{
	char name[4096];

	by_label_title(name, sizeof(name), "allocated", b);
	chrome_begin(c, "i", name);
	chrome_put_time(c, b->series->time_ns[b->series->points - 1]);
	out_text(c->out, ",\"s\":\"p\"");
	begin_arguments(c);
	for (size_t i = 0; i < b->values; i++) {
		comma(c);
		put_label_value(c, &b->value[i]);
	}
	end_arguments(c);
}

static void write_labels(struct chrome *c)
{
	const char *key[BY_LABEL_KEYS];
	size_t keys = label_keys(c->trace, key, BY_LABEL_KEYS);

	for (size_t i = 0; i < keys && !c->out->error; i++) {
		struct by_label b;

		out_fail(c->out, by_label_begin(&b, c->trace, c->job->query, key[i], STEPS));
		for (size_t step = 0; b.values && step < b.series->points; step++)
			write_values(c, &b, step);
		if (b.values)
			write_sums(c, &b);
		by_label_end(&b);
	}
}

/* ---- samples ---- */

/* Writes a stack, root first, as a member of the arguments. */
static void chrome_put_stack(struct chrome *c, uint32_t node)
{
	const uint32_t *path;
	size_t length = export_path(c->job, node, &path);

	comma(c);
	out_text(c->out, "\"stack\":[");
	for (size_t i = length; i-- > 0;) {
		const struct shown_frame *f = &c->job->stacks.frame[path[i]];

		for (uint32_t k = f->count; k-- > 0;) {
			if (i + 1 < length || k + 1 < f->count)
				out_char(c->out, ',');
			out_json(c->out, shown_text(&c->job->stacks,
						    c->job->stacks.line[f->first + k].name));
		}
	}
	out_char(c->out, ']');
}

static void chrome_put_labels(struct chrome *c, uint32_t set)
{
	size_t count;
	const struct mayfly_label *label = mayfly_trace_labels(c->trace, set, &count);

	comma(c);
	out_text(c->out, "\"labels\":{");
	c->members = false;
	for (size_t i = 0; i < count; i++) {
		if (!label_counts(label, i, count))
			continue;
		comma(c);
		out_json(c->out, label[i].key);
		out_char(c->out, ':');
		out_json(c->out, label[i].value);
	}
	out_char(c->out, '}');
	c->members = true;
}

static int chrome_write_sample(void *context, const struct mayfly_event *e)
{
	struct chrome *c = context;

	chrome_begin(c, "i", export_event_name(e));
	chrome_put_time(c, e->time_ns);
	out_text(c->out, ",\"s\":\"t\"");
	chrome_put_thread(c, e->thread);
	begin_arguments(c);
	comma(c);
	out_format(c->out, "\"sample\":%" PRIu64 ",\"size\":%" PRIu64, e->sample, e->size);
	chrome_put_number(c, "weight", e->weight_bytes);
	if (e->labels)
		chrome_put_labels(c, e->labels);
	if (e->kind == MAYFLY_ALLOC)
		chrome_put_stack(c, e->node);
	end_arguments(c);
	return c->out->error;
}

/* ---- track events ---- */

/* Numbers that JSON cannot express become text. */
static void chrome_put_value(struct chrome *c, uint32_t type, union mayfly_value value)
{
	if (type == MAYFLY_FIELD_INT)
		out_format(c->out, "%" PRId64, value.i);
	else if (type == MAYFLY_FIELD_TEXT)
		out_json(c->out, value.text);
	else if (type != MAYFLY_FIELD_FLOAT)
		out_unsigned(c->out, value.u);
	else if (isfinite(value.f))
		out_format(c->out, "%.17g", value.f);
	else
		out_format(c->out, "\"%f\"", value.f);
}

/* Writes a track event up to its arguments. */
static void begin_track(struct chrome *c, const char *phase, const struct mayfly_track_event *e,
			const char *name, int64_t time_ns)
{
	const struct mayfly_track_type *type = mayfly_trace_track_type(c->trace, e->type);

	chrome_begin(c, phase, name ? name : type->name);
	out_text(c->out, ",\"cat\":");
	out_json(c->out, *type->category ? type->category : OWN_CATEGORY);
	chrome_put_time(c, time_ns);
	chrome_put_thread(c, e->thread);
}

static bool has_field(const struct mayfly_track_type *type, const char *name)
{
	for (size_t i = 0; i < type->fields; i++)
		if (strcmp(type->field[i].name, name) == 0)
			return true;
	return false;
}

static void put_arguments(struct chrome *c, const struct mayfly_track_event *e, bool again)
{
	const struct mayfly_track_type *type = mayfly_trace_track_type(c->trace, e->type);

	if (!e->values && !e->node && !again)
		return;
	begin_arguments(c);
	for (size_t i = 0; i < e->values; i++) {
		comma(c);
		out_json(c->out, type->field[i].name);
		out_char(c->out, ':');
		chrome_put_value(c, type->field[i].type, e->value[i]);
	}
	if (again) {
		comma(c);
		out_text(c->out, "\"continued\":true");
	}
	if (e->node && !has_field(type, "stack"))
		chrome_put_stack(c, e->node);
	out_char(c->out, '}');
}

static void begin_slice(struct chrome *c, const struct mayfly_track_event *e, int64_t time_ns,
			bool again)
{
	begin_track(c, "B", e, NULL, time_ns);
	put_arguments(c, e, again);
	chrome_end(c);
}

/* Ends the innermost slice, so no name is needed. */
static void end_slice(struct chrome *c, uint32_t thread, int64_t time_ns)
{
	chrome_begin(c, "E", NULL);
	chrome_put_time(c, time_ns);
	chrome_put_thread(c, thread);
	chrome_end(c);
}

/* Viewers bind a flow to the slice of its thread at this time. */
static void write_flows(struct chrome *c, const struct mayfly_track_event *e)
{
	static const char *const phases[] = {
	    [FLOW_FIRST] = "s", [FLOW_NEXT] = "t", [FLOW_LAST] = "f"};
	uint64_t flow;

	for (size_t at = 0; track_flow(c->trace, e, &at, &flow);) {
		enum flow_step step = track_survey_flow(&c->survey, flow);

		if (step == FLOW_NONE)
			continue;
		chrome_begin(c, phases[step], "flow");
		out_text(c->out, ",\"cat\":\"flow\"");
		chrome_put_time(c, e->time_ns);
		chrome_put_thread(c, e->thread);
		out_format(c->out, ",\"id\":\"0x%" PRIx64 "\"%s", flow,
			   step == FLOW_LAST ? ",\"bp\":\"e\"" : "");
		chrome_end(c);
	}
}

static void write_slice(void *context, const struct event_walk *w,
			const struct mayfly_track_event *begin, bool again)
{
	struct chrome *c = context;

	if (begin)
		begin_slice(c, begin, w->track.time_ns, again);
	else
		end_slice(c, w->track.thread, w->track.time_ns);
	if (begin && !again)
		write_flows(c, begin);
}

/* A flow needs a slice: an instant outside of any slice becomes a slice of length 0. */
static void write_instant(struct chrome *c, const struct event_walk *w)
{
	const struct mayfly_track_event *e = &w->track;
	uint64_t flow;
	size_t at = 0;

	if (!event_walk_inside(w, e->thread) && track_flow(c->trace, e, &at, &flow)) {
		begin_slice(c, e, e->time_ns, false);
		write_flows(c, e);
		end_slice(c, e->thread, e->time_ns);
		return;
	}
	begin_track(c, "i", e, NULL, e->time_ns);
	out_text(c->out, ",\"s\":\"t\"");
	put_arguments(c, e, false);
	chrome_end(c);
	write_flows(c, e);
}

/* Viewers assign counters to the process and draw a line for each argument. So counters of threads
 * are told apart by name, and only the value of the event is written. */
static void write_count(struct chrome *c, const struct mayfly_track_event *e)
{
	const struct mayfly_track_type *type = mayfly_trace_track_type(c->trace, e->type);
	char name[4096];
	double value;

	if (!track_counter_value(c->trace, e, &value))
		return;
	begin_track(c, "C", e, track_counter_name(name, sizeof(name), c->trace, &c->survey, e),
		    e->time_ns);
	begin_arguments(c);
	out_json(c->out, *type->unit ? type->unit : "value");
	out_char(c->out, ':');
	chrome_put_value(c, type->field[0].type, e->value[0]);
	end_arguments(c);
}

static int chrome_write_track(void *context, const struct event_walk *w)
{
	struct chrome *c = context;

	switch (w->track.kind) {
	case MAYFLY_TRACK_BEGIN:
	case MAYFLY_TRACK_END:
		event_walk_slices(w, write_slice, c);
		break;
	case MAYFLY_TRACK_INSTANT:
		write_instant(c, w);
		break;
	default:
		write_count(c, &w->track);
	}
	return c->out->error;
}

/* Measurements of the process, and the recording's other counters. */
static void write_measured(struct chrome *c)
{
	const struct mayfly_query *q = c->job->query;

	for (size_t i = 0; i < c->info->counters; i++) {
		const struct mayfly_counter *m = mayfly_trace_counter(c->trace, i);

		for (size_t k = 0; k < m->points && !c->out->error; k++)
			if (m->time_ns[k] >= q->from_ns && m->time_ns[k] <= q->to_ns)
				write_counter(c, m->name, m->time_ns[k],
					      *m->unit ? m->unit : "value", m->value[k]);
	}
}

/* ---- the whole file ---- */

static void write_head(struct chrome *c)
{
	const struct export_options *options = c->job->options;

	out_text(c->out, "{\"displayTimeUnit\":\"ms\",\"otherData\":{\"made by\":");
	out_json(c->out, "mayfly " MAYFLY_VERSION);
	out_text(c->out, ",\"program\":");
	out_json(c->out, *options->purpose ? options->purpose : c->info->program);
	out_format(c->out,
		   ",\"interval bytes\":%" PRIu64 ",\"samples\":%" PRIu64
		   ",\"start, ns since 1970\":%" PRId64 "},\n\"traceEvents\":[",
		   c->info->interval_bytes, c->info->samples, c->info->start_real_ns);
}

void export_chrome(struct export_job *j)
{
	struct chrome c = {.job = j, .trace = j->trace, .info = j->info, .out = &j->out};

	out_fail(&j->out, curve_make(j->trace, j->query, STEPS, FUNCTIONS, &c.curve));
	export_stacks(j);
	c.pid = c.info->pid ? c.info->pid : 1;
	write_head(&c);
	write_names(&c);
	write_counters(&c);
	write_measured(&c);
	if (c.curve.steps)
		write_labels(&c);
	if (c.info->track_events && !j->out.error)
		out_fail(&j->out, track_survey_begin(&c.survey, j->trace, j->query));
	if (c.info->track_events && !j->out.error)
		out_fail(&j->out,
			 event_walk_run(j->trace, j->query, WALK_TRACKS, chrome_write_track, &c));
	if (j->options->samples && !j->out.error)
		out_fail(&j->out, export_each_event(j->trace, true, chrome_write_sample, &c));
	out_text(&j->out, "\n]}\n");
	track_survey_end(&c.survey);
	curve_free(&c.curve);
}
