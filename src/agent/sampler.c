/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which allocations to sample: see sampler.h. doc/INTERNALS.md, "Estimates", has the reasons.
 *
 * The bytes that a thread allocates in blocks smaller than R = 2^interval_log2 form one long line.
 * Stratified: the line is cut into strata of S = R/16 bytes, and each has one point, at a place u
 * drawn uniformly. One of 16 successive points in blocks of one class is taken, drawn at random:
 *
 *	|........x..............|..x....................|..................x....|
 *	 <- u0 ->x<---- S - u0 ---->u1-> ...
 *	 class:  a                 b                                       a
 *	 turn:   3 of 16           9 of 16: taken                          4 of 16
 *
 * So the distance from one point to the next is (S - u) + u'. This is unbiased: each byte is a
 * point with probability 1/S, and the places of the points alone determine the class and turn of
 * each. The turn that is taken is drawn independently of them, so each point is taken with
 * probability 1/16, and each byte with 1/R. Blocks of one class mostly have similar lives, so a
 * group of 16 is like a stratum of R bytes in similar blocks; doc/INTERNALS.md has the gain. S is
 * at least 4 KiB, since each point costs some time: groups are smaller when R < 64 KiB, and consist
 * of one point when R <= 4 KiB or the thread has a budget.
 *
 * Blocks of R bytes or more are not on the line: they are all recorded. With the Poisson sampler
 * every block is on the line, and the distances are exponential.
 *
 * `left` counts down to the next point, that byte included. It is never more than R, so that each
 * block of R bytes or more comes here; the rest of a longer distance waits in `carried`.
 *
 * Another rule (sampler_change) is noticed where a point is reached, so it must not cost that point
 * or what it stands for. The point is used by the rule that drew it. That rule stays in force until
 * its stratum ends, and to the end of the block that lies across this border:
 *
 *	|........x..............|..x....................|......
 *	         ^ noticed      ^ border  ^ end of the block: the next rule's first stratum begins
 *
 * Take a stratum, and all that happened before it as given. Whether it belongs to the old rule is
 * known by then, since the border is. Its point is uniform, and nothing that was done up to here
 * depends on it. So S times what is found at the point is on average what the stratum holds; and a
 * sum of such terms has no bias, however the number of strata depends on earlier points (a
 * martingale, stopped). The last stratum of the old rule is cut off at a block's end, which the
 * border and the program's sizes determine: each byte before has had the chance 1/S. To begin anew
 * at the point would give the rest of its stratum a second chance (R/32 bytes too many), to throw
 * the point away would leave what came before it without any. Groups are cut off at a place that
 * depends on where points lie, but never on which of them were taken: nothing else than
 * sampler_take leads here, which comes for each point. With Poisson distances, which have no
 * memory, the next rule holds from the end of any block on.
 */
#include "agent/sampler.h"

#include "base/natural_log.h"

#include <assert.h>
#include <stdbool.h>

/* xoshiro256** of Blackman and Vigna, seeded as they advise with splitmix64. */
static uint64_t rotate_left(uint64_t x, unsigned int bits)
{
	return x << bits | x >> (64 - bits);
}

static uint64_t draw_random(struct sampler *s)
{
	uint64_t *r = s->random;
	uint64_t result = rotate_left(r[1] * 5, 7) * 9;
	uint64_t t = r[1] << 17;

	r[2] ^= r[0];
	r[3] ^= r[1];
	r[1] ^= r[2];
	r[0] ^= r[3];
	r[2] ^= t;
	r[3] = rotate_left(r[3], 45);
	return result;
}

static void seed_random(struct sampler *s, uint64_t seed)
{
	/* The steps are a bijection, so the four words cannot all be zero. */
	for (int i = 0; i < 4; i++) {
		seed += SAMPLER_SPLITMIX_STEP;
		s->random[i] = sampler_splitmix(seed);
	}
}

/* Uniform in [0, S): S is a power of two, so the top bits are free of bias. */
static uint64_t draw_point(struct sampler *s)
{
	assert(s->step_log2 && s->step_log2 < 64);
	return draw_random(s) >> (64 - s->step_log2);
}

/* A point lies in a block of the class. True: it is the one of its group that is taken. */
static bool take_turn(struct sampler *s, uint8_t *turn)
{
	uint32_t last = (1u << (s->interval_log2 - s->step_log2)) - 1;
	uint32_t seen = *turn >> 4, taken = *turn & 15;

	assert(last < 1u << STRATA_GROUP_LOG2 && seen <= last);
	if (seen == 0 && last > 0)
		taken = (uint32_t)(draw_random(s) >> 60) & last;
	*turn = (uint8_t)(((seen + 1) & last) << 4 | taken);
	return seen == taken;
}

