/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a heap wastes: random heaps against an answer by definition, where all contents are known; and where
 * they are sampled, how often the intervals have the truth in them.
 */
#include "heap/heap_waste.h"
#include "cli/heap/heap_waste_figures.h"
#include "random_numbers.h"
#include "test.h"

#include <stdlib.h>
#include <string.h>

#define START 0x555556000000u
#define ROOM  (1u << 20)
#define MOST  8000

/* Blocks one after the other, each behind a head of 8 bytes. */
struct heap {
	uint8_t *bytes;
	struct heap_blocks blocks;
	uint32_t at[MOST], size[MOST]; /* what the program may use, from the start on */
	uint32_t count, used;
};

static bool read_heap(void *context, uint64_t address, void *to, size_t bytes)
{
	const struct heap *h = context;

	if (address < START || address - START > ROOM || bytes > ROOM - (address - START))
		return false;
	memcpy(to, h->bytes + (address - START), bytes);
	return true;
}

static struct heap *heap_new(void)
{
	struct heap *h = calloc(1, sizeof(*h));

	h->bytes = calloc(1, ROOM);
	h->used = 16;
	return h;
}

static void heap_free(struct heap *h)
{
	heap_blocks_free(&h->blocks);
	free(h->bytes);
	free(h);
}

/* bytes: 24, 40, 56 ... */
static uint8_t *add(struct heap *h, uint32_t bytes)
{
	struct heap_problem problem = {0};
	uint32_t at = h->used;

	CHECK(h->count < MOST && at + bytes + 8 <= ROOM);
	CHECK(heap_blocks_add(&h->blocks, START + at, bytes + 8, HEAP_CHUNKS, &problem));
	h->at[h->count] = at;
	h->size[h->count++] = bytes;
	h->used += bytes + 8;
	return h->bytes + at;
}

static struct heap_waste_sum waste_of(struct heap *h, size_t most, struct heap_waste *w)
{
	struct heap_image image = {.read = read_heap, .context = h};
	struct heap_waste_sum sum = {0};
	struct heap_waste_look *look = heap_waste_begin(w, &h->blocks, most, true);
	struct heap_window window;

	CHECK(look && heap_window_begin(&window, &image));
	for (size_t i = 0; i < h->blocks.regions; i++) {
		const struct heap_region *r = &h->blocks.region[i];

		for (uint32_t block = r->first; block < r->first + r->count; block++)
			CHECK(heap_waste_see(look, &window, block,
					     heap_block_address(&h->blocks, r, block),
					     heap_block_bytes(&h->blocks, r, block), r->end));
	}
	heap_waste_end(look);
	heap_window_end(&window);
	for (uint32_t i = 0; i < h->count; i++)
		heap_waste_add(w, i, h->size[i], &sum);
	return sum;
}

/* ---- by definition ---- */

static bool is_text(const uint8_t *at, uint32_t size, uint32_t *length)
{
	*length = 0;
	while (*length < size && at[*length] >= ' ' && at[*length] < 0x7f)
		++*length;
	return *length < size && !at[*length] && size - *length <= 16 && *length;
}

static bool are_equal(const struct heap *h, uint32_t a, uint32_t b)
{
	const uint8_t *x = h->bytes + h->at[a], *y = h->bytes + h->at[b];
	uint32_t size = h->size[a], first, second;
	bool texts;

	if (h->size[b] != size)
		return false;
	texts = is_text(x, size, &first);
	if (texts != is_text(y, size, &second))
		return false;
	return texts ? first == second && !memcmp(x, y, first) : !memcmp(x, y, size);
}

static uint32_t zero_words_at_end(const struct heap *h, uint32_t i)
{
	uint32_t words = 0;
	uint64_t word;

	for (uint32_t at = h->size[i]; at >= 8; at -= 8, words++) {
		memcpy(&word, h->bytes + h->at[i] + at - 8, sizeof(word));
		if (word)
			break;
	}
	return words;
}

static struct heap_waste_sum truth_of(const struct heap *h)
{
	struct heap_waste_sum t = {0};

	for (uint32_t i = 0; i < h->count; i++) {
		uint32_t words = zero_words_at_end(h, i), size = h->size[i];

		if (words * 8 == size) {
			t.zero_bytes += size;
			t.zero_blocks++;
			continue;
		}
		t.end_bytes += words * 8ull;
		t.end_blocks += words != 0;
		for (uint32_t k = 0; k < i; k++)
			if (are_equal(h, i, k)) {
				t.copy_bytes += size;
				t.copy_blocks++;
				break;
			}
	}
	return t;
}

