/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A host of mayfly/memprof.h that forks: memprof_fork CHILDREN BLOCKS. It makes BLOCKS blocks of 1,000
 * words in "before", then forks. Each child frees half of these, and makes BLOCKS in "child"; then the
 * parent makes as many in "parent". `memprof_fork positions CHILDREN` is its own client, and prints
 * in each process which of its blocks were sampled.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "mayfly/memprof.h"

enum { WORDS = 1000, POSITIONS = 40000 };

static const char *const names[] = {"before", "child", "parent"};

static struct mayfly_memprof *profile;
static struct mayfly_memprof_thread *sampler;
static uint64_t now;	/* the function that runs: 1 + its number */
static uintptr_t block; /* the last one; blocks are numbers here */

static uint32_t call_stack(void *host, uint32_t entry, uint64_t *frames, uint32_t most)
{
	(void)host;
	(void)entry;
	(void)most;
	frames[0] = now;
	return 1;
}

static uint32_t decode(void *host, uint64_t code, struct mayfly_memprof_place *places,
		       uint32_t most)
{
	(void)host;
	(void)most;
	places[0].function = names[code - 1];
	places[0].file = "forking";
	places[0].line = (uint32_t)code;
	return 1;
}

static void make(uint64_t function, uint32_t blocks, uint64_t words)
{
	now = function;
	for (uint32_t i = 0; i < blocks; i++) {
		block += 16;
		mayfly_memprof_alloc(sampler, block, words, 0);
		mayfly_memprof_run(sampler);
	}
}

static void free_half(void)
{
	for (uintptr_t at = 16; at <= block / 2; at += 16) {
		mayfly_memprof_freed(profile, sampler, at);
		mayfly_memprof_run(sampler);
	}
}

static void *print_block(void *client, const struct mayfly_memprof_block *sampled)
{
	(void)client;
	printf(" %zu", (size_t)sampled->block);
	return MAYFLY_MEMPROF_IGNORE;
}

/* One line of each process: the numbers of the sampled blocks, from 0 in each. */
static int positions(int children)
{
	struct mayfly_memprof_options options = {.rate = 1e-3, .frames = 1, .seed = 1};
	struct mayfly_memprof_tracker tracker = {.alloc = print_block};

	mayfly_memprof_start(profile, &options, &tracker);
	mayfly_memprof_alloc(sampler, 8, 1, 0);
	for (int i = 0; i < children; i++) {
		fflush(stdout);
		if (!fork()) {
			make(2, POSITIONS, 1);
			putchar('\n');
			return 0;
		}
		wait(NULL);
	}
	make(3, POSITIONS, 1);
	putchar('\n');
	return 0;
}

int main(int argc, char **argv)
{
	struct mayfly_memprof_host host = {
	    .unit_bytes = 8, .callstack = call_stack, .decode = decode};
	uint32_t blocks = (uint32_t)atoi(argv[argc - 1]);

	profile = mayfly_memprof_create(&host);
	sampler = mayfly_memprof_attach(profile);
	if (!strcmp(argv[1], "positions"))
		return positions((int)blocks);
	mayfly_memprof_trace(profile);
	make(1, blocks, WORDS);
	for (int i = 0; i < atoi(argv[1]); i++) {
		int status;
		pid_t child = fork();

		if (!child) {
			free_half();
			make(2, blocks, WORDS);
			printf("child\n");
			return 3;
		}
		if (waitpid(child, &status, 0) != child || !WIFEXITED(status) ||
		    WEXITSTATUS(status) != 3)
			return 1;
	}
	make(3, blocks, WORDS);
	printf("parent\n");
	return 0;
}
