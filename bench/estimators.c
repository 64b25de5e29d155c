/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Standard errors of sampling rules on the real sequence of allocations of an exact trace.
 *
 *	bench_estimators TRACE [RUNS] [INTERVAL_LOG2]
 *
 * Prints one JSON object: what the program allocates, and for each rule the standard errors of a
 * list of figures ("domains"): all bytes, those live at the peak, and the top 20 functions and
 * stacks of either. Rules whose variance can be written down are computed; the others are
 * simulated RUNS times each; the output marks them ("simulated") and has a test for bias.
 *
 * All rules are compared at the same expected number of samples, that of per-byte Poisson sampling
 * at the interval. Rules that record blocks of R bytes or more always therefore get an R of their
 * own, found by bisection.
 *
 * A thread's blocks smaller than R are a line of bytes, and all rules but Poisson put points on it,
 * each of which counts R:
 *
 *	end[]	   12      30    38                 99	 last byte + 1 of each block
 *	line  |....x.......|.....|.x................|
 *	bucket[]  0       0       0       1       3	 first block that ends after a multiple of 1 KiB
 */
#include <mayfly/trace.h>

#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define ROWS	    20
#define ROW_SETS    4 /* live and allocated, by function and by stack */
#define DOMAINS	    (2 + ROW_SETS * ROWS)
#define NO_ROW	    255
#define BUCKET_LOG2 10

enum { ALLOCATED, LIVE };

struct block {
	uint64_t size;
	uint32_t node, thread;
	uint64_t from, to; /* number of its allocation event, and of its free or UINT64_MAX */
	bool live;	   /* at the peak */
};

struct program {
	struct mayfly_trace *trace;
	const struct mayfly_info *info;
	struct block *block;
	size_t blocks, capacity;
	uint64_t frees, peak_event;
	double truth[DOMAINS];
	uint8_t *node_row[ROW_SETS];
	uint64_t *node_function; /* a hash of the name of the function that allocates */
	uint32_t *node_caller;	 /* the frame that called the allocator */
	uint32_t *node_depth;
};

struct line {
	uint32_t *block; /* their numbers */
	uint64_t *end;
	size_t blocks, capacity;
	uint64_t length;
	uint32_t *bucket;
};

/* The lines for one R, and what is recorded as it is. */
struct lines {
	struct line *line;
	size_t lines;
	struct line shared; /* all threads' blocks in order of time */
	double interval;
	size_t large;
};

static void *need(void *p)
{
	if (!p) {
		fputs("bench_estimators: out of memory\n", stderr);
		exit(1);
	}
	return p;
}

/* ---- random numbers ---- */

static uint64_t random_state;

static uint64_t draw(void)
{
	uint64_t z = random_state += 0x9e3779b97f4a7c15u;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
	z = (z ^ z >> 27) * 0x94d049bb133111ebu;
	return z ^ z >> 31;
}

static double uniform(void)
{
	return (double)(draw() >> 11) * 0x1p-53;
}

/* ---- reading the program ---- */

static void open_program(struct program *p, const char *path)
{
	int file = open(path, O_RDONLY | O_CLOEXEC);
	struct stat facts;
	void *data;
	int status;

	if (file < 0 || fstat(file, &facts) != 0) {
		perror(path);
		exit(1);
	}
	data = mmap(NULL, (size_t)facts.st_size, PROT_READ, MAP_PRIVATE, file, 0);
	status = data == MAP_FAILED ? MAYFLY_E_MEMORY
				    : mayfly_trace_open(data, (size_t)facts.st_size, &p->trace);
	close(file);
	if (status == 0 && mayfly_trace_info(p->trace)->mode != MAYFLY_EXACT)
		status = MAYFLY_E_ABSENT;
	if (status) {
		fprintf(stderr, "bench_estimators: %s: %s\n", path, mayfly_error_text(status));
		exit(1);
	}
	p->info = mayfly_trace_info(p->trace);
}

static void add_block(struct program *p, const struct mayfly_event *e, uint64_t event)
{
	if (p->blocks == p->capacity) {
		p->capacity = p->capacity ? p->capacity * 2 : 1 << 20;
		p->block = need(realloc(p->block, p->capacity * sizeof(*p->block)));
	}
	p->block[p->blocks++] =
	    (struct block){e->size, e->node, e->alloc_thread, event, UINT64_MAX, false};
}

