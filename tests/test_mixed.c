/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mixed.c against a merge from the start: random programs of native calls, evaluators and groups of
 * Python frames. Each step changes a part of the stack and makes it anew; what is made must be what a
 * merge that remembers nothing makes, and `common` what it shares with the one before.
 */
#include "agent/interpreter/mixed.h"

#include "test.h"

#include <string.h>

#define STEPS	  400000u
#define OWN_START 0x5000u
#define OWN_SIZE  0x100u

static struct writer w;
static struct mixed mixed;
static uint64_t before[SPOOL_MAX_FRAMES], expected[SPOOL_MAX_FRAMES + MIXED_FRAMES + 2];
static uint32_t before_depth;

/* The Python frames of the program, from the root, and its groups. */
static struct {
	uint64_t frame[2 * MIXED_FRAMES];
	uint32_t frames;
	struct {
		uint32_t start;
		uintptr_t anchor;
	} group[2 * MIXED_GROUPS];
	uint32_t groups;
	uint32_t ungrouped; /* root-most frames in no group */
} python;

static uint64_t random_state;

static uint32_t below(uint32_t limit)
{
	random_state = random_state * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)(random_state >> 33) % limit;
}

/* ---- the reference ---- */

static uint32_t put_groups(const struct mixed_chain *c, uint32_t from, uint32_t to, uint32_t depth)
{
	for (uint32_t group = from; group-- > to;) {
		uint32_t start = group ? c->group[group - 1].end : 0;

		if (group + 1 == c->groups && c->lost)
			expected[depth++] = SPOOL_MARK(SPOOL_MARK_ELIDED, c->lost);
		for (uint32_t i = c->group[group].end; i-- > start;)
			expected[depth++] = c->frame[i];
	}
	return depth;
}

static uint32_t make_expected(const struct mixed_chain *c)
{
	uint32_t depth = 0, group = c->groups;

	for (uint32_t i = 0; i < w.walk.depth; i++) {
		const struct walk_frame *f = &w.walk.frames[i];
		uint32_t stays = group;

		if (f->address - OWN_START >= OWN_SIZE)
			expected[depth++] = f->address;
		while (stays && f->cfa && c->group[stays - 1].anchor >= f->cfa)
			stays--;
		depth = put_groups(c, group, stays, depth);
		group = stays;
	}
	depth = put_groups(c, group, 0, depth);
	if (depth > SPOOL_MAX_FRAMES) {
		uint32_t leaf = SPOOL_MAX_FRAMES - 513;

		expected[512] = SPOOL_MARK(SPOOL_MARK_ELIDED, depth - 512 - leaf);
		memmove(expected + 513, expected + depth - leaf, leaf * sizeof(*expected));
		depth = SPOOL_MAX_FRAMES;
	}
	return depth;
}

/* ---- the program ---- */

static void call_native(void)
{
	struct walk_frame *f = &w.walk.frames[w.walk.depth];
	uintptr_t sp = w.walk.depth ? f[-1].cfa : 0x7fff0000;
	uint32_t kind = below(40);

	if (w.walk.depth == WALK_KEEP)
		return;
	f->address = 0x1000 + below(6);
	f->cfa = (sp ? sp : 0x7ff00000) - 16 - 16 * below(3);
	if (kind == 0)
		f->cfa = 0; /* a mark */
	w.walk.depth++;
}

static void call_own(void)
{
	struct walk_frame *f = &w.walk.frames[w.walk.depth];

	if (w.walk.depth == 0 || w.walk.depth == WALK_KEEP)
		return;
	f->address = OWN_START + 8;
	f->cfa = f[-1].cfa ? f[-1].cfa - 16 : 0;
	w.walk.depth++;
}

static void call_python(void)
{
	if (python.frames < sizeof(python.frame) / sizeof(*python.frame))
		python.frame[python.frames++] = (uint64_t)1 << 62 | below(5);
}

/* A native call of the evaluator, with the frames that it runs. */
static void call_evaluator(void)
{
	uintptr_t inside;

	call_native();
	if (w.walk.depth == 0 || python.groups == 2 * MIXED_GROUPS)
		return;
	inside = w.walk.frames[w.walk.depth - 1].cfa;
	python.group[python.groups].start = python.frames;
	/* Now and then one that fits no frame, or the same as that of another group. */
	python.group[python.groups].anchor = inside + (below(30) ? 8 : -8000u);
	python.groups++;
	for (uint32_t n = below(4); n; n--)
		call_python();
}

static void return_python(uint32_t to)
{
	if (python.frames > to)
		python.frames = to;
	while (python.groups && python.group[python.groups - 1].start >= python.frames)
		python.groups--;
	if (python.ungrouped > python.frames)
		python.ungrouped = python.frames;
}

static void return_native(uint32_t to)
{
	uintptr_t sp;

	if (w.walk.depth > to)
		w.walk.depth = to;
	sp = to ? w.walk.frames[to - 1].cfa : UINTPTR_MAX;
	while (python.groups && python.group[python.groups - 1].anchor < sp && sp != UINTPTR_MAX &&
	       below(20))
		return_python(python.group[python.groups - 1].start);
}

