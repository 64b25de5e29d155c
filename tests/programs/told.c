/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program that does what it is told on standard input, and answers "done" to each order:
 *
 *	a N, b N, c N	N blocks of a MB by keep_a and so on, kept
 *	f N		frees the latest N of them
 *	- N		N small blocks by churn, freed at once
 *	p N		as a, by a child; the parent ends
 *	e 0		exec: it becomes this program again, from its start
 *	s N		starts this program by posix_spawn, which does as a, and ends
 */
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

#define BLOCKS_MOST 10000

static void *kept[BLOCKS_MOST];
static int blocks;

#define KEEP(name)                                                                                 \
	static __attribute__((noinline)) void name(int count)                                      \
	{                                                                                          \
		while (count--)                                                                    \
			memset(kept[blocks++] = malloc(1 << 20), 1, 1 << 20);                      \
	}
KEEP(keep_a)
KEEP(keep_b)
KEEP(keep_c)

static __attribute__((noinline)) void churn(int count)
{
	while (count--)
		free(malloc(64));
}

static void release(int count)
{
	while (count--)
		free(kept[--blocks]);
}

static void start(int count)
{
	char number[16], *arguments[] = {"told", number, NULL};
	pid_t child;

	snprintf(number, sizeof(number), "%d", count);
	if (!posix_spawn(&child, "/proc/self/exe", NULL, NULL, arguments, environ))
		waitpid(child, NULL, 0);
}

int main(int argc, char **argv)
{
	char which;
	int count;

	if (argc > 1) {
		keep_a(atoi(argv[1]));
		return 0;
	}
	prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);
	setbuf(stdin, NULL); /* a child reads on */
	puts("ready");
	fflush(stdout);
	while (scanf(" %c%d", &which, &count) == 2) {
		switch (which) {
		case 'a':
			keep_a(count);
			break;
		case 'b':
			keep_b(count);
			break;
		case 'c':
			keep_c(count);
			break;
		case 'f':
			release(count);
			break;
		case 'e':
			execl("/proc/self/exe", "told", NULL);
			return 1;
		case 's':
			start(count);
			break;
		case 'p':
			if (fork())
				return 0;
			keep_a(count);
			break;
		default:
			churn(count);
		}
		puts("done");
		fflush(stdout);
	}
	return 0;
}
