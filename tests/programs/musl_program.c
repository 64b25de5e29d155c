/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For musl's loader: musl WHAT [ARGUMENT]. Each function allocates a size that no other one does;
 * tests/test_musl.py knows them.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <malloc.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

/* The compiler must neither leave out a block nor make the call of one the last of its function. */
#define KEEP(block) __asm__ volatile("" : : "r"(block) : "memory")
#define SITE	    __attribute__((noinline, noclone))

SITE void take(size_t bytes)
{
	void *block = malloc(bytes);

	KEEP(block);
}

/* ---- each function of the allocator ---- */

SITE void by_malloc(void)
{
	take(1001);
	KEEP(0);
}

SITE void by_calloc(void)
{
	KEEP(calloc(3, 1002));
}

SITE void by_realloc(void)
{
	void *block = realloc(NULL, 10);

	block = realloc(block, 100003);
	KEEP(block);
}

SITE void by_reallocarray(void)
{
	KEEP(reallocarray(NULL, 7, 1004));
}

SITE void by_posix_memalign(void)
{
	void *block = NULL;

	if (posix_memalign(&block, 64, 1005))
		abort();
	KEEP(block);
}

SITE void by_aligned_alloc(void)
{
	KEEP(aligned_alloc(64, 1088));
}

SITE void by_memalign(void)
{
	KEEP(memalign(128, 1007));
}

SITE void by_valloc(void)
{
	KEEP(valloc(1008));
}

static void allocator(void)
{
	by_malloc();
	by_calloc();
	by_realloc();
	by_reallocarray();
	by_posix_memalign();
	by_aligned_alloc();
	by_memalign();
	by_valloc();
}

/* ---- through functions of musl's ---- */

static int compare(const void *a, const void *b)
{
	take(2001);
	return *(const int *)a - *(const int *)b;
}

SITE void by_qsort(void)
{
	int values[] = {5, 3, 9, 1, 7, 2};

	qsort(values, 6, sizeof(*values), compare);
	KEEP(values);
}

SITE void by_strdup(void)
{
	char text[2002];

	memset(text, 'x', sizeof(text));
	text[sizeof(text) - 1] = 0;
	KEEP(strdup(text));
}

SITE void by_asprintf(void)
{
	char *text = NULL;

	if (asprintf(&text, "%d %s %d %d %d %g %2000d", 1, "two", 3, 4, 5, 6.5, 7) != 2000 + 16)
		abort();
	KEEP(text);
}

SITE void by_opendir(void)
{
	closedir(opendir("/"));
	KEEP(0);
}

static jmp_buf back;

static int leave(const void *a, const void *b)
{
	(void)a, (void)b;
	longjmp(back, 1);
}

/* What is noted for the search is left on the stack. */
SITE void by_longjmp(void)
{
	int value = 1;

	if (!setjmp(back))
		KEEP(bsearch(&value, &value, 1, sizeof(value), leave));
	take(2005);
	KEEP(0);
}

static void on_signal(int number)
{
	(void)number;
	take(2006);
	KEEP(0);
}

SITE void by_signal(void)
{
	signal(SIGUSR1, on_signal);
	raise(SIGUSR1);
	KEEP(0);
}

static void through_musl(void)
{
	by_qsort();
	by_strdup();
	by_asprintf();
	by_opendir();
	by_longjmp();
	by_signal();
}

/* ---- threads, libraries, processes ---- */

static pthread_key_t key;

static void at_end(void *unused)
{
	(void)unused;
	take(3003);
	KEEP(0);
}

static void *thread_main(void *argument)
{
	for (int i = 0; i < 1000; i++)
		take(3002);
	pthread_setspecific(key, argument);
	return NULL;
}

static void threads(void)
{
	pthread_t thread[4];

	pthread_key_create(&key, at_end);
	for (int round = 0; round < 5; round++) {
		for (int i = 0; i < 4; i++)
			pthread_create(&thread[i], NULL, thread_main, &key);
		for (int i = 0; i < 4; i++)
			pthread_join(thread[i], NULL);
	}
}

/* A failing dlopen between the two: musl removes from its list what it had appended. */
static void libraries(const char *path)
{
	void *(*allocate)(size_t);
	void *handle;

	KEEP(dlopen("/nonexistent/library.so", RTLD_NOW));
	handle = dlopen(path, RTLD_NOW);
	if (!handle)
		abort();
	allocate = (void *(*)(size_t))dlsym(handle, "plugin_allocate");
	KEEP(allocate(3004));
	dlclose(handle);
	KEEP(allocate(3005));
	puts(dlsym(handle, "nonsense") ? "found" : "not found");
	puts(dlerror() ? "a message" : "no message");
}

static void forks(const char *self)
{
	const char *argv[] = {self, "allocator", NULL};
	pid_t child = fork();

	if (child == 0) {
		take(3006);
		_exit(0);
	}
	waitpid(child, NULL, 0);
	if (posix_spawn(&child, self, NULL, NULL, (char **)argv, environ))
		abort();
	waitpid(child, NULL, 0);
	fflush(stdout);
	execv(self, (char **)argv);
	abort();
}

/* The agent must not leave a message for the program. */
int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";

	puts(dlerror() ? "a message" : "no message");
	fflush(stdout);
	if (!strcmp(what, "allocator"))
		allocator();
	else if (!strcmp(what, "through"))
		through_musl();
	else if (!strcmp(what, "threads"))
		threads();
	else if (!strcmp(what, "libraries"))
		libraries(argv[2]);
	else if (!strcmp(what, "forks"))
		forks(argv[0]);
	return 0;
}
