/* SPDX-License-Identifier: Apache-2.0 */
/* The walk over the chunks of glibc's malloc: see glibc_heap.h. */
#include "heap/glibc_heap.h"

#include <stdlib.h>

#include "base/bytes.h"

#include "heap/glibc_cached.h"
#include "heap/glibc_pieces.h"

#define FLAGS	      7ull
#define PREVIOUS_USED 1u
#define IS_MAPPED     2u
#define NOT_MAIN      4u
#define FENCE	      16u /* bytes of a chunk that only ends a run */
#define LEAST_CHUNK   32u
#define HEAD	      16u

/* One walk over one piece. */
struct walk {
	struct heap_window *w;
	const struct glibc_piece *piece;
	/* NULL: only whether the chunks are right. */
	struct heap_blocks *blocks;
	struct glibc_sums *sums;
	struct glibc_cached *cached;
	struct heap_problem *problem;
	uint64_t last, last_bytes; /* the used chunk before, which has not been taken yet */
};

static bool take_last(struct walk *k)
{
	uint64_t at = k->last + HEAD, bytes = k->last_bytes;

	k->last_bytes = 0;
	if (!bytes || !k->blocks)
		return true;
	k->sums->chunk_bytes += bytes;
	return heap_blocks_add(k->blocks, at, bytes, HEAP_CHUNKS, k->problem) &&
	       (bytes != GLIBC_TCACHE_CHUNK || glibc_cached_add(k->cached, at, k->problem));
}

enum step { STEP_ON, STEP_FAILED, STEP_TOP, STEP_FENCE };

static enum step damaged(struct walk *k, uint64_t at)
{
	heap_fail(k->problem, HEAP_DAMAGED, at);
	return STEP_FAILED;
}

static bool flags_are_right(const struct glibc_piece *piece, uint64_t size)
{
	return !(size & IS_MAPPED) && (piece->kind == GLIBC_FURTHER) == ((size & NOT_MAIN) != 0);
}

/* The chunk after this one, of `bytes` bytes, says whether it is free. */
static enum step take_chunk(struct walk *k, uint64_t at, uint64_t size)
{
	uint64_t bytes = size & ~FLAGS, after[2];
	const uint8_t *next;

	if (bytes > k->piece->limit - at || k->piece->limit - at - bytes < HEAD)
		return damaged(k, at);
	next = heap_window_see(k->w, at + bytes, HEAD, k->piece->limit);
	if (!next) {
		heap_fail(k->problem, HEAP_UNREADABLE, at + bytes);
		return STEP_FAILED;
	}
	after[0] = bytes_load(next);
	after[1] = bytes_load(next + 8);
	if (!take_last(k))
		return STEP_FAILED;
	if (after[1] & PREVIOUS_USED) {
		if (!flags_are_right(k->piece, size))
			return damaged(k, at);
		k->last = at;
		k->last_bytes = bytes;
	} else if (after[0] != bytes) {
		return damaged(k, at);
	} else if (k->sums) {
		k->sums->free_bytes += bytes;
	}
	return STEP_ON;
}

/* Takes the chunk at *at and goes on to the next. */
static enum step step_over(struct walk *k, uint64_t *at)
{
	const struct glibc_piece *piece = k->piece;
	uint64_t size, bytes;
	enum step step;

	if (piece->limit - *at < HEAD)
		return damaged(k, *at);
	if (!heap_window_word(k->w, *at + 8, piece->limit, &size)) {
		heap_fail(k->problem, HEAP_UNREADABLE, *at);
		return STEP_FAILED;
	}
	bytes = size & ~FLAGS;
	if (*at == piece->top) {
		if (bytes > piece->limit - *at || bytes < LEAST_CHUNK / 2)
			return damaged(k, *at);
		if (k->sums)
			k->sums->free_bytes += bytes;
		return take_last(k) ? STEP_TOP : STEP_FAILED;
	}
	/* A heap that another one continues ends with a chunk of no bytes; that before it is no block. */
	if (piece->kind == GLIBC_FURTHER && bytes == 0) {
		k->last_bytes = 0;
		return STEP_FENCE;
	}
	if (bytes == FENCE) {
		*at += FENCE;
		return take_last(k) ? STEP_FENCE : STEP_FAILED;
	}
	if (bytes < LEAST_CHUNK || bytes % HEAD)
		return damaged(k, *at);
	step = take_chunk(k, *at, size);
	*at += bytes;
	return step;
}

static enum step walk_run(struct walk *k, uint64_t *at)
{
	enum step step = STEP_ON;

	while (step == STEP_ON)
		step = step_over(k, at);
	return step;
}

/* The first address from which a run of chunks leads to its end. Memory that others took from the break
 * lies before it. */