static void read_blocks(struct program *p)
{
	struct mayfly_cursor *cursor;
	struct mayfly_event e;
	double live = 0, peak = 0;
	uint64_t events = 0;
	int more = mayfly_cursor_open(p->trace, &cursor);

	while (more == 0 && mayfly_cursor_next(cursor, &e) == 1) {
		events++;
		if (e.kind == MAYFLY_ALLOC) {
			add_block(p, &e, events);
			live += (double)e.size;
		} else if (e.sample < p->blocks) {
			p->block[e.sample].to = events;
			live -= (double)e.size;
			p->frees++;
		}
		if (live > peak) {
			peak = live;
			p->peak_event = events;
		}
	}
	mayfly_cursor_close(cursor);
	for (size_t i = 0; i < p->blocks; i++) {
		struct block *b = &p->block[i];

		b->live = b->from <= p->peak_event && b->to > p->peak_event;
		p->truth[ALLOCATED] += (double)b->size;
		if (b->live)
			p->truth[LIVE] += (double)b->size;
	}
}

/* ---- functions and rows ---- */

static uint64_t text_hash(const char *text)
{
	uint64_t h = 0xcbf29ce484222325u;

	for (; *text; text++)
		h = (h ^ (unsigned char)*text) * 0x100000001b3u;
	return h;
}

/* The name belongs to the allocator's interface: the function that calls it is the one to know. */
static bool is_wrapper(const char *name)
{
	return strncmp(name, "operator new", 12) == 0 || strncmp(name, "std::", 5) == 0 ||
	       strncmp(name, "__gnu_cxx::", 11) == 0;
}

/* 0: only wrappers. */
static uint64_t frame_function(const struct mayfly_frame *f)
{
	if (!f || f->kind != MAYFLY_FRAME_CODE)
		return 0;
	for (size_t i = 0; i < f->locations; i++) {
		const char *name = f->location[i].function;

		if (!*name)
			return f->address * 0x9e3779b97f4a7c15u | 1;
		if (!is_wrapper(name))
			return text_hash(name) | 1;
	}
	return f->locations ? 0 : f->address * 0x9e3779b97f4a7c15u | 1;
}

static void read_nodes(struct program *p)
{
	size_t nodes = p->info->nodes;

	p->node_function = need(calloc(nodes + 1, sizeof(*p->node_function)));
	p->node_caller = need(calloc(nodes + 1, sizeof(*p->node_caller)));
	p->node_depth = need(calloc(nodes + 1, sizeof(*p->node_depth)));
	for (size_t i = 1; i < nodes; i++) {
		struct mayfly_node n = mayfly_trace_node(p->trace, i);
		uint64_t own = frame_function(mayfly_trace_frame(p->trace, n.frame));

		p->node_function[i] = own ? own : p->node_function[n.parent];
		p->node_caller[i] = n.frame;
		p->node_depth[i] = p->node_depth[n.parent] + 1;
	}
}

struct sum {
	uint64_t key;
	double bytes;
};

static int by_key(const void *a, const void *b)
{
	const struct sum *x = a, *y = b;

	return (x->key > y->key) - (x->key < y->key);
}

static int by_bytes(const void *a, const void *b)
{
	const struct sum *x = a, *y = b;

	return (x->bytes < y->bytes) - (x->bytes > y->bytes);
}

/* Fills node_row[set]: the top rows by live (or all) bytes, by function (or stack). */
static void choose_rows(struct program *p, int set, bool live, bool by_stack)
{
	size_t nodes = p->info->nodes, sums = 0;
	struct sum *sum = need(calloc(nodes + 1, sizeof(*sum)));
	uint8_t *row = need(malloc(nodes + 1));

	for (size_t i = 0; i < nodes; i++)
		sum[i].key = by_stack ? i : p->node_function[i];
	for (size_t i = 0; i < p->blocks; i++)
		if (!live || p->block[i].live)
			sum[p->block[i].node].bytes += (double)p->block[i].size;
	qsort(sum, nodes, sizeof(*sum), by_key);
	for (size_t i = 0; i < nodes; i++) {
		if (sums && sum[sums - 1].key == sum[i].key)
			sum[sums - 1].bytes += sum[i].bytes;
		else
			sum[sums++] = sum[i];
	}
	qsort(sum, sums, sizeof(*sum), by_bytes);
	memset(row, NO_ROW, nodes + 1);
	for (size_t r = 0; r < ROWS && r < sums && sum[r].bytes >= 0.01 * sum[0].bytes; r++) {
		p->truth[2 + set * ROWS + (int)r] = sum[r].bytes;
		for (size_t i = 0; i < nodes; i++)
			if ((by_stack ? i : p->node_function[i]) == sum[r].key)
				row[i] = (uint8_t)r;
	}
	p->node_row[set] = row;
	free(sum);
}

