/* SPDX-License-Identifier: Apache-2.0 */
/* The scenarios: see coverage_scenarios.h. Time is the number of the event. */
#include "coverage_scenarios.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct maker {
	struct coverage_stream *s;
	uint64_t random;
	uint64_t interval;
	uint32_t request; /* of the blocks that are allocated now */
	uint32_t *last;	  /* [threads]: the number of the thread's last allocation + 1 */
	size_t last_room;
	/* Blocks to be freed at the end of a step: lists. */
	uint32_t *due, *next;
	size_t steps, step, next_room;
};

static void *grown(void *array, size_t *room, size_t used, size_t item)
{
	if (used < *room)
		return array;
	*room = used + used / 2 + 4096;
	array = realloc(array, *room * item);
	if (!array) {
		fputs("bench_coverage: out of memory\n", stderr);
		exit(1);
	}
	return array;
}

static void *cleared(size_t count, size_t item)
{
	void *array = calloc(count + 1, item);

	if (!array) {
		fputs("bench_coverage: out of memory\n", stderr);
		exit(1);
	}
	return array;
}

/* ---- random numbers ---- */

static uint64_t draw(struct maker *m)
{
	uint64_t z = m->random += 0x9e3779b97f4a7c15u;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
	z = (z ^ z >> 27) * 0x94d049bb133111ebu;
	return z ^ z >> 31;
}

static double uniform(struct maker *m)
{
	return ((double)(draw(m) >> 11) + 0.5) * 0x1p-53;
}

static uint32_t below(struct maker *m, uint32_t limit)
{
	return (uint32_t)(uniform(m) * limit);
}

static double normal(struct maker *m)
{
	return sqrt(-2 * log(uniform(m))) * cos(6.283185307179586 * uniform(m));
}

/* A number that belongs to a stack and is the same for all its blocks. */
static double trait(uint32_t stack, uint32_t which)
{
	struct maker m = {.random = stack * 0x1234567ull + which * 0x7654321ull};

	draw(&m);
	return uniform(&m);
}

/* ---- the code ---- */

/* `callers` groups call each site; a function has two sites, a group four functions of its own. */
static void make_code(struct maker *m, uint32_t sites, uint32_t callers)
{
	struct coverage_stream *s = m->s;
	uint64_t address = 0x1400;

	s->sites = sites;
	s->functions = (sites + 1) / 2;
	s->groups = (s->functions + 3) / 4 + callers - 1;
	s->stacks = sites * callers;
	s->site_address = cleared(sites, sizeof(*s->site_address));
	s->stack = cleared(s->stacks, sizeof(*s->stack));
	for (uint32_t i = 0; i < sites; i++)
		s->site_address[i] = address += 17 + below(m, 200);
	for (uint32_t i = 0; i < s->stacks; i++) {
		uint32_t site = i / callers;

		s->stack[i] = (struct coverage_stack){site, site / 2, site / 8 + i % callers};
	}
}

/* The larger the power, the more the first stacks have. */
static uint32_t some_stack(struct maker *m, double power)
{
	return (uint32_t)(pow(uniform(m), power) * m->s->stacks);
}

/* ---- events ---- */

static void add_event(struct coverage_stream *s, uint32_t event)
{
	s->event = grown(s->event, &s->event_room, s->events, sizeof(*s->event));
	s->event[s->events++] = event;
}

static void know_thread(struct maker *m, uint32_t thread)
{
	struct coverage_stream *s = m->s;

	while (s->threads <= thread) {
		m->last = grown(m->last, &m->last_room, s->threads, sizeof(*m->last));
		m->last[s->threads++] = 0;
	}
}

static uint32_t allocate(struct maker *m, uint32_t thread, uint32_t stack, double bytes)
{
	struct coverage_stream *s = m->s;
	uint32_t number = (uint32_t)s->blocks;

	s->block = grown(s->block, &s->block_room, s->blocks, sizeof(*s->block));
	s->block[s->blocks++] = (struct coverage_block){
	    .size = bytes < 1 ? 1 : (uint64_t)bytes,
	    .stack = stack,
	    .thread = thread,
	    .free_thread = thread,
	    .request = m->request,
	    .from = (uint32_t)s->events,
	    .to = COVERAGE_NEVER,
	};
	know_thread(m, thread);
	m->last[thread] = number + 1;
	add_event(s, number << 1);
	return number;
}

