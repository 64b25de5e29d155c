/* SPDX-License-Identifier: Apache-2.0 */
/* json_info.c: all that a trace says of itself, as JSON: see json_parts.h. */
#include "answer/json_parts.h"

#include <math.h>
#include <stdlib.h>

#include "answer/absent.h"
#include "answer/by_label.h"
#include "answer/text_format.h"
#include "answer/trace_facts.h"

/* ---- times ---- */

struct date {
	int64_t year;
	unsigned int month, day;
};

/* The Gregorian date of a day, 0: 1970-01-01. Years begin in March here, so that a leap day ends
 * one; 146097 days are 400 years. */
static struct date date_of(uint64_t days)
{
	uint64_t since = days + 719468; /* 0000-03-01 */
	uint64_t era = since / 146097, day = since % 146097;
	uint64_t year = (day - day / 1460 + day / 36524 - day / 146096) / 365;
	unsigned int month;

	day -= 365 * year + year / 4 - year / 100;
	month = (unsigned int)((5 * day + 2) / 153); /* from March */
	return (struct date){(int64_t)(era * 400 + year) + (month >= 10),
			     month < 10 ? month + 3 : month - 9,
			     (unsigned int)(day - (153 * month + 2) / 5 + 1)};
}

void json_real_time(struct json *j, const char *key, int64_t ns)
{
	uint64_t ms = (uint64_t)ns / 1000000;
	struct date date = date_of(ms / 86400000);
	unsigned int rest = (unsigned int)(ms % 86400000);
	char text[64];

	if (ns < 0)
		json_null(j, key);
	else
		json_text(j, key,
			  text_format(text, sizeof(text), "%04d-%02u-%02uT%02u:%02u:%02u.%03uZ",
				      (int)date.year, date.month, date.day, rest / 3600000,
				      rest / 60000 % 60, rest / 1000 % 60, rest % 1000));
}

/* ---- the program and the recording ---- */

static void put_command(struct json *j, const struct mayfly_info *i)
{
	JSON_LIST(j, "command", k, k < i->command_count, json_text(j, NULL, i->command[k]));
}

static void put_ending(struct json *j, const struct mayfly_info *i)
{
	static const char *const names[] = {"unknown", "exited", "killed", "off",
					    "exec",    "ended",	 "running"};

	json_object(j, "ending");
	json_text(j, "reason", names[i->ending < sizeof(names) / sizeof(*names) ? i->ending : 0]);
	json_integer(j, "code", i->ending_code);
	json_end(j);
}

static void put_what(struct json *j, const struct mayfly_info *i)
{
	json_unsigned(j, "format_version", i->format_version);
	json_text(j, "mayfly_version", i->version);
	put_command(j, i);
	json_text(j, "program", i->program);
	if (i->python_end_ns)
		json_integer(j, "python_end_ns", i->python_end_ns);
	if (*i->title)
		json_text(j, "title", i->title);
	json_unsigned(j, "pid", i->pid);
	json_unsigned(j, "parent_pid", i->parent_pid);
	if (i->processes)
		json_unsigned(j, "processes", i->processes);
	json_real_time(j, "start_time", i->start_real_ns);
	json_integer(j, "duration_ns", i->duration_ns);
	put_ending(j, i);
	json_unsigned(j, "program_cpu_ns", i->program_cpu_ns);
	json_unsigned(j, "program_max_rss_bytes", i->program_max_rss_bytes);
	json_text_or_null(j, "off_text", i->off_text);
	json_text_or_null(j, "note", i->note);
	json_text(j, "mode", i->mode == MAYFLY_EXACT ? "exact" : "sampled");
	json_text(j, "sampler", i->sampler == MAYFLY_POISSON ? "poisson" : "stratified");
	json_unsigned(j, "interval_bytes", i->interval_bytes);
	json_unsigned(j, "ocaml_interval_bytes", i->ocaml_interval_bytes);
	json_real(j, "ocaml_rate", i->ocaml_interval_bytes ? i->ocaml_rate : NAN);
	json_integer(j, "snapshot_ns", i->snapshot_ns);
	json_bool(j, "grouped", i->grouped);
	json_bool(j, "thinned", i->thinned);
	json_unsigned(j, "seed", i->seed);
}

/* ---- what it holds ---- */

static void put_counts(struct json *j, const struct mayfly_info *i, uint64_t file_bytes)
{
	json_unsigned(j, "samples", trace_samples(i));
	json_unsigned(j, "frees", trace_frees(i));
	json_unsigned(j, "inherited", trace_inherited(i));
	json_unsigned(j, "frames", i->frames);
	json_unsigned(j, "frames_symbolized", i->frames_symbolized);
	json_unsigned(j, "truncated_stacks", i->truncated_stacks);
	json_unsigned(j, "dropped_samples", i->dropped_samples);
	json_unsigned(j, "dropped_frees", i->dropped_frees);
	if (i->heaps >> MAYFLY_HEAP_MAPPING & 1) {
		json_unsigned(j, "mapped_peak_bytes", i->mapped_peak_bytes);
		json_unsigned(j, "mapped_bytes", i->mapped_bytes);
		json_unsigned(j, "mapped_blocks", i->mapped_blocks);
		json_unsigned(j, "mapped_samples", i->mapped_samples);
		json_unsigned(j, "mapped_frees", i->mapped_frees);
		json_unsigned(j, "mapped_inherited", i->mapped_inherited);
	}
	json_unsigned(j, "missed_frees", i->missed_frees);
	json_unsigned(j, "nested_blocks", i->nested_blocks);
	json_unsigned(j, "nested_bytes", i->nested_bytes);
	json_unsigned(j, "counters", i->counters);
	json_unsigned(j, "file_bytes", file_bytes);
	json_bool(j, "complete", i->complete);
	json_bool(j, "spool", i->spool);
}

