/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How often is what mayfly prints right? Many runs of programs of known behaviour:
 *
 *	bench_coverage [--runs N] [--interval LOG2]... [--scenario NAME]... [--metric NAME]...
 *		       [--by NAME]... [--poisson | --ocaml] [--seed N] [--lowest N]
 *		       [--pairs | --check] [--json]
 *	bench_coverage --scenario NAME --interval LOG2 --write FILE
 *	bench_coverage --scenario NAME --interval LOG2 [--json] TRACE...
 *
 * The second form writes what bench_replay does, with the real malloc and the real agent; the third
 * examines recordings of that.
 *
 *	coverage_scenarios.c	a stream of allocations and frees   ----> the truth --+
 *	coverage_trace.c	the agent's sampler -> a trace                        |
 *	coverage_score.c	   -> mayfly_query_run(): intervals     <-------------+
 *	coverage_pairs.c	   -> trace_diff_run(), limit_judge(): verdicts on two runs
 *	coverage_print.c	tables, JSON
 *
 * The same seed gives the same output.
 */
#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "coverage_pairs.h"
#include "coverage_print.h"
#include "coverage_replay.h"

#define MOST 32 /* intervals */

static struct options {
	struct coverage_plan plan;
	uint32_t interval[MOST];
	size_t intervals;
	uint32_t scenarios; /* a bit each */
	bool pairs, check, json;
	const char *write;
	unsigned lowest;
} options = {.lowest = 20, .plan = {.runs = 200, .seed = 1}};

/* ---- text ---- */

static void interval_text(uint32_t log2, char *text, size_t size)
{
	if (log2 >= 20)
		snprintf(text, size, "%u MiB", 1u << (log2 - 20));
	else if (log2 >= 10)
		snprintf(text, size, "%u KiB", 1u << (log2 - 10));
	else
		snprintf(text, size, "%u B", 1u << log2);
}

static void print_heading(uint32_t log2, const char *what)
{
	static const char *const samplers[] = {"stratified", "poisson", "ocaml"};
	char interval[32];

	interval_text(log2, interval, sizeof(interval));
	printf("\n== %s, interval %s, %u %s, %s\n", what, interval, options.plan.runs,
	       options.pairs || options.check ? "pairs" : "runs", samplers[options.plan.sampler]);
}

/* ---- JSON ---- */

static void json_pairs(const struct coverage_pairs *pairs)
{
	printf("\"diff\": [");
	for (unsigned m = 0; m < COVERAGE_DIFFS; m++)
		printf("%s{\"metric\": \"%s\", \"pairs\": %u, \"functions\": %u, \"stacks\": %u, "
		       "\"total\": %u, \"grown\": %u, \"found\": %u}",
		       m ? ", " : "", coverage_metric_names[coverage_diffs[m]], pairs[m].pairs,
		       pairs[m].functions, pairs[m].stacks, pairs[m].total, pairs[m].grown,
		       pairs[m].found);
	printf("]");
}

typedef struct coverage_verdicts verdict_table[COVERAGE_CHECKS][COVERAGE_INCREASES];

static void json_verdicts(verdict_table v)
{
	printf("\"check\": [");
	for (unsigned m = 0; m < COVERAGE_CHECKS; m++)
		for (unsigned i = 0; i < COVERAGE_INCREASES; i++)
			printf("%s{\"metric\": \"%s\", \"increase\": %g, \"pairs\": %u, "
			       "\"failed\": %u, \"above\": %u, \"surely\": %u}",
			       m || i ? ", " : "", coverage_metric_names[coverage_checks[m]],
			       coverage_increases[i], v[m][i].pairs, v[m][i].failed, v[m][i].above,
			       v[m][i].surely);
	printf("]");
}

/* ---- the three modes ---- */

static bool chosen(size_t scenario)
{
	return options.scenarios >> scenario & 1;
}

static void json_begin(size_t scenario, uint32_t log2)
{
	static bool more;

	printf("%s\n {\"scenario\": \"%s\", \"what\": \"%s\", \"interval_log2\": %u, ",
	       more ? "," : "", coverage_scenarios[scenario].name,
	       coverage_scenarios[scenario].what, log2);
	more = true;
}

