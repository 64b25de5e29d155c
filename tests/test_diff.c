/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Are changes between two traces called what they are? Programs that allocate the same go through
 * the sampler hundreds of times, as do programs of which some sites allocate twice as much; and
 * rows of rebuilt programs must find each other.
 */
#include "agent/sampler.h"
#include "history.h"
#include "test.h"
#include "query/diff_hosts.h"
#include "query/student.h"
#include "query/estimate.h"

#include <math.h>

/* ---- one comparison ---- */

static struct mayfly_figure of(double estimate, double certain, double weight)
{
	double sampled = estimate - certain;

	return (struct mayfly_figure){
	    .estimate = estimate,
	    .certain = certain,
	    .stderror = sqrt(sampled * weight),
	    .low = certain + fmax(0, sampled - 2 * sqrt(sampled * weight)),
	    .high = estimate + 2 * sqrt(sampled * weight) + 3 * weight,
	};
}

static const struct diff_per one = {1, 1};

static void test_compare(void)
{
	struct mayfly_figure a = of(100, 100, 0), b = of(130, 130, 0);
	struct diff_figure d;

	a.high = a.low = 100;
	b.high = b.low = 130;
	/* Exact: any change is one. */
	d = diff_compare(&a, 1, &b, 1, one);
	CHECK(d.verdict == DIFF_REAL && d.change == 30 && d.low == 30 && d.high == 30 && d.p == 0);
	d = diff_compare(&a, 1, &a, 1, one);
	CHECK(d.verdict == DIFF_SAME && d.change == 0 && d.p == 1);
	/* Divided: 100 per 10 and 130 per 13 are the same. */
	d = diff_compare(&a, 1, &b, 1, (struct diff_per){10, 13});
	CHECK(d.verdict == DIFF_SAME && d.before == 10 && d.after == 10);
	/* Equal weights: z is (b - a) / sqrt(a + b) in samples. */
	a = of(40, 0, 1);
	b = of(60, 0, 1);
	d = diff_compare(&a, 40, &b, 60, one);
	CHECK(fabs(d.p - erfc(2 / sqrt(2))) < 1e-12 && d.verdict == DIFF_REAL, "%g", d.p);
	/* Five samples say nothing; six do. */
	a = of(0, 0, 1);
	a.high = 3;
	b = of(5, 0, 1);
	CHECK(diff_compare(&a, 0, &b, 5, one).verdict == DIFF_FEW);
	CHECK(diff_compare(&a, 0, &b, 5, one).p == 1);
	b = of(6, 0, 1);
	CHECK(diff_compare(&a, 0, &b, 6, one).verdict == DIFF_REAL);
	CHECK(fabs(diff_compare(&a, 0, &b, 6, one).p - erfc(sqrt(6) / sqrt(2))) < 1e-12);
	/* Three samples of a coarse interval where the fine one says half of one: Poisson has 1.4 %
	 * for three or more, far more than a normal distribution has. */
	b = of(384, 0, 128);
	a = of(64, 0, 1);
	d = diff_compare(&a, 64, &b, 3, one);
	CHECK(d.p > 0.007 && d.p < 0.04, "%g", d.p);
	a = of(0, 0, 1);
	a.high = 3;
	/* Nothing seen where the interval is coarse is no proof that nothing was there. */
	a.high = 3 * 16;
	b = of(8, 0, 1);
	d = diff_compare(&a, 0, &b, 8, one);
	CHECK(d.verdict == DIFF_NOISE && d.p > 0.3 && d.low < 0, "%g", d.p);
	/* A large block that was recorded exactly is enough by itself. */
	a.high = 3;
	b = of(200, 200, 0);
	b.low = 200;
	b.high = 203;
	CHECK(diff_compare(&a, 0, &b, 1, one).verdict == DIFF_REAL);
	/* Both have it: it says nothing about a change. */
	a = of(220, 200, 1);
	b = of(222, 200, 1);
	d = diff_compare(&a, 21, &b, 23, one);
	CHECK(d.verdict == DIFF_NOISE && d.p > 0.7, "%g", d.p);
	/* The other way round all is the same but the sign. */
	d = diff_compare(&b, 23, &a, 21, one);
	CHECK(d.change == -2 && d.low < -2 && d.high > -2 && d.p > 0.7);
}

