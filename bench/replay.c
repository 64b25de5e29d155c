/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Does with the real malloc what a stream of coverage_scenarios.h says:
 *
 *	bench_replay FILE
 *
 * FILE is from bench_coverage --write. Threads are not replayed: all is done by one. Nothing else
 * is allocated here, so the figures of a recording are those of the stream. The functions have the
 * names that bench_coverage looks for: main -> g3 -> f17 -> malloc.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "coverage_replay.h"

/* Two calls of malloc, and of realloc, that the compiler cannot make one. */
#define FUNCTION(n)                                                                                \
	__attribute__((noinline)) static void *f##n(uint32_t site, void *old, size_t size)         \
	{                                                                                          \
		void *block;                                                                       \
                                                                                                   \
		if (site & 1) {                                                                    \
			block = old ? realloc(old, size) : malloc(size);                           \
			__asm__ volatile("# odd " #n : "+r"(block));                               \
		} else {                                                                           \
			block = old ? realloc(old, size) : malloc(size);                           \
			__asm__ volatile("# even " #n : "+r"(block));                              \
		}                                                                                  \
		return block;                                                                      \
	}

/* clang-format off */
FUNCTION(0) FUNCTION(1) FUNCTION(2) FUNCTION(3) FUNCTION(4) FUNCTION(5) FUNCTION(6) FUNCTION(7)
FUNCTION(8) FUNCTION(9) FUNCTION(10) FUNCTION(11) FUNCTION(12) FUNCTION(13) FUNCTION(14)
FUNCTION(15) FUNCTION(16) FUNCTION(17) FUNCTION(18) FUNCTION(19) FUNCTION(20) FUNCTION(21)
FUNCTION(22) FUNCTION(23)
    /* clang-format on */

    typedef void *function(uint32_t site, void *old, size_t size);

static function *const functions[REPLAY_FUNCTIONS] = {f0,  f1,	f2,  f3,  f4,  f5,  f6,	 f7,
						      f8,  f9,	f10, f11, f12, f13, f14, f15,
						      f16, f17, f18, f19, f20, f21, f22, f23};

#define GROUP(n)                                                                                   \
	__attribute__((noinline)) static void *g##n(function *f, uint32_t site, void *old,         \
						    size_t size)                                   \
	{                                                                                          \
		void *block = f(site, old, size);                                                  \
                                                                                                   \
		__asm__ volatile("# group " #n : "+r"(block));                                     \
		return block;                                                                      \
	}

/* clang-format off */
GROUP(0) GROUP(1) GROUP(2) GROUP(3) GROUP(4) GROUP(5) GROUP(6) GROUP(7)
    /* clang-format on */

    static void *(*const groups[REPLAY_GROUPS])(function *f, uint32_t site, void *old,
						size_t size) = {g0, g1, g2, g3, g4, g5, g6, g7};

static const struct replay_head *map_file(const char *path)
{
	int file = open(path, O_RDONLY | O_CLOEXEC);
	struct stat facts;
	const struct replay_head *head;

	if (file < 0 || fstat(file, &facts) != 0)
		_exit(2);
	head = mmap(NULL, (size_t)facts.st_size, PROT_READ, MAP_PRIVATE, file, 0);
	if (head == MAP_FAILED || head->magic != REPLAY_MAGIC)
		_exit(2);
	return head;
}

int main(int argc, char **argv)
{
	const struct replay_head *head = argc == 2 ? map_file(argv[1]) : NULL;
	const struct coverage_block *block;
	const struct coverage_stack *stack;
	const uint32_t *event;
	void **place, *old = NULL;

	if (!head)
		return 2;
	block = (const void *)(head + 1);
	stack = (const void *)(block + head->blocks);
	event = (const void *)(stack + head->stacks);
	place = mmap(NULL, (head->blocks + 1) * sizeof(*place), PROT_READ | PROT_WRITE,
		     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (place == MAP_FAILED)
		return 2;
	for (uint64_t e = 0; e < head->events; e++) {
		uint32_t number = event[e] >> 1;
		const struct coverage_block *b = &block[number];
		const struct coverage_stack *s = &stack[b->stack];

		if (!(event[e] & 1)) {
			place[number] =
			    groups[s->group](functions[s->function], s->site, old, b->size);
			old = NULL;
		} else if (b->realloc_free) {
			old = place[number];
		} else {
			free(place[number]);
		}
	}
	return 0;
}