static void release_by(struct maker *m, uint32_t number, uint32_t thread)
{
	struct coverage_block *b = &m->s->block[number];

	know_thread(m, thread);
	b->to = (uint32_t)m->s->events;
	b->free_thread = thread;
	b->temporary = thread == b->thread && m->last[thread] == number + 1;
	add_event(m->s, number << 1 | 1);
}

static void release(struct maker *m, uint32_t number)
{
	release_by(m, number, m->s->block[number].thread);
}

static uint32_t reallocate(struct maker *m, uint32_t number, double bytes)
{
	struct coverage_block old = m->s->block[number];
	uint32_t fresh;

	release(m, number);
	m->s->block[number].realloc_free = true;
	fresh = allocate(m, old.thread, old.stack, bytes);
	m->s->block[fresh].realloc_alloc = true;
	return fresh;
}

/* ---- steps ---- */

static void make_steps(struct maker *m, size_t steps)
{
	m->steps = steps;
	m->due = cleared(steps, sizeof(*m->due));
	memset(m->due, 0xff, (steps + 1) * sizeof(*m->due));
}

/* The block is freed after so many steps, or never. */
static void lives(struct maker *m, uint32_t number, double steps)
{
	size_t at = steps < (double)m->steps ? m->step + (size_t)steps : m->steps;

	if (at >= m->steps)
		return;
	m->next = grown(m->next, &m->next_room, number, sizeof(*m->next));
	m->next[number] = m->due[at];
	m->due[at] = number;
}

static bool end_step(struct maker *m)
{
	uint32_t number = m->due[m->step];

	for (; number != COVERAGE_NEVER; number = m->next[number])
		release(m, number);
	return ++m->step < m->steps;
}

static double exponential(struct maker *m, double mean)
{
	return -mean * log(uniform(m));
}

/* Each stack has a way of life: temporary, short, long or for ever. */
static void live_like(struct maker *m, uint32_t number, uint32_t stack)
{
	double way = trait(stack, 1);

	if (way < 0.25)
		release(m, number);
	else if (way < 0.6)
		lives(m, number, exponential(m, 20 + 800 * trait(stack, 2)));
	else if (way < 0.85)
		lives(m, number, exponential(m, (double)m->steps / 4 * trait(stack, 2)));
	else if (uniform(m) < 0.5)
		lives(m, number, exponential(m, (double)m->steps / 8));
}

/* ---- shapes of sizes ---- */

static void tell_lognormal(void *context)
{
	struct maker *m = context;

	make_code(m, 48, 2);
	make_steps(m, 100000);
	do {
		uint32_t stack = some_stack(m, 2), site = m->s->stack[stack].site;
		double bytes = exp(3.5 + 2 * trait(site, 3) + normal(m));

		live_like(m, allocate(m, stack % 2, stack, bytes), stack);
	} while (end_step(m));
}

static void tell_power_law(void *context)
{
	struct maker *m = context;

	make_code(m, 40, 2);
	make_steps(m, 60000);
	do {
		uint32_t stack = some_stack(m, 2);
		double bytes = fmin(16 / pow(uniform(m), 1 / 1.15), 3 << 20);

		live_like(m, allocate(m, 0, stack, bytes), stack);
	} while (end_step(m));
}

static void tell_two_sizes(void *context)
{
	struct maker *m = context;
	static const double small[] = {16, 48, 16, 24}, large[] = {65536, 3000, 40000, 9000};

	make_code(m, 24, 2);
	make_steps(m, 60000);
	do {
		uint32_t stack = some_stack(m, 1.5), kind = m->s->stack[stack].site % 4;
		bool is_large = uniform(m) < 40 / large[kind];
		double bytes = is_large ? large[kind] : small[kind];

		live_like(m, allocate(m, 0, stack, bytes), stack);
	} while (end_step(m));
}

static void tell_around_interval(void *context)
{
	struct maker *m = context;
	double r = (double)m->interval;

	make_code(m, 16, 2);
	make_steps(m, 50000);
	do {
		uint32_t stack = some_stack(m, 1.5);
		double bytes = r / 512 * (0.5 + uniform(m));

		if (m->step % 200 == 0)
			bytes = r * (0.6 + 0.8 * uniform(m));
		else if (m->step % 200 == 100)
			bytes = r + below(m, 3) - 1;
		live_like(m, allocate(m, 0, stack, bytes), stack);
	} while (end_step(m));
}

static void tell_uniform(void *context)
{
	struct maker *m = context;

	make_code(m, 32, 2);
	make_steps(m, 60000);
	do {
		uint32_t stack = some_stack(m, 1);
		uint32_t block = allocate(m, below(m, 3), stack, 1 + below(m, 800));

		if (uniform(m) < 0.9)
			lives(m, block, exponential(m, 8000));
	} while (end_step(m));
}