/* ---- many seeded pairs ---- */

#define SITES 48
#define RUNS  200

static uint64_t random_state;

static uint64_t random_bits(void)
{
	uint64_t z = random_state += 0x9e3779b97f4a7c15u;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
	z = (z ^ z >> 27) * 0x94d049bb133111ebu;
	return z ^ z >> 31;
}

/* Samples that a site may expect at an interval of 64 KiB: 1 to 60. */
static double expected(int site)
{
	return pow(60, site / (SITES - 1.0));
}

static uint64_t site_size(int site)
{
	static const uint64_t sizes[] = {48, 300, 2000, 16384};

	return sizes[site % 4];
}

/* A program that allocates from its sites in turn, at random; those with doubled[] twice as much.
 */
static void run_program(int sampler, uint32_t interval_log2, const bool *doubled,
			struct mayfly_estimate *e)
{
	struct tally tally[SITES] = {0};
	uint64_t left[SITES], all = 0;
	struct sampler state;

	sampler_init(&state, (uint32_t)sampler, interval_log2, random_bits());
	for (int i = 0; i < SITES; i++) {
		left[i] = (uint64_t)(expected(i) * 65536 * (doubled && doubled[i] ? 2 : 1)) /
			  site_size(i);
		all += left[i];
	}
	while (all) {
		/* A run of blocks from one site, chosen by how many it has left. */
		uint64_t at = random_bits() % all, run = 1 + random_bits() % 16;
		int site = 0;

		while (at >= left[site])
			at -= left[site++];
		for (; run && left[site]; run--, left[site]--, all--) {
			uint64_t size = site_size(site);
			int32_t hits;

			if (size < state.left) {
				state.left -= (uint32_t)size;
				continue;
			}
			hits = sampler_take(&state, size, (uintptr_t)site * 64);
			if (hits != SAMPLER_SKIP)
				tally_add(&tally[site], (enum mayfly_sampler)sampler,
					  1ull << interval_log2, size, (uint32_t)hits);
		}
	}
	for (int i = 0; i < SITES; i++)
		e[i] = tally_estimate(&tally[i], (struct unseen){1ull << interval_log2, 0.5});
}

static double truth(int site)
{
	return (double)((uint64_t)(expected(site) * 65536) / site_size(site) * site_size(site));
}

enum { CLASSES = 3 };
static const char *const class_name[CLASSES] = {"below 10", "10-29", "30+"};

static int class_of(double samples)
{
	return samples >= 30 ? 2 : samples >= 10 ? 1 : 0;
}

struct study {
	double tests[CLASSES], below[CLASSES];	 /* p < .05 although nothing changed */
	double doubled[CLASSES], found[CLASSES]; /* after correction */
	double families, wrong_families;	 /* with anything called significant */
	double called, wrongly_called;		 /* rows, where a third changed */
	double intervals, covered;
};

/* Benjamini and Hochberg by its definition: the largest k with p(k) <= level k / m. */
static double threshold(const double *p, int count)
{
	double best = -1;

	for (int i = 0; i < count; i++) {
		int rank = 0;

		for (int k = 0; k < count; k++)
			rank += p[k] <= p[i];
		if (p[i] <= DIFF_LEVEL * rank / count && p[i] > best)
			best = p[i];
	}
	return best;
}

static void judge(struct study *s, const struct mayfly_estimate *a, const struct mayfly_estimate *b,
		  const bool *doubled)
{
	double p[SITES], level;
	bool any = false;
	int tests = 0;

	for (int i = 0; i < SITES; i++) {
		struct diff_figure d =
		    diff_compare(&a[i].bytes, a[i].samples, &b[i].bytes, b[i].samples, one);
		double change = doubled && doubled[i] ? truth(i) : 0;

		s->intervals++;
		s->covered += d.low <= change && change <= d.high;
		if (d.verdict == DIFF_FEW)
			continue;
		p[tests++] = d.p;
		if (!doubled) {
			s->tests[class_of(expected(i))]++;
			s->below[class_of(expected(i))] += d.p < 0.05;
		}
	}
	level = threshold(p, tests);
	for (int i = 0; i < SITES; i++) {
		struct diff_figure d =
		    diff_compare(&a[i].bytes, a[i].samples, &b[i].bytes, b[i].samples, one);
		bool real = d.verdict != DIFF_FEW && d.p <= level;

		any |= real;
		if (!doubled)
			continue;
		s->called += real;
		s->wrongly_called += real && !doubled[i];
		if (doubled[i]) {
			s->doubled[class_of(expected(i))]++;
			s->found[class_of(expected(i))] += real;
		}
	}
	if (!doubled) {
		s->families++;
		s->wrong_families += any;
	}
}