/* Adds a weight to all domains of a block. */
static void count(const struct program *p, const struct block *b, double weight, double *domain)
{
	domain[ALLOCATED] += weight;
	if (b->live)
		domain[LIVE] += weight;
	for (int set = 0; set < ROW_SETS; set++) {
		uint8_t row = p->node_row[set][b->node];

		if (row != NO_ROW && (b->live || set % 2))
			domain[2 + set * ROWS + row] += weight;
	}
}

/* ---- lines ---- */

static void append(struct line *l, uint32_t block, uint64_t size)
{
	if (l->blocks == l->capacity) {
		l->capacity = l->capacity ? l->capacity * 2 : 4096;
		l->block = need(realloc(l->block, l->capacity * sizeof(*l->block)));
		l->end = need(realloc(l->end, l->capacity * sizeof(*l->end)));
	}
	l->length += size;
	l->block[l->blocks] = block;
	l->end[l->blocks++] = l->length;
}

static void fill_buckets(struct line *l)
{
	size_t buckets = (size_t)(l->length >> BUCKET_LOG2) + 1, block = 0;

	l->bucket = need(malloc(buckets * sizeof(*l->bucket)));
	for (size_t i = 0; i < buckets; i++) {
		while (block < l->blocks && l->end[block] <= (uint64_t)i << BUCKET_LOG2)
			block++;
		l->bucket[i] = (uint32_t)block;
	}
}

static struct lines make_lines(const struct program *p, double interval)
{
	struct lines s = {.interval = interval, .lines = p->info->threads + 1};

	s.line = need(calloc(s.lines, sizeof(*s.line)));
	for (size_t i = 0; i < p->blocks; i++) {
		const struct block *b = &p->block[i];

		if ((double)b->size >= interval) {
			s.large++;
		} else if (b->size) {
			append(&s.line[b->thread < s.lines ? b->thread : s.lines - 1], (uint32_t)i,
			       b->size);
			append(&s.shared, (uint32_t)i, b->size);
		}
	}
	for (size_t i = 0; i < s.lines; i++)
		fill_buckets(&s.line[i]);
	fill_buckets(&s.shared);
	return s;
}

static void free_line(struct line *l)
{
	free(l->block);
	free(l->end);
	free(l->bucket);
}

static void free_lines(struct lines *s)
{
	for (size_t i = 0; i < s->lines; i++)
		free_line(&s->line[i]);
	free_line(&s->shared);
	free(s->line);
}

static size_t index_at(const struct line *l, uint64_t position)
{
	size_t i = l->bucket[position >> BUCKET_LOG2];

	while (l->end[i] <= position)
		i++;
	return i;
}

/* ---- rules that put points on a line ---- */

/* What a rule knows: the line, R, and where its hits are counted. */
struct walk {
	const struct program *p;
	const struct line *l;
	double interval;
	double *domain;
	double *samples;
	size_t last; /* block that was hit last, not to count it as a second sample */
	int variant, group, classes;
};

static void hit(struct walk *w, size_t index)
{
	count(w->p, &w->p->block[w->l->block[index]], w->interval, w->domain);
	*w->samples += index != w->last;
	w->last = index;
}

/* The point of stratum s at the share u of it, unless it is behind the end. */
static void put_point(struct walk *w, uint64_t s, double u)
{
	uint64_t position = (uint64_t)(((double)s + u) * w->interval);

	if (position < w->l->length)
		hit(w, index_at(w->l, position));
}

static uint64_t strata(const struct walk *w)
{
	return (uint64_t)((double)w->l->length / w->interval) + 1;
}

static void rule_stratified(struct walk *w)
{
	for (uint64_t s = 0; s < strata(w); s++)
		put_point(w, s, uniform());
}

