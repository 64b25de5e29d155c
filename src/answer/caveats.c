/* SPDX-License-Identifier: Apache-2.0 */
/* What a reader must know of a trace: see caveats.h. */
#include "answer/caveats.h"

#include <inttypes.h>
#include <math.h>

#include "answer/absent.h"
#include "answer/counter_values.h"
#include "answer/cut_stacks.h"
#include "answer/figures.h"
#include "answer/text_format.h"
#include "answer/trace_facts.h"

#define FEW_SAMPLES 100 /* with fewer, only the total is known well */

static void say_stopped(char *buffer, size_t size, const struct mayfly_trace *trace)
{
	text_format(buffer, size, "%s", mayfly_trace_info(trace)->off_text);
}

static void say_spool(char *buffer, size_t size, const struct mayfly_trace *trace)
{
	if (mayfly_trace_info(trace)->spool)
		text_format(
		    buffer, size,
		    "read from what the agent left behind; 'mayfly record' did not finish it");
}

static void say_incomplete(char *buffer, size_t size, const struct mayfly_trace *trace)
{
	const struct mayfly_info *info = mayfly_trace_info(trace);

	if (!info->whole && !info->spool)
		text_format(buffer, size,
			    "the file was cut off or damaged; only the intact part is shown");
}

/* If every allocation is recorded, only losses can make figures wrong. */
static void say_lost_records(char *buffer, size_t size, const struct mayfly_info *info)
{
	if (info->dropped_samples && info->dropped_frees)
		text_format(
		    buffer, size,
		    "%" PRIu64 " allocations and %" PRIu64
		    " frees are missing: what is allocated is a lower bound, what is live "
		    "may be too high or too low; record with more space (disk, --max-spool)",
		    info->dropped_samples, info->dropped_frees);
	else if (info->dropped_samples)
		text_format(buffer, size,
			    "%" PRIu64 " allocations are missing: all figures are lower bounds; "
			    "record with more space (disk, --max-spool)",
			    info->dropped_samples);
	else
		text_format(buffer, size,
			    "%" PRIu64 " frees are missing: what is live or leaked is too high; "
			    "record with more space (disk, --max-spool)",
			    info->dropped_frees);
}

static void say_dropped(char *buffer, size_t size, const struct mayfly_trace *trace)
{
	const struct mayfly_info *info = mayfly_trace_info(trace);

	if (!info->dropped_samples && !info->dropped_frees)
		return;
	if (trace_is_exact(info))
		say_lost_records(buffer, size, info);
	else
		text_format(buffer, size,
			    "%" PRIu64 " samples, %" PRIu64
			    " frees: the figures are too low (samples) or too high (frees)",
			    info->dropped_samples, info->dropped_frees);
}

static void say_thinned(char *buffer, size_t size, const struct mayfly_trace *trace)
{
	if (mayfly_trace_info(trace)->thinned)
		text_format(buffer, size,
			    "part of the samples was dropped to keep within --max-size, and the "
			    "others count for them: the figures are right on average, their errors "
			    "show the price");
}

static void say_inherited(char *buffer, size_t size, const struct mayfly_trace *trace)
{
	const struct mayfly_info *info = mayfly_trace_info(trace);

	if (info->inherited_allocated)
		text_format(buffer, size,
			    "an older version wrote these snapshots: the %" PRIu64
			    " blocks inherited at the fork count as allocated",
			    trace_inherited(info));
}

static void say_truncated(char *buffer, size_t size, const struct mayfly_trace *trace)
{
	const struct mayfly_info *info = mayfly_trace_info(trace);
	char places[CAVEAT_BYTES / 2];

	if (!info->truncated_stacks)
		return;
	cut_stacks_text(places, sizeof(places), trace);
	text_format(buffer, size, "%" PRIu64 " %s root part%s%s", info->truncated_stacks,
		    info->truncated_stacks == 1 ? "stack lacks its" : "stacks lack their",
		    *places ? ": " : "", places);
}

static void say_not_counted(char *buffer, size_t size, const struct mayfly_trace *trace)
{
	const struct mayfly_info *info = mayfly_trace_info(trace);
	char bytes[FIGURE_TEXT];

	if (info->nested_blocks)
		text_format(buffer, size, "%s in %" PRIu64 " blocks that signal handlers allocated",
			    text_bytes(bytes, sizeof(bytes), (double)info->nested_bytes),
			    info->nested_blocks);
}

char *caveat_absent(char *buffer, size_t size, uint32_t absent)
{
	char names[512];

	*buffer = 0;
	if (absent)
		text_format(buffer, size, "%s: the file that this comes from does not have them",
			    absent_text(names, sizeof(names), absent));
	return buffer;
}

static void say_unknown(char *buffer, size_t size, const struct mayfly_trace *trace)
{
	caveat_absent(buffer, size, mayfly_trace_info(trace)->absent);
}

static void say_missed(char *buffer, size_t size, const struct mayfly_trace *trace)
{
	const struct mayfly_info *info = mayfly_trace_info(trace);

	if (info->missed_frees)
		text_format(buffer, size,
			    "%" PRIu64 " %s%s without a free that mayfly saw: the memory was "
			    "handed out again. Blocks shown as live or leaked may be free, too. "
			    "Likely causes: a library opened with RTLD_DEEPBIND, free from dlsym, "
			    "an allocator's internal functions, a static libc (mayfly-record(1), "
			    "WHAT MAYFLY CANNOT SEE)",
			    info->missed_frees, trace_is_exact(info) ? "" : "sampled ",
			    info->missed_frees == 1 ? "block ended" : "blocks ended");
}