static void run_study(struct study *s, int sampler, uint32_t first_log2, uint32_t second_log2,
		      uint64_t seed)
{
	struct mayfly_estimate a[SITES], b[SITES], c[SITES];
	bool doubled[SITES];

	random_state = seed;
	for (int i = 0; i < SITES; i++)
		doubled[i] = i % 3 == 0;
	for (int run = 0; run < RUNS; run++) {
		run_program(sampler, first_log2, NULL, a);
		run_program(sampler, second_log2, NULL, b);
		run_program(sampler, second_log2, doubled, c);
		judge(s, a, b, NULL);
		judge(s, a, c, doubled);
	}
}

static void report_study(const struct study *s, const char *name)
{
	for (int i = 0; i < CLASSES; i++)
		printf("# %s, %s samples: p < .05 of no change %.3f, doubling found %.2f\n", name,
		       class_name[i], s->below[i] / s->tests[i], s->found[i] / s->doubled[i]);
	printf("# %s: families with a false row %.3f, false of the rows called %.3f, "
	       "intervals hold the change %.3f\n",
	       name, s->wrong_families / s->families, s->wrongly_called / s->called,
	       s->covered / s->intervals);
}

/* Never more often wrong than promised, whatever is sampled how; three standard errors of room. */
static void check_errors(const struct study *s, const char *name)
{
	for (int i = 0; i < CLASSES; i++)
		CHECK(s->below[i] <= 0.05 * s->tests[i] + 3 * sqrt(0.05 * 0.95 * s->tests[i]),
		      "%s, %s: %g of %g", name, class_name[i], s->below[i], s->tests[i]);
	CHECK(s->wrong_families <= 0.05 * s->families + 3 * sqrt(0.05 * 0.95 * s->families),
	      "%s: %g of %g families", name, s->wrong_families, s->families);
	CHECK(s->wrongly_called <= 0.07 * s->called, "%s: %g of %g", name, s->wrongly_called,
	      s->called);
	CHECK(s->covered >= 0.94 * s->intervals, "%s: %g of %g", name, s->covered, s->intervals);
}

static void test_poisson_pairs(void)
{
	struct study s = {0};

	run_study(&s, SAMPLER_POISSON, 16, 16, 1);
	report_study(&s, "Poisson");
	check_errors(&s, "Poisson");
	/* Uncorrected, theory has .29, .67 and .93 at 3-10, 10-30 and 30 samples or more. */
	CHECK(s.found[1] >= 0.3 * s.doubled[1] && s.found[2] >= 0.8 * s.doubled[2]);
	/* It is no test that never says anything. */
	CHECK(s.below[2] >= 0.02 * s.tests[2], "%g of %g", s.below[2], s.tests[2]);
}

static void test_stratified_pairs(void)
{
	struct study s = {0};

	run_study(&s, SAMPLER_STRATIFIED, 16, 16, 2);
	report_study(&s, "stratified");
	check_errors(&s, "stratified");
	CHECK(s.found[1] >= 0.3 * s.doubled[1] && s.found[2] >= 0.8 * s.doubled[2]);
}

static void test_unequal_pairs(void)
{
	struct study s = {0};

	run_study(&s, SAMPLER_POISSON, 18, 15, 3);
	report_study(&s, "Poisson, 256 KiB and 32 KiB");
	check_errors(&s, "Poisson, 256 KiB and 32 KiB");
}

/* ---- rows of rebuilt programs ---- */

struct call {
	const char *function, *file;
	uint32_t line;
};

#define DEPTH 3

struct known {
	struct call call[DEPTH]; /* leaf first; a NULL function ends it */
	uint64_t size;
};