static void tell_aligned(void *context)
{
	struct maker *m = context;

	make_code(m, 40, 1);
	make_steps(m, 80000);
	do {
		uint32_t stack = some_stack(m, 2);
		double bytes = exp2(4 + floor(9 * pow(trait(stack, 3), 2)));

		live_like(m, allocate(m, 0, stack, bytes), stack);
	} while (end_step(m));
}

static void tell_one_class(void *context)
{
	struct maker *m = context;

	make_code(m, 1, 1);
	make_steps(m, 120000);
	do {
		uint32_t block = allocate(m, 0, 0, 96);

		if (uniform(m) < 0.85)
			lives(m, block, exponential(m, 10000));
	} while (end_step(m));
}

/* All of 48 classes in each stratum of a thread. */
static void tell_interleaved(void *context)
{
	struct maker *m = context;

	make_code(m, 24, 2);
	make_steps(m, 250000);
	do {
		uint32_t stack = some_stack(m, 1);

		live_like(m, allocate(m, 0, stack, 16 + 8 * (stack % 6)), stack);
	} while (end_step(m));
}

static void tell_huge(void *context)
{
	struct maker *m = context;
	uint32_t huge = 0;

	make_code(m, 16, 2);
	make_steps(m, 50000);
	do {
		uint32_t stack = some_stack(m, 1.5);

		if (m->step == 5000)
			huge = allocate(m, 0, 3, 50.0 * (double)m->interval);
		if (m->step == 40000)
			release(m, huge);
		live_like(m, allocate(m, 0, stack, 40 + below(m, 400)), stack);
	} while (end_step(m));
}

/* ---- shapes of time ---- */

/* A cycle of sites whose bytes are a power of two, and lives that are multiples of the cycle. */
static void tell_periodic(void *context)
{
	static const double cycle[16] = {256, 64,  1024, 128, 64,  512, 256, 32,
					 32,  128, 256,	 64,  512, 256, 384, 128};
	struct maker *m = context;

	make_code(m, 16, 1);
	make_steps(m, 16 * 5000);
	do {
		uint32_t stack = m->step % 16;
		uint32_t block = allocate(m, 0, stack, cycle[stack]);

		if (stack % 4 == 1)
			release(m, block);
		else if (stack != 6 || m->step % 256 < 16)
			lives(m, block, 16 << stack / 2);
	} while (end_step(m));
}

static void tell_bursts(void *context)
{
	struct maker *m = context;

	make_code(m, 30, 1);
	make_steps(m, 80000);
	do {
		size_t burst = m->step / 1000;
		uint32_t stack = (uint32_t)((burst * 7) % 30);
		double bytes = 30 + 300 * trait(stack, 3) + below(m, 50);
		uint32_t block = allocate(m, 0, stack, bytes);

		if (m->step % 1000 < 900)
			lives(m, block, (double)(1000 * (1 + stack % 3) - m->step % 1000));
		else if (stack % 5)
			lives(m, block, exponential(m, 30000));
	} while (end_step(m));
}

/* 400 threads of some 100 allocations, eight at a time. */
static void tell_threads(void *context)
{
	struct maker *m = context;

	make_code(m, 24, 2);
	make_steps(m, 40000);
	do {
		uint32_t thread = (uint32_t)(m->step / 800) * 8 + below(m, 8);
		uint32_t stack = some_stack(m, 2);
		double bytes = exp(4 + 1.2 * normal(m));

		live_like(m, allocate(m, thread, stack, bytes), stack);
	} while (end_step(m));
}

static void tell_realloc(void *context)
{
	struct maker *m = context;

	make_code(m, 20, 2);
	make_steps(m, 8000);
	do {
		uint32_t stack = some_stack(m, 1.5);
		double bytes = 32 + below(m, 32), most = exp(4 + 5 * uniform(m));
		uint32_t block = allocate(m, 0, stack, bytes);

		for (; bytes < most; bytes *= 1.5) {
			block = reallocate(m, block, bytes * 1.5);
			if (stack % 3 == 0)
				release(m, allocate(m, 0, (stack + 1) % m->s->stacks, 200));
		}
		live_like(m, block, stack);
	} while (end_step(m));
}

