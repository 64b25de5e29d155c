/* SPDX-License-Identifier: Apache-2.0 */
/* Where glibc's malloc has its chunks: see glibc_pieces.h. */
#include "heap/glibc_pieces.h"

#include <stdlib.h>

#include "base/bytes.h"
#include "base/array.h"
#include "base/search.h"

#define PAGE	       4096u
#define ARENAS_MOST    (1u << 20)
#define HEAPS_MOST     (1u << 20) /* of one arena */
#define HEAD	       16u
#define FLAGS	       7ull
#define IS_MAPPED      2u
#define HEAP_INFO_OLD  0x20u /* bytes of heap_info up to 2.34 */
#define HEAP_INFO_2_35 0x30u

static bool add_piece(struct glibc_pieces *p, struct glibc_piece piece,
		      struct heap_problem *problem)
{
	if (!array_reserve(&p->piece, &p->capacity, p->count, sizeof(*p->piece)))
		return heap_fail(problem, HEAP_NO_MEMORY, 0);
	p->piece[p->count++] = piece;
	return true;
}

/* ---- the main arena ---- */

/* The end of the run of maps of the break that this one is in. */
static uint64_t break_end(const struct heap_image *image, const struct heap_map *map)
{
	uint64_t end = map->end;

	for (const struct heap_map *next = map + 1; next < image->map + image->maps; next++) {
		if (next->start != end || next->kind != HEAP_MAP_BREAK)
			break;
		end = next->end;
	}
	return end;
}

static const struct heap_map *first_break(const struct heap_image *image)
{
	for (size_t i = 0; i < image->maps; i++)
		if (image->map[i].kind == HEAP_MAP_BREAK)
			return &image->map[i];
	return NULL;
}

static bool add_main(const struct heap_image *image, struct glibc_pieces *p,
		     struct heap_problem *problem)
{
	const struct malloc_state *s = &p->arena[0];
	const struct heap_map *map =
	    p->par.break_start ? heap_map_at(image, p->par.break_start) : first_break(image);
	const struct heap_map *top = heap_map_at(image, s->top);
	struct glibc_piece piece = {.kind = GLIBC_MAIN};

	/* Before the first block, top is a place in the state itself. */
	if (s->top == s->at + 96)
		top = NULL;
	else if (!top)
		return heap_fail(problem, HEAP_DAMAGED, s->at);
	if (map && (top || p->par.break_start)) {
		piece.start = p->par.break_start ? (p->par.break_start + 15) & ~15ull : map->start;
		piece.begins_unknown = !p->par.break_start;
		piece.limit = break_end(image, map);
		piece.top = s->top >= piece.start && s->top < piece.limit ? s->top : 0;
		/* Nobody knows whether a break that has no top and no begin is malloc's. */
		if ((piece.top || !piece.begins_unknown) && !add_piece(p, piece, problem))
			return false;
	}
	/* When brk() fails, the arena goes on in mappings. The one with the top is found. */
	if (top && top->kind == HEAP_MAP_ANONYMOUS && !piece.top) {
		piece = (struct glibc_piece){.kind = GLIBC_MAIN,
					     .start = top->start,
					     .limit = top->end,
					     .top = s->top,
					     .begins_unknown = true};
		return add_piece(p, piece, problem);
	}
	return !top || piece.top || heap_fail(problem, HEAP_DAMAGED, s->top);
}

/* ---- further arenas ---- */

static bool add_heaps(struct heap_window *w, struct glibc_pieces *p, const struct malloc_state *s,
		      struct heap_problem *problem)
{
	uint64_t first = s->at & ~(HEAP_BYTES_MOST - 1), head = s->at - first;
	uint64_t at = s->top & ~(HEAP_BYTES_MOST - 1), top = s->top;

	if (head != HEAP_INFO_OLD && head != HEAP_INFO_2_35)
		return heap_fail(problem, HEAP_DAMAGED, s->at);
	for (unsigned int i = 0; i < HEAPS_MOST; i++) {
		const uint8_t *info = heap_window_see(w, at, HEAP_INFO_OLD, at + HEAP_INFO_OLD);
		uint64_t owner, before, bytes;

		if (!info)
			return heap_fail(problem, HEAP_UNREADABLE, at);
		owner = bytes_load(info);
		before = bytes_load(info + 8);
		bytes = bytes_load(info + 16);
		if (owner != s->at || bytes % PAGE || bytes > HEAP_BYTES_MOST || bytes < PAGE ||
		    (at == first) != !before || before % HEAP_BYTES_MOST)
			return heap_fail(problem, HEAP_DAMAGED, at);
		if (!add_piece(p,
			       (struct glibc_piece){
				   .kind = GLIBC_FURTHER,
				   .start = at == first ? (s->at + MALLOC_STATE_BYTES + 15) & ~15ull
							: at + head,
				   .limit = at + bytes,
				   .top = top},
			       problem))
			return false;
		if (at == first)
			return true;
		at = before;
		top = 0;
	}
	return heap_fail(problem, HEAP_DAMAGED, s->at);
}