static struct mayfly_trace *make_trace(const struct known *known, size_t count, uint64_t base,
				       uint8_t build, uint8_t **bytes)
{
	const struct trace_writer_options options = {.mode = MAYFLY_EXACT};
	struct recording_module module = {.build_id = {build}, .build_id_length = 20};
	struct history h = {.r = recording_new()};
	struct mayfly_trace *trace = NULL;
	size_t size;

	module.path = recording_string(h.r, "/bin/rebuilt", 12);
	recording_module(h.r, &module);
	recording_thread(h.r, 1, 0);
	h.r->info.duration_ns = 1000000;
	for (size_t i = 0; i < count; i++) {
		struct history_block b = {.time_ns = (int64_t)i * 1000, .free_ns = INT64_MAX};

		for (int k = DEPTH - 1; k >= 0; k--) {
			const struct call *c = &known[i].call[k];
			struct recording_location l = {.line = c->line};
			uint32_t frame;

			if (!c->function)
				continue;
			l.function = recording_string(h.r, c->function, strlen(c->function));
			l.file = recording_string(h.r, c->file, strlen(c->file));
			frame = recording_frame(h.r, 0, 0, base + i * 100 + (uint64_t)k);
			h.r->frame[frame].first_location = recording_location(h.r, &l);
			h.r->frame[frame].locations = 1;
			b.block.node = recording_node(h.r, b.block.node, frame);
		}
		b.block.size = known[i].size;
		history_add(&h, &b);
	}
	CHECK(history_write(&h, &options, 0, bytes, &size) == 0);
	CHECK(mayfly_trace_open(*bytes, size, &trace) == 0);
	history_free(&h);
	return trace;
}

struct pair {
	uint64_t before, after; /* sizes; 0: no such row */
};

static void check_pairs(const struct known *before, size_t nb, const struct known *after, size_t na,
			enum mayfly_by by, bool same_build, const struct pair *pair, size_t pairs)
{
	uint8_t *bytes[2];
	struct mayfly_trace *a = make_trace(before, nb, 0x1000, 1, &bytes[0]);
	struct mayfly_trace *b = make_trace(after, na, 0x9000, same_build ? 1 : 2, &bytes[1]);
	struct mayfly_query q;
	struct trace_diff *d;

	mayfly_query_defaults(&q);
	q.by = by;
	CHECK(trace_diff_run(a, b, &q, one, &d) == 0);
	CHECK(d->rows == pairs, "%zu rows, not %zu", d->rows, pairs);
	for (size_t i = 0; i < pairs; i++) {
		bool there = false;

		for (size_t k = 0; k < d->rows; k++)
			there |= d->row[k].bytes.before == (double)pair[i].before &&
				 d->row[k].bytes.after == (double)pair[i].after;
		CHECK(there, "no row %llu -> %llu", (unsigned long long)pair[i].before,
		      (unsigned long long)pair[i].after);
	}
	trace_diff_free(d);
	mayfly_trace_close(a);
	mayfly_trace_close(b);
	free(bytes[0]);
	free(bytes[1]);
}

#define COUNT(array) (sizeof(array) / sizeof(*(array)))
#define PAIRS(before, after, by, same, pair)                                                       \
	check_pairs(before, COUNT(before), after, COUNT(after), by, same, pair, COUNT(pair))

/* Ten lines were put in above; a third site is new. */
static void test_moved_lines(void)
{
	static const struct known before[] = {
	    {{{"read", "a.c", 10}}, 100}, {{{"read", "a.c", 20}}, 200}, {{{"main", "m.c", 5}}, 7}};
	static const struct known after[] = {{{{"read", "src/a.c", 20}}, 110},
					     {{{"read", "src/a.c", 30}}, 210},
					     {{{"read", "src/a.c", 95}}, 300},
					     {{{"main", "m.c", 5}}, 8}};
	static const struct pair moved[] = {{100, 110}, {200, 210}, {0, 300}, {7, 8}};
	static const struct pair stayed[] = {{200, 110}, {100, 0}, {0, 210}, {0, 300}, {7, 8}};

	PAIRS(before, after, MAYFLY_BY_LINE, false, moved);
	PAIRS(before, after, MAYFLY_BY_STACK, false, moved);
	/* Lines cannot have moved within one and the same build. */
	PAIRS(before, after, MAYFLY_BY_LINE, true, stayed);
}

