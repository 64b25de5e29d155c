/* SPDX-License-Identifier: Apache-2.0 */
/* Fields about a trace: see trace_fields.h. */
#include "cli/trace_fields.h"

#include <inttypes.h>
#include <string.h>
#include <time.h>

#include "answer/by_label.h"
#include "answer/caveats.h"
#include "answer/hints.h"
#include "answer/text_format.h"
#include "answer/trace_facts.h"

#define TEXT_BYTES 1024

/* "" when there is no such time. */
static char *real_time_text(char *buffer, size_t size, int64_t ns, const char *format)
{
	time_t seconds = (time_t)(ns / 1000000000);
	struct tm parts;

	if (ns < 0 || !localtime_r(&seconds, &parts) || !strftime(buffer, size, format, &parts))
		*buffer = 0;
	return buffer;
}

char *start_text(char *buffer, size_t size, const struct mayfly_info *info)
{
	if (!*real_time_text(buffer, size, info->start_real_ns, "%Y-%m-%d %H:%M:%S %Z"))
		snprintf(buffer, size, "at an unknown time");
	return buffer;
}

/* The ending of a trace that was made while the program ran. */
static char *running_text(char *buffer, size_t size, const struct mayfly_info *info)
{
	int64_t end = 0;
	char at[32];

	if (info->absent & MAYFLY_ABSENT_START || info->start_real_ns < 0 ||
	    __builtin_add_overflow(info->start_real_ns, info->duration_ns, &end) ||
	    !*real_time_text(at, sizeof(at), end, "%H:%M:%S"))
		return text_format(buffer, size, "the program ran on");
	return text_format(buffer, size, "a snapshot of %s; the program ran on", at);
}

char *ending_text(char *buffer, size_t size, const struct mayfly_info *info)
{
	const char *signal_name = sigabbrev_np(info->ending_code);
	const char *text = "how it ended is not known";

	switch ((enum mayfly_ending)info->ending) {
	case MAYFLY_END_EXITED:
		return text_format(buffer, size, "exit status %" PRId32, info->ending_code);
	case MAYFLY_END_KILLED:
		if (signal_name)
			return text_format(buffer, size, "killed by SIG%s", signal_name);
		return text_format(buffer, size, "killed by signal %" PRId32, info->ending_code);
	case MAYFLY_END_OFF:
		text = "recording stopped before the program ended";
		break;
	case MAYFLY_END_EXEC:
		text = "went on with another program (exec)";
		break;
	case MAYFLY_END_ENDED:
		text = "ended; with what status is not known";
		break;
	case MAYFLY_END_RUNNING:
		return running_text(buffer, size, info);
	case MAYFLY_END_UNKNOWN:
		break;
	}
	return text_format(buffer, size, "%s", text);
}

static void print_caveat(const struct output *o, const struct mayfly_trace *trace,
			 enum caveat_kind kind)
{
	char text[CAVEAT_BYTES], clean[CAVEAT_BYTES];

	if (*caveat_text(text, sizeof(text), trace, kind))
		print_field(o, caveat_title(kind), "%s", text_clean(clean, sizeof(clean), text));
}

void print_overlap(const struct output *o, const struct mayfly_trace *trace, bool twice)
{
	const struct mayfly_info *info = mayfly_trace_info(trace);

	if (!twice) {
		print_caveat(o, trace, CAVEAT_MAPPED);
		print_caveat(o, trace, CAVEAT_POOLS);
		print_caveat(o, trace, CAVEAT_COUNTED);
		return;
	}
	if (trace_has_pools(info))
		print_field(o, "Pools", "their blocks lie in blocks of malloc: do not add them up");
	if (trace_overlaps(info))
		print_field(o, "Overlap",
			    "malloc's blocks include the memory that %s's heaps lie in, and "
			    "external memory that malloc gave: do not add them up",
			    trace_heap_owner(trace));
}

