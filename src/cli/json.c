/* SPDX-License-Identifier: Apache-2.0 */
/* JSON of the things that several commands print. */
#include "cli/json.h"

#include "cli/absent.h"
#include "cli/message.h"
#include "cli/output.h"
#include "cli/places.h"
#include "cli/track_text.h"

#include "answer/by_label.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define NAME_BYTES 65536 /* for one name; C++ has names of many KB */

/* Replaces each byte that is not part of UTF-8 by U+FFFD; NULL when out of memory. */
static char *valid_utf8(const char *text)
{
	static const char replacement[] = "\xef\xbf\xbd";
	char *valid = malloc(strlen(text) * 3 + 1), *to = valid;

	if (!valid)
		return NULL;
	while (*text) {
		size_t length = 0;
		json_t *probe = NULL;

		/* jansson knows what it accepts: ask it for each character that is not ASCII. */
		for (length = (*text & 0x80) ? 2 : 1; (*text & 0x80) && length <= 4; length++) {
			if (strnlen(text, length) < length)
				break;
			probe = json_stringn(text, length);
			if (probe)
				break;
		}
		if (probe || !(*text & 0x80)) {
			memcpy(to, text, length);
			to += length;
			text += length;
		} else {
			memcpy(to, replacement, 3);
			to += 3;
			text++;
		}
		json_decref(probe);
	}
	*to = 0;
	return valid;
}

json_t *json_text(const char *text)
{
	json_t *result = json_string(text);
	char *valid;

	if (result)
		return result;
	valid = valid_utf8(text);
	if (valid)
		result = json_string(valid);
	free(valid);
	return result;
}

json_t *json_text_or_null(const char *text)
{
	return text && *text ? json_text(text) : json_null();
}

json_t *json_unsigned(uint64_t value)
{
	return json_integer(value > INT64_MAX ? INT64_MAX : (json_int_t)value);
}

static json_t *rounded(double value)
{
	if (!(value > 0))
		return json_integer(0);
	return json_integer(value >= 0x1p63 ? INT64_MAX : (json_int_t)llround(value));
}

static json_t *figure(const struct mayfly_figure *f)
{
	return json_pack("{s:o, s:o, s:o, s:o}", "estimate", rounded(f->estimate), "stderr",
			 rounded(f->stderror), "low", rounded(f->low), "high", rounded(f->high));
}

json_t *json_estimate(const struct mayfly_estimate *e)
{
	return json_pack("{s:o, s:o, s:o}", "bytes", figure(&e->bytes), "blocks",
			 figure(&e->blocks), "samples", json_unsigned(e->samples));
}

json_t *json_summary(const struct mayfly_summary *s)
{
	return json_pack("{s:o, s:o, s:I, s:o, s:o}", "allocated", json_estimate(&s->allocated),
			 "peak", json_estimate(&s->peak), "peak_time_ns",
			 (json_int_t)s->peak_time_ns, "live_at_end", json_estimate(&s->live_at_end),
			 "temporary", json_estimate(&s->temporary));
}

static json_t *json_place(const struct mayfly_place *place)
{
	char name[NAME_BYTES];

	place_name(name, sizeof(name), place);
	return json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:b}", "function", json_text(name), "file",
			 json_text_or_null(place->file), "line",
			 place->line ? json_unsigned(place->line) : json_null(), "first_char",
			 place->last_char ? json_unsigned(place->first_char) : json_null(),
			 "last_char",
			 place->last_char ? json_unsigned(place->last_char) : json_null(), "module",
			 json_text_or_null(place->module), "inlined", (int)place->inlined);
}

json_t *json_places(const struct mayfly_place *place, size_t length)
{
	json_t *list = json_array();

	for (size_t i = 0; list && i < length; i++) {
		if (json_array_append_new(list, json_place(&place[i])) != 0) {
			json_decref(list);
			return NULL;
		}
	}
	return list;
}

