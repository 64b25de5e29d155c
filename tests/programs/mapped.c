/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Maps, unmaps, moves and replaces memory, and says what is left: "site BYTES" for each function below that has
 * mapped any of it, "most BYTES" for the most ever mapped at once, "calls HASH" for what all calls returned.
 * The list of parts that it keeps is checked by mincore(): what is not in it is not mapped.
 *
 *	mapped random SEED STEPS	one thread
 *	mapped threads SEED STEPS	four threads, of which each has its own list
 *	mapped fork SEED STEPS		a child goes on with what the parent had; both say what is left
 *	mapped wait SEED STEPS		half of the steps, a line on stdin, the rest
 *	mapped kinds			each kind of mapping once
 */
#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/wait.h>
#include <unistd.h>

#define PAGE	4096ul
#define LEAST	(128ul << 10)
#define PARTS	4000
#define THREADS 4

#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000
#endif
#ifndef MREMAP_DONTUNMAP
#define MREMAP_DONTUNMAP 4
#endif

enum site { SMALL, RESERVED, PLAIN, SHARED, FIXED, GROWN, COMMITTED, SITES };
static const char *const names[SITES] = {"", "", "plain", "shared", "fixed", "grown", "committed"};

struct part {
	char *start, *end;
	enum site site;
};

struct list {
	struct part part[PARTS];
	int parts;
	unsigned long now, most, hash;
	uint64_t random;
};
static struct list lists[THREADS];

static unsigned below(struct list *l, unsigned limit)
{
	l->random ^= l->random << 13;
	l->random ^= l->random >> 7;
	l->random ^= l->random << 17;
	return (unsigned)(l->random >> 33) % limit;
}

/* What a call returned, without addresses. */
static void note_result(struct list *l, int good)
{
	l->hash = (l->hash ^ (unsigned long)(good ? 1 : 1000 + errno)) * 1099511628211ul;
	errno = 77; /* which a call that succeeds leaves */
}

/* ---- the list ---- */

static void add_part(struct list *l, char *start, char *end, enum site site)
{
	if (start == end)
		return;
	if (l->parts == PARTS)
		abort();
	l->part[l->parts++] = (struct part){start, end, site};
}

/* Whether anything was there, and of what: the first site that was found, reserved before small. */
static enum site cut(struct list *l, char *start, char *end)
{
	enum site found = SMALL;

	for (int i = 0; i < l->parts; i++) {
		struct part p = l->part[i];

		if (p.end <= start || p.start >= end)
			continue;
		if (p.site > found)
			found = p.site;
		l->part[i--] = l->part[--l->parts];
		add_part(l, p.start, p.start < start ? start : p.start, p.site);
		add_part(l, p.end > end ? end : p.end, p.end, p.site);
		if (p.start < start || p.end > end)
			i = -1;
	}
	return found;
}

static unsigned long sum(const struct list *l, enum site site)
{
	unsigned long bytes = 0;

	for (int i = 0; i < l->parts; i++)
		if (l->part[i].site == site)
			bytes += (unsigned long)(l->part[i].end - l->part[i].start);
	return bytes;
}

static void look_at_most(struct list *l)
{
	l->now = 0;
	for (enum site site = PLAIN; site < SITES; site++)
		l->now += sum(l, site);
	if (l->now > l->most)
		l->most = l->now;
}

/* ---- the sites ---- */

#define SITE __attribute__((noinline, noclone))

SITE static char *plain(char *at, size_t length, int protection, int flags)
{
	char *p = mmap(at, length, protection, MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);

	__asm__ volatile("" ::: "memory");
	return p;
}

SITE static char *fixed(char *at, size_t length, int protection)
{
	char *p = mmap(at, length, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);

	__asm__ volatile("" ::: "memory");
	return p;
}

SITE static char *shared(size_t length, int fd)
{
	char *p = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	__asm__ volatile("" ::: "memory");
	return p;
}

SITE static char *grown(char *at, size_t old_length, size_t length, int flags, char *to)
{
	char *p = mremap(at, old_length, length, flags, to);

	__asm__ volatile("" ::: "memory");
	return p;
}

SITE static int committed(char *at, size_t length)
{
	int result = mprotect(at, length, PROT_READ | PROT_WRITE);

	__asm__ volatile("" ::: "memory");
	return result;
}

/* ---- steps ---- */

static size_t random_length(struct list *l)
{
	return (1 + below(l, below(l, 3) ? 31 : 300)) * PAGE;
}

/* A random stretch of a random part. False: there is none. */
static int choose(struct list *l, char **start, char **end)
{
	const struct part *p;
	size_t pages, from, to;

	if (!l->parts)
		return 0;
	p = &l->part[below(l, (unsigned)l->parts)];
	pages = (size_t)(p->end - p->start) / PAGE;
	from = below(l, 2) ? 0 : below(l, (unsigned)pages);
	to = below(l, 2) ? pages : from + 1 + below(l, (unsigned)(pages - from));
	*start = p->start + from * PAGE;
	*end = p->start + to * PAGE;
	return 1;
}