static void rule_stride(struct walk *w)
{
	double u = uniform();

	for (uint64_t s = 0; s < strata(w); s++)
		put_point(w, s, u);
}

/* Pairs of strata share a draw: u and 1 - u. */
static void rule_antithetic(struct walk *w)
{
	double u = 0;

	for (uint64_t s = 0; s < strata(w); s++) {
		u = s % 2 ? 1 - u : uniform();
		put_point(w, s, u >= 1 ? 0 : u);
	}
}

/* The places of `group` strata in a row are one in each group-th part, in random order. */
static void rule_latin(struct walk *w)
{
	int order[64], n = w->group;

	for (uint64_t s = 0; s < strata(w); s++) {
		int at = (int)(s % (uint64_t)n);

		for (int i = 0; at == 0 && i < n; i++) {
			int other = (int)(uniform() * (i + 1));

			order[i] = order[other];
			order[other] = i;
		}
		put_point(w, s, (order[at] + uniform()) / n);
	}
}

/* Golden ratio with a random shift, which is new after `group` strata (0: never). */
static void rule_golden(struct walk *w)
{
	double u = uniform();

	for (uint64_t s = 0; s < strata(w); s++) {
		if (w->group && s % (uint64_t)w->group == 0)
			u = uniform();
		put_point(w, s, u);
		u += 0.6180339887498949;
		u -= floor(u);
	}
}

/* Van der Corput's sequence with a random shift, new after 16 strata. */
static void rule_corput(struct walk *w)
{
	double shift = 0;

	for (uint64_t s = 0; s < strata(w); s++) {
		double u = 0, step = 0.5;

		if (s % 16 == 0)
			shift = uniform();
		for (uint64_t bits = s % 16; bits; bits >>= 1, step /= 2)
			u += bits & 1 ? step : 0;
		u += shift;
		put_point(w, s, u - floor(u));
	}
}

/*
 * Two phases. First stratified at R / group; then each point belongs to a class of what the slow
 * path sees for nothing, and one of `group` points of a class is taken, at random. With classes by
 * caller and size, groups of 16, and 256 classes, it is the rule of src/agent/sampler.c for R of 64 KiB or more.
 */
enum class_kind { BY_NOTHING, BY_SIZE, BY_CALLER, BY_CALLER_SIZE, BY_CALLER_SIZE_DEPTH, BY_STACK };

#define MOST_CLASSES 256

static uint32_t class_of(const struct walk *w, const struct block *b)
{
	uint64_t caller = w->p->node_caller[b->node], size = b->size;
	uint64_t depth = w->p->node_depth[b->node], h;

	/* Size classes of a quarter of a power of two, as allocators have them. */
	if (size > 8) {
		unsigned int shift = 61 - (unsigned int)__builtin_clzll(size);

		size = (uint64_t)(shift + 1) << 3 | size >> shift;
	}
	switch (w->variant) {
	case BY_NOTHING:
		return 0;
	case BY_SIZE:
		h = size;
		break;
	case BY_CALLER:
		h = caller;
		break;
	case BY_CALLER_SIZE:
		h = caller << 16 ^ size;
		break;
	case BY_CALLER_SIZE_DEPTH:
		h = caller << 32 ^ size << 20 ^ depth;
		break;
	default:
		h = b->node;
	}
	h = (h ^ h >> 32) * 0xd6e8feb86659fd93u;
	return (uint32_t)(h >> 40) % (uint32_t)w->classes;
}

static void rule_classes(struct walk *w)
{
	double step = w->interval / w->group;
	uint64_t points = (uint64_t)((double)w->l->length / step) + 1;
	uint8_t seen[MOST_CLASSES] = {0}, slot[MOST_CLASSES];

	for (uint64_t s = 0; s < points; s++) {
		uint64_t position = (uint64_t)(((double)s + uniform()) * step);
		size_t index;
		uint32_t c;

		if (position >= w->l->length)
			break;
		index = index_at(w->l, position);
		c = class_of(w, &w->p->block[w->l->block[index]]);
		if (seen[c] == 0)
			slot[c] = (uint8_t)(uniform() * w->group);
		if (seen[c] == slot[c])
			hit(w, index);
		seen[c] = (uint8_t)((seen[c] + 1) % w->group);
	}
}