/* RFC 3339 in UTC with milliseconds. */
static json_t *real_time(int64_t ns)
{
	time_t seconds = (time_t)(ns / 1000000000);
	char text[64], whole[96];
	struct tm parts;

	if (ns < 0 || !gmtime_r(&seconds, &parts) ||
	    !strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%S", &parts))
		return json_null();
	snprintf(whole, sizeof(whole), "%s.%03dZ", text, (int)(ns / 1000000 % 1000));
	return json_string(whole);
}

static json_t *command(const struct mayfly_info *info)
{
	json_t *list = json_array();

	for (size_t i = 0; list && i < info->command_count; i++) {
		if (json_array_append_new(list, json_text(info->command[i])) != 0) {
			json_decref(list);
			return NULL;
		}
	}
	return list;
}

static json_t *module(const struct mayfly_module *m, const struct module_frames *count)
{
	char id[65] = "";

	for (size_t i = 0; i < m->build_id_length && i < 32; i++)
		snprintf(id + 2 * i, 3, "%02x", m->build_id[i]);
	return json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "path", json_text(m->path),
			 "build_id", json_text_or_null(id), "start", json_unsigned(m->start), "end",
			 json_unsigned(m->end), "problem", json_text_or_null(m->problem), "frames",
			 json_unsigned(count->frames), "frames_symbolized",
			 json_unsigned(count->named));
}

static json_t *thread(const struct mayfly_thread *t)
{
	return json_pack("{s:o, s:o}", "tid", json_unsigned(t->tid), "name", json_text(t->name));
}

static json_t *modules(const struct mayfly_trace *trace, size_t count)
{
	struct module_frames *frames = count_module_frames(trace);
	json_t *list = frames ? json_array() : NULL;

	for (size_t i = 0; list && i < count; i++) {
		json_t *item = module(mayfly_trace_module(trace, i), &frames[i]);

		if (json_array_append_new(list, item) != 0) {
			json_decref(list);
			list = NULL;
		}
	}
	free(frames);
	return list;
}

static json_t *threads(const struct mayfly_trace *trace, size_t count)
{
	json_t *list = json_array();

	for (size_t i = 0; list && i < count; i++) {
		if (json_array_append_new(list, thread(mayfly_trace_thread(trace, i))) != 0) {
			json_decref(list);
			return NULL;
		}
	}
	return list;
}

static json_t *ending(const struct mayfly_info *info)
{
	static const char *const names[] = {"unknown", "exited", "killed", "off", "exec"};
	const char *name = info->ending < 5 ? names[info->ending] : names[0];

	return json_pack("{s:s, s:i}", "reason", name, "code", (int)info->ending_code);
}

static bool set(json_t *object, const char *key, json_t *value)
{
	return json_object_set_new(object, key, value) == 0;
}

static bool set_what(json_t *o, const struct mayfly_info *i)
{
	return set(o, "format_version", json_unsigned(i->format_version)) &&
	       set(o, "mayfly_version", json_text(i->version)) && set(o, "command", command(i)) &&
	       set(o, "program", json_text(i->program)) && set(o, "pid", json_unsigned(i->pid)) &&
	       set(o, "parent_pid", json_unsigned(i->parent_pid)) &&
	       set(o, "start_time", real_time(i->start_real_ns)) &&
	       set(o, "duration_ns", json_integer(i->duration_ns)) && set(o, "ending", ending(i)) &&
	       set(o, "program_cpu_ns", json_unsigned(i->program_cpu_ns)) &&
	       set(o, "program_max_rss_bytes", json_unsigned(i->program_max_rss_bytes)) &&
	       set(o, "off_text", json_text_or_null(i->off_text)) &&
	       set(o, "note", json_text_or_null(i->note)) &&
	       set(o, "mode", json_string(i->mode == MAYFLY_EXACT ? "exact" : "sampled")) &&
	       set(o, "sampler",
		   json_string(i->sampler == MAYFLY_POISSON ? "poisson" : "stratified")) &&
	       set(o, "interval_bytes", json_unsigned(i->interval_bytes)) &&
	       set(o, "ocaml_interval_bytes", json_unsigned(i->ocaml_interval_bytes)) &&
	       set(o, "ocaml_rate",
		   i->ocaml_interval_bytes ? json_real(i->ocaml_rate) : json_null()) &&
	       set(o, "snapshot_ns", json_integer(i->snapshot_ns)) &&
	       set(o, "thinned", json_boolean(i->thinned)) &&
	       set(o, "seed", json_unsigned(i->seed));
}