static void cover(uint32_t log2)
{
	static struct coverage_sheet each[COVERAGE_MOST], all;

	memset(each, 0, sizeof(each));
	memset(&all, 0, sizeof(all));
	for (size_t i = 0; i < coverage_scenario_count; i++) {
		struct coverage_stream *s;

		if (!chosen(i))
			continue;
		s = coverage_make(&coverage_scenarios[i], 1ull << log2);
		coverage_measure(s, &options.plan, &each[i]);
		coverage_add(&all, &each[i]);
		coverage_free(s);
		if (options.json) {
			json_begin(i, log2);
			coverage_json(&each[i]);
			printf("}");
			fflush(stdout);
		}
	}
	if (options.json)
		return;
	print_heading(log2, "coverage in %");
	coverage_print(&all, each, options.lowest);
}

static void print_pairs(const char *name, const struct coverage_pairs *pairs)
{
	printf("%-12s", name);
	for (unsigned m = 0; m < COVERAGE_DIFFS; m++)
		printf("  %5.1f %5.1f %5.1f %5.1f",
		       coverage_percent(pairs[m].functions, pairs[m].pairs),
		       coverage_percent(pairs[m].stacks, pairs[m].pairs),
		       coverage_percent(pairs[m].total, pairs[m].pairs),
		       coverage_percent(pairs[m].found, pairs[m].grown));
	printf("\n");
}

static void compare(uint32_t log2)
{
	struct coverage_pairs all[COVERAGE_DIFFS] = {{0}};

	if (!options.json) {
		print_heading(log2, "diff: % of pairs with a false alarm (any function, any stack,"
				    " the total), and with +30 % found");
		printf("%-12s", "");
		for (unsigned m = 0; m < COVERAGE_DIFFS; m++)
			printf("  %-23s", coverage_metric_names[coverage_diffs[m]]);
		printf("\n%-12s", "scenario");
		for (unsigned m = 0; m < COVERAGE_DIFFS; m++)
			printf("  %5s %5s %5s %5s", "func", "stack", "total", "found");
		printf("\n");
	}
	for (size_t i = 0; i < coverage_scenario_count; i++) {
		struct coverage_pairs pairs[COVERAGE_DIFFS] = {{0}};
		struct coverage_stream *s;

		if (!chosen(i))
			continue;
		s = coverage_make(&coverage_scenarios[i], 1ull << log2);
		coverage_compare(s, &options.plan, pairs);
		coverage_free(s);
		for (unsigned m = 0; m < COVERAGE_DIFFS; m++) {
			all[m].pairs += pairs[m].pairs;
			all[m].functions += pairs[m].functions;
			all[m].stacks += pairs[m].stacks;
			all[m].total += pairs[m].total;
			all[m].grown += pairs[m].grown;
			all[m].found += pairs[m].found;
		}
		if (options.json) {
			json_begin(i, log2);
			json_pairs(pairs);
			printf("}");
		} else {
			print_pairs(coverage_scenarios[i].name, pairs);
		}
	}
	if (!options.json)
		print_pairs("all", all);
}

static void print_verdicts(const char *name, verdict_table v)
{
	printf("%-12s", name);
	for (unsigned m = 0; m < COVERAGE_CHECKS; m++)
		for (unsigned i = 0; i < COVERAGE_INCREASES; i++)
			printf("  %5.1f %5.1f %5.1f",
			       coverage_percent(v[m][i].failed, v[m][i].pairs),
			       coverage_percent(v[m][i].above, v[m][i].pairs),
			       coverage_percent(v[m][i].surely, v[m][i].pairs));
	printf("\n");
}

