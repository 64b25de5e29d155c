/* SPDX-License-Identifier: Apache-2.0 */
/*
 * labelled: allocates in spans, with labels and from pools, always the same, and prints as JSON how
 * much that was: {"label": {VALUE: FIGURES}, "span": {NAME: FIGURES}, "self": {NAME: FIGURES},
 * "pool": {NAME: FIGURES}}, FIGURES being [bytes, blocks, live bytes, live blocks]. The value of
 * blocks without the label kind, and the span of those outside of spans, are "".
 *
 *	request		kind=a, b or c
 *	  parse		part=parse, too; in half of them another parse
 *	between requests
 */
#include <mayfly/mayfly.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#define REQUESTS   1500u /* of each thread */
#define MOST_HELD  64
#define POOL_BYTES (4u << 20)

MAYFLY_SPAN(request, "request", MAYFLY_UINT("number"));
MAYFLY_SPAN(parse, "parse");
MAYFLY_POOL(slab, "slab", 0);
MAYFLY_POOL(device, "device", MAYFLY_POOL_MAPPED);

struct figures {
	unsigned long long bytes, blocks, live_bytes, live_blocks;
};

enum { REQUEST, PARSE, OUTSIDE, PLACES };
#define KINDS 4
static const char *const place_name[PLACES] = {"request", "parse", ""};
static const char *const kind_name[KINDS] = {"a", "b", "c", ""};
static const char *const pool_name[2] = {"slab", "device"};
static struct figures label[KINDS], span[PLACES], self[PLACES], pool[2];

static struct {
	void *block;
	size_t size;
	int kind, place;
} held[MOST_HELD];
static int held_count;

static unsigned long long state = 1;

static unsigned random_below(unsigned limit)
{
	state = state * 6364136223846793005ull + 1442695040888963407ull;
	return (unsigned)(state >> 33) % limit;
}

static void add(struct figures *f, size_t size)
{
	f->bytes += size;
	f->blocks++;
	f->live_bytes += size;
	f->live_blocks++;
}

static void take(struct figures *f, size_t size)
{
	f->live_bytes -= size;
	f->live_blocks--;
}

/* Every place that a block counts for. */
static void count(size_t size, int kind, int place, void (*how)(struct figures *, size_t))
{
	how(&label[kind], size);
	how(&self[place], size);
	how(&span[place], size);
	if (place == PARSE)
		how(&span[REQUEST], size);
}

static void allocate(int kind, int place)
{
	size_t size = random_below(40) ? 16 + random_below(16) * 40 : 20000;
	void *block = malloc(size);

	count(size, kind, place, add);
	if (held_count < MOST_HELD && random_below(8))
		held[held_count++] = (typeof(*held)){block, size, kind, place};
}

static void free_held(void)
{
	while (held_count) {
		held_count--;
		count(held[held_count].size, held[held_count].kind, held[held_count].place, take);
		free(held[held_count].block);
	}
}

static void take_from_pool(int which)
{
	static char mapped[POOL_BYTES];
	static char *memory[2] = {NULL, mapped};
	static size_t used[2];
	size_t size = 100 + random_below(400);
	const struct mayfly_pool *of = which ? &device : &slab;
	char *block;

	if (!memory[which])
		memory[which] = calloc(1, POOL_BYTES);
	block = memory[which] + used[which];
	if (used[which] + size > POOL_BYTES)
		return;
	used[which] += size;
	mayfly_pool_alloc(of, block, size);
	add(&pool[which], size);
	if (random_below(4)) {
		mayfly_pool_free(of, block);
		take(&pool[which], size);
	}
}

static void serve(unsigned number)
{
	int kind = number % 7 % 3;

	mayfly_span_begin(&request, number);
	mayfly_label_push("kind", kind_name[kind]);
	for (unsigned i = random_below(6); i; i--)
		allocate(kind, REQUEST);
	mayfly_span_begin(&parse);
	mayfly_label_push("part", "parse");
	allocate(kind, PARSE);
	take_from_pool((int)(number % 2));
	if (number % 2) {
		mayfly_span_begin(&parse);
		allocate(kind, PARSE);
		mayfly_span_end(&parse);
	}
	mayfly_label_pop();
	mayfly_span_end(&parse);
	allocate(kind, REQUEST);
	mayfly_label_pop();
	mayfly_span_end(&request);
	allocate(KINDS - 1, OUTSIDE);
	free_held();
}

static void *work(void *unused)
{
	for (unsigned i = 0; i < REQUESTS; i++)
		serve(i);
	return unused;
}

static void print(const char *title, const struct figures *f, const char *const *name, int count,
		  const char *end)
{
	printf("\"%s\": {", title);
	for (int i = 0; i < count; i++)
		printf("%s\"%s\": [%llu, %llu, %llu, %llu]", i ? ", " : "", name[i], f[i].bytes,
		       f[i].blocks, f[i].live_bytes, f[i].live_blocks);
	printf("}%s", end);
}

int main(void)
{
	pthread_t thread;

	work(NULL);
	if (pthread_create(&thread, NULL, work, NULL) || pthread_join(thread, NULL))
		return 1;
	printf("{");
	print("label", label, kind_name, KINDS, ", ");
	print("span", span, place_name, PLACES, ", ");
	print("self", self, place_name, PLACES, ", ");
	print("pool", pool, pool_name, 2, "}\n");
	return 0;
}