static void step_map(struct list *l)
{
	size_t length = random_length(l), asked = length - below(l, 2) * 100;
	int none = !below(l, 4);
	char *p = plain(NULL, asked, none ? PROT_NONE : PROT_READ | PROT_WRITE, 0);

	note_result(l, p != MAP_FAILED);
	if (p == MAP_FAILED)
		return;
	/* mmap rounds up, but it is the number that counts as large. */
	add_part(l, p, p + length, asked < LEAST ? SMALL : none ? RESERVED : PLAIN);
	if (!none)
		p[length / 2] = 1;
}

static void step_shared(struct list *l)
{
	size_t length = LEAST + random_length(l);
	int fd = memfd_create("mapped", 0);
	char *p;

	if (fd < 0 || ftruncate(fd, (off_t)length) != 0)
		abort();
	p = shared(length, fd);
	note_result(l, p != MAP_FAILED);
	close(fd);
	if (p != MAP_FAILED)
		add_part(l, p, p + length, SHARED);
}

static void step_unmap(struct list *l)
{
	char *start, *end;
	int result;

	if (!choose(l, &start, &end))
		return;
	result = munmap(start, (size_t)(end - start));
	note_result(l, !result);
	if (!result)
		cut(l, start, end);
}

static void step_replace(struct list *l)
{
	char *start, *end, *p;
	enum site was;
	int none = !below(l, 3);

	if (!choose(l, &start, &end))
		return;
	p = fixed(start, (size_t)(end - start), none ? PROT_NONE : PROT_READ | PROT_WRITE);
	note_result(l, p == start);
	if (p != start)
		return;
	was = cut(l, start, end);
	add_part(l, start, end,
		 (size_t)(end - start) < LEAST && was != RESERVED ? SMALL
		 : none						  ? RESERVED
								  : FIXED);
}

static void step_move(struct list *l)
{
	char *start, *end, *p;
	size_t length = random_length(l);
	enum site was;

	if (!choose(l, &start, &end))
		return;
	p = grown(start, (size_t)(end - start), length, MREMAP_MAYMOVE, NULL);
	note_result(l, p != MAP_FAILED);
	if (p == MAP_FAILED)
		return;
	was = cut(l, start, end);
	cut(l, p, p + length);
	add_part(l, p, p + length,
		 was == RESERVED		  ? RESERVED
		 : was == SMALL && length < LEAST ? SMALL
						  : GROWN);
}

static void step_commit(struct list *l)
{
	char *start, *end;
	int result;

	if (!choose(l, &start, &end))
		return;
	result = committed(start, (size_t)(end - start));
	note_result(l, !result);
	if (result)
		return;
	for (int i = 0; i < l->parts; i++) {
		struct part p = l->part[i];
		char *from = p.start > start ? p.start : start, *to = p.end < end ? p.end : end;

		if (p.site != RESERVED || from >= to)
			continue;
		cut(l, from, to);
		add_part(l, from, to, COMMITTED);
		i = -1;
	}
}

/* Calls that fail, and some that change nothing. */
static void step_nothing(struct list *l)
{
	char *start, *end, *p;

	if (!choose(l, &start, &end))
		return;
	p = plain(start, LEAST, PROT_READ, MAP_FIXED_NOREPLACE);
	note_result(l, p != MAP_FAILED);
	note_result(l, !munmap(start + 1, LEAST));
	note_result(l, !munmap(start, 0));
	note_result(l, plain(NULL, 0, PROT_READ, 0) != MAP_FAILED);
	note_result(l, plain(NULL, 1ul << 60, PROT_READ, 0) != MAP_FAILED);
	note_result(l, shared(LEAST, -1) != MAP_FAILED);
	note_result(l, grown(start, (size_t)(end - start), 1ul << 60, MREMAP_MAYMOVE, NULL) !=
			   MAP_FAILED);
	note_result(l, grown(start + 1, PAGE, 2 * LEAST, MREMAP_MAYMOVE, NULL) != MAP_FAILED);
	note_result(l, !madvise(start, (size_t)(end - start), MADV_DONTNEED));
}

static void run_steps(struct list *l, int steps)
{
	while (steps-- > 0) {
		switch (below(l, 12)) {
		case 0:
		case 1:
		case 2:
			step_map(l);
			break;
		case 3:
			step_shared(l);
			break;
		case 4:
		case 5:
		case 6:
			step_unmap(l);
			break;
		case 7:
			step_replace(l);
			break;
		case 8:
			step_move(l);
			break;
		case 9:
		case 10:
			step_commit(l);
			break;
		default:
			step_nothing(l);
		}
		look_at_most(l);
	}
}

/* ---- what is left ---- */