/* Lines that are left over go to the nearest. */
static void test_nearest_line(void)
{
	static const struct known before[] = {
	    {{{"f", "a.c", 10}}, 1}, {{{"f", "a.c", 50}}, 2}, {{{"f", "a.c", 90}}, 3}};
	static const struct known after[] = {
	    {{{"f", "a.c", 10}}, 11}, {{{"f", "a.c", 53}}, 12}, {{{"f", "a.c", 88}}, 13}};
	static const struct pair pairs[] = {{1, 11}, {2, 12}, {3, 13}};

	PAIRS(before, after, MAYFLY_BY_LINE, false, pairs);
}

static void test_stacks(void)
{
	static const struct known before[] = {
	    {{{"grow", "v.c", 8}, {"parse", "p.c", 30}, {"main", "m.c", 9}}, 1},
	    {{{"grow", "v.c", 8}, {"parse", "p.c", 40}, {"main", "m.c", 9}}, 2},
	    {{{"grow", "v.c", 8}, {"print", "p.c", 90}, {"main", "m.c", 12}}, 3}};
	static const struct known after[] = {
	    {{{"grow", "v.c", 9}, {"parse", "p.c", 33}, {"main", "m.c", 10}}, 11},
	    {{{"grow", "v.c", 9}, {"parse", "p.c", 43}, {"main", "m.c", 10}}, 12},
	    {{{"grow", "v.c", 9}, {"dump", "p.c", 93}, {"main", "m.c", 13}}, 13}};
	static const struct pair pairs[] = {{1, 11}, {2, 12}, {3, 0}, {0, 13}};

	PAIRS(before, after, MAYFLY_BY_STACK, false, pairs);
}

/* Rows by function have a pair in spite of other files, other clones, other hashes. */
static void test_functions(void)
{
	static const struct known before[] = {{{{"f", "a.c", 10}}, 1},
					      {{{"g.isra.0", "a.c", 1}}, 2},
					      {{{"same", "a.c", 1}}, 3},
					      {{{"same", "b.c", 1}}, 4},
					      {{{"core::f::h0123456789abcdef", "r.rs", 1}}, 5},
					      {{{"gone", "a.c", 1}}, 6}};
	static const struct known after[] = {{{{"f", "moved.c", 99}}, 11},
					     {{{"g.constprop.1", "a.c", 2}}, 12},
					     {{{"same", "b.c", 7}}, 14},
					     {{{"same", "a.c", 7}}, 13},
					     {{{"core::f::hfedcba9876543210", "r.rs", 1}}, 15},
					     {{{"new", "a.c", 1}}, 16}};
	static const struct pair pairs[] = {{1, 11}, {2, 12}, {3 + 4, 13 + 14},
					    {5, 15}, {6, 0},  {0, 16}};

	PAIRS(before, after, MAYFLY_BY_FUNCTION, false, pairs);
}

static void test_sizes(void)
{
	static const struct known before[] = {{{{"f", "a.c", 10}}, 100},
					      {{{"f", "a.c", 10}}, 3000}};
	static const struct known after[] = {{{{"f", "a.c", 10}}, 120}, {{{"f", "a.c", 10}}, 9000}};
	static const struct pair pairs[] = {{100, 120}, {3000, 0}, {0, 9000}};

	PAIRS(before, after, MAYFLY_BY_SIZE, false, pairs);
}

/* ---- hosts ---- */

static void test_student(void)
{
	/* Tables have these. */
	static const struct {
		double t, freedom, chance;
	} known[] = {{12.7062047364, 1, .05},
		     {2.2281388520, 10, .05},
		     {2.0422724563, 30, .05},
		     {4.6040948713, 4, .01},
		     {1.9599639845, 1e9, .05},
		     {1, 1, .5},
		     {0, 5, 1},
		     {3.5, 2.5, .052345547}};

	for (size_t i = 0; i < sizeof(known) / sizeof(*known); i++) {
		double got = student_tail(known[i].t, known[i].freedom);

		CHECK(fabs(got - known[i].chance) < 1e-6, "%g, %g: %.9f", known[i].t,
		      known[i].freedom, got);
		if (known[i].t > 0)
			CHECK(fabs(student_quantile(got, known[i].freedom) - known[i].t) < 1e-6);
	}
	CHECK(student_tail(INFINITY, 3) == 0 && student_tail(-2, 7) == student_tail(2, 7));
}