static void print_label_field(const struct output *o, const struct mayfly_trace *trace, bool hints)
{
	const char *key[MOST_LABEL_KEYS + 1];
	size_t keys = label_keys(trace, key, MOST_LABEL_KEYS + 1);
	char text[TEXT_BYTES * 2] = "", clean[TEXT_BYTES];

	for (size_t i = 0; i < keys && i < MOST_LABEL_KEYS; i++) {
		text_clean(clean, sizeof(clean) / MOST_LABEL_KEYS, key[i]);
		text_append(text, sizeof(text), "%s%s", i ? ", " : "", clean);
	}
	if (keys)
		print_field(o, "Labels", "%zu set%s; %s %s%s%s",
			    mayfly_trace_info(trace)->label_sets - 1,
			    mayfly_trace_info(trace)->label_sets == 2 ? "" : "s",
			    keys == 1 ? "key" : "keys", text, keys > MOST_LABEL_KEYS ? ", ..." : "",
			    hints ? " (--by label, --by label:KEY, --label RE)" : "");
}

/* Every recording has the beginning, the end and the CPU time of threads. */
static bool only_of_threads(const struct mayfly_trace *trace)
{
	const struct mayfly_info *info = mayfly_trace_info(trace);

	for (size_t i = 0; i < info->track_types; i++)
		if (strcmp(mayfly_trace_track_type(trace, i)->category, "thread") != 0)
			return false;
	return !info->dropped_events;
}

void print_track_fields(const struct output *o, const struct mayfly_trace *trace, bool hints)
{
	const struct mayfly_info *info = mayfly_trace_info(trace);
	struct track_counts counts;
	char text[256], dropped[64] = "";

	if (info->dropped_events)
		snprintf(dropped, sizeof(dropped), "; %" PRIu64 " more could not be recorded",
			 info->dropped_events);
	if ((info->track_events || info->dropped_events) && !(hints && only_of_threads(trace))) {
		if (count_tracks(trace, &counts) != 0)
			return;
		track_counts_text(text, sizeof(text), &counts);
		print_field(o, "Events", "%s%s%s", *text ? text : "none", dropped,
			    !hints || !*text ? ""
			    : counts.spans   ? " (--events, --spans)"
					     : " (--events)");
	}
	/* Snapshots cannot be filtered by label. */
	if (info->label_sets > 1 && !(hints && info->snapshot_ns))
		print_label_field(o, trace, hints);
}

void print_bypass(const struct output *o, const struct mayfly_trace *trace)
{
	print_caveat(o, trace, CAVEAT_MISSED);
	print_caveat(o, trace, CAVEAT_PICTURE);
	print_caveat(o, trace, CAVEAT_NOTE);
}

void print_python_end(const struct output *o, const struct mayfly_info *info)
{
	char text[64];

	if (info->python_end_ns && !info->snapshot_ns)
		print_wrapped(
		    o, STYLE_DIM, 2,
		    "  Python: what its interpreter freed after it began to end (%s) counts as "
		    "never freed",
		    text_duration(text, sizeof(text), (double)info->python_end_ns));
}

void print_absent(const struct output *o, const struct mayfly_info *info)
{
	char text[CAVEAT_BYTES];

	if (*caveat_absent(text, sizeof(text), info->absent))
		print_field(o, caveat_title(CAVEAT_UNKNOWN), "%s", text);
}

void print_notes(const struct output *o, const struct mayfly_trace *trace)
{
	for (int kind = CAVEAT_STOPPED; kind < CAVEATS; kind++)
		print_caveat(o, trace, (enum caveat_kind)kind);
}

void print_hints(const struct output *o, const struct mayfly_trace *trace)
{
	char text[HINT_BYTES];

	for (unsigned i = 0; i < HINTS; i++)
		if (*hint_text(text, sizeof(text), trace, i))
			print_field(o, "Hint", "%s", text);
}

void print_resident(const struct output *o, const struct mayfly_trace *trace)
{
	char text[128];

	if (*resident_text(text, sizeof(text), trace))
		print_field(o, "Resident", "%s; 'mayfly report --rss' explains it", text);
}
