/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What one stack capture costs: the agent's, glibc's backtrace(), libunwind's unw_backtrace() (if
 * there is a libunwind.so.8; opened at run time, for a program that is linked with libunwind gets
 * its backtrace() from there), and a frame pointer walk over functions that keep one.
 *
 * Prints Markdown tables. Each capture is timed alone; figures are medians, without the clock's
 * own cost. Usage: bench_capture [--quick]
 */
#include <alloca.h>
#include <dlfcn.h>
#include <execinfo.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "../tests/random_numbers.h"

#define NOINLINE     __attribute__((noinline))
#define DEEPEST	     200
#define FRAMES_MOST  512
#define SAMPLES_MOST 20000
#define THRASH_BYTES (8u << 20)

struct walk;
struct walk *capture_begin(void);
uint32_t capture_stack(struct walk *w);

static struct walk *walk;
static int (*unw_backtrace)(void **, int);
static void *buffer[FRAMES_MOST];
static volatile unsigned sink;

/* ---- the captures: each returns the depth ---- */

static NOINLINE unsigned by_walk(void)
{
	return capture_stack(walk);
}

static NOINLINE unsigned by_backtrace(void)
{
	return (unsigned)backtrace(buffer, FRAMES_MOST);
}

static NOINLINE unsigned by_libunwind(void)
{
	return (unsigned)unw_backtrace(buffer, FRAMES_MOST);
}

static uintptr_t stack_end;

static NOINLINE unsigned by_frame_pointers(void)
{
	const uintptr_t *frame = __builtin_frame_address(0);
	unsigned n = 0;

	while (n < FRAMES_MOST) {
		uintptr_t next = frame[0];

		buffer[n++] = (void *)frame[1];
		if (next <= (uintptr_t)frame || next >= stack_end)
			break;
		frame = (const uintptr_t *)next;
	}
	return n;
}

static NOINLINE unsigned by_nothing(void)
{
	return 1;
}

struct method {
	const char *name;
	unsigned (*capture)(void);
	bool frame_pointers; /* measured over the functions that keep a frame pointer */
};

/* ---- stacks: the functions at each depth come from path[] ---- */

static unsigned char path[DEEPEST + 1];
static void (*at_bottom)(void);

typedef void frame_function(unsigned depth);
static void descend(unsigned depth);
static void descend_pointers(unsigned depth);

/* Two call sites in each, behind frames of several sizes. */
#define FRAME(name, bytes, next, before)                                                           \
	static NOINLINE void name(unsigned depth)                                                  \
	{                                                                                          \
		volatile char room[bytes];                                                         \
                                                                                                   \
		before;                                                                            \
		room[0] = (char)depth;                                                             \
		if (path[depth] & 8) {                                                             \
			next(depth);                                                               \
			sink += 1;                                                                 \
		} else {                                                                           \
			next(depth);                                                               \
			sink += (unsigned)room[0];                                                 \
		}                                                                                  \
	}

#define KEEP_POINTER sink += (unsigned)(uintptr_t)__builtin_frame_address(0)

FRAME(plain_0, 24, descend, )
FRAME(plain_1, 40, descend, )
FRAME(plain_2, 72, descend, )
FRAME(plain_3, 136, descend, )
FRAME(plain_4, 200, descend, )
FRAME(plain_5, 424, descend, )
FRAME(plain_6, 960, descend, )
FRAME(plain_7, 56, descend, volatile char *more = alloca(depth % 5 * 16 + 16); more[0] = 1)
FRAME(pointer_0, 24, descend_pointers, KEEP_POINTER)
FRAME(pointer_1, 40, descend_pointers, KEEP_POINTER)
FRAME(pointer_2, 72, descend_pointers, KEEP_POINTER)
FRAME(pointer_3, 136, descend_pointers, KEEP_POINTER)
FRAME(pointer_4, 200, descend_pointers, KEEP_POINTER)
FRAME(pointer_5, 424, descend_pointers, KEEP_POINTER)
FRAME(pointer_6, 960, descend_pointers, KEEP_POINTER)
FRAME(pointer_7, 56, descend_pointers, KEEP_POINTER)

static frame_function *const plain[] = {plain_0, plain_1, plain_2, plain_3,
					plain_4, plain_5, plain_6, plain_7};
static frame_function *const pointers[] = {pointer_0, pointer_1, pointer_2, pointer_3,
					   pointer_4, pointer_5, pointer_6, pointer_7};

static NOINLINE void descend(unsigned depth)
{
	if (depth == 0)
		at_bottom();
	else
		plain[path[depth] & 7](depth - 1);
	sink += depth;
}

static NOINLINE void descend_pointers(unsigned depth)
{
	KEEP_POINTER;
	if (depth == 0)
		at_bottom();
	else
		pointers[path[depth] & 7](depth - 1);
	sink += depth;
}

/* ---- measuring ---- */

static uint32_t samples[SAMPLES_MOST];
static unsigned sample_count, samples_wanted, frames_seen;
static double tick_ns;
static uint32_t clock_ticks; /* what an empty capture takes */
static const struct method *method;
static char *thrash;
static bool thrashing;

static unsigned next_random(void)
{
	return (unsigned)(random_number() >> 20);
}

static inline uint64_t ticks(void)
{
	__builtin_ia32_lfence();
	uint64_t now = __builtin_ia32_rdtsc();
	__builtin_ia32_lfence();
	return now;
}