static bool find_run(struct walk *k, uint64_t from, uint64_t *found)
{
	struct heap_problem none;
	struct walk probe = {.w = k->w, .piece = k->piece, .problem = &none};
	uint64_t limit = k->piece->limit, size;

	for (uint64_t at = from; limit - at >= 2 * LEAST_CHUNK; at += HEAD) {
		uint64_t end = at;
		enum step step;

		if (!heap_window_word(k->w, at + 8, limit, &size))
			return heap_fail(k->problem, HEAP_UNREADABLE, at);
		if (!(size & PREVIOUS_USED) || (size & ~FLAGS) < LEAST_CHUNK)
			continue;
		probe.last_bytes = 0;
		step = walk_run(&probe, &end);
		*found = at;
		if (step == STEP_TOP || (step == STEP_FENCE && !k->piece->top))
			return true;
	}
	return heap_fail(k->problem, HEAP_FOREIGN_BREAK, from);
}

/* After two fences, the main arena goes on behind what others took from the break. */
static bool walk_main(struct walk *k, uint64_t at)
{
	enum step step;

	for (;;) {
		step = walk_run(k, &at);
		if (step != STEP_FENCE)
			return step == STEP_TOP;
		at += FENCE;
		if (!k->piece->top && k->piece->limit - at < 2 * LEAST_CHUNK)
			return true;
		if (!find_run(k, at, &at))
			return !k->piece->top; /* all that is left is others' */
	}
}

static bool walk_piece(struct walk *k, const struct glibc_piece *piece)
{
	uint64_t at = piece->start;
	enum step step;

	k->piece = piece;
	k->last_bytes = 0;
	if (piece->limit <= piece->start || piece->limit - piece->start < HEAD)
		return heap_fail(k->problem, HEAP_DAMAGED, piece->start);
	switch (piece->kind) {
	case GLIBC_MAPPED:
		k->sums->mapped++;
		return heap_blocks_add(k->blocks, at + HEAD, piece->limit - at, HEAP_MAPPED,
				       k->problem);
	case GLIBC_MAIN:
		if (piece->begins_unknown && !find_run(k, at, &at))
			return false;
		return walk_main(k, at);
	case GLIBC_FURTHER:
		k->sums->head_bytes += at % HEAP_BYTES_MOST;
		step = walk_run(k, &at);
		if (step == STEP_FENCE && piece->top)
			return heap_fail(k->problem, HEAP_DAMAGED, at);
		return step != STEP_FAILED;
	}
	return false;
}

static bool walk_all(struct heap_window *w, const struct glibc_pieces *p, struct heap_blocks *b,
		     struct glibc_sums *sums, struct glibc_cached *cached,
		     struct heap_problem *problem)
{
	struct walk k = {.w = w, .blocks = b, .sums = sums, .cached = cached, .problem = problem};

	for (size_t i = 0; i < p->count; i++)
		if (!walk_piece(&k, &p->piece[i]))
			return false;
	sums->mapped_bytes = p->mapped_bytes;
	sums->arenas = p->arenas;
	if (p->par.known)
		sums->mapped_missing = (int64_t)(p->par.mapped_bytes - p->mapped_bytes);
	return heap_blocks_index(b, problem);
}

/* Each piece with what is before its first chunk, and the state of the main arena. */
static bool list_ranges(const struct glibc_pieces *p, struct heap_ranges *ranges)
{
	const uint64_t main = p->arena[0].at;

	ranges->range = malloc((p->count + 1) * sizeof(*ranges->range));
	if (!ranges->range)
		return false;
	ranges->range[ranges->count++] = (struct heap_range){main, main + MALLOC_STATE_BYTES};
	for (size_t i = 0; i < p->count; i++) {
		const struct glibc_piece *piece = &p->piece[i];
		uint64_t start = piece->start;

		if (piece->kind == GLIBC_FURTHER)
			start &= ~(HEAP_BYTES_MOST - 1);
		ranges->range[ranges->count++] = (struct heap_range){start, piece->limit};
	}
	heap_ranges_sort(ranges);
	return true;
}

bool glibc_heap_walk(const struct heap_image *image, unsigned int version, struct heap_blocks *b,
		     struct glibc_sums *sums, struct heap_ranges *ranges,
		     struct heap_problem *problem)
{
	struct glibc_cached cached = {.version = version};
	struct glibc_pieces pieces = {0};
	struct heap_window w;
	bool good = false;

	*sums = (struct glibc_sums){0};
	*ranges = (struct heap_ranges){0};
	if (version && version < 231)
		return heap_fail(problem, HEAP_OLD_LIBC, 0);
	if (version > 241)
		return heap_fail(problem, HEAP_NEW_LIBC, 0);
	if (!heap_window_begin(&w, image))
		return heap_fail(problem, HEAP_NO_MEMORY, 0);
	if (glibc_pieces_find(&w, &pieces, problem) &&
	    walk_all(&w, &pieces, b, sums, &cached, problem)) {
		good = glibc_cached_drop(&cached, &w, &pieces, b, problem) &&
		       (list_ranges(&pieces, ranges) || heap_fail(problem, HEAP_NO_MEMORY, 0));
		sums->cached = cached.count;
		sums->cached_bytes = cached.bytes;
		sums->chunk_bytes -= cached.bytes;
	}
	glibc_cached_free(&cached);
	glibc_pieces_free(&pieces);
	heap_window_end(&w);
	return good;
}
