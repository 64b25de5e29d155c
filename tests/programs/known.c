/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Allocates at random, and knows to the byte what it did: known SEED THREADS OPERATIONS.
 *
 * Prints one JSON object: for each function that calls the allocator, how much it allocated, how
 * much of that was live at the peak and at the end, and how much was temporary (freed by the thread
 * that had allocated it, before that thread's next allocation). test_ground_truth.py compares.
 *
 *	thread --> path_0 .. path_3, nested at random --> site_0 .. site_39 --> malloc, calloc, ...
 *						      \-> resize_0 .. resize_7 --> realloc
 *
 * Blocks are described in a pool outside the heap. Most go through a table of slots shared by all
 * threads: whoever puts a block in frees the one that was there, whose ever it was. In the middle
 * all threads stop and one block larger than all else is allocated: so the moment of the peak and
 * what is live then are known.
 */
#include <inttypes.h>
#include <malloc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define SITES	    40u
#define RESIZES	    8u
#define PEAK_SITE   (SITES + RESIZES)
#define ALL_SITES   (PEAK_SITE + 1)
#define MAX_THREADS 16u
#define SLOTS	    512u
#define PEAK_BYTES  ((size_t)1 << 30)

struct block {
	void *address;
	size_t size;
	uint32_t site;
	uint32_t thread;
	uint64_t serial; /* number of the thread's allocation */
};

struct tally {
	uint64_t allocated_bytes, allocated_blocks;
	uint64_t freed_bytes, freed_blocks;
	uint64_t temporary_bytes, temporary_blocks;
};

struct worker {
	uint32_t number;
	uint64_t random;
	uint64_t serial;
	uint32_t next_block, last_block;
	struct tally tally[ALL_SITES];
};

static struct worker workers[MAX_THREADS];
static struct block *pool;
static _Atomic uint32_t slot[SLOTS];
static uint64_t peak_bytes[ALL_SITES], peak_blocks[ALL_SITES];
static _Atomic int64_t live_total, live_most;
static unsigned thread_count, operations;
static pthread_barrier_t barrier;

static uint64_t next_random(struct worker *w)
{
	w->random ^= w->random << 13;
	w->random ^= w->random >> 7;
	w->random ^= w->random << 17;
	return w->random * 0x2545f4914f6cdd1du >> 16;
}

static void die(const char *why)
{
	fprintf(stderr, "known: %s\n", why);
	exit(1);
}

/* Keeps a call from becoming a jump, so that each function is on the stack. */
#define STAY(value) __asm__ volatile("" : "+r"(value) : : "memory")

/* clang-format off */
#define FOR_SITES(X)                                                                             \
	X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12) X(13) X(14) X(15)    \
	X(16) X(17) X(18) X(19) X(20) X(21) X(22) X(23) X(24) X(25) X(26) X(27) X(28) X(29)      \
	X(30) X(31) X(32) X(33) X(34) X(35) X(36) X(37) X(38) X(39)
/* clang-format on */

#define DEFINE_SITE(n)                                                                             \
	__attribute__((noinline)) static void *site_##n(size_t size)                               \
	{                                                                                          \
		void *p = NULL;                                                                    \
		switch (n % 7) {                                                                   \
		case 0:                                                                            \
			p = malloc(size);                                                          \
			break;                                                                     \
		case 1:                                                                            \
			p = calloc(1, size);                                                       \
			break;                                                                     \
		case 2:                                                                            \
			p = realloc(NULL, size);                                                   \
			break;                                                                     \
		case 3:                                                                            \
			p = memalign(64, size);                                                    \
			break;                                                                     \
		case 4:                                                                            \
			p = aligned_alloc(32, size);                                               \
			break;                                                                     \
		case 5:                                                                            \
			if (posix_memalign(&p, 16u << n % 3, size))                                \
				p = NULL;                                                          \
			break;                                                                     \
		default:                                                                           \
			p = reallocarray(NULL, size, 1);                                           \
		}                                                                                  \
		STAY(p);                                                                           \
		return p;                                                                          \
	}
FOR_SITES(DEFINE_SITE)

#define FOR_RESIZES(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7)
#define DEFINE_RESIZE(n)                                                                           \
	__attribute__((noinline)) static void *resize_##n(void *p, size_t size)                    \
	{                                                                                          \
		p = n % 2 ? realloc(p, size) : reallocarray(p, size, 1);                           \
		STAY(p);                                                                           \
		return p;                                                                          \
	}
FOR_RESIZES(DEFINE_RESIZE)

__attribute__((noinline)) static void *peak_site(size_t size)
{
	void *p = malloc(size);
	STAY(p);
	return p;
}

