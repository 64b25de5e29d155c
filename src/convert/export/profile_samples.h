/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the profiles of pprof and OTLP are made of: stacks with whole numbers, of what was allocated
 * and of what is live.
 *
 *	stack of a node	{request=page}	 alloc: blocks, bytes	 inuse: blocks, bytes
 *			{request=search} ...
 *
 * A stack whose blocks have different labels has several samples. The sums are the report's.
 */
#ifndef MAYFLY_PROFILE_SAMPLES_H
#define MAYFLY_PROFILE_SAMPLES_H

#include "convert/export/exports.h"
#include "convert/export/label_sums.h"

struct profile_samples {
	const struct mayfly_trace *trace;
	const struct mayfly_info *info;
	struct mayfly_query query[STACK_COLUMNS]; /* the user's, and the other one */
	struct shown_stacks stacks;
	struct stack_sums sums;
	struct label_sums labels;
	int allocated; /* column of the sums; the other column is what is live */
	bool counts;   /* numbers of blocks are known */
	struct rounding rounding[2 * STACK_COLUMNS];
};

struct profile_sample {
	const uint32_t *path; /* as of shown_path() */
	size_t length;
	uint32_t set; /* of labels */
	uint64_t blocks[STACK_COLUMNS], bytes[STACK_COLUMNS];
};

/* 0 or a negative enum mayfly_error; call profile_samples_end() in both cases. */
int profile_samples_begin(struct profile_samples *p, const struct mayfly_trace *trace,
			  const struct export_options *options);
void profile_samples_end(struct profile_samples *p);

/* "alloc", "inuse", "leaked" or "temporary": tools know the first two with "_objects" or "_space". */
const char *profile_column_name(const struct profile_samples *p, int column);

/* Each sample that is not all zero: 0 or an error of take(), which ends it. Once. */
typedef int profile_take(void *context, const struct profile_sample *sample);
int profile_samples_run(struct profile_samples *p, profile_take *take, void *context);

/* Whether the sums are estimates whose standard errors are known. */
bool profile_is_estimate(const struct profile_samples *p);

#endif