static const struct rule {
	const char *name;
	void (*run)(struct walk *w);
	int variant, group, classes;
	bool shared; /* one countdown for all threads */
} rules[] = {
    {"stratified", rule_classes, BY_CALLER_SIZE, 16, 256, false},
    {"stratified, one class", rule_stratified, 0, 0, 0, false},
    {"the same, one countdown for all threads", rule_stratified, 0, 0, 0, true},
    {"fixed stride", rule_stride, 0, 0, 0, false},
    {"antithetic pairs", rule_antithetic, 0, 0, 0, false},
    {"Latin hypercube of 4", rule_latin, 0, 4, 0, false},
    {"Latin hypercube of 16", rule_latin, 0, 16, 0, false},
    {"golden ratio", rule_golden, 0, 0, 0, false},
    {"golden ratio, new shift each 16", rule_golden, 0, 16, 0, false},
    {"van der Corput, new shift each 16", rule_corput, 0, 0, 0, false},
    {"1 of 16 points", rule_classes, BY_NOTHING, 16, 1, false},
    {"1 of 16 of a size class", rule_classes, BY_SIZE, 16, 256, false},
    {"1 of 16 of a caller", rule_classes, BY_CALLER, 16, 256, false},
    {"1 of 4 of a caller and size class", rule_classes, BY_CALLER_SIZE, 4, 256, false},
    {"1 of 8 of a caller and size class", rule_classes, BY_CALLER_SIZE, 8, 256, false},
    {"1 of 32 of a caller and size class", rule_classes, BY_CALLER_SIZE, 32, 256, false},
    {"1 of 16 of a caller and size class, 64 classes", rule_classes, BY_CALLER_SIZE, 16, 64, false},
    {"1 of 16 of a caller, size class and depth", rule_classes, BY_CALLER_SIZE_DEPTH, 16, 256,
     false},
    {"1 of 16 of a stack", rule_classes, BY_STACK, 16, 256, false},
};

#define RULES (sizeof(rules) / sizeof(rules[0]))

/* ---- output ---- */

static bool first_rule = true;

static void print_domains(const char *name, const double *value)
{
	printf(", \"%s\": [", name);
	for (int d = 0; d < DOMAINS; d++)
		printf("%s%.6g", d ? ", " : "", value[d]);
	putchar(']');
}

/* error: standard errors in bytes. */
static void print_rule(const char *name, double interval, double samples, const double *error,
		       const double *bias, size_t runs)
{
	printf("%s\n  {\"name\": \"%s\", \"interval\": %.0f, \"samples\": %.6g, \"simulated\": %zu",
	       first_rule ? "" : ",", name, interval, samples, runs);
	first_rule = false;
	print_domains("stderr", error);
	if (bias)
		print_domains("bias", bias);
	putchar('}');
}

/* ---- simulation ---- */

static void simulate_once(const struct program *p, const struct lines *s, const struct rule *rule,
			  double *domain, double *samples)
{
	struct walk w = {.p = p,
			 .interval = s->interval,
			 .domain = domain,
			 .samples = samples,
			 .variant = rule->variant,
			 .group = rule->group,
			 .classes = rule->classes};

	for (size_t i = 0; i < (rule->shared ? 1 : s->lines); i++) {
		w.l = rule->shared ? &s->shared : &s->line[i];
		w.last = SIZE_MAX;
		if (w.l->length)
			rule->run(&w);
	}
}

/* bias: mean error in standard errors of that mean, of what was hit often enough to tell. Figures
 * of nearly n R have errors too seldom to know how large they are: those count as R / 10. */
#define LEAST_HITS 100
static void simulate(const struct program *p, const struct lines *s, const struct rule *rule,
		     const double *small, size_t runs)
{
	double sum[DOMAINS] = {0}, squares[DOMAINS] = {0}, error[DOMAINS], bias[DOMAINS];
	double samples = 0;

	random_state = 1;
	for (size_t run = 0; run < runs; run++) {
		double domain[DOMAINS] = {0};

		simulate_once(p, s, rule, domain, &samples);
		for (int d = 0; d < DOMAINS; d++) {
			sum[d] += domain[d] - small[d];
			squares[d] += (domain[d] - small[d]) * (domain[d] - small[d]);
		}
	}
	for (int d = 0; d < DOMAINS; d++) {
		bool enough = small[d] * (double)runs > LEAST_HITS * s->interval;

		error[d] = sqrt(squares[d] / (double)runs);
		bias[d] =
		    enough ? sum[d] / (fmax(error[d], s->interval / 10) * sqrt((double)runs)) : 0;
	}
	print_rule(rule->name, s->interval, (double)s->large + samples / (double)runs, error, bias,
		   runs);
}