static uint32_t choose_step(const struct sampler *s, uint32_t interval_log2)
{
	return interval_log2 - (s->limited ? 0 : strata_group_log2(interval_log2));
}

/*
 * Bytes up to and including the next point: an exponential distance, rounded up, which makes the
 * probability that a block of Z bytes has no point exactly exp(-Z / R).
 */
static uint64_t draw_exponential(struct sampler *s)
{
	double u = ((double)(draw_random(s) >> 11) + 0.5) * 0x1p-53;
	double way = -natural_log(u) * (double)(1ull << s->interval_log2);

	assert(way >= 0);
	return (uint64_t)way + 1;
}

/* The number of bytes of the line up to here. */
static uint64_t line_position(const struct sampler *s)
{
	return s->handed - s->left;
}

/* Puts as much of a distance that begins at `position` of the line into left as is allowed. */
static void hand_out(struct sampler *s, uint64_t position, uint64_t way)
{
	uint64_t most = 1ull << s->interval_log2;
	uint64_t stop = s->check < s->border ? s->check : s->border;

	if (position < stop && stop - position < most)
		most = stop - position;
	s->left = way < most ? way : most;
	s->carried = way - s->left;
	s->handed = position + s->left;
	assert(s->left <= 1ull << s->interval_log2 && s->left + s->carried == way);
}

void sampler_set_interval(struct sampler *s, uint32_t interval_log2)
{
	uint64_t position = line_position(s);

	s->interval_log2 = interval_log2;
	s->step_log2 = choose_step(s, interval_log2);
	s->border = UINT64_MAX;
	for (uint32_t i = 0; i < STRATA_CLASSES; i++)
		s->turn[i] = 0;
	s->point = 0;
	if (interval_log2 == 0) {
		/* Nothing to count down: every block is recorded. */
		hand_out(s, position, 0);
	} else if (s->kind == SAMPLER_POISSON) {
		hand_out(s, position, draw_exponential(s));
	} else {
		s->point = draw_point(s);
		hand_out(s, position, s->point + 1);
	}
}

void sampler_set_limited(struct sampler *s, bool limited)
{
	s->limited = limited;
	if (!limited)
		s->check = UINT64_MAX;
	sampler_set_interval(s, s->interval_log2);
}

void sampler_init(struct sampler *s, uint32_t kind, uint32_t interval_log2, uint64_t seed)
{
	*s = (struct sampler){.kind = kind, .check = UINT64_MAX};
	seed_random(s, seed);
	sampler_set_interval(s, interval_log2);
}

void sampler_reseed(struct sampler *s, uint64_t seed)
{
	seed_random(s, seed);
	sampler_set_interval(s, s->interval_log2);
}

void sampler_branch(struct sampler *s, uint64_t seed)
{
	seed_random(s, seed);
	if (!s->changing)
		sampler_change(s, s->interval_log2, s->limited);
	s->changing = true;
}

/* An exponential distance has no memory: after a hit the next may begin at the end of the block. */
static int32_t take_poisson(struct sampler *s, uint64_t size)
{
	uint64_t position = line_position(s) + size;
	uint64_t way = s->left + s->carried;
	int32_t hits = SAMPLER_SKIP;

	if (size >= way) {
		way = draw_exponential(s);
		hits = 1;
	} else {
		way -= size;
	}
	hand_out(s, position, way);
	return hits;
}

static int32_t take_stratified(struct sampler *s, uint64_t size, uintptr_t caller)
{
	uint8_t *turn = &s->turn[strata_class(size, caller)];
	uint64_t step = 1ull << s->step_log2;
	int32_t hits = 0;

	/* From here on `size` is the part of the block after the end of left. */
	assert(size >= s->left);
	size -= s->left;
	for (;;) {
		if (s->carried == 0) {
			uint64_t point = draw_point(s);

			hits += take_turn(s, turn);
			s->carried = step - s->point + point;
			s->point = point;
		}
		hand_out(s, s->handed, s->carried);
		if (size < s->left)
			break;
		size -= s->left;
	}
	s->left -= size;
	assert(s->left); /* the point is still to come */
	return hits > 0 ? hits : SAMPLER_SKIP;
}

int32_t sampler_take(struct sampler *s, uint64_t size, uintptr_t caller)
{
	if (size == 0 || s->interval_log2 == 0)
		s->apart++;
	if (s->interval_log2 == 0)
		return 0;
	if (s->kind == SAMPLER_POISSON)
		return take_poisson(s, size);
	if (size >= 1ull << s->interval_log2) {
		s->apart++;
		return 0;
	}
	return take_stratified(s, size, caller);
}

