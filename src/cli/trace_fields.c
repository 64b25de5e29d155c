/* SPDX-License-Identifier: Apache-2.0 */
/* Fields about a trace: see trace_fields.h. */
#include "cli/trace_fields.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>
#include <time.h>

#include "answer/absent.h"
#include "answer/by_label.h"
#include "answer/trace_names.h"
#include "answer/counter_values.h"
#include "answer/hints.h"
#include "answer/text_format.h"
#include "answer/trace_facts.h"

#define FEW_SAMPLES 100 /* with fewer, only the total is known well */
#define TEXT_BYTES  1024

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

void print_overlap(const struct output *o, const struct mayfly_trace *trace, bool twice)
{
	const struct mayfly_info *info = mayfly_trace_info(trace);

	if (trace_has_pools(info))
		print_field(o, "Pools", "their blocks lie in blocks of malloc: %s",
			    twice		? "do not add them up"
			    : info->snapshot_ns ? "sums leave them out"
						: "sums leave them out, --heap pool shows them");
	if (!trace_overlaps(info))
		return;
	if (twice)
		print_field(o, "Overlap",
			    "malloc's blocks include the memory that %s's heaps lie in, and "
			    "external memory that malloc gave: do not add them up",
			    trace_heap_owner(trace));
	else
		print_field(o, "Counted",
			    "each byte once: as %s's block where there is one, else as "
			    "malloc's; --by heap shows all heaps beside each other",
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

/* If every allocation is recorded, only losses can make figures wrong. */
static void note_lost_records(const struct output *o, const struct mayfly_info *info)
{
	if (info->dropped_samples && info->dropped_frees)
		print_field(
		    o, "Dropped",
		    "%" PRIu64 " allocations and %" PRIu64
		    " frees are missing: what is allocated is a lower bound, what is live "
		    "may be too high or too low; record with more space (disk, --max-spool)",
		    info->dropped_samples, info->dropped_frees);
	else if (info->dropped_samples)
		print_field(o, "Dropped",
			    "%" PRIu64 " allocations are missing: all figures are lower bounds; "
			    "record with more space (disk, --max-spool)",
			    info->dropped_samples);
	else
		print_field(o, "Dropped",
			    "%" PRIu64 " frees are missing: what is live or leaked is too high; "
			    "record with more space (disk, --max-spool)",
			    info->dropped_frees);
}

void print_bypass(const struct output *o, const struct mayfly_info *info)
{
	char text[NAME_BYTES];

	if (info->missed_frees)
		print_field(o, "Missed",
			    "%" PRIu64 " %s%s without a free that mayfly saw: the memory was "
			    "handed out again. Blocks shown as live or leaked may be free, too. "
			    "Likely causes: a library opened with RTLD_DEEPBIND, free from dlsym, "
			    "an allocator's internal functions, a static libc (mayfly-record(1), "
			    "WHAT MAYFLY CANNOT SEE)",
			    info->missed_frees, trace_is_exact(info) ? "" : "sampled ",
			    info->missed_frees == 1 ? "block ended" : "blocks ended");
	if (*info->note)
		print_field(o, "Note", "%s", text_clean(text, sizeof(text), info->note));
}

static void note_losses(const struct output *o, const struct mayfly_info *info)
{
	char bytes[FIGURE_TEXT];

	if ((info->dropped_samples || info->dropped_frees) && trace_is_exact(info))
		note_lost_records(o, info);
	else if (info->dropped_samples || info->dropped_frees)
		print_field(o, "Dropped",
			    "%" PRIu64 " samples, %" PRIu64
			    " frees: the figures are too low (samples) or too high (frees)",
			    info->dropped_samples, info->dropped_frees);
	if (info->thinned)
		print_field(o, "Thinned",
			    "part of the samples was dropped to keep within --max-size, and the "
			    "others count for them: the figures are right on average, their errors "
			    "show the price");
	if (info->inherited_allocated)
		print_field(o, "Inherited",
			    "an older version wrote these snapshots: the %" PRIu64
			    " blocks inherited "
			    "at the fork count as allocated",
			    info->inherited);
	if (info->truncated_stacks)
		print_field(o, "Truncated", "%" PRIu64 " %s root part", info->truncated_stacks,
			    info->truncated_stacks == 1 ? "stack lacks its" : "stacks lack their");
	if (info->nested_blocks)
		print_field(o, "Not counted",
			    "%s in %" PRIu64 " blocks that signal handlers allocated",
			    text_bytes(bytes, sizeof(bytes), (double)info->nested_bytes),
			    info->nested_blocks);
}

static uint64_t finer_interval(const struct mayfly_info *info)
{
	uint64_t interval = info->interval_bytes;

	/* Small enough to give about ten times FEW_SAMPLES. */
	for (uint64_t samples = info->samples ? info->samples : 1;
	     samples < 10 * FEW_SAMPLES && interval > 256; samples *= 2)
		interval /= 2;
	return interval;
}

static void note_remedies(const struct output *o, const struct mayfly_info *info)
{
	char interval[FIGURE_TEXT], finer[FIGURE_TEXT], samples[32] = "no";

	/* Other traces cannot be recorded again with these options. */
	bool recorded = !trace_is_ocaml_alone(info) && trace_is_recorded(info);

	if (recorded && info->mode == MAYFLY_SAMPLED && info->samples < FEW_SAMPLES) {
		text_bytes(interval, sizeof(interval), (double)info->interval_bytes);
		text_size_option(finer, sizeof(finer), finer_interval(info));
		if (info->samples)
			snprintf(samples, sizeof(samples), "only %" PRIu64, info->samples);
		print_field(o, "Hint",
			    "an interval of %s gave %s sample%s; for more detail record again with "
			    "-i %s",
			    interval, samples, info->samples == 1 ? "" : "s", finer);
	}
}

void print_absent(const struct output *o, const struct mayfly_info *info)
{
	char text[512];

	if (info->absent)
		print_field(o, "Unknown", "%s: the file that this comes from does not have them",
			    absent_text(text, sizeof(text), info->absent));
}

void print_notes(const struct output *o, const struct mayfly_info *info)
{
	char text[NAME_BYTES];

	if (*info->off_text)
		print_field(o, "Stopped", "%s", text_clean(text, sizeof(text), info->off_text));
	if (info->spool)
		print_field(
		    o, "Spool",
		    "read from what the agent left behind; 'mayfly record' did not finish it");
	if (!info->whole && !info->spool)
		print_field(o, "Incomplete",
			    "the file was cut off or damaged; only the intact part is shown");
	note_losses(o, info);
	print_absent(o, info);
	print_bypass(o, info);
	note_remedies(o, info);
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
	const struct mayfly_counter *now = counter_named(trace, "process.resident");
	const struct mayfly_counter *peak = counter_named(trace, "process.resident_peak");
	const struct mayfly_counter *own = counter_named(trace, "self.resident");
	double end = own ? last_value(own) : now ? last_value(now) : 0;
	char most[FIGURE_TEXT], left[FIGURE_TEXT];

	if (!end)
		return;
	text_bytes(left, sizeof(left), end);
	if (peak)
		text_bytes(most, sizeof(most), fmax(largest_value(peak), end));
	print_field(o, "Resident", "%s%s%s at the end; 'mayfly report --rss' explains it",
		    peak ? most : "", peak ? " at most, " : "", left);
}