static void check(uint32_t log2)
{
	verdict_table all = {{{0}}};

	if (!options.json) {
		print_heading(log2, "check --max-increase: % of unchanged pairs that fail by"
				    " default, are above by the estimate, and surely are");
		printf("%-12s", "");
		for (unsigned m = 0; m < COVERAGE_CHECKS; m++)
			for (unsigned i = 0; i < COVERAGE_INCREASES; i++)
				printf("  %-12s +%.0f%%", coverage_metric_names[coverage_checks[m]],
				       100 * coverage_increases[i]);
		printf("\n%-12s", "scenario");
		for (unsigned m = 0; m < COVERAGE_CHECKS * COVERAGE_INCREASES; m++)
			printf("  %5s %5s %5s", "fails", "above", "sure");
		printf("\n");
	}
	for (size_t n = 0; n < coverage_scenario_count; n++) {
		verdict_table v = {{{0}}};
		struct coverage_stream *s;

		if (!chosen(n))
			continue;
		s = coverage_make(&coverage_scenarios[n], 1ull << log2);
		coverage_check(s, &options.plan, v);
		coverage_free(s);
		for (unsigned m = 0; m < COVERAGE_CHECKS; m++)
			for (unsigned i = 0; i < COVERAGE_INCREASES; i++) {
				all[m][i].pairs += v[m][i].pairs;
				all[m][i].failed += v[m][i].failed;
				all[m][i].above += v[m][i].above;
				all[m][i].surely += v[m][i].surely;
			}
		if (options.json) {
			json_begin(n, log2);
			json_verdicts(v);
			printf("}");
		} else {
			print_verdicts(coverage_scenarios[n].name, v);
		}
	}
	if (!options.json)
		print_verdicts("all", all);
}

/* ---- recordings ---- */

static bool put(FILE *file, const void *items, size_t size, size_t count)
{
	return fwrite(items, size, count, file) == count;
}

static int write_stream(const struct coverage_scenario *scenario, uint32_t log2, const char *path)
{
	struct coverage_stream *s = coverage_make(scenario, 1ull << log2);
	const struct replay_head head = {REPLAY_MAGIC, s->blocks, s->stacks, s->events};
	FILE *file = fopen(path, "wbe");
	bool done = file && s->functions <= REPLAY_FUNCTIONS && s->groups <= REPLAY_GROUPS &&
		    put(file, &head, sizeof(head), 1) &&
		    put(file, s->block, sizeof(*s->block), s->blocks) &&
		    put(file, s->stack, sizeof(*s->stack), s->stacks) &&
		    put(file, s->event, sizeof(*s->event), s->events);

	if (file && fclose(file) != 0)
		done = false;
	if (!done)
		fprintf(stderr, "bench_coverage: %s cannot be written to %s\n", s->name, path);
	coverage_free(s);
	return done ? 0 : 1;
}

/* What recordings can be asked: their times are real, their lines and stacks are replay.c's. */
static void plan_recordings(int count, char **files)
{
	options.plan.files = files;
	options.plan.runs = (unsigned)count;
	options.plan.metrics &=
	    ~(1u << COVERAGE_MIDDLE | 1u << COVERAGE_SURVIVED | 1u << COVERAGE_STATED);
	options.plan.bys &= 1u << COVERAGE_FUNCTION | 1u << COVERAGE_TOTAL | 1u << COVERAGE_SIZE |
			    1u << COVERAGE_HEAP;
}

/* ---- options ---- */

static void refuse(const char *what, const char *text)
{
	fprintf(stderr, "bench_coverage: %s '%s'\n", what, text);
	exit(2);
}

static uint32_t named(const char *const *names, size_t count, const char *text)
{
	for (size_t i = 0; i < count; i++)
		if (strcmp(names[i], text) == 0)
			return 1u << i;
	refuse("unknown name", text);
	return 0;
}

static uint32_t scenario_named(const char *text)
{
	for (size_t i = 0; i < coverage_scenario_count; i++)
		if (strcmp(coverage_scenarios[i].name, text) == 0)
			return 1u << i;
	for (size_t i = 0; i < coverage_scenario_count; i++)
		fprintf(stderr, "  %-12s %s\n", coverage_scenarios[i].name,
			coverage_scenarios[i].what);
	refuse("these are the scenarios, and there is no", text);
	return 0;
}