static void check_list(const struct list *l)
{
	unsigned char there[1];

	for (int i = 0; i < l->parts; i++)
		for (char *p = l->part[i].start; p < l->part[i].end; p += PAGE)
			if (mincore(p, PAGE, there) != 0)
				abort();
}

static void say(const char *who, int threads)
{
	unsigned long most = 0, hash = 0;

	for (int t = 0; t < threads; t++) {
		check_list(&lists[t]);
		most += lists[t].most;
		hash ^= lists[t].hash;
	}
	for (enum site site = PLAIN; site < SITES; site++) {
		unsigned long bytes = 0;

		for (int t = 0; t < threads; t++)
			bytes += sum(&lists[t], site);
		printf("%s %s %lu\n", who, names[site], bytes);
	}
	printf("%s most %lu\n%s calls %lx\n", who, most, who, hash);
	fflush(stdout);
}

static int steps_of_thread;

static void *run_thread(void *list)
{
	run_steps(list, steps_of_thread);
	return NULL;
}

static void run_threads(int steps)
{
	pthread_t thread[THREADS];

	steps_of_thread = steps;
	for (int t = 0; t < THREADS; t++)
		pthread_create(&thread[t], NULL, run_thread, &lists[t]);
	for (int t = 0; t < THREADS; t++)
		pthread_join(thread[t], NULL);
}

static void run_fork(int steps)
{
	pid_t child;

	run_steps(&lists[0], steps);
	child = fork();
	if (!child) {
		run_steps(&lists[0], steps);
		say("child", 1);
		exit(0);
	}
	run_steps(&lists[0], steps);
	waitpid(child, NULL, 0);
	say("parent", 1);
}

/* ---- one of each kind ---- */

SITE static void *of_file(void)
{
	FILE *file = tmpfile();
	void *p;

	if (!file || ftruncate(fileno(file), 3 << 20) != 0)
		abort();
	p = mmap(NULL, 3 << 20, PROT_READ, MAP_PRIVATE, fileno(file), 0);
	fclose(file);
	return p;
}

SITE static void *of_segment(void)
{
	int id = shmget(IPC_PRIVATE, 5 << 20, IPC_CREAT | 0600);
	void *p = shmat(id, NULL, 0), *q = shmat(id, NULL, 0);

	shmctl(id, IPC_RMID, NULL);
	if (shmdt(q) != 0)
		abort();
	return p;
}

SITE static void *kept_twice(char *old)
{
	void *p = mremap(old, 2 << 20, 2 << 20, MREMAP_MAYMOVE | MREMAP_DONTUNMAP, NULL);

	__asm__ volatile("" ::: "memory");
	return p;
}

SITE static void *below_least(void)
{
	void *p = mmap(NULL, LEAST - 1, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	__asm__ volatile("" ::: "memory");
	return p;
}

static void *idle(void *unused)
{
	return unused;
}

static void run_kinds(void)
{
	pthread_t thread;
	char *p = plain(NULL, 2 << 20, PROT_READ | PROT_WRITE, 0);

	below_least();
	free(malloc(4 << 20)); /* which libc maps itself */
	if (!malloc(6 << 20))
		abort();
	pthread_create(&thread, NULL, idle, NULL);
	pthread_join(thread, NULL);
	printf("segment %d file %d\n", of_segment() != (void *)-1, of_file() != MAP_FAILED);
	printf("twice %d\n", kept_twice(p) != MAP_FAILED);
	/* What is given back stays mapped. */
	p = plain(NULL, 1 << 20, PROT_READ | PROT_WRITE, 0);
	memset(p, 1, 1 << 20);
	madvise(p, 1 << 20, MADV_DONTNEED);
	mprotect(p, 1 << 20, PROT_NONE);
}

int main(int argc, char **argv)
{
	uint64_t seed = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
	int steps = argc > 3 ? atoi(argv[3]) : 100;
	const char *what = argc > 1 ? argv[1] : "random";

	for (int t = 0; t < THREADS; t++)
		lists[t].random = (seed * THREADS + (uint64_t)t + 1) * 0x9e3779b97f4a7c15u;
	if (!strcmp(what, "kinds")) {
		run_kinds();
	} else if (!strcmp(what, "threads")) {
		run_threads(steps);
		say("all", THREADS);
	} else if (!strcmp(what, "fork")) {
		run_fork(steps);
	} else if (!strcmp(what, "wait")) {
		run_steps(&lists[0], steps / 2);
		memset(lists[0].part, 0,
		       sizeof(lists[0].part)); /* from now on, only what is mapped later */
		lists[0].parts = 0;
		lists[0].most = 0;
		printf("ready\n");
		fflush(stdout);
		if (getchar() == EOF)
			return 1;
		run_steps(&lists[0], steps / 2);
		say("all", 1);
		if (getchar() == EOF)
			return 0;
	} else {
		run_steps(&lists[0], steps);
		say("all", 1);
	}
	return 0;
}
