/* SPDX-License-Identifier: Apache-2.0 */
/* What a spool's header says of the recording: see spool_describe.h. */
#include "spool/spool_describe.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "format/format.h"
#include "spool/spool_packets.h"

#define CONTINUES "the beginning of this recording is in the trace beside it"
#define WAS_OFF                                                                                    \
	"recording was switched off for some of the time (mayfly ctl): what was allocated then "   \
	"is "                                                                                      \
	"in no figure"

#define ATTACHED                                                                                   \
	"mayfly was attached while the program ran: blocks from before that are in no figure"

static const char *off_reason_text(uint32_t reason)
{
	static const char *const text[] = {
	    [SPOOL_OFF_NONE] = "unknown reason",
	    [SPOOL_OFF_NO_SPACE] = "no space left for the recording",
	    [SPOOL_OFF_NO_MEMORY] = "out of memory",
	    [SPOOL_OFF_LIBC] = "this C library is not supported",
	    [SPOOL_OFF_SANDBOX] = "the program's sandbox forbids extending the recording",
	    [SPOOL_OFF_OWN_MALLOC] = "the program has its own malloc",
	    [SPOOL_OFF_FORK] = "forked children are not followed",
	    [SPOOL_OFF_DETACHED] = "mayfly was detached; the program ran on",
	    [SPOOL_OFF_LOST] = "the spool was emptied, or its disk failed",
	};

	return text[reason < sizeof(text) / sizeof(*text) ? reason : 0];
}

/* A text of the header, cut off where the header or the file ends; NULL with length 0. */
static const char *header_text(const struct spool_source *source, const struct spool_header *h,
			       uint32_t offset, uint32_t *length)
{
	if (offset >= h->header_bytes)
		*length = 0;
	else if (*length > h->header_bytes - offset)
		*length = h->header_bytes - offset;
	*length = (uint32_t)spool_readable(source, offset, *length);
	return *length ? source->at(source->context, offset, *length) : NULL;
}

static uint32_t header_string(const struct spool_source *source, const struct spool_header *h,
			      uint32_t offset, uint32_t length, struct recording *r)
{
	const char *text = header_text(source, h, offset, &length);

	return recording_string(r, text, length);
}

static int describe_command(const struct spool_source *source, const struct spool_header *h,
			    struct recording *r)
{
	uint32_t length = h->command_length;
	const char *at = header_text(source, h, h->command_offset, &length);

	/* Programs that write a title over their arguments fill what is left with zeros. */
	while (atomic_load(&h->attached) && length > 1 && !at[length - 1] && !at[length - 2])
		length--;
	while (length) {
		uint32_t argument = (uint32_t)strnlen(at, length);
		uint32_t *bigger;

		bigger = realloc(r->command, (r->command_count + 1) * sizeof(*bigger));
		if (!bigger)
			return MAYFLY_E_MEMORY;
		r->command = bigger;
		bigger[r->command_count++] = recording_string(r, at, argument);
		if (argument >= length)
			break;
		at += argument + 1;
		length -= argument + 1;
	}
	return r->failed ? MAYFLY_E_MEMORY : 0;
}

/* One more sentence of the note, after a "; ". It is left out if the note becomes too long. */
static void add_note(struct recording *r, const char *text)
{
	const char *before = recording_text(r, r->note);
	size_t length = strlen(before), more = strlen(text);
	char both[1024];

	if (length + more + 2 > sizeof(both))
		return;
	memcpy(both, before, length);
	if (length) {
		memcpy(both + length, "; ", 2);
		length += 2;
	}
	memcpy(both + length, text, more);
	r->note = recording_string(r, both, length + more);
}

/* The agent's note and, after it, what the figures lack. */
static void describe_note(const struct spool_source *source, const struct spool_header *h,
			  bool beginning_missing, struct recording *r)
{
	r->note = header_string(source, h, h->note_offset, h->note_length, r);
	if (beginning_missing)
		add_note(r, CONTINUES);
	if (atomic_load(&h->attached) == 1)
		add_note(r, ATTACHED);
	if (atomic_load(&h->control_was_off))
		add_note(r, WAS_OFF);
}

int spool_describe(const struct spool_source *source, const struct spool_header *copy,
		   bool beginning_missing, struct recording *tables)
{
	struct mayfly_info *info = &tables->info;

	info->format_version = TRACE_VERSION;
	info->mode = copy->mode == SPOOL_EXACT ? MAYFLY_EXACT : MAYFLY_SAMPLED;
	info->sampler = copy->sampler;
	info->grouped = copy->mode != SPOOL_EXACT && copy->sampler == SPOOL_STRATIFIED &&
			!copy->control_overhead;
	info->pid = copy->pid;
	info->parent_pid = copy->parent_pid;
	info->interval_bytes = (uint64_t)1 << copy->interval_log2;
	info->start_real_ns = (int64_t)copy->start_real_ns;
	info->seed = copy->seed;
	tables->program = header_string(source, copy, copy->exe_offset, copy->exe_length, tables);
	describe_note(source, copy, beginning_missing, tables);
	return describe_command(source, copy, tables);
}

static void describe_off(const struct spool_header *mapped, struct recording *r)
{
	size_t size = sizeof(mapped->off_text);
	char text[sizeof(mapped->off_text)];
	const char *reason = text;

	memcpy(text, mapped->off_text, size);
	if (!text[0]) {
		reason = off_reason_text(atomic_load(&mapped->off_reason));
		size = strlen(reason);
	}
	r->info.ending = MAYFLY_END_OFF;
	r->info.ending_code = 0;
	r->off_text = recording_string(r, reason, strnlen(reason, size));
}