static double random_normal(void)
{
	double u = ((double)(random_bits() >> 11) + 1) / 0x1p53;
	double v = (double)(random_bits() >> 11) / 0x1p53;

	return sqrt(-2 * log(u)) * cos(2 * M_PI * v);
}

#define HOSTS_MOST 16

/* A side of some hosts with 1 to 4 processes each, which have `mean` each on average. */
struct random_side {
	struct diff_host_group group[HOSTS_MOST];
	struct host_estimate of;
	struct mayfly_figure figure;
	double processes;
};

static void draw_side(struct random_side *s, size_t hosts, double mean)
{
	double sum = 0;

	*s = (struct random_side){0};
	for (size_t i = 0; i < hosts; i++) {
		double processes = 1 + (double)(random_bits() % 4), value = 0;
		double host = mean * exp(0.3 * random_normal() - 0.045);

		for (double k = 0; k < processes; k++)
			value += host * exp(0.2 * random_normal() - 0.02);
		s->group[i].processes = processes;
		s->processes += processes;
		s->of.bytes.sum += value;
		s->of.bytes.squares += value * value;
		s->of.bytes.products += value * processes;
		sum += value;
	}
	s->of.blocks = s->of.bytes;
	/* Many samples: sampling alone would call anything a change. */
	s->figure = of(sum, 0, mean / 1e6);
}

/* How many intervals of 2,000 pairs hold the true change, and how many are significant. */
static void compare_sides(size_t before, size_t after, double factor, double *hold, double *real)
{
	*hold = *real = 0;
	for (int i = 0; i < 2000; i++) {
		struct diff_figure bytes, blocks;
		struct random_side side[2];
		struct host_estimate both[2];
		struct diff_hosts hosts[2];
		struct diff_per per;

		draw_side(&side[0], before, 1000);
		draw_side(&side[1], after, 1000 * factor);
		for (int k = 0; k < 2; k++) {
			both[k] = side[k].of;
			hosts[k] = (struct diff_hosts){side[k].group, k ? after : before};
		}
		per = (struct diff_per){.before = side[0].processes, .after = side[1].processes};
		bytes = diff_compare(&side[0].figure, 1000000, &side[1].figure, 1000000, per);
		blocks = bytes;
		diff_widen(&bytes, &blocks, both, hosts, per);
		CHECK(bytes.p == blocks.p && bytes.stderror == blocks.stderror);
		*hold += bytes.low <= 1000 * (factor - 1) && 1000 * (factor - 1) <= bytes.high;
		*real += bytes.verdict == DIFF_REAL;
	}
	*hold /= 2000;
	*real /= 2000;
}

/* Hosts that differ are not a change of the program. */
static void test_hosts(void)
{
	static const size_t sizes[][2] = {{12, 12}, {16, 4}, {5, 5}, {8, 1}};
	double hold, real;

	for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
		bool alone = sizes[i][1] == 1; /* nothing says how much that host may differ */

		random_state = 100 + i;
		compare_sides(sizes[i][0], sizes[i][1], 1, &hold, &real);
		printf("# %zu and %zu hosts: significant %.3f, intervals hold the change %.3f\n",
		       sizes[i][0], sizes[i][1], real, hold);
		CHECK(alone ? hold > .3 : hold > .90 && hold < .985, "%zu: %g", i, hold);
		/* Four hosts of unequal size show a little less than there is. */
		CHECK(alone || real < (sizes[i][1] < 8 ? .10 : .07), "%zu: %g", i, real);
	}
	/* Two hosts on each side are the fewest that say something. */
	compare_sides(2, 2, 1, &hold, &real);
	CHECK(hold > .95 && real < .05, "%g %g", hold, real);
	compare_sides(12, 12, 2, &hold, &real);
	CHECK(hold > .92 && real > .95, "%g %g", hold, real);
	/* Without a second host on either side, nothing changes. */
	compare_sides(1, 1, 1, &hold, &real);
	CHECK(hold < .1 && real > .9, "%g %g", hold, real);
}

int main(void)
{
	RUN(test_compare);
	RUN(test_poisson_pairs);
	RUN(test_stratified_pairs);
	RUN(test_unequal_pairs);
	RUN(test_moved_lines);
	RUN(test_nearest_line);
	RUN(test_stacks);
	RUN(test_functions);
	RUN(test_sizes);
	RUN(test_student);
	RUN(test_hosts);
	DONE();
}