static void say_late_picture(char *buffer, size_t size, const struct mayfly_trace *trace)
{
	const struct mayfly_info *info = mayfly_trace_info(trace);
	const struct mayfly_picture *picture = mayfly_trace_picture(trace);

	if (picture && info->python_end_ns && picture->time_ns >= info->python_end_ns)
		text_format(
		    buffer, size,
		    "when the heap's picture was taken, Python's interpreter had begun to free "
		    "its objects; ask for one before with 'mayfly ctl PID heap', or record with "
		    "--heap-at peak");
}

static void say_note(char *buffer, size_t size, const struct mayfly_trace *trace)
{
	text_format(buffer, size, "%s", mayfly_trace_info(trace)->note);
}

static uint64_t finer_interval(const struct mayfly_info *info)
{
	uint64_t interval = info->interval_bytes;

	/* Small enough to give about ten times FEW_SAMPLES. */
	for (uint64_t samples = trace_samples(info) ? trace_samples(info) : 1;
	     samples < 10 * FEW_SAMPLES && interval > 256; samples *= 2)
		interval /= 2;
	return interval;
}

/* Other traces cannot be recorded again with these options. */
static void say_few_samples(char *buffer, size_t size, const struct mayfly_trace *trace)
{
	const struct mayfly_info *info = mayfly_trace_info(trace);
	char interval[FIGURE_TEXT], finer[FIGURE_TEXT], samples[32] = "no";

	if (trace_is_ocaml_alone(info) || !trace_is_recorded(info) ||
	    info->mode != MAYFLY_SAMPLED || trace_samples(info) >= FEW_SAMPLES)
		return;
	text_bytes(interval, sizeof(interval), (double)info->interval_bytes);
	text_size_option(finer, sizeof(finer), finer_interval(info));
	if (trace_samples(info))
		text_format(samples, sizeof(samples), "only %" PRIu64, trace_samples(info));
	text_format(buffer, size,
		    "an interval of %s gave %s sample%s; for more detail record again with -i %s",
		    interval, samples, trace_samples(info) == 1 ? "" : "s", finer);
}

static void say_mapped(char *buffer, size_t size, const struct mayfly_trace *trace)
{
	const struct mayfly_info *info = mayfly_trace_info(trace);
	char bytes[FIGURE_TEXT];

	if (info->mapped_blocks)
		text_format(buffer, size,
			    "%s in %" PRIu64 " mappings of the program's own at the end, not in "
			    "these figures: --heap mmap shows them",
			    text_bytes(bytes, sizeof(bytes), (double)info->mapped_bytes),
			    info->mapped_blocks);
}

static void say_pools(char *buffer, size_t size, const struct mayfly_trace *trace)
{
	const struct mayfly_info *info = mayfly_trace_info(trace);

	if (trace_has_pools(info))
		text_format(buffer, size, "their blocks lie in blocks of malloc: %s",
			    info->snapshot_ns ? "sums leave them out"
					      : "sums leave them out, --heap pool shows them");
}

static void say_counted(char *buffer, size_t size, const struct mayfly_trace *trace)
{
	if (trace_overlaps(mayfly_trace_info(trace)))
		text_format(buffer, size,
			    "each byte once: as %s's block where there is one, else as "
			    "malloc's; --by heap shows all heaps beside each other",
			    trace_heap_owner(trace));
}

static const struct {
	const char *title;
	void (*say)(char *buffer, size_t size, const struct mayfly_trace *trace);
} caveats[CAVEATS] = {
    [CAVEAT_MAPPED] = {"Mapped", say_mapped},
    [CAVEAT_POOLS] = {"Pools", say_pools},
    [CAVEAT_COUNTED] = {"Counted", say_counted},
    [CAVEAT_STOPPED] = {"Stopped", say_stopped},
    [CAVEAT_SPOOL] = {"Spool", say_spool},
    [CAVEAT_INCOMPLETE] = {"Incomplete", say_incomplete},
    [CAVEAT_DROPPED] = {"Dropped", say_dropped},
    [CAVEAT_THINNED] = {"Thinned", say_thinned},
    [CAVEAT_INHERITED] = {"Inherited", say_inherited},
    [CAVEAT_TRUNCATED] = {"Truncated", say_truncated},
    [CAVEAT_NOT_COUNTED] = {"Not counted", say_not_counted},
    [CAVEAT_UNKNOWN] = {"Unknown", say_unknown},
    [CAVEAT_MISSED] = {"Missed", say_missed},
    [CAVEAT_PICTURE] = {"Picture", say_late_picture},
    [CAVEAT_NOTE] = {"Note", say_note},
    [CAVEAT_FEW_SAMPLES] = {"Hint", say_few_samples},
};

const char *caveat_title(enum caveat_kind kind)
{
	return caveats[kind].title;
}

char *caveat_text(char *buffer, size_t size, const struct mayfly_trace *trace,
		  enum caveat_kind kind)
{
	*buffer = 0;
	caveats[kind].say(buffer, size, trace);
	return buffer;
}

char *resident_text(char *buffer, size_t size, const struct mayfly_trace *trace)
{
	const struct mayfly_counter *now = counter_named(trace, "process.resident");
	const struct mayfly_counter *peak = counter_named(trace, "process.resident_peak");
	const struct mayfly_counter *own = counter_named(trace, "self.resident");
	double end = own ? last_value(own) : now ? last_value(now) : 0;
	char most[FIGURE_TEXT], left[FIGURE_TEXT];

	*buffer = 0;
	if (!end)
		return buffer;
	text_bytes(left, sizeof(left), end);
	if (peak)
		text_bytes(most, sizeof(most), fmax(largest_value(peak), end));
	return text_format(buffer, size, "%s%s%s at the end", peak ? most : "",
			   peak ? " at most, " : "", left);
}