#define NAME_SITE(n)   site_##n,
#define NAME_RESIZE(n) resize_##n,
static void *(*const site[SITES])(size_t) = {FOR_SITES(NAME_SITE)};
static void *(*const resize[RESIZES])(void *, size_t) = {FOR_RESIZES(NAME_RESIZE)};

/* Ways to a site: each a different stack. */
#define FOR_PATHS(X)	X(0) X(1) X(2) X(3)
#define DECLARE_PATH(n) static void *path_##n(uint32_t number, size_t size, unsigned route);
FOR_PATHS(DECLARE_PATH)

static void *go_on(uint32_t number, size_t size, unsigned route)
{
	if (route < 4)
		return site[number](size);
	switch (route % 4) {
	case 0:
		return path_0(number, size, route / 4);
	case 1:
		return path_1(number, size, route / 4);
	case 2:
		return path_2(number, size, route / 4);
	}
	return path_3(number, size, route / 4);
}

#define DEFINE_PATH(n)                                                                             \
	__attribute__((noinline)) static void *path_##n(uint32_t number, size_t size,              \
							unsigned route)                            \
	{                                                                                          \
		void *p = go_on(number, size, route);                                              \
		STAY(p);                                                                           \
		return p;                                                                          \
	}
FOR_PATHS(DEFINE_PATH)

/* ---- book-keeping ---- */

static void count_live(int64_t change)
{
	int64_t now = atomic_fetch_add(&live_total, change) + change;
	int64_t most = atomic_load(&live_most);

	while (now > most && !atomic_compare_exchange_weak(&live_most, &most, now))
		;
}

static void note_allocation(struct worker *w, struct block *b, uint32_t number, size_t size)
{
	if (!b->address)
		die("out of memory");
	b->size = size;
	b->site = number;
	b->thread = w->number;
	b->serial = ++w->serial;
	w->tally[number].allocated_bytes += size;
	w->tally[number].allocated_blocks++;
	count_live((int64_t)size);
}

/* Before the call, so that b is still ours. */
static void note_end(struct worker *w, const struct block *b)
{
	struct tally *t = &w->tally[b->site];

	t->freed_bytes += b->size;
	t->freed_blocks++;
	if (b->thread == w->number && b->serial == w->serial) {
		t->temporary_bytes += b->size;
		t->temporary_blocks++;
	}
	count_live(-(int64_t)b->size);
}

static uint32_t allocate(struct worker *w, uint32_t number, size_t size)
{
	uint32_t index = w->next_block++;

	if (index >= w->last_block)
		die("the pool is too small");
	pool[index].address = go_on(number, size, (unsigned)(next_random(w) % 1024));
	note_allocation(w, &pool[index], number, size);
	return index;
}

static void reallocate(struct worker *w, uint32_t index, uint32_t number, size_t size)
{
	struct block *b = &pool[index];

	note_end(w, b);
	b->address = resize[number](b->address, size);
	note_allocation(w, b, SITES + number, size);
}

static void release(struct worker *w, uint32_t index)
{
	note_end(w, &pool[index]);
	free(pool[index].address);
	pool[index].address = NULL;
}

/* ---- the program ---- */

/* Around 2^(site % 17); every eighth site now and then up to 64 MB. */
static size_t choose_size(struct worker *w, uint32_t number)
{
	size_t middle = (size_t)1 << number % 17;

	if (number % 8 == 7 && next_random(w) % 250 == 0)
		return 1 + next_random(w) % ((size_t)1 << (14 + next_random(w) % 13));
	return 1 + (middle / 2 + next_random(w) % (middle + 1));
}

static void put_away(struct worker *w, uint32_t index)
{
	uint32_t other = atomic_exchange(&slot[next_random(w) % SLOTS], index);

	if (other)
		release(w, other);
}

static void one_operation(struct worker *w)
{
	uint32_t number = (uint32_t)(next_random(w) % SITES);
	uint32_t index = allocate(w, number, choose_size(w, number));

	switch (number % 5) {
	case 0: /* dies at once */
		release(w, index);
		return;
	case 1: /* grows and shrinks */
		for (uint64_t left = next_random(w) % 5; left > 0; left--) {
			uint32_t how = (uint32_t)(next_random(w) % RESIZES);
			size_t size = 1 + pool[index].size * (1 + next_random(w) % 7) / 4;

			reallocate(w, index, how, size > (64u << 20) ? 1000 : size);
		}
		break;
	case 2: /* some are lost */
		if (next_random(w) % 8 == 0)
			return;
		break;
	}
	put_away(w, index);
}