/* Those that text names, too. */
static void put_label_keys(struct json *j, const struct mayfly_trace *trace)
{
	const char *key[MOST_LABEL_KEYS];
	size_t keys = label_keys(trace, key, MOST_LABEL_KEYS);

	JSON_LIST(j, "label_keys", i, i < keys, json_text(j, NULL, key[i]));
}

/* Null: they could not be read to their end. */
static void put_tracks(struct json *j, const struct mayfly_trace *trace)
{
	const struct mayfly_info *i = mayfly_trace_info(trace);
	struct track_counts counts;
	bool known = count_tracks(trace, &counts) == 0;

	json_unsigned(j, "track_events", i->track_events);
	json_unsigned(j, "track_types", i->track_types);
	json_unsigned_or_null(j, "spans", known, counts.spans);
	json_unsigned_or_null(j, "instants", known, counts.instants);
	json_unsigned_or_null(j, "counter_values", known, counts.values);
	json_unsigned(j, "dropped_events", i->dropped_events);
	json_unsigned(j, "label_sets", counts.label_sets);
	put_label_keys(j, trace);
}

static void put_threads(struct json *j, const struct mayfly_trace *trace, size_t count)
{
	json_unsigned(j, "threads", count);
	JSON_ROWS(j, "thread_list", i, i < count) {
		const struct mayfly_thread *t = mayfly_trace_thread(trace, i);

		json_unsigned(j, "tid", t->tid);
		json_text(j, "name", t->name);
	}
}

static void put_module(struct json *j, const struct mayfly_module *m,
		       const struct module_frames *count)
{
	char id[65] = "";

	for (size_t i = 0; i < m->build_id_length && i < 32; i++)
		text_format(id + 2 * i, 3, "%02x", m->build_id[i]);
	json_text(j, "path", m->path);
	json_text_or_null(j, "build_id", id);
	json_unsigned(j, "start", m->start);
	json_unsigned(j, "end", m->end);
	json_text_or_null(j, "problem", m->problem);
	json_unsigned(j, "frames", count->frames);
	json_unsigned(j, "frames_symbolized", count->named);
}

static void put_modules(struct json *j, const struct mayfly_trace *trace, size_t count)
{
	struct module_frames *frames = count_module_frames(trace);

	j->bytes.failed |= !frames;
	json_unsigned(j, "modules", count);
	JSON_ROWS(j, "module_list", i, frames && i < count)
		put_module(j, mayfly_trace_module(trace, i), &frames[i]);
	free(frames);
}

static const char *how_word(enum mayfly_picture_how how)
{
	switch (how) {
	case MAYFLY_PICTURE_COPY:
		return "copy";
	case MAYFLY_PICTURE_STOPPED:
		return "stopped";
	case MAYFLY_PICTURE_RUNNING:
		break;
	}
	return "running";
}

static void put_picture(struct json *j, const struct mayfly_picture *p)
{
	json_object(j, "picture");
	json_integer(j, "time_ns", p->time_ns);
	json_integer(j, "stopped_ns", p->stopped_ns);
	json_text(j, "how", how_word(p->how));
	json_unsigned(j, "bytes", p->bytes);
	json_unsigned(j, "blocks", p->blocks);
	json_unsigned(j, "recorded_blocks", p->count);
	json_unsigned(j, "holders", p->holders);
	json_unsigned(j, "types", p->types);
	json_end(j);
}

/* Each with what the line on stderr says of it. */
static void put_bad_chunks(struct json *j, const struct mayfly_trace *trace)
{
	JSON_ROWS(j, "damaged", i, i < mayfly_trace_info(trace)->bad_chunks) {
		const struct mayfly_bad_chunk *bad = mayfly_trace_bad_chunk(trace, i);

		json_text(j, "chunk", bad->type);
		json_unsigned(j, "offset", bad->offset);
		json_text(j, "holds", bad->holds);
	}
}

void json_info(struct json *j, const struct mayfly_trace *trace, const struct mayfly_summary *s,
	       uint64_t file_bytes)
{
	const struct mayfly_info *info = mayfly_trace_info(trace);

	put_what(j, info);
	put_counts(j, info, file_bytes);
	put_tracks(j, trace);
	json_unsigned(j, "stacks", trace_stacks(trace));
	json_unsigned(j, "snapshots", trace_snapshots(trace));
	json_summary(j, s);
	if (mayfly_trace_picture(trace))
		put_picture(j, mayfly_trace_picture(trace));
	put_threads(j, trace, info->threads);
	put_modules(j, trace, info->modules);
	json_absent(j, "absent", info->absent);
	if (info->bad_chunks)
		put_bad_chunks(j, trace);
}