/* ---- another rule ---- */

/* The bytes from here to the end of the stratum. False: its point is still to come. */
static bool stratum_rest(const struct sampler *s, uint64_t *rest)
{
	uint64_t way = s->left + s->carried; /* the point's own byte included */

	*rest = 0;
	if (s->kind == SAMPLER_POISSON || s->interval_log2 == 0)
		return true; /* no memory, or no strata */
	if (way <= s->point)
		return false;
	*rest = way - 1 - s->point;
	return true;
}

void sampler_change(struct sampler *s, uint32_t interval_log2, bool limited)
{
	s->next_log2 = interval_log2;
	s->next_limited = limited;
	s->changing = interval_log2 != s->interval_log2 || limited != s->limited;
	s->border = UINT64_MAX;
}

void sampler_settle(struct sampler *s)
{
	uint64_t rest;

	if (!s->changing)
		return;
	if (s->border == UINT64_MAX) {
		if (!stratum_rest(s, &rest))
			return;
		s->border = line_position(s) + rest;
		hand_out(s, line_position(s), s->left + s->carried);
	}
	if (line_position(s) < s->border)
		return;
	s->changing = false;
	s->interval_log2 = s->next_log2;
	sampler_set_limited(s, s->next_limited);
}

/* ---- the budget ---- */

/* The number of bytes between looks. A look costs some 50 ns. */
#define LOOK_BYTES (256u << 10)

#define WAIT_MOST (1ull << 40) /* longer waits count as this, so that nothing overflows */

/* The position where the current stratum ends. The next point lies in it, or in the next one. */
static uint64_t stratum_end(const struct sampler *s)
{
	uint64_t position = sampler_position(s), rest;

	if (stratum_rest(s, &rest) && (rest || s->kind == SAMPLER_POISSON || !s->interval_log2))
		return position + rest;
	return position + s->left + s->carried - 1 - s->point + (1ull << s->interval_log2);
}

static void close_strata(struct sampler *s, struct sampler_budget *b)
{
	if (sampler_position(s) >= b->open_ends) {
		b->spent += b->open;
		b->open = 0;
	}
}

void sampler_charge(struct sampler *s, struct sampler_budget *b, uint64_t cost, uint64_t since)
{
	uint64_t end = stratum_end(s);

	close_strata(s, b);
	if (since + (1ull << s->interval_log2) <= end) {
		b->spent += cost;
		return;
	}
	b->open += cost;
	b->open_ends = end;
}

static void next_check(struct sampler *s, struct sampler_budget *b, uint64_t way)
{
	b->large = 0;
	s->check = line_position(s) + way;
	hand_out(s, line_position(s), s->left + s->carried);
}

static void new_window(struct sampler_budget *b, uint64_t now)
{
	b->start = now;
	b->spent = 0;
}

/* What the interval should be, from what the window has cost up to now. */
static uint32_t choose_interval(const struct sampler *s, const struct sampler_budget *b,
				uint64_t elapsed, uint64_t window, uint32_t share,
				uint32_t least_log2)
{
	uint64_t spent = b->spent * SAMPLER_SHARE_ONE, allowed = elapsed * share;
	uint32_t log2 = s->interval_log2;

	if (spent > allowed)
		return log2 < SAMPLER_BUDGET_MOST ? log2 + 1 : log2;
	/* One step for each window that has passed; each halving doubles the expected cost. */
	for (uint64_t steps = elapsed / window; steps && log2 > least_log2 && 4 * spent < allowed;
	     steps--) {
		log2--;
		spent *= 2;
	}
	return log2;
}

void sampler_look(struct sampler *s, struct sampler_budget *b, uint64_t now, uint64_t window,
		  uint32_t share, uint32_t least_log2, uint64_t size, int32_t hits)
{
	uint64_t look = least_log2 > 18 ? 1ull << least_log2 : LOOK_BYTES;

	if (b->start == 0) {
		new_window(b, now);
		next_check(s, b, look);
		return;
	}
	if (hits == 0)
		b->large += size;
	if (line_position(s) < s->check && b->large < look)
		return;
	close_strata(s, b);

	uint64_t elapsed = now - b->start < WAIT_MOST ? now - b->start : WAIT_MOST;
	/* The budget of a whole window may be used up before its end. */
	bool early = elapsed < window;
	if (!early || b->spent * SAMPLER_SHARE_ONE > window * share) {
		uint32_t log2 =
		    choose_interval(s, b, early ? window : elapsed, window, share, least_log2);

		new_window(b, now);
		if (log2 != s->interval_log2)
			sampler_set_interval(s, log2);
	}
	next_check(s, b, look);
}