static uint64_t number(const char *text, uint64_t least, uint64_t most)
{
	char *end;
	uint64_t value = strtoull(text, &end, 10);

	if (end == text || *end || value < least || value > most)
		refuse("not in range:", text);
	return value;
}

static void add_interval(const char *text)
{
	if (options.intervals == MOST)
		refuse("too many intervals:", text);
	options.interval[options.intervals++] = (uint32_t)number(text, 1, 30);
}

static void parse(int argc, char **argv)
{
	static const struct option known[] = {
	    {"runs", 1, NULL, 'n'},   {"interval", 1, NULL, 'i'}, {"scenario", 1, NULL, 's'},
	    {"metric", 1, NULL, 'm'}, {"by", 1, NULL, 'b'},	  {"poisson", 0, NULL, 'p'},
	    {"ocaml", 0, NULL, 'o'},  {"write", 1, NULL, 'w'},	  {"lowest", 1, NULL, 'l'},
	    {"seed", 1, NULL, 'r'},   {"pairs", 0, NULL, 'd'},	  {"check", 0, NULL, 'c'},
	    {"json", 0, NULL, 'j'},   {NULL, 0, NULL, 0}};
	int option;

	while ((option = getopt_long(argc, argv, "", known, NULL)) != -1) {
		switch (option) {
		case 'n':
			options.plan.runs = (unsigned)number(optarg, 2, 1000000);
			break;
		case 'i':
			add_interval(optarg);
			break;
		case 's':
			options.scenarios |= scenario_named(optarg);
			break;
		case 'm':
			options.plan.metrics |=
			    named(coverage_metric_names, COVERAGE_METRICS, optarg);
			break;
		case 'b':
			options.plan.bys |= named(coverage_by_names, COVERAGE_BYS, optarg);
			break;
		case 'p':
			options.plan.sampler = MAYFLY_POISSON;
			break;
		case 'o':
			options.plan.sampler = ESTIMATE_WORDS;
			break;
		case 'r':
			options.plan.seed = number(optarg, 0, UINT32_MAX);
			break;
		case 'd':
			options.pairs = true;
			break;
		case 'c':
			options.check = true;
			break;
		case 'l':
			options.lowest = (unsigned)number(optarg, 0, 100000);
			break;
		case 'w':
			options.write = optarg;
			break;
		case 'j':
			options.json = true;
			break;
		default:
			exit(2);
		}
	}
}

static size_t only_scenario(void)
{
	if (__builtin_popcount(options.scenarios) != 1 || options.intervals != 1) {
		fputs("bench_coverage: one --scenario and one --interval is needed\n", stderr);
		exit(2);
	}
	return (size_t)__builtin_ctz(options.scenarios);
}

int main(int argc, char **argv)
{
	static const uint32_t usual[] = {12, 14, 16, 19};
	uint32_t usual_scenarios = 0;

	parse(argc, argv);
	if (!options.plan.metrics)
		options.plan.metrics = UINT32_MAX;
	if (!options.plan.bys)
		options.plan.bys = UINT32_MAX;
	if (options.write)
		return write_stream(&coverage_scenarios[only_scenario()], options.interval[0],
				    options.write);
	if (optind < argc) {
		only_scenario();
		plan_recordings(argc - optind, argv + optind);
	}
	for (size_t i = 0; !options.scenarios && i < coverage_scenario_count; i++)
		usual_scenarios |= (uint32_t)!coverage_scenarios[i].on_demand << i;
	if (!options.scenarios)
		options.scenarios = usual_scenarios;
	if (!options.intervals) {
		memcpy(options.interval, usual, sizeof(usual));
		options.intervals = sizeof(usual) / sizeof(*usual);
	}
	if (options.json)
		printf("{\"runs\": %u, \"results\": [", options.plan.runs);
	for (size_t i = 0; i < options.intervals; i++) {
		options.plan.interval_log2 = options.interval[i];
		if (options.pairs)
			compare(options.interval[i]);
		else if (options.check)
			check(options.interval[i]);
		else
			cover(options.interval[i]);
		fflush(stdout);
	}
	if (options.json)
		printf("\n]}\n");
	return 0;
}