static void take_sample(void)
{
	uint64_t begin, end;

	KEEP_POINTER;
	if (thrashing) {
		for (size_t i = 0; i < THRASH_BYTES; i += 64)
			thrash[i]++;
	}
	begin = ticks();
	frames_seen = method->capture();
	end = ticks();
	if (sample_count < SAMPLES_MOST)
		samples[sample_count++] = (uint32_t)(end - begin);
}

static int compare(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return (x > y) - (x < y);
}

static uint32_t median_ticks(void)
{
	qsort(samples, sample_count, sizeof(samples[0]), compare);
	return samples[sample_count / 2];
}

static void shuffle_path(unsigned depth)
{
	for (unsigned i = 0; i <= depth; i++)
		path[i] = (unsigned char)next_random();
}

/* The first of the frames; keeps a frame pointer, like all that may lie between them. */
static NOINLINE void start_from(unsigned depth)
{
	KEEP_POINTER;
	if (method->frame_pointers)
		descend_pointers(depth);
	else
		descend(depth);
}

enum variation { SAME_STACK, LAST_VARY, ALL_VARY, VARIATIONS };

static const char *const variation_names[] = {"same stack", "last 6 vary", "all vary"};

static void repeat(void)
{
	KEEP_POINTER;
	for (unsigned i = 0; i < samples_wanted; i++)
		take_sample();
}

/* From the fixed part of the stack: three other functions, six frames. */
static void vary_last(void)
{
	KEEP_POINTER;
	at_bottom = take_sample;
	for (unsigned i = 0; i < samples_wanted; i++) {
		shuffle_path(3);
		start_from(3);
	}
}

struct figure {
	double ns;
	unsigned frames;
};

static struct figure measure(enum variation variation, unsigned depth)
{
	struct figure f;
	uint32_t median;

	sample_count = 0;
	random_state = 88172645463325252u;
	shuffle_path(depth);
	switch (variation) {
	case SAME_STACK:
		at_bottom = repeat;
		start_from(depth);
		break;
	case LAST_VARY:
		at_bottom = vary_last;
		start_from(depth > 3 ? depth - 3 : 0);
		break;
	default:
		at_bottom = take_sample;
		for (unsigned i = 0; i < samples_wanted; i++) {
			shuffle_path(depth);
			start_from(depth);
		}
	}
	median = median_ticks();
	f.ns = median > clock_ticks ? (median - clock_ticks) * tick_ns : 0;
	f.frames = frames_seen;
	return f;
}

static void calibrate(void)
{
	static const struct method nothing = {"nothing", by_nothing, false};
	struct timespec a, b;
	uint64_t from, to;

	clock_gettime(CLOCK_MONOTONIC, &a);
	from = ticks();
	do {
		clock_gettime(CLOCK_MONOTONIC, &b);
		to = ticks();
	} while (to - from < 100000000u);
	tick_ns = ((double)(b.tv_sec - a.tv_sec) * 1e9 + (double)(b.tv_nsec - a.tv_nsec)) /
		  (double)(to - from);
	method = &nothing;
	sample_count = 0;
	repeat();
	clock_ticks = median_ticks();
}

static void print_table(const struct method *methods, unsigned count, unsigned wanted)
{
	static const unsigned depths[] = {10, 30, 100};

	printf("| capture | frames |");
	for (unsigned v = 0; v < VARIATIONS; v++)
		printf(" %s |", variation_names[v]);
	printf("\n|---|--:|--:|--:|--:|\n");
	for (unsigned d = 0; d < sizeof(depths) / sizeof(depths[0]); d++) {
		for (unsigned m = 0; m < count; m++) {
			struct figure f[VARIATIONS];

			method = &methods[m];
			samples_wanted = wanted;
			/* Two functions of this program per unit of depth. */
			for (unsigned v = 0; v < VARIATIONS; v++)
				f[v] = measure((enum variation)v, depths[d] / 2);
			printf("| %s | %u |", method->name, f[SAME_STACK].frames);
			for (unsigned v = 0; v < VARIATIONS; v++)
				printf(" %.0f (%.2f) |", f[v].ns, f[v].ns / f[v].frames);
			printf("\n");
		}
	}
	printf("\n");
}

int main(int argc, char **argv)
{
	bool quick = argc > 1 && !strcmp(argv[1], "--quick");
	unsigned wanted = quick ? 500 : 10000, count = 0;
	void *libunwind = dlopen("libunwind.so.8", RTLD_NOW | RTLD_LOCAL);
	struct method methods[4];

	if (libunwind)
		*(void **)&unw_backtrace = dlsym(libunwind, "unw_backtrace");
	walk = capture_begin();
	thrash = calloc(1, THRASH_BYTES);
	if (!walk || !thrash) {
		fprintf(stderr, "bench_capture: no stack capture here\n");
		return 1;
	}
	stack_end = (uintptr_t)__builtin_frame_address(0);
	methods[count++] = (struct method){"mayfly", by_walk, false};
	methods[count++] = (struct method){"glibc backtrace()", by_backtrace, false};
	if (unw_backtrace)
		methods[count++] =
		    (struct method){"libunwind unw_backtrace()", by_libunwind, false};
	methods[count++] = (struct method){"frame pointers", by_frame_pointers, true};
	samples_wanted = wanted;
	calibrate();
	printf("Nanoseconds per capture (per frame), warm:\n\n");
	print_table(methods, count, wanted);
	thrashing = true;
	printf("The same after %u MiB of other memory were written between captures:\n\n",
	       THRASH_BYTES >> 20);
	print_table(methods, count, quick ? 50 : 300);
	return 0;
}
