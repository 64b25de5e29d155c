/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads that wait in system calls which the kernel does not begin again by itself, children, and
 * connections that end. Prints "ready"; when its standard input ends: what it saw of anything that it did
 * not do itself.
 */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static atomic_int interrupted, children, forked, wrong;
static atomic_bool end;

static void count_child(int number)
{
	(void)number;
	children++;
}

static void in_child(void)
{
	forked++;
}

static void *wait_epoll(void *unused)
{
	int fd = epoll_create1(0);
	struct epoll_event event;

	(void)unused;
	while (!end)
		if (epoll_wait(fd, &event, 1, 50) < 0)
			interrupted += errno == EINTR;
	return NULL;
}

static void *wait_sleep(void *unused)
{
	(void)unused;
	while (!end)
		if (nanosleep(&(struct timespec){0, 20000000}, NULL))
			interrupted++;
	return NULL;
}

static void *wait_semaphore(void *unused)
{
	struct timespec t;
	sem_t none;

	(void)unused;
	sem_init(&none, 0, 0);
	while (!end) {
		clock_gettime(CLOCK_REALTIME, &t);
		t.tv_sec += 1;
		if (sem_timedwait(&none, &t) && errno == EINTR)
			interrupted++;
	}
	return NULL;
}

/* What one end closes, the other sees closed at once: a copy of the process must not keep it open. */
static void *wait_closed(void *unused)
{
	(void)unused;
	while (!end) {
		struct pollfd p;
		int ends[2];
		char byte;

		socketpair(AF_UNIX, SOCK_STREAM, 0, ends);
		close(ends[0]);
		p = (struct pollfd){.fd = ends[1], .events = POLLIN};
		if (poll(&p, 1, 0) != 1 || read(ends[1], &byte, 1) != 0)
			wrong++;
		close(ends[1]);
		usleep(100);
	}
	return NULL;
}

/* Allocates all the time. */
static void *work(void *unused)
{
	unsigned int seed = 1;
	void *block[256] = {NULL};

	(void)unused;
	while (!end) {
		unsigned int at = rand_r(&seed) % 256;

		free(block[at]);
		block[at] = malloc(rand_r(&seed) % 3000);
	}
	return NULL;
}

int main(void)
{
	void *(*const jobs[])(void *) = {wait_epoll,  wait_sleep, wait_semaphore,
					 wait_closed, work,	  work};
	pthread_t thread[sizeof(jobs) / sizeof(*jobs)];
	char rest;

	signal(SIGCHLD, count_child);
	pthread_atfork(NULL, NULL, in_child);
	for (size_t i = 0; i < sizeof(jobs) / sizeof(*jobs); i++)
		pthread_create(&thread[i], NULL, jobs[i], NULL);
	puts("ready");
	fflush(stdout);
	while (read(0, &rest, 1) > 0)
		;
	end = true;
	for (size_t i = 0; i < sizeof(jobs) / sizeof(*jobs); i++)
		pthread_join(thread[i], NULL);
	errno = 0;
	wrong += waitpid(-1, NULL, __WALL | WNOHANG) != -1 || errno != ECHILD;
	printf("interrupted %d, children %d, handlers %d, wrong %d\n", interrupted, children,
	       forked, wrong);
	return 0;
}