/* One thread allocates, another frees, in order and some hundred blocks later. */
static void tell_consumer(void *context)
{
	struct maker *m = context;
	uint32_t oldest = 0;

	make_code(m, 20, 2);
	make_steps(m, 80000);
	do {
		double depth = 600 + 500 * sin((double)m->step / 6000);

		allocate(m, 0, some_stack(m, 1.5), exp(4.5 + 0.8 * normal(m)));
		while ((double)(m->s->blocks - oldest) > depth) {
			if (m->s->stack[m->s->block[oldest].stack].site % 10)
				release_by(m, oldest, 1);
			oldest++;
		}
	} while (end_step(m));
}

/* Six children run after each other, and begin alike. */
static void tell_children(void *context)
{
	struct maker *m = context;

	m->s->processes = true;
	make_code(m, 24, 2);
	make_steps(m, 60000);
	do {
		uint32_t child = (uint32_t)(m->step / 10000);
		bool beginning = m->step % 10000 < 500;
		uint32_t stack = beginning ? (uint32_t)(m->step % 12) : some_stack(m, 1.5);
		uint32_t block = allocate(m, child, stack, 20 + 500 * trait(stack, 3 + child % 2));

		if (!beginning)
			live_like(m, block, stack);
	} while (end_step(m));
}

/* The same short program so many times, side by side: a megabyte each. */
static void tell_copies(struct maker *m, uint32_t copies)
{
	m->s->processes = m->s->one_name = true;
	make_code(m, 24, 2);
	make_steps(m, 700);
	do {
		uint64_t random = m->random;

		for (uint32_t i = 0; i < copies; i++) {
			uint32_t stack, site;
			double bytes;

			m->random = random;
			stack = some_stack(m, 2);
			site = m->s->stack[stack].site;
			bytes = exp(4.5 + 3 * trait(site, 3) + normal(m));
			live_like(m, allocate(m, i, stack, bytes), stack);
		}
	} while (end_step(m));
}

static void tell_10_copies(void *context)
{
	tell_copies(context, 10);
}

static void tell_100_copies(void *context)
{
	tell_copies(context, 100);
}

static void tell_1000_copies(void *context)
{
	tell_copies(context, 1000);
}

/* Some thousand blocks at the start, and then hardly any. */
static void tell_start_up(void *context)
{
	struct maker *m = context;

	make_code(m, 40, 1);
	make_steps(m, 4000);
	do {
		uint32_t stack = some_stack(m, 1.5);
		uint32_t block = allocate(m, 0, stack, exp(5.5 + 1.3 * normal(m)));

		if (m->step > 3500)
			release(m, block);
	} while (end_step(m));
}

/* A steady megabyte of some functions, and one block of another for a moment. */
static void tell_spike(struct maker *m, double bytes)
{
	uint32_t spike = 0;

	make_code(m, 16, 1);
	make_steps(m, 20000);
	do {
		uint32_t stack = below(m, 14);
		uint32_t block = allocate(m, 0, stack, 100 + below(m, 800));

		if (m->step == 13000)
			spike = allocate(m, 0, 15, bytes);
		if (m->step == 13200)
			release(m, spike);
		if (m->step >= 2000)
			lives(m, block, exponential(m, 50));
	} while (end_step(m));
}

static void tell_big_block(void *context)
{
	tell_spike(context, 64 << 20);
}

static void tell_middle_block(void *context)
{
	struct maker *m = context;

	tell_spike(m, 3 * (double)m->interval);
}

static void tell_plateau(void *context)
{
	struct maker *m = context;

	make_code(m, 40, 1);
	make_steps(m, 150000);
	do {
		bool filling = m->step < 20000;
		uint32_t stack = filling ? below(m, 10) : 10 + some_stack(m, 1.5) * 30 / 40;
		uint32_t block = allocate(m, 0, stack, 40 + 200 * trait(stack, 3) + below(m, 64));

		if (!filling)
			lives(m, block, exponential(m, 5 + 200 * trait(stack, 2)));
	} while (end_step(m));
}

/* 40 peaks of one height. */
static void tell_saw(void *context)
{
	struct maker *m = context;

	make_code(m, 24, 1);
	make_steps(m, 80000);
	do {
		uint32_t stack = some_stack(m, 1.5);
		uint32_t block = allocate(m, 0, stack, 100 + 400 * trait(stack, 3));

		if (m->step < 5000 && stack % 4 == 0)
			continue;
		lives(m, block, (double)(1999 - m->step % 2000));
	} while (end_step(m));
}

