/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Programs that something is attached to while they do what is hard: busy HOW. A child is told to end by
 * a byte on standard input; then it prints "good", when all went as it should.
 *
 *	threads	200 that allocate
 *	churn	threads that begin and end
 *	move	threads that only resize blocks, so that each takes addresses that another has left
 *	fork	a process that forks while its threads allocate
 *	load	libraries are loaded and unloaded while threads allocate
 *	jump	signal handlers leave by siglongjmp
 *	traced	its child traces it
 *	filter	a seccomp filter
 */
#include <dlfcn.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#define THREADS_MOST 200
#define SLOTS	     64

static volatile int stop;
static unsigned long done;
static int wrong;

static int told_to_end(void)
{
	struct pollfd input = {.fd = 0, .events = POLLIN};

	return poll(&input, 1, 0) > 0;
}

static void *allocate(void *number)
{
	unsigned int seed = (unsigned int)(size_t)number;
	unsigned char *kept[SLOTS] = {0};
	size_t size[SLOTS] = {0};
	unsigned long count = 0;

	while (!stop) {
		unsigned int i = (unsigned int)rand_r(&seed) % SLOTS;

		for (size_t at = 0; kept[i] && at < size[i]; at++)
			wrong |= kept[i][at] != i;
		if (kept[i] && rand_r(&seed) % 4 == 0) {
			size[i] = 1 + (size_t)rand_r(&seed) % 3000;
			kept[i] = realloc(kept[i], size[i]);
		} else {
			free(kept[i]);
			size[i] = 1 + (size_t)rand_r(&seed) % 3000;
			kept[i] = rand_r(&seed) % 5 ? malloc(size[i]) : calloc(1, size[i]);
		}
		memset(kept[i], (int)i, size[i]);
		if (++count % 20 == 0)
			usleep((unsigned int)rand_r(&seed) % 5000);
	}
	for (int i = 0; i < SLOTS; i++)
		free(kept[i]);
	__atomic_fetch_add(&done, count, __ATOMIC_RELAXED);
	return NULL;
}

static pthread_t thread[THREADS_MOST];

static void start_with(int count, void *(*work)(void *))
{
	stop = 0;
	for (int i = 0; i < count; i++)
		if (pthread_create(&thread[i], NULL, work, (void *)(size_t)(i + 1)))
			abort();
}

static void start(int count)
{
	start_with(count, allocate);
}

static void finish(int count)
{
	stop = 1;
	for (int i = 0; i < count; i++)
		pthread_join(thread[i], NULL);
}

static void threads(void)
{
	start(THREADS_MOST);
	while (!told_to_end())
		usleep(10000);
	finish(THREADS_MOST);
}

/* Blocks of these sizes are in arenas, which threads share, and not in a thread's own cache. */
static void *resize(void *number)
{
	unsigned int seed = (unsigned int)(size_t)number;
	void *kept[8] = {0};

	for (; !stop; __atomic_fetch_add(&done, 1, __ATOMIC_RELAXED)) {
		unsigned int i = (unsigned int)rand_r(&seed) % 8;

		if (rand_r(&seed) % 2) {
			kept[i] = realloc(kept[i], 1100 + (size_t)rand_r(&seed) % 9000);
		} else {
			free(kept[i]);
			kept[i] = malloc(1100 + (size_t)rand_r(&seed) % 9000);
		}
		wrong |= !kept[i];
	}
	for (int i = 0; i < 8; i++)
		free(kept[i]);
	return NULL;
}

static void churn(void)
{
	while (!told_to_end()) {
		start(8);
		usleep(3000);
		finish(8);
	}
}

static void move(void)
{
	start_with(THREADS_MOST, resize);
	while (!told_to_end())
		usleep(10000);
	finish(THREADS_MOST);
}

static void fork_often(void)
{
	start(3);
	while (!told_to_end()) {
		pid_t pid = fork();
		int status;

		if (!pid) {
			for (int i = 0; i < 100; i++)
				free(malloc(1000));
			_exit(7);
		}
		wrong |= pid < 0 || waitpid(pid, &status, 0) != pid || !WIFEXITED(status) ||
			 WEXITSTATUS(status) != 7;
	}
	finish(3);
}

static void load(void)
{
	start(3);
	while (!told_to_end()) {
		void *outer = dlopen("libz.so.1", RTLD_NOW),
		     *inner = dlopen("libm.so.6", RTLD_LAZY);
		const char *(*version)(void) = NULL;
		void *found = outer ? dlsym(outer, "zlibVersion") : NULL;

		memcpy(&version, &found, sizeof(version));
		wrong |= outer && (!version || !*version());
		if (inner)
			dlclose(inner);
		if (outer)
			dlclose(outer);
		done++;
	}
	finish(3);
}

static sigjmp_buf before;
static volatile sig_atomic_t signals, inside;

static void on_alarm(int number)
{
	(void)number;
	signals++;
	if (inside)
		siglongjmp(before, 1);
}

static void jump(void)
{
	struct sigaction action = {.sa_handler = on_alarm};
	struct itimerval timer = {{0, 700}, {0, 700}};
	sigset_t alarm_set;

	sigemptyset(&alarm_set);
	sigaddset(&alarm_set, SIGALRM);
	sigaction(SIGALRM, &action, NULL);
	setitimer(ITIMER_REAL, &timer, NULL);
	while (!told_to_end()) {
		if (!sigsetjmp(before, 1)) {
			inside = 1;
			for (volatile int i = 0; i < 20000; i++)
				;
		}
		inside = 0;
		sigprocmask(SIG_BLOCK, &alarm_set, NULL);
		for (size_t i = 0; i < 50; i++)
			free(malloc(100 + i));
		sigprocmask(SIG_UNBLOCK, &alarm_set, NULL);
		done++;
	}
	wrong |= !signals;
}

static void traced(void)
{
	pid_t tracer = fork();

	if (!tracer) {
		if (ptrace(PTRACE_SEIZE, getppid(), 0, 0))
			_exit(1);
		for (;;)
			pause();
	}
	done = tracer > 0;
	while (!told_to_end())
		usleep(10000);
	kill(tracer, SIGKILL);
	waitpid(tracer, NULL, 0);
}

static void filter(void)
{
	struct sock_filter allow = {BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW};
	struct sock_fprog program = {1, &allow};

	done = !prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) &&
	       !prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
	while (!told_to_end())
		usleep(10000);
}

int main(int count, char **words)
{
	static const struct {
		const char *name;
		void (*run)(void);
	} ways[] = {{"threads", threads}, {"churn", churn},  {"move", move},
		    {"fork", fork_often}, {"load", load},    {"jump", jump},
		    {"traced", traced},	  {"filter", filter}};

	prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);
	puts("ready");
	fflush(stdout);
	for (size_t i = 0; i < sizeof(ways) / sizeof(*ways); i++)
		if (count == 2 && !strcmp(words[1], ways[i].name))
			ways[i].run();
	puts(done || !strcmp(words[1], "fork") ? wrong ? "wrong" : "good" : "nothing done");
	return 0;
}