/* Each text that comes again, once, with all its copies. */
static void check_texts(const struct heap *h, const struct heap_waste *w)
{
	size_t found = 0;

	for (uint32_t i = 0; i < h->count; i++) {
		const char *at = (const char *)h->bytes + h->at[i];
		struct heap_waste_sum sum = {0};
		uint32_t length, copies = 0;
		bool first = true;

		for (uint32_t k = 0; k < i; k++)
			first &= !are_equal(h, i, k);
		for (uint32_t k = i + 1; k < h->count; k++)
			copies += are_equal(h, i, k);
		if (!first || !copies || !is_text(h->bytes + h->at[i], h->size[i], &length))
			continue;
		for (size_t k = 0; k < w->texts; k++) {
			const struct heap_text *t = &w->text[k];
			uint32_t begin = length < HEAP_TEXT_BEGIN ? length : HEAP_TEXT_BEGIN;

			if (t->text_bytes == length && t->block_bytes == h->size[i] &&
			    t->begin_bytes == begin && !memcmp(t->begin, at, begin))
				heap_waste_add_text(w, t, &sum);
		}
		CHECK(sum.copy_blocks == copies && sum.copy_bytes == copies * h->size[i],
		      "%.20s: %ld of %u", at, (long)sum.copy_blocks, copies);
		found++;
	}
	CHECK(found == w->texts, "%zu texts, %zu are known", found, w->texts);
}

static void fill(uint8_t *at, uint32_t bytes)
{
	static const char *const texts[] = {"some text", "some texts",
					    "another text of more length",
					    "another text of more lengths"};
	const char *text;

	switch (below(5)) {
	case 0: /* a few words of few values, often zero at the end */
		for (uint32_t i = 0; i < bytes; i += 8)
			at[i] = (uint8_t)(below(2) && i + 8 * below(4) < bytes);
		break;
	case 1: /* words of their own */
		for (uint32_t i = 0; i < bytes; i += 8)
			memcpy(at + i, &(uint64_t){random_number()}, 8);
		break;
	case 2: /* a text, with rubbish behind it where it fits */
		text = texts[(bytes > 29 ? 2 : 0) + below(2)];
		memset(at, (int)below(256), bytes);
		memcpy(at, text, strlen(text) + 1);
		break;
	case 3: /* like a text, but with too much behind it, or with what is in no text */
		memset(at, 'x', bytes);
		at[below(bytes)] = (uint8_t)below(2);
		break;
	default: /* one byte in all */
		at[below(bytes)] = 1;
		break;
	}
}

static void random_heaps(void)
{
	for (int round = 0; round < 3000 && !test_bad; round++) {
		struct heap *h = heap_new();
		struct heap_waste_sum truth, sum;
		struct heap_problem problem = {0};
		struct heap_waste w;

		for (uint32_t i = below(60) + 1; i > 0; i--) {
			uint32_t bytes = 24 + 16 * below(4);

			fill(add(h, bytes), bytes);
		}
		CHECK(heap_blocks_index(&h->blocks, &problem));
		truth = truth_of(h);
		sum = waste_of(h, MOST, &w);
		CHECK(!w.interval && !w.unread);
		/* The last one has padding behind it. */
		CHECK(!memcmp(&sum, &truth, offsetof(struct heap_waste_sum, samples)) &&
			  sum.samples == truth.samples,
		      "zero %ld %ld, end %ld %ld, copies %ld %ld", (long)sum.zero_bytes,
		      (long)truth.zero_bytes, (long)sum.end_bytes, (long)truth.end_bytes,
		      (long)sum.copy_bytes, (long)truth.copy_bytes);
		check_texts(h, &w);
		heap_waste_free(&w);
		heap_free(h);
	}
}