/* The same blocks twice, by different functions. */
static void tell_two_peaks(void *context)
{
	struct maker *m = context;

	make_code(m, 24, 1);
	make_steps(m, 60000);
	do {
		size_t half = m->steps / 2, place = m->step % half;
		uint32_t stack, block;
		double bytes;

		if (place == 0)
			m->random = 77;
		stack = some_stack(m, 1.5) / 2;
		bytes = exp(5 + 0.7 * normal(m));
		block = allocate(m, 0, stack + (m->step < half ? 0 : 12), bytes);
		if (place < 20000)
			lives(m, block, (double)(25000 - place) + uniform(m) * 2000);
		else
			release(m, block);
	} while (end_step(m));
}

/* ---- shapes of code ---- */

static void tell_many_sites(void *context)
{
	struct maker *m = context;

	make_code(m, 10000, 1);
	make_steps(m, 120000);
	do {
		uint32_t stack = some_stack(m, 3);
		double bytes = exp(3.5 + 2 * trait(stack, 3) + 0.5 * normal(m));

		live_like(m, allocate(m, stack % 3, stack, bytes), stack);
	} while (end_step(m));
}

/* Requests of eight tenants, which need different functions. */
static void tell_labels(void *context)
{
	struct maker *m = context;
	uint32_t request = 0;

	m->s->tenants = 8;
	make_code(m, 32, 2);
	make_steps(m, 80000);
	do {
		uint32_t stack, tenant;

		if (m->step % 80 == 0)
			request++;
		m->request = m->step % 80 < 70 ? request : 0;
		tenant = coverage_tenant(m->s, m->request);
		stack = (some_stack(m, 2) + 5 * tenant) % m->s->stacks;
		live_like(m, allocate(m, request % 4, stack, exp(4 + trait(stack, 3) + normal(m))),
			  stack);
	} while (end_step(m));
}

const struct coverage_scenario coverage_scenarios[] = {
    {"lognormal", "log-normal sizes", tell_lognormal},
    {"powerlaw", "sizes of a power law", tell_power_law},
    {"twosizes", "two sizes at a site, 16 B and 64 KiB and others", tell_two_sizes},
    {"around", "sizes just below and above the interval, beside small ones", tell_around_interval},
    {"periodic", "a fixed cycle of sites; all periods are powers of two", tell_periodic},
    {"bursts", "1,000 blocks of one site, then of the next", tell_bursts},
    {"threads", "400 short threads", tell_threads},
    {"realloc", "chains of realloc", tell_realloc},
    {"aligned", "each site has one power of two", tell_aligned},
    {"consumer", "blocks are freed by another thread", tell_consumer},
    {"children", "six processes that begin alike, each with a trace, merged", tell_children},
    {"startup", "4,000 blocks at the start", tell_start_up},
    {"huge", "one huge block beside small ones", tell_huge},
    {"plateau", "a constant level, with short-lived blocks", tell_plateau},
    {"saw", "40 equal peaks", tell_saw},
    {"twopeaks", "two equal peaks of different functions", tell_two_peaks},
    {"manysites", "10,000 sites", tell_many_sites},
    {"labels", "requests of eight tenants", tell_labels},
    {"uniform", "uniform sizes and sites", tell_uniform},
    {"oneclass", "one site, one size", tell_one_class},
    {"interleaved", "48 classes in each stratum", tell_interleaved},
    {"bigblock", "a steady megabyte, and for a moment a block of 64 MiB", tell_big_block, true},
    {"middleblock", "a steady megabyte, and for a moment a block of three intervals",
     tell_middle_block, true},
    {"merge10", "10 runs of a short program, merged", tell_10_copies, true},
    {"merge100", "100 runs of a short program, merged", tell_100_copies, true},
    {"merge1000", "1,000 runs of a short program, merged", tell_1000_copies, true},
};
const size_t coverage_scenario_count = sizeof(coverage_scenarios) / sizeof(*coverage_scenarios);
_Static_assert(sizeof(coverage_scenarios) / sizeof(*coverage_scenarios) <= 32,
	       "coverage.c: a bit each");

struct coverage_stream *coverage_make(const struct coverage_scenario *scenario, uint64_t interval)
{
	struct coverage_stream *s = cleared(1, sizeof(*s));
	struct maker m = {.s = s, .random = 20, .interval = interval};

	s->name = scenario->name;
	scenario->tell(&m);
	free(m.last);
	free(m.due);
	free(m.next);
	return s;
}

void coverage_free(struct coverage_stream *s)
{
	free(s->block);
	free(s->event);
	free(s->stack);
	free(s->site_address);
	free(s);
}
