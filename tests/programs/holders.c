/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory that is held in known ways, and lost in others. Prints what each holder holds, as a line of
 * JSON, when all of it is there; ends when its standard input does.
 */
#include <malloc.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define THREADS 3

struct node {
	struct node *next;
	void *data;
	struct node *other;
};

static size_t bytes_of_last;

static void *get(size_t size, size_t *sum)
{
	void *block = malloc(size);

	memset(block, 0, size);
	bytes_of_last = malloc_usable_size(block);
	*sum += bytes_of_last;
	return block;
}

static struct node *node_with(struct node *next, size_t data, size_t *sum)
{
	struct node *n = get(sizeof(*n), sum);

	n->next = next;
	n->data = get(data, sum);
	return n;
}

static struct node *list_of(int count, size_t data, size_t *sum)
{
	struct node *list = NULL;

	for (int i = 0; i < count; i++)
		list = node_with(list, data, sum);
	return list;
}

/* ---- held ---- */

static struct node **g_sessions;
struct node *g_first, *g_second;
char *g_inside;
static _Thread_local struct node *t_list;
static size_t sessions, cache, shared, first_only, second_only, inside, huge, aligned;
static size_t local[THREADS], stack[THREADS];
void *g_huge[3], *g_aligned[2];

static void hold_sessions(void)
{
	g_sessions = get(512 * sizeof(*g_sessions), &sessions);
	for (int i = 0; i < 20000; i++)
		g_sessions[i % 512] = node_with(g_sessions[i % 512], 16 + i % 400, &sessions);
}

static void hold_cache(void)
{
	static struct node *volatile s_cache;

	s_cache = list_of(5000, 100, &cache);
	if (!s_cache)
		abort();
}

/* Two variables lead to one list, and each to one of its own. */
static void hold_shared(void)
{
	struct node *both = list_of(700, 80, &shared);

	g_first = node_with(both, 48, &first_only);
	g_second = node_with(both, 480, &second_only);
}

static void hold_inside(void)
{
	g_inside = (char *)get(1000, &inside) + 333;
}

static void hold_mapped(void)
{
	for (int i = 0; i < 3; i++)
		g_huge[i] = get(((size_t)i + 1) << 20, &huge);
	g_aligned[0] = aligned_alloc(256, 1 << 20);
	g_aligned[1] = aligned_alloc(1 << 16, 1 << 20);
	for (int i = 0; i < 2; i++)
		aligned += malloc_usable_size(g_aligned[i]);
}

/* ---- in memory that is hardly written to ---- */

#define RESERVED  (8ull << 30)
#define ADDRESSES (1ull << 44) /* as garbage collectors reserve them, without access */
#define SPARSE	  (4u << 20)
#define LATE	  (SPARSE / 5 * 3 / sizeof(void *))

static size_t sparse, in_file;
void **g_sparse;

static void hold_sparsely(void)
{
	g_sparse = malloc(SPARSE);
	sparse = malloc_usable_size(g_sparse);
	g_sparse[LATE] = get(500, &sparse);
}

/* The process has not looked at the page with the pointer. */
static void hold_in_file(void)
{
	int file = memfd_create("holding", MFD_CLOEXEC);
	void *volatile block = get(3000, &in_file);

	if (ftruncate(file, 1 << 20) || pwrite(file, (void *)&block, sizeof(block), 600 << 10) < 0)
		abort();
	mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE, file, 0);
	close(file);
}

