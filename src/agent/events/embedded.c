/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Heaps of runtimes that use mayfly/memprof.h: their samples go where OCaml's do, with the same
 * rate. libmayfly-memprof finds the table below by its name.
 *
 * Frames are codes of the runtime's own. Each gets a number that is no address of code, and a PLACE
 * record that says what it stands for.
 */
#include <errno.h>
#include <string.h>

#include "agent/agent.h"
#include "agent/events/runtime_blocks.h"
#include "agent/labels.h"
#include "agent/life.h"
#include "agent/path.h"
#include "agent/records.h"
#include "mayfly/memprof.h"

_Static_assert(MAYFLY_MEMPROF_PLACES <= SPOOL_OCAML_PLACES, "memprof.h: too many places");

static _Atomic uint64_t last_number = SPOOL_RUNTIME_CODE;
static _Atomic uint64_t generation = 1;
static _Atomic bool begun;
static void (*on_fork_before)(void);

/* The child's spool has neither places nor the rate. */
static void begin_again(void)
{
	atomic_fetch_add(&generation, 1);
	runtime_blocks_tell_rate();
	if (on_fork_before)
		on_fork_before();
}

/* That are kept of a stack. memprof.h allows one more, which shows that there are more. */
static uint32_t most_frames(void)
{
	return runtime_blocks.frames < 1023 ? runtime_blocks.frames : 1023;
}

/* OCaml's recording may have begun before: then this has the rate of that. */
static double begin(uint32_t *frames)
{
	bool before = false;

	if (atomic_load(&agent_state) != AGENT_ON || agent_exact || agent_config.ocaml_rate == 0)
		return 0;
	if (atomic_compare_exchange_strong(&begun, &before, true)) {
		if (!atomic_load(&spool_header->ocaml_interval_log2)) {
			runtime_blocks_set_rate(agent_config.ocaml_rate);
			runtime_blocks.frames = agent_config.ocaml_frames;
		}
		on_fork_before = life_on_fork;
		life_on_fork = begin_again;
		runtime_blocks_tell_rate();
	}
	*frames = most_frames() + 1;
	return runtime_blocks.rate;
}

static uint64_t current_generation(void)
{
	return atomic_load(&generation);
}

/* NULL: nothing can be recorded. Otherwise leave() follows. */
static struct writer *enter(int *error)
{
	struct writer *w = NULL;

	*error = errno;
	if (!path_enter())
		return NULL;
	if (life_thread_ready())
		w = path_writer();
	if (!w) {
		path_leave();
		errno = *error;
	}
	return w;
}

static void leave(int error)
{
	path_leave();
	errno = error;
}

static uint64_t place(const struct mayfly_memprof_place *places, uint32_t count)
{
	struct records_place at[MAYFLY_MEMPROF_PLACES];
	uint64_t number = atomic_fetch_add(&last_number, 16) + 16;
	struct writer *w;
	int error;

	for (uint32_t i = 0; i < count; i++)
		at[i] = (struct records_place){
		    .function = places[i].function ? places[i].function : "",
		    .file = places[i].file ? places[i].file : "",
		    .line = places[i].line,
		    .first = places[i].first_column,
		    .last = places[i].last_column,
		};
	w = count ? enter(&error) : NULL;
	if (!w)
		return number;
	records_place(w, agent_ticks(), number, at, count);
	leave(error);
	return number;
}

static const uint32_t heap_of[] = {
    [MAYFLY_MEMPROF_YOUNG] = SPOOL_HEAP_MINOR,
    [MAYFLY_MEMPROF_OLD] = SPOOL_HEAP_MAJOR,
    [MAYFLY_MEMPROF_EXTERNAL] = SPOOL_HEAP_EXTERNAL,
};

/* Puts the stack into w->ocaml_stack, from its root. Returns the number of root-most frames that the
 * one before had, too. */
static uint32_t take_stack(struct writer *w, const struct mayfly_memprof_block *block,
			   const uint64_t *addresses)
{
	bool cut = block->depth > most_frames();
	uint32_t kept = cut ? most_frames() : block->depth;
	uint32_t common = 0, before = w->ocaml_depth;

	w->ocaml_slots = 0;
	w->ocaml_depth = kept + cut;
	for (uint32_t n = 0; n < w->ocaml_depth; n++) {
		uint64_t frame = kept == w->ocaml_depth - n ? addresses[--kept]
							    : SPOOL_MARK(SPOOL_MARK_TRUNCATED, 0);

		common += common == n && n < before && w->ocaml_stack[n] == frame;
		w->ocaml_stack[n] = frame;
	}
	return common;
}

static uint64_t allocated_in(const char *heap, const struct mayfly_memprof_block *block,
			     uint64_t bytes, const uint64_t *addresses)
{
	int error;
	struct writer *w = enter(&error);
	intptr_t kept = 0;

	if (!w) {
		runtime_blocks_drop();
		return 0;
	}
	labels_set_pool(heap ? labels_number("heap", heap) : 0);
	if (spool_enabled() && (w->packet || spool_room(w, 1)))
		runtime_blocks_record(w, bytes, block->n_samples, heap_of[block->source],
				      take_stack(w, block, addresses), &kept);
	labels_set_pool(0);
	leave(error);
	return (uint64_t)kept;
}

static uint64_t allocated(const struct mayfly_memprof_block *block, uint64_t bytes,
			  const uint64_t *addresses)
{
	return allocated_in(NULL, block, bytes, addresses);
}

static void promoted(uint64_t kept)
{
	int error;
	struct writer *w = enter(&error);

	if (w) {
		runtime_blocks_promoted(w, (intptr_t)kept);
		leave(error);
	}
}

static void freed(uint64_t kept)
{
	int error;
	struct writer *w = enter(&error);

	if (w) {
		runtime_blocks_collected(w, (intptr_t)kept);
		leave(error);
	}
}

EXPORT const struct mayfly_agent_heaps mayfly_agent_heaps = {
    .size = sizeof(struct mayfly_agent_heaps),
    .begin = begin,
    .generation = current_generation,
    .place = place,
    .allocated = allocated,
    .promoted = promoted,
    .freed = freed,
    .allocated_in = allocated_in,
};
