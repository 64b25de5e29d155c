/* SPDX-License-Identifier: Apache-2.0 */
/* Functions shared by the exports of stacks and sums: see exports.h. */
#include "convert/export/exports.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

int export_run(export_convert *convert, const struct mayfly_trace *trace,
	       const struct export_options *options, trace_sink *sink, void *context)
{
	struct export_job j = {.trace = trace,
			       .info = mayfly_trace_info(trace),
			       .options = options,
			       .query = options->query};

	out_begin(&j.out, sink, context);
	convert(&j);
	shown_end(&j.stacks);
	stack_sums_end(&j.sums);
	return out_end(&j.out);
}

void export_stacks(struct export_job *j)
{
	out_fail(&j->out, shown_begin(&j->stacks, j->trace, j->query));
}

void export_sums(struct export_job *j, bool two)
{
	struct mayfly_query *asked = &j->asked[0], *other = &j->asked[1];

	*asked = *other = *j->query;
	other->metric = j->query->metric == MAYFLY_ALLOCATED ? MAYFLY_PEAK : MAYFLY_ALLOCATED;
	if (j->options->window) {
		asked->from_ns = 0;
		asked->to_ns = INT64_MAX;
	}
	j->allocated = asked->metric != MAYFLY_ALLOCATED;
	out_fail(&j->out, stack_sums_begin(&j->sums, j->trace, asked, two ? other : NULL));
}

size_t export_path(struct export_job *j, uint32_t node, const uint32_t **frames)
{
	size_t length = shown_path(&j->stacks, node, frames);

	out_fail(&j->out, length ? 0 : MAYFLY_E_MEMORY);
	return length;
}

bool export_knows(const struct mayfly_trace *trace, uint32_t absent)
{
	return !(mayfly_trace_info(trace)->absent & absent);
}

void export_times(const struct mayfly_trace *trace, const struct mayfly_query *query,
		  int64_t *start_ns, int64_t *duration_ns)
{
	const struct mayfly_info *info = mayfly_trace_info(trace);
	int64_t to_ns = query->to_ns < info->duration_ns ? query->to_ns : info->duration_ns;
	bool known = export_knows(trace, MAYFLY_ABSENT_TIMES) && to_ns > query->from_ns;

	*start_ns = info->start_real_ns > 0 ? info->start_real_ns + query->from_ns : 0;
	*duration_ns = known ? to_ns - query->from_ns : 0;
}

bool export_thread_fits(const struct mayfly_match *match, const struct mayfly_thread *thread)
{
	char number[16];

	snprintf(number, sizeof(number), "%" PRIu32, thread->tid);
	return !match->matches || match->matches(match->context, thread->name) ||
	       match->matches(match->context, number);
}

char *export_metric_text(char *buffer, size_t size, const struct mayfly_trace *trace,
			 const struct mayfly_query *query, int64_t time_ns)
{
	char moment[64] = "";

	if (export_knows(trace, MAYFLY_ABSENT_TIMES))
		snprintf(moment, sizeof(moment), ", %.3f s", (double)time_ns / 1e9);
	switch (query->metric) {
	case MAYFLY_PEAK:
		snprintf(buffer, size, "live at the peak%s", moment);
		break;
	case MAYFLY_LIVE:
		snprintf(buffer, size, "live%s", moment);
		break;
	case MAYFLY_LEAKED:
		snprintf(buffer, size, "never freed");
		break;
	case MAYFLY_TEMPORARY:
		snprintf(buffer, size, "freed before the next allocation");
		break;
	case MAYFLY_ALLOCATED:
	case MAYFLY_SURVIVED:	/* not offered by any export, */
	case MAYFLY_IN_PICTURE: /* nor is this */
		snprintf(buffer, size, "allocated");
		break;
	}
	return buffer;
}

const char *export_title(const struct export_options *options, const struct mayfly_trace *trace)
{
	const struct mayfly_info *info = mayfly_trace_info(trace);
	const char *name = info->command_count ? info->command[0] : info->program;
	const char *slash = strrchr(name, '/');

	if (*options->purpose)
		return options->purpose;
	name = slash ? slash + 1 : name;
	return *name ? name : "unknown program";
}

int export_each_event(const struct mayfly_trace *trace, bool promotions, export_event *take,
		      void *context)
{
	struct mayfly_cursor *cursor;
	struct mayfly_event event;
	int more = mayfly_cursor_open(trace, &cursor), error = 0;

	if (more)
		return more;
	if (promotions)
		mayfly_cursor_promotions(cursor);
	while (!error && (more = mayfly_cursor_next(cursor, &event)) == 1)
		error = take(context, &event);
	mayfly_cursor_close(cursor);
	return error ? error : more < 0 ? more : 0;
}

size_t export_program(const struct mayfly_trace *trace)
{
	const struct mayfly_info *info = mayfly_trace_info(trace);
	size_t i = 0;

	while (i < info->modules && strcmp(mayfly_trace_module(trace, i)->path, info->program) != 0)
		i++;
	return i;
}

const char *export_build_id(char text[BUILD_ID_TEXT], const struct mayfly_module *module)
{
	*text = 0;
	for (size_t i = 0; i < module->build_id_length && i < 64; i++)
		snprintf(text + 2 * i, 3, "%02x", module->build_id[i]);
	return text;
}

const char *export_event_name(const struct mayfly_event *event)
{
	static const char *const names[] = {"alloc", "free", "promote"};

	return event->kind == MAYFLY_ALLOC && event->inherited ? "inherited" : names[event->kind];
}

const char *export_heap_name(uint32_t heap)
{
	static const char *const names[MAYFLY_HEAPS] = {
	    "malloc", "ocaml-minor", "ocaml-major", "external", "pool", "pool-mapped", "mmap"};

	return names[heap < MAYFLY_HEAPS ? heap : 0];
}

uint64_t export_address(const struct mayfly_trace *trace, const struct mayfly_frame *frame)
{
	const struct mayfly_module *m = frame ? mayfly_trace_module(trace, frame->module) : NULL;

	if (!frame || frame->kind != MAYFLY_FRAME_CODE)
		return 0;
	return frame->address + (m ? m->bias : 0);
}