static bool add_arenas(struct heap_window *w, struct glibc_pieces *p, struct heap_problem *problem)
{
	for (uint64_t at = p->arena[0].next; at != p->arena[0].at;) {
		struct malloc_state s;

		if (p->arenas >= ARENAS_MOST || !malloc_state_read(w, at, &s))
			return heap_fail(problem, HEAP_DAMAGED, at);
		if (!array_reserve(&p->arena, &p->arena_capacity, p->arenas, sizeof(*p->arena)))
			return heap_fail(problem, HEAP_NO_MEMORY, 0);
		p->arena[p->arenas++] = s;
		if (!add_heaps(w, p, &s, problem))
			return false;
		at = s.next;
	}
	return true;
}

/* ---- blocks with mappings of their own ---- */

/* A chunk of this kind begins a page. */
static bool is_mapped_chunk(const uint8_t *chunk, uint64_t left, uint64_t *bytes)
{
	uint64_t size = bytes_load(chunk + 8);

	*bytes = size & ~FLAGS;
	return bytes_load(chunk) == 0 && (size & FLAGS) == IS_MAPPED && *bytes % PAGE == 0 &&
	       *bytes && *bytes <= left;
}

/* Where an alignment was asked for, the block begins later in the chunk: it has a head of its own there,
 * whose first word says how much was left out. Returns how much. */
static uint64_t left_out(struct heap_window *w, uint64_t at, uint64_t bytes)
{
	for (uint64_t alignment = 32; alignment < bytes; alignment *= 2) {
		uint64_t head = ((at + HEAD + alignment - 1) & ~(alignment - 1)) - HEAD;
		const uint8_t *seen;

		/* What is left out must be a chunk, too. */
		if (head - at < 2 * HEAD)
			head += alignment;
		if (head - at + 2 * HEAD > bytes)
			continue;
		seen = heap_window_see(w, head, HEAD, head + HEAD);
		if (seen && bytes_load(seen) == head - at &&
		    bytes_load(seen + 8) == ((bytes - (head - at)) | IS_MAPPED))
			return head - at;
	}
	return 0;
}

static bool all_mapped_found(const struct glibc_pieces *p)
{
	return p->par.known && p->mapped == p->par.mapped && p->mapped_bytes == p->par.mapped_bytes;
}

/* Takes the chunk that begins this page, if there is one; *next is where to go on. */
static bool look_at_page(struct heap_window *w, struct glibc_pieces *p, uint64_t page, uint64_t end,
			 uint64_t *next, struct heap_problem *problem)
{
	const uint8_t *head = heap_window_see(w, page, HEAD, end);
	uint64_t bytes;

	*next = page + PAGE;
	if (!head || !is_mapped_chunk(head, end - page, &bytes))
		return true;
	p->mapped++;
	p->mapped_bytes += bytes;
	*next = page + bytes;
	return add_piece(p,
			 (struct glibc_piece){.kind = GLIBC_MAPPED,
					      .start = page + left_out(w, page, bytes),
					      .limit = page + bytes},
			 problem);
}

static int compare_pieces(const void *a, const void *b)
{
	const struct glibc_piece *x = a, *y = b;

	return (x->start > y->start) - (x->start < y->start);
}

/* The first piece that ends after the address, of the first `count`. */
static const struct glibc_piece *piece_after(const struct glibc_pieces *p, size_t count,
					     uint64_t address)
{
	size_t low = FIRST_THAT(i, 0, count, p->piece[i].limit > address);

	return low < count ? &p->piece[low] : NULL;
}

static bool add_mapped(struct heap_window *w, struct glibc_pieces *p, struct heap_problem *problem)
{
	const struct heap_image *image = w->image;
	size_t known = p->count;

	qsort(p->piece, p->count, sizeof(*p->piece), compare_pieces);
	for (size_t i = 0; i < image->maps && !all_mapped_found(p); i++) {
		const struct heap_map *map = &image->map[i];
		uint64_t at = (map->start + PAGE - 1) & ~(uint64_t)(PAGE - 1), next;

		if (map->kind != HEAP_MAP_ANONYMOUS)
			continue;
		for (; at < map->end && map->end - at >= PAGE; at = next) {
			const struct glibc_piece *other;

			/* A question for each page would cost as much as reading it. */
			if (at % HEAP_WINDOW_BYTES == 0)
				at = heap_skip_zeros(image, at, map->end);
			if (map->end - at < PAGE)
				break;
			other = piece_after(p, known, at);
			/* Its head, too, which is before its first chunk. */
			if (other && (other->start & ~(uint64_t)(PAGE - 1)) <= at) {
				next = (other->limit + PAGE - 1) & ~(uint64_t)(PAGE - 1);
				continue;
			}
			if (!look_at_page(w, p, at, map->end, &next, problem))
				return false;
		}
	}
	qsort(p->piece, p->count, sizeof(*p->piece), compare_pieces);
	return true;
}

bool glibc_pieces_find(struct heap_window *w, struct glibc_pieces *p, struct heap_problem *problem)
{
	*p = (struct glibc_pieces){0};
	if (!array_reserve(&p->arena, &p->arena_capacity, 0, sizeof(*p->arena)))
		return heap_fail(problem, HEAP_NO_MEMORY, 0);
	if (!malloc_state_find(w, &p->arena[0], &p->par, problem))
		return false;
	p->arenas = 1;
	return add_main(w->image, p, problem) && add_arenas(w, p, problem) &&
	       add_mapped(w, p, problem);
}

void glibc_pieces_free(struct glibc_pieces *p)
{
	free(p->piece);
	free(p->arena);
	*p = (struct glibc_pieces){0};
}
