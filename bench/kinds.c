/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Programs of the kinds that allocators are compared by, each the same work in every run:
 *
 *	bench_kinds pairs N	N times malloc(32) and free
 *	bench_kinds factor N	N steps of Pollard's rho with numbers of three words, each of them a
 *				block of its own: tiny blocks that live for one operation
 *	bench_kinds server N	two threads, N times each: a block of a thread's 1,000 is freed and another
 *				allocated; the blocks go on to a new thread ten times, which frees them
 *	bench_kinds pipeline N	one thread allocates N blocks, another frees them
 *
 * Prints a figure that depends on the work.
 */
#include <inttypes.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint64_t steps;

static uint64_t next_random(uint64_t *state)
{
	*state = *state * 6364136223846793005u + 1442695040888963407u;
	return *state >> 33;
}

static void *allocate(size_t size)
{
	void *block = malloc(size);

	if (!block) {
		fputs("bench_kinds: no memory\n", stderr);
		exit(1);
	}
	return block;
}

static void start(pthread_t *thread, void *(*body)(void *), void *argument)
{
	if (pthread_create(thread, NULL, body, argument)) {
		fputs("bench_kinds: no thread\n", stderr);
		exit(1);
	}
}

/* ---- pairs ---- */

static uint64_t pairs(void)
{
	for (uint64_t i = 0; i < steps; i++) {
		void *block = malloc(32);

		__asm__ volatile("" : "+r"(block) : : "memory");
		free(block);
	}
	return steps;
}

/* ---- factor ---- */

#define WORDS 3

struct number {
	uint32_t word[WORDS]; /* the lowest first */
};

static struct number *number_of(uint64_t value)
{
	struct number *n = allocate(sizeof(*n));

	*n = (struct number){{(uint32_t)value, (uint32_t)(value >> 32), 0}};
	return n;
}

static struct number *sum(const struct number *a, const struct number *b)
{
	struct number *n = allocate(sizeof(*n));
	uint64_t carry = 0;

	for (int i = 0; i < WORDS; i++) {
		carry += (uint64_t)a->word[i] + b->word[i];
		n->word[i] = (uint32_t)carry;
		carry >>= 32;
	}
	return n;
}

static struct number *difference(const struct number *a, const struct number *b)
{
	struct number *n = allocate(sizeof(*n));
	int64_t borrow = 0;

	for (int i = 0; i < WORDS; i++) {
		borrow += (int64_t)a->word[i] - b->word[i];
		n->word[i] = (uint32_t)borrow;
		borrow >>= 32;
	}
	return n;
}

static int compare(const struct number *a, const struct number *b)
{
	for (int i = WORDS - 1; i >= 0; i--)
		if (a->word[i] != b->word[i])
			return a->word[i] < b->word[i] ? -1 : 1;
	return 0;
}

/* a or a - m, and frees a. */
static struct number *reduced(struct number *a, const struct number *m)
{
	struct number *n;

	if (compare(a, m) < 0)
		return a;
	n = difference(a, m);
	free(a);
	return n;
}

/* a * b modulo m, by doubling and adding. */
static struct number *product(const struct number *a, const struct number *b,
			      const struct number *m)
{
	struct number *n = number_of(0), *next;

	for (int bit = 64 - 1; bit >= 0; bit--) {
		next = reduced(sum(n, n), m);
		free(n);
		n = next;
		if (b->word[bit / 32] >> (bit % 32) & 1) {
			next = reduced(sum(n, a), m);
			free(n);
			n = next;
		}
	}
	return n;
}

static uint64_t factor(void)
{
	struct number *m = number_of(4611686018427387847u), *x = number_of(2), *one = number_of(1);
	uint64_t value;

	for (uint64_t i = 0; i < steps; i++) {
		struct number *square = product(x, x, m);

		free(x);
		x = reduced(sum(square, one), m);
		free(square);
	}
	value = x->word[0] | (uint64_t)x->word[1] << 32;
	free(x);
	free(m);
	free(one);
	return value;
}

/* ---- server ---- */

#define HELD   1000
#define SHIFTS 10

struct shop {
	uint64_t random;
	void *held[HELD];
};

static void *serve(void *argument)
{
	struct shop *shop = argument;

	for (uint64_t i = 0; i < steps / SHIFTS; i++) {
		uint64_t random = next_random(&shop->random);
		void **place = &shop->held[random % HELD];

		free(*place);
		*place = allocate(10 + random / HELD % 490);
	}
	return NULL;
}

static uint64_t server(void)
{
	static struct shop shops[2];

	for (int i = 0; i < 2; i++)
		shops[i].random = (uint64_t)i + 1;
	for (int shift = 0; shift < SHIFTS; shift++) {
		pthread_t threads[2];

		for (int i = 0; i < 2; i++)
			start(&threads[i], serve, &shops[i]);
		for (int i = 0; i < 2; i++)
			pthread_join(threads[i], NULL);
	}
	for (int i = 0; i < 2; i++)
		for (int k = 0; k < HELD; k++)
			free(shops[i].held[k]);
	return shops[0].random ^ shops[1].random;
}

/* ---- pipeline ---- */

#define BATCH 256
#define QUEUE 8

static struct {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	void **batches[QUEUE];
	unsigned int count;
} queue = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, {NULL}, 0};

static void *produce(void *unused)
{
	uint64_t random = 1;

	(void)unused;
	for (uint64_t done = 0; done < steps; done += BATCH) {
		void **batch = allocate(BATCH * sizeof(*batch));

		for (int i = 0; i < BATCH; i++)
			batch[i] = allocate(16 + next_random(&random) % 112);
		pthread_mutex_lock(&queue.lock);
		while (queue.count == QUEUE)
			pthread_cond_wait(&queue.changed, &queue.lock);
		queue.batches[queue.count++] = batch;
		pthread_cond_signal(&queue.changed);
		pthread_mutex_unlock(&queue.lock);
	}
	return NULL;
}

static uint64_t pipeline(void)
{
	uint64_t freed = 0;
	pthread_t producer;

	start(&producer, produce, NULL);
	while (freed < steps) {
		void **batch;

		pthread_mutex_lock(&queue.lock);
		while (!queue.count)
			pthread_cond_wait(&queue.changed, &queue.lock);
		batch = queue.batches[--queue.count];
		pthread_cond_signal(&queue.changed);
		pthread_mutex_unlock(&queue.lock);
		for (int i = 0; i < BATCH; i++)
			free(batch[i]);
		free(batch);
		freed += BATCH;
	}
	pthread_join(producer, NULL);
	return freed;
}

int main(int count, char **arguments)
{
	static const struct {
		const char *name;
		uint64_t (*run)(void);
	} kinds[] = {
	    {"pairs", pairs}, {"factor", factor}, {"server", server}, {"pipeline", pipeline}};

	if (count == 3)
		steps = strtoull(arguments[2], NULL, 10);
	for (size_t i = 0; count == 3 && i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		if (!strcmp(arguments[1], kinds[i].name)) {
			printf("%" PRIu64 "\n", kinds[i].run());
			return 0;
		}
	}
	fputs("usage: bench_kinds pairs|factor|server|pipeline N\n", stderr);
	return 2;
}
