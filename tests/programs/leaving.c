/* SPDX-License-Identifier: Apache-2.0 */
/* A program with blocks that are held and blocks that are lost, which ends in the way that its arguments name. It
 * prints "held LOST", in bytes as it asked for them, before it does. */
#include <errno.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
	CACHE = 1000,
	CACHE_BYTES = 100,
	LOST = 100,
	LOST_BYTES = 200,
	RINGS = 50,
	RING = 3,
	FREED = 500,
	MANY = 600000
};

struct node {
	struct node *next;
	char data[104];
};

void *g_cache[CACHE];
static void **many;
static struct node *freed_at_exit;

__attribute__((noinline)) static void lose(void)
{
	struct node *ring[RING];

	for (int i = 0; i < LOST; i++) {
		void *volatile block = malloc(LOST_BYTES);

		block = NULL;
		(void)block;
	}
	for (int k = 0; k < RINGS; k++) {
		for (int i = 0; i < RING; i++)
			ring[i] = malloc(sizeof(struct node));
		for (int i = 0; i < RING; i++)
			ring[i]->next = ring[(i + 1) % RING];
	}
	memset(ring, 0, sizeof(ring));
	__asm__ volatile("" : : "r"(ring) : "memory");
}

/* No pointer to what was lost stays where stacks have been. */
__attribute__((noinline)) static void wipe(void)
{
	char room[1 << 16];

	memset(room, 0, sizeof(room));
	__asm__ volatile("" : : "r"(room) : "memory");
}

static void free_list(void)
{
	while (freed_at_exit) {
		struct node *next = freed_at_exit->next;

		free(freed_at_exit);
		freed_at_exit = next;
	}
}

static void prepare(void)
{
	for (int i = 0; i < CACHE; i++)
		g_cache[i] = malloc(CACHE_BYTES);
	for (int i = 0; i < FREED; i++) {
		struct node *n = malloc(sizeof(*n));

		n->next = freed_at_exit;
		freed_at_exit = n;
	}
	atexit(free_list);
	lose();
	wipe();
	printf("%d %d\n", CACHE * CACHE_BYTES,
	       LOST * LOST_BYTES + RINGS * RING * (int)sizeof(struct node));
	fflush(stdout);
}

static void leave(int number)
{
	(void)number;
	exit(5);
}

/* Holds a block by its stack alone, for as long as the process lives. */
static void *hold(void *started)
{
	void *volatile mine = malloc(5000);

	pthread_barrier_wait(started);
	while (mine)
		pause();
	return NULL;
}

static void begin_thread(void)
{
	static pthread_barrier_t started;
	pthread_t thread;

	pthread_barrier_init(&started, NULL, 2);
	pthread_create(&thread, NULL, hold, &started);
	pthread_barrier_wait(&started);
}

static void fork_and_wait(void)
{
	pid_t child = fork();
	int status;

	if (!child) {
		free(g_cache[0]);
		g_cache[0] = NULL;
		exit(6);
	}
	if (waitpid(child, &status, 0) != child || WEXITSTATUS(status) != 6)
		abort();
}

static void take_many(void)
{
	many = malloc(MANY * sizeof(*many));
	for (int i = 0; i < MANY; i++)
		many[i] = malloc(24);
}

static void end_as(const char *how, char **argv)
{
	if (!strcmp(how, "exit"))
		exit(3);
	if (!strcmp(how, "_exit"))
		_exit(3);
	if (!strcmp(how, "quick_exit"))
		quick_exit(3);
	if (!strcmp(how, "abort"))
		abort();
	if (!strcmp(how, "term"))
		raise(SIGTERM);
	if (!strcmp(how, "handler")) {
		signal(SIGUSR1, leave);
		raise(SIGUSR1);
	}
	if (!strcmp(how, "threads"))
		begin_thread();
	if (!strcmp(how, "fork"))
		fork_and_wait();
	if (!strcmp(how, "many"))
		take_many();
	if (!strcmp(how, "undumpable"))
		prctl(PR_SET_DUMPABLE, 0);
	if (!strcmp(how, "sandbox"))
		prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, NULL); /* fails, and is taken for one */
	if (!strcmp(how, "exec"))
		execl(argv[0], argv[0], "return", (char *)NULL);
}

int main(int argc, char **argv)
{
	if (argc < 2 || strcmp(argv[1], "exec") != 0)
		prepare();
	for (int i = 1; i < argc; i++)
		end_as(argv[i], argv);
	return 0;
}