static void reserve(void)
{
	void *at = mmap(NULL, RESERVED, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (at != MAP_FAILED)
		madvise(at, RESERVED, MADV_DONTDUMP);
	at = mmap(NULL, ADDRESSES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (at != MAP_FAILED)
		madvise(at, ADDRESSES, MADV_DONTDUMP);
}

/* ---- lost ---- */

static size_t lost_directly, lost_indirectly;

static void lose(void)
{
	size_t sum = 0;

	/* A list: its first node is lost directly, with all behind it. */
	for (int i = 0; i < 100; i++) {
		struct node *list = list_of(10, 40, &sum);

		lost_directly += malloc_usable_size(list);
		lost_indirectly += sum - malloc_usable_size(list);
		sum = 0;
	}
	/* A circle of three: one of them counts. */
	for (int i = 0; i < 50; i++) {
		struct node *a = node_with(NULL, 64, &sum);
		struct node *b = node_with(a, 64, &sum), *c = node_with(b, 64, &sum);

		a->next = c;
		lost_directly += malloc_usable_size(a);
		lost_indirectly += sum - malloc_usable_size(a);
		sum = 0;
	}
	/* One that points to itself. */
	for (int i = 0; i < 20; i++) {
		struct node *n = get(sizeof(*n), &lost_directly);

		n->other = n;
	}
	/* One that points to what is held. */
	for (int i = 0; i < 20; i++) {
		struct node *n = get(sizeof(*n), &lost_directly);

		n->other = g_first;
	}
}

/* ---- free, though it looks used ---- */

static void fill_caches(void)
{
	void *block[64];

	for (size_t size = 24; size < 1000; size += 48) {
		for (int i = 0; i < 64; i++)
			block[i] = malloc(size);
		for (int i = 0; i < 64; i++)
			free(block[i]);
	}
}

/* ---- threads ---- */

static pthread_barrier_t ready, end;

/* The list is held by this function's frame alone. */
__attribute__((noinline)) static void keep_list(int number)
{
	struct node *volatile list = list_of(1000, 72, &stack[number]);

	pthread_barrier_wait(&ready);
	pthread_barrier_wait(&end);
	if (!list)
		abort();
}

static void *run(void *argument)
{
	int number = (int)(intptr_t)argument;

	fill_caches();
	t_list = list_of(300, 200, &local[number]);
	keep_list(number);
	return t_list;
}

/* Overwrites what earlier calls have left on the stack. */
__attribute__((noinline)) static void clean_stack(void)
{
	volatile char room[65536];

	memset((char *)room, 0, sizeof(room));
}

static void print_all(void)
{
	struct mallinfo2 m = mallinfo2();

	printf("{\"sessions\": %zu, \"cache\": %zu, \"shared\": %zu, \"first\": %zu, \"second\": "
	       "%zu, \"inside\": %zu, \"huge\": %zu, \"aligned\": %zu, \"sparse\": %zu, "
	       "\"in_file\": %zu, \"lost_directly\": %zu, "
	       "\"lost_indirectly\": %zu, \"chunks\": %zu, \"mapped\": %zu, \"local\": [%zu, %zu, "
	       "%zu], \"stack\": [%zu, %zu, %zu]}\n",
	       sessions, cache, shared, first_only, second_only, inside, huge, aligned, sparse,
	       in_file, lost_directly, lost_indirectly, m.uordblks, m.hblkhd, local[0], local[1],
	       local[2], stack[0], stack[1], stack[2]);
	fflush(stdout);
}

int main(void)
{
	pthread_t thread[THREADS];
	static char output[4096];
	char rest;

	/* stdio's buffer is no block then. */
	setvbuf(stdout, output, _IOFBF, sizeof(output));
	hold_sessions();
	hold_cache();
	hold_shared();
	hold_inside();
	hold_mapped();
	hold_sparsely();
	hold_in_file();
	reserve();
	lose();
	fill_caches();
	pthread_barrier_init(&ready, NULL, THREADS + 1);
	pthread_barrier_init(&end, NULL, THREADS + 1);
	for (int i = 0; i < THREADS; i++)
		pthread_create(&thread[i], NULL, run, (void *)(intptr_t)i);
	pthread_barrier_wait(&ready);
	clean_stack();
	print_all();
	while (read(0, &rest, 1) > 0)
		;
	pthread_barrier_wait(&end);
	for (int i = 0; i < THREADS; i++)
		pthread_join(thread[i], NULL);
	return 0;
}
