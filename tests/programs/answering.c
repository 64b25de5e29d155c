/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program under load that answers: its threads allocate and check what they have written. To lines on
 * standard input:
 *
 *	alive	"alive"
 *	work	"worked", after 100,000 blocks in the main thread
 *	fork	"forked", when a child that allocates has ended as it should
 *	exec	"ready", from the program that it becomes: itself
 *
 * At the end of its input it prints "good" when all data was right, and its exit status is 23.
 */
#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define THREADS	    4
#define SLOTS	    64
#define CHILD_ENDS  7
#define ENDS	    23
#define WORK_BLOCKS 100000

static volatile int stop;
static int wrong;

struct slot {
	unsigned char *block;
	size_t size;
};

static void *allocate(unsigned int *seed, size_t size)
{
	void *block;

	switch (rand_r(seed) % 4) {
	case 0:
		return calloc(1, size);
	case 1:
		return memalign(64, size);
	case 2:
		return posix_memalign(&block, 128, size) ? NULL : block;
	default:
		return malloc(size);
	}
}

static void step(struct slot *slots, unsigned int *seed)
{
	unsigned int i = (unsigned int)rand_r(seed) % SLOTS;
	struct slot *s = &slots[i];

	for (size_t at = 0; at < s->size; at++)
		wrong |= s->block[at] != (unsigned char)(i + 1);
	s->size = 1 + (size_t)rand_r(seed) % 1000;
	if (s->block && rand_r(seed) % 4 == 0) {
		s->block = realloc(s->block, s->size);
	} else {
		free(s->block);
		s->block = allocate(seed, s->size);
	}
	memset(s->block, (int)i + 1, s->size);
}

static void end_slots(struct slot *slots)
{
	for (unsigned int i = 0; i < SLOTS; i++)
		free(slots[i].block);
}

static void *load(void *number)
{
	unsigned int seed = (unsigned int)(size_t)number;
	struct slot slots[SLOTS] = {0};

	while (!stop) {
		for (int i = 0; i < 50; i++)
			step(slots, &seed);
		usleep(2000);
	}
	end_slots(slots);
	return NULL;
}

static void work(int blocks)
{
	struct slot slots[SLOTS] = {0};
	unsigned int seed = 1;

	while (blocks--)
		step(slots, &seed);
	end_slots(slots);
}

static void fork_one(void)
{
	pid_t child = fork();
	int status = 0;

	if (!child) {
		work(1000);
		_exit(wrong ? 1 : CHILD_ENDS);
	}
	wrong |= waitpid(child, &status, 0) != child || !WIFEXITED(status) ||
		 WEXITSTATUS(status) != CHILD_ENDS;
}

static void answer(char *line)
{
	line[strcspn(line, "\n")] = 0;
	if (!strcmp(line, "alive")) {
		puts("alive");
	} else if (!strcmp(line, "work")) {
		work(WORK_BLOCKS);
		puts("worked");
	} else if (!strcmp(line, "fork")) {
		fork_one();
		puts("forked");
	} else {
		execl("/proc/self/exe", "answering", NULL);
		puts("no exec");
	}
	fflush(stdout);
}

int main(void)
{
	pthread_t thread[THREADS];
	char line[64];

	prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);
	setbuf(stdin, NULL); /* what it becomes reads on */
	for (size_t i = 0; i < THREADS; i++)
		if (pthread_create(&thread[i], NULL, load, (void *)(i + 1)))
			abort();
	puts("ready");
	fflush(stdout);
	while (fgets(line, sizeof(line), stdin))
		answer(line);
	stop = 1;
	for (size_t i = 0; i < THREADS; i++)
		pthread_join(thread[i], NULL);
	puts(wrong ? "wrong" : "good");
	return ENDS;
}