static uint64_t larger(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

double spool_ocaml_rate(const struct spool_header *mapped)
{
	uint32_t log2 = atomic_load(&mapped->ocaml_interval_log2);
	uint64_t bits = atomic_load(&mapped->ocaml_rate);
	double rate, interval, least;

	if (!log2 || log2 > TRACE_MAX_INTERVAL)
		return 0;
	least = (double)((uint64_t)1 << log2);
	memcpy(&rate, &bits, sizeof(rate));
	interval = rate > 0 ? 8 / rate : 0;
	return interval >= least && interval < 2 * least ? rate : 8 / least;
}

/* Reads what is known only after the program has begun. */
static void describe_late(const struct spool_source *source, const struct spool_header *mapped,
			  bool beginning_missing, struct recording *tables)
{
	double rate = spool_ocaml_rate(mapped);
	struct spool_header copy;

	if (rate > 0) {
		tables->info.ocaml_rate = rate;
		tables->info.ocaml_interval_bytes = (uint64_t)(8 / rate + 0.5);
	}
	memcpy(&copy, mapped, sizeof(copy));
	describe_note(source, &copy, beginning_missing, tables);
}

/* Nobody has said how the program ended, unless the agent did. */
static void describe_exit(const struct spool_header *mapped, struct mayfly_info *info)
{
	uint32_t exited = atomic_load(&mapped->exited);

	if (!(exited & SPOOL_EXITED) ||
	    (info->ending != MAYFLY_END_UNKNOWN && info->ending != MAYFLY_END_ENDED))
		return;
	info->ending = MAYFLY_END_EXITED;
	info->ending_code = exited & 0xff;
}

/* Programs write another text over their arguments, padded with spaces or zeros. */
static void describe_title(const struct spool_source *source, const struct spool_header *h,
			   const struct spool_ending *ending, struct recording *r)
{
	uint32_t length = h->command_length, bytes = ending->title_bytes, both;
	const char *command = header_text(source, h, h->command_offset, &length);
	char title[SPOOL_TITLE_BYTES];

	both = length < bytes ? length : bytes;
	if (bytes > sizeof(title) ||
	    (!memcmp(command ? command : "", ending->title, both) &&
	     (length == bytes || (bytes < length && bytes == sizeof(title)) ||
	      (length < bytes && h->command_truncated))))
		return;
	for (uint32_t i = 0; i < bytes; i++)
		title[i] = ending->title[i] ? ending->title[i] : ' ';
	while (bytes && title[bytes - 1] == ' ')
		bytes--;
	r->title = recording_string(r, title, bytes);
}

/* In a spool of an earlier version other texts of the header are there, of which the note is the first. */
static void describe_ending(const struct spool_header *mapped, struct tick_clock *clock,
			    struct mayfly_info *info)
{
	uint64_t ticks = atomic_load(&mapped->ending_ticks);

	if (!ticks || mapped->note_offset <= offsetof(struct spool_header, ending_ticks))
		return;
	info->python_end_ns = tick_clock_past_ns(clock, ticks);
	if (info->python_end_ns > info->duration_ns)
		info->python_end_ns = info->duration_ns;
}

int spool_describe_end(const struct spool_source *source, const struct spool_header *mapped,
		       struct tick_clock *clock, const struct spool_ending *ending,
		       const struct spool_totals *totals, struct recording *tables)
{
	struct mayfly_info *info = &tables->info;
	int64_t end = tick_clock_ns(clock, atomic_load(&mapped->last_ticks));

	describe_late(source, mapped, totals->beginning_missing, tables);
	info->samples = totals->allocations;
	info->frees = totals->frees;
	info->inherited = totals->inherited;
	info->truncated_stacks = totals->truncated;
	/* The last drops are in no LOST record. */
	info->dropped_samples = larger(atomic_load(&mapped->dropped_samples), totals->lost_samples);
	info->dropped_frees = larger(atomic_load(&mapped->dropped_frees), totals->lost_frees);
	info->missed_frees = atomic_load(&mapped->missed_frees);
	if (totals->missed_frees > info->dropped_frees)
		info->missed_frees += totals->missed_frees - info->dropped_frees;
	info->mapped_peak_bytes = totals->mapped_peak;
	info->mapped_bytes = totals->mapped_bytes;
	info->mapped_blocks = totals->mapped_blocks;
	info->dropped_events = larger(atomic_load(&mapped->dropped_events), totals->lost_events) +
			       totals->unkept_events;
	info->nested_blocks = atomic_load(&mapped->nested_blocks);
	info->nested_bytes = atomic_load(&mapped->nested_bytes);
	if (ending) {
		info->ending = ending->ending;
		info->ending_code = ending->code;
		info->program_cpu_ns = ending->cpu_ns;
		info->program_max_rss_bytes = ending->max_rss_bytes;
		if (ending->duration_ns > 0)
			end = ending->duration_ns;
		if (ending->note)
			add_note(tables, ending->note);
		if (ending->title)
			describe_title(source, mapped, ending, tables);
		if (*ending->entry)
			tables->entry = recording_name(tables, ending->entry);
	}
	describe_exit(mapped, info);
	if (atomic_load(&mapped->state) == SPOOL_OFF) {
		end = tick_clock_past_ns(clock, atomic_load(&mapped->off_ticks));
		describe_off(mapped, tables);
	}
	info->duration_ns = end > totals->last_ns ? end : totals->last_ns;
	describe_ending(mapped, clock, info);
	info->modules = tables->modules;
	info->threads = tables->threads;
	info->strings = tables->strings;
	info->nodes = tables->nodes;
	info->frames = tables->frames;
	info->complete = !totals->damaged;
	return tables->failed ? MAYFLY_E_MEMORY : 0;
}
