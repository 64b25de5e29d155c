/* SPDX-License-Identifier: Apache-2.0 */
/* The samples of profiles: see profile_samples.h. */
#include "convert/export/profile_samples.h"

void profile_samples_begin(struct profile_samples *p, struct export_job *j)
{
	const struct mayfly_query *const questions[STACK_COLUMNS] = {&j->asked[0], &j->asked[1]};

	*p = (struct profile_samples){.job = j,
				      .counts = export_knows(j->trace, MAYFLY_ABSENT_BLOCKS)};
	export_sums(j, true);
	export_stacks(j);
	if (!j->out.error && j->info->label_sets > 1 && !j->info->snapshot_ns)
		out_fail(&j->out, label_sums_begin(&p->labels, j->trace, questions, &j->sums));
}

void profile_samples_end(struct profile_samples *p)
{
	label_sums_end(&p->labels);
}

const char *profile_column_name(const struct profile_samples *p, int column)
{
	enum mayfly_metric metric = p->job->asked[column].metric;

	return metric == MAYFLY_ALLOCATED   ? "alloc"
	       : metric == MAYFLY_LEAKED    ? "leaked"
	       : metric == MAYFLY_TEMPORARY ? "temporary"
					    : "inuse";
}

/* ---- samples ---- */

/* A sample's share of the sums of a stack. */
struct profile_share {
	double bytes, blocks;
};

/* The totals of all sets of a stack. */
static void add_weights(struct label_weights total[STACK_COLUMNS], const struct label_sum *sum,
			size_t count)
{
	for (size_t i = 0; i < count; i++)
		for (int column = 0; column < STACK_COLUMNS; column++) {
			total[column].bytes += sum[i].of[column].bytes;
			total[column].blocks += sum[i].of[column].blocks;
		}
}

/* False: they are all 0. */
static bool take_values(struct profile_samples *p, const struct stack_sum *sum,
			const struct profile_share share[STACK_COLUMNS],
			struct profile_sample *sample)
{
	uint64_t any = 0;

	for (int i = 0; i < STACK_COLUMNS; i++) {
		if (!p->job->sums.of[i])
			continue;
		sample->blocks[i] = rounding_next(&p->rounding[2 * i],
						  sum->of[i]->blocks.estimate * share[i].blocks);
		sample->bytes[i] = rounding_next(&p->rounding[2 * i + 1],
						 sum->of[i]->bytes.estimate * share[i].bytes);
		any |= sample->blocks[i] | sample->bytes[i];
	}
	return any != 0;
}

/* A sample for each set of labels. A column without blocks has no shares: the first sample gets its
 * whole sum. */
static void take_stack(struct profile_samples *p, const struct stack_sum *sum, profile_take *take,
		       void *context)
{
	struct label_weights total[STACK_COLUMNS] = {0};
	struct profile_share share[STACK_COLUMNS];
	struct profile_sample sample = {.node = sum->node};
	size_t count;
	const struct label_sum *of = label_sums_of(&p->labels, sum->node, &count);

	sample.length = export_path(p->job, sum->node, &sample.path);
	add_weights(total, of, count);
	for (size_t i = 0; !p->job->out.error && i < (count ? count : 1); i++) {
		for (int k = 0; k < STACK_COLUMNS; k++) {
			double alone = i == 0;

			share[k].bytes =
			    total[k].bytes > 0 ? of[i].of[k].bytes / total[k].bytes : alone;
			share[k].blocks =
			    total[k].blocks > 0 ? of[i].of[k].blocks / total[k].blocks : alone;
		}
		sample.set = count ? of[i].set : 0;
		if (take_values(p, sum, share, &sample))
			take(context, &sample);
	}
}

void profile_samples_run(struct profile_samples *p, profile_take *take, void *context)
{
	struct stack_sum sum;

	while (!p->job->out.error && stack_sums_next(&p->job->sums, &sum))
		take_stack(p, &sum, take, context);
}

/* ---- facts ---- */

bool profile_is_estimate(const struct profile_samples *p)
{
	return (p->job->info->mode != MAYFLY_EXACT || p->job->info->thinned) &&
	       export_knows(p->job->trace, MAYFLY_ABSENT_ERRORS);
}