static void step(uint32_t most)
{
	for (uint32_t n = 1 + below(4); n; n--) {
		uint32_t depth = w.walk.depth;

		switch (below(9)) {
		case 0:
			return_native(depth ? depth - 1 - below(depth) / 3 : 0);
			break;
		case 1:
			return_native(depth > 1 ? depth - 1 : depth);
			call_native();
			break;
		case 2:
			call_own();
			break;
		case 3:
		case 4:
			call_evaluator();
			break;
		case 5: /* another line of the leaf */
			if (python.frames)
				python.frame[python.frames - 1] = (uint64_t)1 << 62 | below(5);
			break;
		case 6:
			return_python(python.frames ? python.frames - 1 : 0);
			break;
		case 7: /* a line further out, or another call there, or the stack elsewhere */
			if (python.frames)
				python.frame[below(python.frames)] ^= below(2);
			if (depth)
				w.walk.frames[below(depth)].cfa += 16 * below(2);
			if (depth)
				w.walk.frames[below(depth)].address ^= below(3) == 0;
			break;
		default:
			call_python();
		}
	}
	if (w.walk.depth > most)
		return_native(most / 2);
	if (python.frames > most)
		return_python(most / 3);
}

/* Gives the chain from the leaf, as the interpreter has it. */
static const struct mixed_chain *give_chain(void)
{
	struct mixed_chain *c = mixed_begin(&mixed);
	uint32_t group = python.groups;

	for (uint32_t i = python.frames; i-- > 0;) {
		mixed_put(c, python.frame[i]);
		while (group && python.group[group - 1].start == i)
			mixed_end_group(c, python.group[--group].anchor);
	}
	return c;
}

static struct walk_frame last[WALK_KEEP + 1];
static uint32_t last_depth;

/* What the walk says of its frames. */
static void tell_kept(void)
{
	uint32_t kept = 0;

	while (kept < last_depth && kept < w.walk.depth &&
	       last[kept].address == w.walk.frames[kept].address &&
	       last[kept].cfa == w.walk.frames[kept].cfa)
		kept++;
	w.walk.kept = below(4) ? kept : below(kept + 1);
	memcpy(last, w.walk.frames, w.walk.depth * sizeof(*last));
	last_depth = w.walk.depth;
}

static bool check(void)
{
	const struct mixed_chain *c;
	uint32_t depth, common = 0, most;

	tell_kept();
	if (below(50) == 0) { /* another capture came between */
		w.stack_known = false;
		w.walk.kept = below(w.walk.depth + 1);
	}
	if (below(500) == 0)
		w.mixed_depth = before_depth = 0;
	c = give_chain();
	depth = make_expected(c);
	mixed_make(&mixed, &w);
	most = depth < before_depth ? depth : before_depth;
	while (common < most && expected[common] == before[common])
		common++;
	memcpy(before, expected, depth * sizeof(*before));
	before_depth = depth;
	w.is_mixed = w.stack_known = true;
	return w.mixed_depth == depth && w.mixed_common == common &&
	       !memcmp(w.mixed, expected, depth * sizeof(*expected));
}

static void run(uint64_t seed, uint32_t most, uint32_t steps)
{
	uint32_t wrong = 0;

	random_state = seed;
	memset(&mixed, 0, sizeof(mixed));
	memset(&python, 0, sizeof(python));
	w.is_mixed = w.stack_known = false;
	w.walk.depth = w.mixed_depth = before_depth = last_depth = 0;
	for (uint32_t i = 0; i < steps; i++) {
		step(most);
		wrong += !check();
	}
	CHECK(wrong == 0, "%u of %u stacks, seed %llu", wrong, steps, (unsigned long long)seed);
}

static void shallow_stacks(void)
{
	for (uint64_t seed = 1; seed <= 4; seed++)
		run(seed, 12, STEPS / 4);
}

static void stacks_of_programs(void)
{
	run(11, 60, STEPS / 4);
	run(12, 300, STEPS / 20);
}

/* More than a stack holds, of native frames, Python's and groups. */
static void stacks_that_are_shortened(void)
{
	for (uint64_t seed = 21; seed <= 24; seed++) {
		uint32_t wrong = 0;

		run(seed, 12, 100);
		for (uint32_t i = 0; i < 300; i++) {
			for (uint32_t k = 0; k < 900 && i % 20 == 0; k++) {
				call_evaluator();
				if (seed & 1)
					call_python();
			}
			step(2 * MIXED_FRAMES);
			wrong += !check();
			if (i % 20 == 15)
				return_native(30);
		}
		CHECK(wrong == 0, "%u stacks, seed %llu", wrong, (unsigned long long)seed);
	}
}

int main(void)
{
	mixed_own_start = OWN_START;
	mixed_own_size = OWN_SIZE;
	RUN(shallow_stacks);
	RUN(stacks_of_programs);
	RUN(stacks_that_are_shortened);
	DONE();
}
