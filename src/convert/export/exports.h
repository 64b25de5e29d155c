/* SPDX-License-Identifier: Apache-2.0 */
/* The exports, each a convert() or convert_at() of struct export_format; and functions shared by
 * those that are made of stacks and sums. */
#ifndef MAYFLY_EXPORTS_H
#define MAYFLY_EXPORTS_H

#include "answer/shown_stacks.h"
#include "convert/export/exporter.h"
#include "convert/out.h"

/* A file that is being written. Errors stick in out.error: after one nothing is written any more,
 * and what it is made of may be missing. */
struct export_job {
	const struct mayfly_trace *trace;
	const struct mayfly_info *info;
	const struct export_options *options;
	const struct mayfly_query *query; /* the user's */
	struct out out;
	/* Parts that a format asks for by the functions below. */
	struct shown_stacks stacks;
	struct mayfly_query asked[STACK_COLUMNS]; /* the user's question, and the other one */
	struct stack_sums sums;
	int allocated; /* the column of the sums with what was allocated; the other is what is live */
};

/* As shown_begin(). */
void export_stacks(struct export_job *job);
/* The sums of the user's query; two: and "allocated" beside it. If the user asked for that, the other
 * one is "live at the peak". */
void export_sums(struct export_job *job, bool two);
/* As shown_path(), which needs memory. */
size_t export_path(struct export_job *job, uint32_t node, const uint32_t **frames);

export_convert export_pprof, export_otlp, export_heap_v2, export_folded, export_speedscope,
    export_flamegraph, export_csv, export_chrome, export_perfetto, export_massif, memtrace_export;

typedef int export_convert_at(const struct mayfly_trace *trace,
			      const struct export_options *options, const char *path);

#define CTF_METADATA "metadata" /* a file in each CTF folder */
export_convert_at export_ctf, export_sqlite;

typedef const char *export_left_out(const struct mayfly_trace *trace,
				    const struct export_options *options);
export_left_out ctf_left_out, memtrace_left_out;

/* When what the query is about began, in ns since 1970, and how long it lasted; 0: not known. */
void export_times(const struct mayfly_trace *trace, const struct mayfly_query *query,
		  int64_t *start_ns, int64_t *duration_ns);
/* A metric as text for users: "live at the peak, 1.234 s". */
char *export_metric_text(char *buffer, size_t size, const struct mayfly_trace *trace,
			 const struct mayfly_query *query, int64_t time_ns);
/* Whether a trace lacks none of these (enum mayfly_absent). */
bool export_knows(const struct mayfly_trace *trace, uint32_t absent);
/* Whether a filter keeps this thread, by its name or its number. */
bool export_thread_fits(const struct mayfly_match *match, const struct mayfly_thread *thread);
/* A title for the trace: its purpose, or the program's name. */
const char *export_title(const struct export_options *options, const struct mayfly_trace *trace);

/* Each event of blocks in turn, as a cursor has them: 0 or an error of take(), which ends it, or of
 * the trace. */
typedef int export_event(void *context, const struct mayfly_event *event);
int export_each_event(const struct mayfly_trace *trace, bool promotions, export_event *take,
		      void *context);
/* The index of the module that is the program's file; info->modules: there is none. */
size_t export_program(const struct mayfly_trace *trace);
/* A module's build-id in hexadecimal. */
#define BUILD_ID_TEXT (2 * 64 + 1)
const char *export_build_id(char text[BUILD_ID_TEXT], const struct mayfly_module *module);
const char *export_heap_name(uint32_t heap);
/* alloc, free or promote; inherited: in place of the alloc of a block that a child inherited. */
const char *export_event_name(const struct mayfly_event *event);
/* Where a frame of code is in the process; 0: the frame is none. */
uint64_t export_address(const struct mayfly_trace *trace, const struct mayfly_frame *frame);

#endif
