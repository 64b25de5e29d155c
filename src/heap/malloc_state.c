/* SPDX-License-Identifier: Apache-2.0 */
/* glibc's malloc_state and malloc_par: see malloc_state.h. */
#include "heap/malloc_state.h"

#include "base/bytes.h"

#define BINS	    127u
#define FASTBINS_AT 16u
#define TOP_AT	    96u
#define BINS_AT	    112u
#define NEXT_AT	    2160u
#define SYSTEM_AT   2184u
#define SELF_LESS   16u
#define EMPTY_LEAST 32u		  /* bins, of those that the state is recognised by */
#define LOOK_MOST   (64ull << 20) /* of the variables of one library */
#define MAPPED_MOST 65536u	  /* malloc_par.n_mmaps_max, unless M_MMAP_MAX is set */
#define PAGE	    4096u

/* ---- one state ---- */

static bool is_chunk(uint64_t at)
{
	return at && at % 16 == 0 && at >> 47 == 0;
}

/* Each bin points to itself in both directions, or in none. */
static bool bins_are_right(const uint8_t *state, uint64_t at, unsigned int *empty)
{
	*empty = 0;
	for (unsigned int i = 0; i < BINS; i++) {
		uint64_t self = at + BINS_AT + 16u * i - SELF_LESS;
		uint64_t forward = bytes_load(state + BINS_AT + 16 * i);
		uint64_t back = bytes_load(state + BINS_AT + 16 * i + 8);

		if ((forward == self) != (back == self))
			return false;
		*empty += forward == self;
		if (forward != self && (!is_chunk(forward) || !is_chunk(back)))
			return false;
	}
	return true;
}

bool malloc_state_read(struct heap_window *w, uint64_t at, struct malloc_state *s)
{
	const uint8_t *state = heap_window_see(w, at, MALLOC_STATE_BYTES, at + MALLOC_STATE_BYTES);
	unsigned int empty;

	if (!state || !bins_are_right(state, at, &empty))
		return false;
	*s = (struct malloc_state){.at = at,
				   .top = bytes_load(state + TOP_AT),
				   .next = bytes_load(state + NEXT_AT),
				   .system_bytes = bytes_load(state + SYSTEM_AT)};
	for (unsigned int i = 0; i < FAST_BINS; i++)
		s->fast[i] = bytes_load(state + FASTBINS_AT + 8 * i);
	return is_chunk(s->top) && s->next && s->next % 8 == 0 && s->next >> 47 == 0;
}

/* ---- the main one ---- */

/* An empty bin is at `bin`: any of the 127, as those before it may be in use. */
static bool state_around(struct heap_window *w, const struct heap_map *map, uint64_t bin,
			 struct malloc_state *s)
{
	for (unsigned int i = 0; i < BINS; i++) {
		uint64_t at = bin - BINS_AT - 16ull * i;
		const uint8_t *state;
		unsigned int empty;

		if (bin < map->start + BINS_AT + 16ull * i)
			return false;
		if (map->end - at < MALLOC_STATE_BYTES)
			continue;
		state = heap_window_see(w, at, MALLOC_STATE_BYTES, at + MALLOC_STATE_BYTES);
		if (state && bins_are_right(state, at, &empty) && empty >= EMPTY_LEAST &&
		    malloc_state_read(w, at, s))
			return true;
	}
	return false;
}

/* Looks for an empty bin. */
static bool find_in_map(struct heap_window *w, const struct heap_map *map, struct malloc_state *s)
{
	uint64_t end = map->end - map->start > LOOK_MOST ? map->start + LOOK_MOST : map->end;
	uint64_t word, next;

	for (uint64_t at = (map->start + 7) & ~7ull; at + 16 <= end; at += 8) {
		/* A page that cannot be read has no state in it. */
		if (!heap_window_word(w, at, end, &word)) {
			at = (at | (PAGE - 1)) - 7;
			continue;
		}
		if (word != at - SELF_LESS)
			continue;
		if (!heap_window_word(w, at + 8, end, &next) || next != word)
			continue;
		if (state_around(w, map, at, s))
			return true;
	}
	return false;
}

/* ---- settings ---- */

/* malloc_par from n_mmaps on: int n_mmaps, n_mmaps_max, max_n_mmaps, no_dyn_threshold; size_t
 * mmapped_mem, max_mmapped_mem; char *sbrk_base. */
static bool par_at(const struct heap_image *image, const uint8_t *bytes, uint64_t at,
		   struct malloc_par *par)
{
	uint32_t mapped = (uint32_t)bytes_load(bytes), dynamic;
	uint32_t most = (uint32_t)bytes_load(bytes + 8);
	size_t sums = (size_t)(((at + 16 + 7) & ~7ull) - at);
	uint64_t sum = bytes_load(bytes + sums), sum_most = bytes_load(bytes + sums + 8);
	uint64_t start = bytes_load(bytes + sums + 16);
	const struct heap_map *map;

	dynamic = (uint32_t)(bytes_load(bytes + 8) >> 32);
	if ((uint32_t)(bytes_load(bytes) >> 32) != MAPPED_MOST || dynamic > 1 || mapped > most ||
	    sum % PAGE || sum > sum_most || (mapped == 0) != (sum == 0) || sum < mapped)
		return false;
	map = start ? heap_map_at(image, start) : NULL;
	if (start && (!map || map->kind != HEAP_MAP_BREAK))
		return false;
	*par = (struct malloc_par){
	    .known = true, .mapped = mapped, .mapped_bytes = sum, .break_start = start};
	return true;
}

#define PAR_BYTES 48u

static void find_par(struct heap_window *w, const struct heap_map *map, struct malloc_par *par)
{
	uint64_t end = map->end - map->start > LOOK_MOST ? map->start + LOOK_MOST : map->end;
	struct malloc_par without = {0};

	*par = without;
	for (uint64_t at = map->start; at + PAR_BYTES <= end; at += 4) {
		const uint8_t *bytes = heap_window_see(w, at, PAR_BYTES, end);
		struct malloc_par found;

		if (!bytes) {
			at = (at | (PAGE - 1)) - 3;
			continue;
		}
		if (!par_at(w->image, bytes, at, &found))
			continue;
		/* One that knows the heap's begin is no chance. */
		if (found.break_start) {
			*par = found;
			return;
		}
		if (!without.known)
			without = found;
	}
	*par = without;
}

bool malloc_state_find(struct heap_window *w, struct malloc_state *s, struct malloc_par *par,
		       struct heap_problem *problem)
{
	const struct heap_image *image = w->image;
	const enum heap_map_kind order[] = {HEAP_MAP_LIBC, HEAP_MAP_DATA};

	for (size_t k = 0; k < sizeof(order) / sizeof(*order); k++)
		for (size_t i = 0; i < image->maps; i++) {
			if (image->map[i].kind != order[k] || !find_in_map(w, &image->map[i], s))
				continue;
			find_par(w, &image->map[i], par);
			return true;
		}
	return heap_fail(problem, HEAP_NO_MALLOC, 0);
}