/* The part of each figure that is in blocks smaller than R, and so has to be estimated. */
static void count_small(const struct program *p, double interval, double *small)
{
	for (size_t i = 0; i < p->blocks; i++)
		if ((double)p->block[i].size < interval)
			count(p, &p->block[i], (double)p->block[i].size, small);
}

static void simulate_all(const struct program *p, double interval, size_t runs)
{
	struct lines s = make_lines(p, interval);
	double small[DOMAINS] = {0};

	count_small(p, interval, small);
	for (size_t i = 0; i < RULES; i++)
		simulate(p, &s, &rules[i], small, runs);
	free_lines(&s);
}

/* ---- rules with independent blocks: computed ---- */

static double chance(double size, double interval)
{
	return -expm1(-size / interval);
}

static double poisson_samples(const struct program *p, double interval)
{
	double samples = 0;

	for (size_t i = 0; i < p->blocks; i++)
		samples += chance((double)p->block[i].size, interval);
	return samples;
}

/* Samples when blocks of R or more are always recorded; points: of the others, one per R. */
static double samples_with_large(const struct program *p, double interval, bool points)
{
	double samples = 0;

	for (size_t i = 0; i < p->blocks; i++) {
		double z = (double)p->block[i].size;

		samples += z >= interval ? 1 : points ? z / interval : chance(z, interval);
	}
	return samples;
}

static double equal_interval(const struct program *p, double samples, double interval, bool points)
{
	double low = interval / 16, high = interval * 16;

	for (int i = 0; i < 18; i++) {
		double middle = sqrt(low * high);

		if (samples_with_large(p, middle, points) > samples)
			low = middle;
		else
			high = middle;
	}
	return sqrt(low * high);
}

/* Sum over blocks of f(size), which is the variance of a block's weighted size. */
static void compute(const struct program *p, const char *name, double interval, double samples,
		    double (*variance)(double size, double parameter), double parameter)
{
	double error[DOMAINS] = {0};

	for (size_t i = 0; i < p->blocks; i++)
		if (p->block[i].size)
			count(p, &p->block[i], variance((double)p->block[i].size, parameter),
			      error);
	for (int d = 0; d < DOMAINS; d++)
		error[d] = sqrt(error[d]);
	print_rule(name, interval, samples, error, NULL, 0);
}

static double variance_poisson(double size, double interval)
{
	double q = chance(size, interval);

	return size * size * (1 - q) / q;
}

static double variance_poisson_large(double size, double interval)
{
	return size >= interval ? 0 : variance_poisson(size, interval);
}

static double variance_each(double size, double rate)
{
	return size * size * (1 - rate) / rate;
}

/* Points per byte, n of them in a block count n R. */
static double variance_points(double size, double interval)
{
	return size * interval;
}

/* ---- the optimum per class ---- */

struct class
{
	uint64_t key;
	double blocks, allocated, live; /* sums of squares of sizes */
	double square, live_square, chance;
};

struct classes {
	struct class *class;
	size_t count;
	uint32_t *of_block;
};

static int by_class(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return (x[0] > y[0]) - (x[0] < y[0]);
}

/* Classes of equal size, or of equal size and caller. */
static struct classes make_classes(const struct program *p, bool caller)
{
	uint64_t(*key)[2] = need(malloc((p->blocks + 1) * sizeof(*key)));
	struct classes c = {.of_block = need(malloc((p->blocks + 1) * sizeof(uint32_t)))};
	size_t classes = 0;