static uint64_t sum_live(uint32_t number, bool blocks)
{
	uint64_t live = 0;

	for (unsigned i = 0; i < thread_count; i++) {
		const struct tally *t = &workers[i].tally[number];
		live += blocks ? t->allocated_blocks - t->freed_blocks
			       : t->allocated_bytes - t->freed_bytes;
	}
	return live;
}

/* The one moment when most is live. All other threads wait. */
static void make_peak(struct worker *w)
{
	uint32_t index = w->next_block++;

	pool[index].address = peak_site(PEAK_BYTES);
	note_allocation(w, &pool[index], PEAK_SITE, PEAK_BYTES);
	for (uint32_t i = 0; i < ALL_SITES; i++) {
		peak_bytes[i] = sum_live(i, false);
		peak_blocks[i] = sum_live(i, true);
	}
	release(w, index);
}

static void *work(void *argument)
{
	struct worker *w = argument;

	for (unsigned i = 0; i < operations; i++) {
		if (i == operations / 2) {
			pthread_barrier_wait(&barrier);
			if (w->number == 0)
				make_peak(w);
			pthread_barrier_wait(&barrier);
		}
		one_operation(w);
	}
	return NULL;
}

static void print_site(const char *kind, unsigned number, uint32_t i)
{
	struct tally t = {0};

	for (unsigned k = 0; k < thread_count; k++) {
		const struct tally *one = &workers[k].tally[i];
		t.allocated_bytes += one->allocated_bytes;
		t.allocated_blocks += one->allocated_blocks;
		t.temporary_bytes += one->temporary_bytes;
		t.temporary_blocks += one->temporary_blocks;
	}
	printf("%s\"%s", i ? ",\n" : "", kind);
	if (i != PEAK_SITE)
		printf("%u", number);
	printf("\": {\"allocated\": [%" PRIu64 ", %" PRIu64 "], \"live\": [%" PRIu64 ", %" PRIu64
	       "], \"peak\": [%" PRIu64 ", %" PRIu64 "], \"temporary\": [%" PRIu64 ", %" PRIu64
	       "]}",
	       t.allocated_bytes, t.allocated_blocks, sum_live(i, false), sum_live(i, true),
	       peak_bytes[i], peak_blocks[i], t.temporary_bytes, t.temporary_blocks);
}

int main(int argc, char **argv)
{
	static char buffer[65536];
	pthread_t thread[MAX_THREADS];

	if (argc != 4) {
		fprintf(stderr, "usage: known SEED THREADS OPERATIONS\n");
		return 2;
	}
	setvbuf(stdout, buffer, _IOFBF, sizeof(buffer));
	uint64_t seed = strtoull(argv[1], NULL, 0);
	thread_count = (unsigned)atoi(argv[2]);
	operations = (unsigned)atoi(argv[3]);
	if (thread_count < 1 || thread_count > MAX_THREADS || operations > 10000000)
		return 2;

	uint32_t each = operations + 10;
	pool = mmap(NULL, (1 + (size_t)each * thread_count) * sizeof(*pool), PROT_READ | PROT_WRITE,
		    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (pool == MAP_FAILED)
		die("mmap failed");
	pthread_barrier_init(&barrier, NULL, thread_count);
	for (unsigned i = 0; i < thread_count; i++) {
		struct worker *w = &workers[i];

		w->number = i;
		w->random = (seed + 1) * 0x9e3779b97f4a7c15u + i * 0xd1b54a32d192ed03u;
		w->random |= !w->random;
		w->next_block = 1 + each * i; /* block 0 is none */
		w->last_block = 1 + each * (i + 1);
	}
	for (unsigned i = 1; i < thread_count; i++)
		if (pthread_create(&thread[i], NULL, work, &workers[i]))
			die("pthread_create failed");
	work(&workers[0]);
	for (unsigned i = 1; i < thread_count; i++)
		pthread_join(thread[i], NULL);
	/* Half of what is left dies after the threads that allocated it. */
	for (unsigned i = 0; i < SLOTS; i += 2) {
		uint32_t index = atomic_exchange(&slot[i], 0);
		if (index)
			release(&workers[0], index);
	}
	int64_t at_peak = 0;
	for (uint32_t i = 0; i < ALL_SITES; i++)
		at_peak += (int64_t)peak_bytes[i];
	if (at_peak != atomic_load(&live_most))
		die("the peak was elsewhere");
	printf("{");
	for (uint32_t i = 0; i < SITES; i++)
		print_site("site_", i, i);
	for (uint32_t i = 0; i < RESIZES; i++)
		print_site("resize_", i, SITES + i);
	print_site("peak_site", 0, PEAK_SITE);
	printf("}\n");
	return 0;
}
