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
	struct export_job *job; /* has the stacks, and the sums of two questions */
	struct label_sums labels;
	bool counts; /* numbers of blocks are known */
	struct rounding rounding[2 * STACK_COLUMNS];
};

struct profile_sample {
	const uint32_t *path; /* as of shown_path() */
	size_t length;
	uint32_t node, set; /* of the stack; of labels */
	uint64_t blocks[STACK_COLUMNS], bytes[STACK_COLUMNS];
};

void profile_samples_begin(struct profile_samples *p, struct export_job *job);
void profile_samples_end(struct profile_samples *p);

/* "alloc", "inuse", "leaked" or "temporary": tools know the first two with "_objects" or "_space". */
const char *profile_column_name(const struct profile_samples *p, int column);

/* Each sample that is not all zero. Once. */
typedef void profile_take(void *context, const struct profile_sample *sample);
void profile_samples_run(struct profile_samples *p, profile_take *take, void *context);

/* Whether the sums are estimates whose standard errors are known. */
bool profile_is_estimate(const struct profile_samples *p);

#endif