	for (size_t i = 0; i < p->blocks; i++) {
		const struct block *b = &p->block[i];

		key[i][0] = b->size << 24 ^ (caller ? p->node_caller[b->node] : 0);
		key[i][1] = i;
	}
	qsort(key, p->blocks, sizeof(*key), by_class);
	for (size_t i = 0; i < p->blocks; i++)
		classes += i == 0 || key[i][0] != key[i - 1][0];
	c.class = need(calloc(classes + 1, sizeof(*c.class)));
	for (size_t i = 0; i < p->blocks; i++) {
		const struct block *b = &p->block[key[i][1]];
		double square = (double)b->size * (double)b->size;
		struct class *k;

		c.count += i == 0 || key[i][0] != key[i - 1][0];
		k = &c.class[c.count - 1];
		c.of_block[key[i][1]] = (uint32_t)(c.count - 1);
		k->blocks++;
		k->live_square += b->live ? square : 0;
	}
	free(key);
	return c;
}

static double set_chances(struct classes *c, double factor)
{
	double samples = 0;

	for (size_t i = 0; i < c->count; i++) {
		struct class *k = &c->class[i];

		/* Best at p in proportion to the root of what a block adds at p = 1. */
		k->chance = factor * sqrt(k->live_square / k->blocks);
		if (k->chance > 1)
			k->chance = 1;
		samples += k->chance * k->blocks;
	}
	return samples;
}

/* The best chances for live bytes when the program is known before it runs: a bound, no rule. */
static void compute_optimum(const struct program *p, const char *name, double samples, bool caller)
{
	struct classes c = make_classes(p, caller);
	double low = 1e-12, high = 1, error[DOMAINS] = {0};

	for (int i = 0; i < 60; i++) {
		double middle = sqrt(low * high);

		if (set_chances(&c, middle) > samples)
			high = middle;
		else
			low = middle;
	}
	set_chances(&c, low);
	for (size_t i = 0; i < p->blocks; i++) {
		const struct block *b = &p->block[i];
		double q = c.class[c.of_block[i]].chance;

		if (q > 0 && b->size)
			count(p, b, variance_each((double)b->size, q), error);
	}
	for (int d = 0; d < DOMAINS; d++)
		error[d] = sqrt(error[d]);
	/* Classes that never live at the peak have the chance 0: no figure of them is possible. */
	error[ALLOCATED] = -1;
	print_rule(name, 0, samples, error, NULL, 0);
	free(c.class);
	free(c.of_block);
}

static void print_program(const struct program *p, double interval, const double *small)
{
	size_t live = 0;

	for (size_t i = 0; i < p->blocks; i++)
		live += p->block[i].live;
	printf("{\"blocks\": %zu, \"frees\": %" PRIu64 ", \"live_blocks\": %zu, \"threads\": %zu, "
	       "\"stacks\": %zu, \"interval\": %.0f",
	       p->blocks, p->frees, live, p->info->threads, p->info->nodes, interval);
	print_domains("truth", p->truth);
	print_domains("small", small);
	printf(", \"rules\": [");
}

int main(int argc, char **argv)
{
	static struct program p;
	size_t runs = argc > 2 ? strtoul(argv[2], NULL, 10) : 400;
	unsigned long log2 = argc > 3 ? strtoul(argv[3], NULL, 10) : 19;
	double interval, samples, large, small[DOMAINS] = {0};

	if (argc < 2 || argc > 4 || runs < 2 || log2 < 6 || log2 > 30) {
		fputs("usage: bench_estimators TRACE [RUNS] [INTERVAL_LOG2]\n", stderr);
		return 2;
	}
	interval = (double)(1ul << log2);
	open_program(&p, argv[1]);
	read_blocks(&p);
	read_nodes(&p);
	for (int set = 0; set < ROW_SETS; set++)
		choose_rows(&p, set, set % 2 == 0, set >= 2);
	count_small(&p, interval, small);
	print_program(&p, interval, small);
	samples = poisson_samples(&p, interval);
	compute(&p, "poisson", interval, samples, variance_poisson, interval);
	compute(&p, "each block alike", 0, samples, variance_each, samples / (double)p.blocks);
	compute(&p, "n points count n R", interval, samples, variance_points, interval);
	large = equal_interval(&p, samples, interval, false);
	compute(&p, "poisson, large blocks exact", large, samples, variance_poisson_large, large);
	compute_optimum(&p, "optimum per size", samples, false);
	compute_optimum(&p, "optimum per size and caller", samples, true);
	simulate_all(&p, equal_interval(&p, samples, interval, true), runs);
	printf("\n]}\n");
	return 0;
}