static bool set_counts(json_t *o, const struct mayfly_info *i)
{
	return set(o, "samples", json_unsigned(i->samples)) &&
	       set(o, "frees", json_unsigned(i->frees)) &&
	       set(o, "inherited", json_unsigned(i->inherited)) &&
	       set(o, "frames", json_unsigned(i->frames)) &&
	       set(o, "frames_symbolized", json_unsigned(i->frames_symbolized)) &&
	       set(o, "truncated_stacks", json_unsigned(i->truncated_stacks)) &&
	       set(o, "dropped_samples", json_unsigned(i->dropped_samples)) &&
	       set(o, "dropped_frees", json_unsigned(i->dropped_frees)) &&
	       set(o, "nested_blocks", json_unsigned(i->nested_blocks)) &&
	       set(o, "nested_bytes", json_unsigned(i->nested_bytes)) &&
	       set(o, "counters", json_unsigned(i->counters)) &&
	       set(o, "file_bytes", json_unsigned(i->file_bytes)) &&
	       set(o, "complete", json_boolean(i->complete)) &&
	       set(o, "spool", json_boolean(i->spool));
}

/* Those that text names, too. */
static json_t *json_label_keys(const struct mayfly_trace *trace)
{
	const char *key[MOST_LABEL_KEYS + 1];
	size_t keys = label_keys(trace, key, MOST_LABEL_KEYS + 1);
	json_t *list = json_array();

	for (size_t i = 0; list && i < keys && i < MOST_LABEL_KEYS; i++) {
		if (json_array_append_new(list, json_text(key[i])) != 0) {
			json_decref(list);
			return NULL;
		}
	}
	return list;
}

/* Null: they could not be read to their end. */
static bool set_tracks(json_t *o, const struct mayfly_trace *trace)
{
	const struct mayfly_info *i = mayfly_trace_info(trace);
	struct track_counts counts;
	bool known = count_tracks(trace, &counts) == 0;

	return set(o, "track_events", json_unsigned(i->track_events)) &&
	       set(o, "track_types", json_unsigned(i->track_types)) &&
	       set(o, "spans", known ? json_unsigned(counts.spans) : json_null()) &&
	       set(o, "instants", known ? json_unsigned(counts.instants) : json_null()) &&
	       set(o, "counter_values", known ? json_unsigned(counts.values) : json_null()) &&
	       set(o, "dropped_events", json_unsigned(i->dropped_events)) &&
	       set(o, "label_sets", json_unsigned(counts.label_sets)) &&
	       set(o, "label_keys", json_label_keys(trace));
}

json_t *json_info(const struct mayfly_trace *trace, const struct mayfly_summary *s, size_t stacks)
{
	const struct mayfly_info *info = mayfly_trace_info(trace);
	json_t *o = json_object();

	if (o && set_what(o, info) && set_counts(o, info) && set_tracks(o, trace) &&
	    set(o, "stacks", json_unsigned(stacks)) &&
	    set(o, "snapshots", json_unsigned(trace_snapshots(trace))) &&
	    set(o, "allocated", json_estimate(&s->allocated)) &&
	    set(o, "peak", json_estimate(&s->peak)) &&
	    set(o, "peak_time_ns", json_integer(s->peak_time_ns)) &&
	    set(o, "live_at_end", json_estimate(&s->live_at_end)) &&
	    set(o, "temporary", json_estimate(&s->temporary)) &&
	    set(o, "threads", json_unsigned(info->threads)) &&
	    set(o, "thread_list", threads(trace, info->threads)) &&
	    set(o, "modules", json_unsigned(info->modules)) &&
	    set(o, "module_list", modules(trace, info->modules)) &&
	    set(o, "absent", json_absent(info->absent)))
		return json_drop_absent(o, info->absent);
	json_decref(o);
	return NULL;
}

static int print(json_t *object, size_t flags)
{
	bool failed;

	if (!object)
		return cli_error("out of memory");
	failed = json_dumpf(object, stdout, flags) != 0;
	json_decref(object);
	putchar('\n');
	if (failed && !ferror(stdout))
		return cli_error("out of memory");
	return CLI_OK;
}

int json_print(json_t *object)
{
	return print(object, JSON_INDENT(2)) ? CLI_FAILED : cli_finish();
}

int json_print_line(json_t *object)
{
	return print(object, JSON_COMPACT);
}