/* A block that is larger than what is read at once, with one word in it. */
static void large_blocks(void)
{
	struct heap *h = heap_new();
	struct heap_waste_sum sum;
	struct heap_waste w;
	uint8_t *a = add(h, 300008), *b = add(h, 300008);

	add(h, 300008);
	a[8000] = b[8000] = 1;
	sum = waste_of(h, MOST, &w);
	CHECK(sum.zero_bytes == 300008 && sum.end_bytes == 2 * (300008 - 8008) &&
	      sum.copy_bytes == 300008);
	heap_waste_free(&w);
	b[200000] = 1;
	sum = waste_of(h, MOST, &w);
	CHECK(sum.copy_bytes == 0 && sum.end_bytes == 2 * 300008 - 8008 - 200008);
	heap_waste_free(&w);
	/* What cannot be read is in no sum. */
	h->at[2] = 0;
	CHECK(heap_blocks_add(&h->blocks, START + ROOM, 4096, HEAP_CHUNKS,
			      &(struct heap_problem){0}));
	sum = waste_of(h, MOST, &w);
	CHECK(w.unread == 1 && sum.zero_bytes == 300008);
	heap_waste_free(&w);
	heap_free(h);
}

/* ---- sampled ---- */

/* A heap of one kind: how many contents come once, and how many come how often. */
struct kind {
	const char *name;
	uint32_t once, contents, times, bytes, spread;
};

static const struct kind kinds[] = {
    {"pairs", 2000, 1000, 2, 24, 8},	    {"fives", 1500, 400, 5, 24, 4},
    {"a few, often", 1500, 20, 100, 24, 1}, {"one, very often", 1000, 1, 3000, 24, 1},
    {"hardly any", 3000, 60, 2, 24, 6},	    {"of many sizes", 1500, 300, 4, 24, 30},
    {"nearly all", 100, 100, 40, 24, 10},
};

static struct heap *heap_of(const struct kind *k, uint32_t zeros)
{
	struct heap *h = heap_new();
	uint32_t blocks = k->once + k->contents * k->times,
		 *contents = malloc(blocks * sizeof(*contents));
	struct heap_problem problem = {0};

	/* Which blocks are chosen depends on their numbers alone, and how many there are. */
	for (uint32_t i = zeros; i > 0; i--)
		add(h, 24);
	/* Contents in any order. */
	for (uint32_t i = 0; i < blocks; i++) {
		uint32_t other = below(i + 1);

		contents[i] = contents[other];
		contents[other] = i < k->once ? i : k->once + (i - k->once) / k->times;
	}
	for (uint32_t i = 0; i < blocks; i++) {
		uint32_t bytes = k->bytes + 16 * (contents[i] % k->spread);
		uint64_t *at = (uint64_t *)add(h, bytes);

		for (uint32_t word = 0; word < bytes / 8; word++)
			at[word] = (contents[i] + 1ull) * 0x9e3779b97f4a7c15u ^ random_state;
	}
	random_number();
	free(contents);
	CHECK(heap_blocks_index(&h->blocks, &problem));
	return h;
}

#define HEAPS 300

static void intervals_have_the_truth(void)
{
	for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++) {
		const struct kind *k = &kinds[i];
		int bytes_in = 0, blocks_in = 0;
		double ratio = 0;

		for (int round = 0; round < HEAPS; round++) {
			struct heap *h = heap_of(k, (uint32_t)round);
			struct heap_waste exactly, w;
			struct heap_waste_sum truth = waste_of(h, MOST, &exactly);
			struct heap_waste_sum sum = waste_of(h, h->count / 8, &w);
			const struct mayfly_estimate e = heap_waste_copies(&w, &sum);
			double bytes = (double)truth.copy_bytes, blocks = (double)truth.copy_blocks;

			CHECK(!exactly.interval && w.interval >= 64);
			CHECK(truth.copy_blocks == (uint64_t)k->contents * (k->times - 1),
			      "%s: %ld", k->name, (long)truth.copy_blocks);
			bytes_in += e.bytes.low <= bytes && bytes <= e.bytes.high;
			blocks_in += e.blocks.low <= blocks && blocks <= e.blocks.high;
			ratio += e.bytes.estimate / bytes / HEAPS;
			heap_waste_free(&exactly);
			heap_waste_free(&w);
			heap_free(h);
		}
		printf("# %s: %.1f %% of bytes, %.1f %% of blocks, mean %.3f\n", k->name,
		       100. * bytes_in / HEAPS, 100. * blocks_in / HEAPS, ratio);
		CHECK(bytes_in >= 0.92 * HEAPS && blocks_in >= 0.92 * HEAPS, "%s: %d and %d of %d",
		      k->name, bytes_in, blocks_in, HEAPS);
		CHECK(ratio > 0.95 && ratio < 1.05, "%s: %.3f", k->name, ratio);
	}
}

int main(void)
{
	RUN(random_heaps);
	RUN(large_blocks);
	RUN(intervals_have_the_truth);
	DONE();
}
