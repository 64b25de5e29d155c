/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The text format of gperftools' and jemalloc's sampled heap profiles, for jeprof and google-pprof:
 *
 *	heap profile: blocks: bytes [blocks: bytes] @ heap_v2/1
 *	blocks: bytes [blocks: bytes] @ 0xleaf 0xcaller ...
 *	...
 *	MAPPED_LIBRARIES:
 *	start-end r-xp offset 00:00 0 path
 *
 * The first pair is what is live, the pair in brackets is what was allocated. From a pair n: s and
 * the interval R the tools compute
 *
 *	N = n f, S = s f	f = 1 / (1 - exp(-(s / n) / R))
 *
 * This is to undo Poisson sampling, after summing. Mayfly's figures are weighted already, so the
 * file says R = 1: then f is 1 for blocks of some dozen bytes and more; for smaller blocks n and s
 * are chosen so that N and S are right. Numbers are integers; the rounding error of a line is
 * carried over to the next ones.
 *
 * Addresses are return addresses except for the first, because the tools subtract one from all
 * others.
 */
#include "convert/export/exports.h"
#include "convert/out.h"

#include <inttypes.h>
#include <math.h>

/* The part of one column that is not yet written. */
struct owed {
	double blocks, bytes;
};

struct pair {
	uint64_t blocks, bytes;
};

static double tool_factor(double blocks, double bytes)
{
	return -1 / expm1(-bytes / blocks);
}

/* The distance between the tools' result for this pair and what is owed. */
static double miss(const struct owed *owed, double blocks, double bytes)
{
	double f = blocks > 0 && bytes > 0 ? tool_factor(blocks, bytes) : 0;

	return fabs(bytes * f - owed->bytes) + fabs(blocks * f - owed->blocks);
}

/* Saturates: sums of a damaged trace may be too large. */
static uint64_t heap_v2_whole(double x)
{
	return x < 0x1p63 ? (uint64_t)x : INT64_MAX;
}

/* The best pair of integers around the exact values. */
static struct pair whole_pair(const struct owed *owed)
{
	double f, blocks, bytes, best = miss(owed, 0, 0);
	struct pair pair = {0, 0};

	if (!(owed->bytes > 0) || !(owed->blocks > 0))
		return pair;
	f = tool_factor(owed->blocks, owed->bytes);
	blocks = floor(owed->blocks / f);
	bytes = floor(owed->bytes / f);
	for (int i = 0; i < 4; i++) {
		double n = blocks + (i & 1), s = bytes + (i >> 1);
		double missed = n > 0 && s > 0 ? miss(owed, n, s) : best;

		if (missed < best) {
			best = missed;
			pair = (struct pair){heap_v2_whole(n), heap_v2_whole(s)};
		}
	}
	return pair;
}

/* counts: numbers of blocks are known; otherwise each stack gets 1. */
static struct pair heap_v2_give(bool counts, struct owed *owed,
				const struct mayfly_estimate *estimate)
{
	struct pair pair;
	double f;

	/* Blocks of 0 bytes cannot be expressed: the tools divide by the bytes. */
	if (!(estimate->bytes.estimate > 0))
		return (struct pair){0, 0};
	owed->blocks += counts ? estimate->blocks.estimate : 1;
	owed->bytes += estimate->bytes.estimate;
	pair = whole_pair(owed);
	if (pair.blocks == 0)
		return pair;
	f = tool_factor((double)pair.blocks, (double)pair.bytes);
	owed->blocks -= (double)pair.blocks * f;
	owed->bytes -= (double)pair.bytes * f;
	return pair;
}

static void print_pairs(struct out *o, const struct pair *live, const struct pair *allocated)
{
	out_unsigned(o, live->blocks);
	out_text(o, ": ");
	out_unsigned(o, live->bytes);
	out_text(o, " [");
	out_unsigned(o, allocated->blocks);
	out_text(o, ": ");
	out_unsigned(o, allocated->bytes);
	out_text(o, "] @");
}

/* Marks and stacks without code have no address. */
static void print_addresses(struct export_job *j, const uint32_t *path, size_t length)
{
	bool first = true;

	for (size_t i = 0; i < length; i++) {
		const struct mayfly_frame *frame = mayfly_trace_frame(j->trace, path[i]);

		if (!frame || frame->kind != MAYFLY_FRAME_CODE)
			continue;
		out_format(&j->out, " 0x%" PRIx64, export_address(j->trace, frame) + !first);
		first = false;
	}
	/* A line without any address would be skipped. */
	out_text(&j->out, first ? " 0x0\n" : "\n");
}

/* Prints a line for each stack, or adds up what the lines have. */
static void heap_v2_print_stacks(struct export_job *j, struct pair total[2], bool print)
{
	bool counts = export_knows(j->trace, MAYFLY_ABSENT_BLOCKS);
	struct owed live = {0}, allocated = {0};
	struct stack_sum sum;

	stack_sums_rewind(&j->sums);
	while (!j->out.error && stack_sums_next(&j->sums, &sum)) {
		struct pair lives = heap_v2_give(counts, &live, sum.of[!j->allocated]);
		struct pair all = heap_v2_give(counts, &allocated, sum.of[j->allocated]);
		const uint32_t *path;
		size_t length;

		total[0].blocks += lives.blocks;
		total[0].bytes += lives.bytes;
		total[1].blocks += all.blocks;
		total[1].bytes += all.bytes;
		if (!print || (!lives.blocks && !all.blocks))
			continue;
		length = export_path(j, sum.node, &path);
		print_pairs(&j->out, &lives, &all);
		print_addresses(j, path, length);
	}
}

/* Each module gets a line as in /proc/PID/maps. */
static void print_modules(struct export_job *j)
{
	out_text(&j->out, "\nMAPPED_LIBRARIES:\n");
	for (size_t i = 0; i < j->info->modules; i++) {
		const struct mayfly_module *m = mayfly_trace_module(j->trace, i);

		out_format(&j->out, "%08" PRIx64 "-%08" PRIx64 " r-xp 00000000 00:00 0 ", m->start,
			   m->end);
		for (const char *c = m->path; *c; c++)
			out_char(&j->out, (unsigned char)*c < ' ' || *c == 0x7f ? '?' : *c);
		out_char(&j->out, '\n');
	}
}

void export_heap_v2(struct export_job *j)
{
	struct pair total[2] = {0};

	export_sums(j, true);
	export_stacks(j);
	/* The header has the sums of all lines, as in the tools' own files. */
	heap_v2_print_stacks(j, total, false);
	out_text(&j->out, "heap profile: ");
	print_pairs(&j->out, &total[0], &total[1]);
	out_text(&j->out, " heap_v2/1\n");
	heap_v2_print_stacks(j, total, true);
	print_modules(j);
}
