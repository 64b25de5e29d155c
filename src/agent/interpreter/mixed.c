/* SPDX-License-Identifier: Apache-2.0 */
/* Native and interpreted frames as one stack: see mixed.h. */
#include "agent/interpreter/mixed.h"

#include <string.h>

#define ROOT_KEPT 512u

uintptr_t mixed_own_start, mixed_own_size;

/* The stack that is made, in place of the one before. As long as they do not differ, nothing is written. */
struct making {
	uint64_t *frame;
	uint32_t depth;
	uint32_t before; /* frames that may be as they were; 0 once one is not */
	uint32_t common; /* when `before` is 0 */
};

static inline void put(struct making *m, uint64_t address)
{
	if (LIKELY(m->depth < m->before && m->frame[m->depth] == address)) {
		m->depth++;
		return;
	}
	if (m->before) {
		m->common = m->depth;
		m->before = 0;
	}
	m->frame[m->depth++] = address;
}

/* ---- groups ---- */

static inline uint32_t group_start(const struct mixed_chain *c, uint32_t group)
{
	return group ? c->group[group - 1].end : 0;
}

static bool is_same_group(const struct mixed_chain *a, uint32_t in_a, const struct mixed_chain *b,
			  uint32_t in_b)
{
	uint32_t from_a = group_start(a, in_a), from_b = group_start(b, in_b);
	uint32_t size = a->group[in_a].end - from_a;

	if (a->group[in_a].anchor != b->group[in_b].anchor || b->group[in_b].end - from_b != size)
		return false;
	for (uint32_t i = 0; i < size; i++)
		if (a->frame[from_a + i] != b->frame[from_b + i])
			return false;
	return true;
}

/* How many groups, counted from the root, are the same in both chains. */
static uint32_t same_groups(const struct mixed_chain *a, const struct mixed_chain *b)
{
	uint32_t most = a->groups < b->groups ? a->groups : b->groups, n = 0;

	if (a->lost != b->lost)
		return 0;
	while (n < most && is_same_group(a, a->groups - 1 - n, b, b->groups - 1 - n))
		n++;
	return n;
}

/* ---- merging ---- */

static void put_group(const struct mixed_chain *c, uint32_t group, struct making *out)
{
	uint32_t from = group_start(c, group), to = c->group[group].end;

	if (UNLIKELY(group + 1 == c->groups && c->lost))
		put(out, SPOOL_MARK(SPOOL_MARK_ELIDED, c->lost));
	while (to > from)
		put(out, c->frame[--to]);
}

static inline uintptr_t anchor_of(const struct mixed_chain *c, uint32_t groups)
{
	return groups ? c->group[groups - 1].anchor : 0;
}

/* Whether a group with this anchor follows the frame, given that it follows none further out. */
static inline bool belongs(const struct walk_frame *f, uintptr_t anchor)
{
	return UNLIKELY(anchor >= f->cfa) && f->cfa;
}

/*
 * The first native frame from i on that must be looked at. Those before it are kept, no group follows
 * them, and none did: so they are in the stack already, one after the other.
 */
static uint32_t pass_over(const struct mixed *mixed, const struct walk *walk, uint32_t i,
			  uint32_t kept, uint32_t done, uintptr_t anchor)
{
	const struct mixed_chain *old = &mixed->chain[mixed->latest];
	uint32_t end = kept < mixed->own ? kept : mixed->own;

	if (done < old->groups && mixed->joint[done + 1].native < end)
		end = mixed->joint[done + 1].native;
	if (i && belongs(&walk->frames[i - 1], anchor))
		return i;
	while (i < end && !belongs(&walk->frames[i], anchor))
		i++;
	return i;
}

/* Makes the stack from where it differs. kept: native frames that are the same calls as before. */
static void merge(struct mixed *mixed, const struct walk *walk, uint32_t kept, struct making *out)
{
	const struct mixed_chain *old = &mixed->chain[mixed->latest];
	const struct mixed_chain *now = &mixed->chain[!mixed->latest];
	uint32_t done = kept ? same_groups(old, now) : 0, group, i, from, own = UINT32_MAX;
	struct making m = *out; /* in registers */
	uintptr_t anchor;

	while (done && mixed->joint[done].native > kept)
		done--;
	from = i = mixed->joint[done].native;
	group = now->groups - done;
	anchor = anchor_of(now, group);
	if (kept) {
		i = pass_over(mixed, walk, i, kept, done, anchor);
		if (mixed->own < i)
			own = mixed->own;
	}
	m.depth = mixed->joint[done].depth + i - from;
	for (const struct walk_frame *f = walk->frames + i;; f++, i++) {
		/* Groups that follow frame i - 1. */
		while (i && belongs(f - 1, anchor)) {
			put_group(now, --group, &m);
			mixed->joint[++done] = (struct mixed_joint){i, m.depth};
			anchor = anchor_of(now, group);
		}
		if (i == walk->depth)
			break;
		/* A wrapper of pymalloc.c, which is in the middle of the stack. */
		if (UNLIKELY(f->address - mixed_own_start < mixed_own_size))
			own = own < i ? own : i;
		else
			put(&m, f->address);
	}
	while (group) {
		put_group(now, --group, &m);
		mixed->joint[++done] = (struct mixed_joint){MIXED_NOWHERE, m.depth};
	}
	mixed->own = own;
	*out = m;
}

/* Takes out the middle of a stack that is too deep. */
static uint32_t shorten(uint64_t *stack, uint32_t depth)
{
	const uint32_t leaf = SPOOL_MAX_FRAMES - ROOT_KEPT - 1;

	if (depth <= SPOOL_MAX_FRAMES)
		return depth;
	stack[ROOT_KEPT] = SPOOL_MARK(SPOOL_MARK_ELIDED, depth - ROOT_KEPT - leaf);
	memmove(stack + ROOT_KEPT + 1, stack + depth - leaf, leaf * sizeof(*stack));
	return SPOOL_MAX_FRAMES;
}

void mixed_make(struct mixed *mixed, struct writer *w)
{
	const struct mixed_chain *c = &mixed->chain[!mixed->latest];
	struct making m = {w->mixed, 0, w->mixed_depth, 0};
	/* A capture that was not mixed leaves the packet's stack unknown. */
	bool known = mixed->is_whole && w->is_mixed && w->stack_known;
	uint32_t common = 0, most;

	mixed->is_whole = LIKELY(w->walk.depth + c->frames + 1 <= SPOOL_MAX_FRAMES);
	if (LIKELY(mixed->is_whole)) {
		merge(mixed, &w->walk, known ? w->walk.kept : 0, &m);
		w->mixed_common = m.before ? m.depth : m.common;
	} else {
		m = (struct making){mixed->merged, 0, 0, 0};
		merge(mixed, &w->walk, 0, &m);
		m.depth = shorten(mixed->merged, m.depth);
		most = m.depth < w->mixed_depth ? m.depth : w->mixed_depth;
		while (common < most && mixed->merged[common] == w->mixed[common])
			common++;
		memcpy(w->mixed + common, mixed->merged + common,
		       (m.depth - common) * sizeof(*w->mixed));
		w->mixed_common = common;
	}
	w->mixed_depth = m.depth;
	mixed->latest = !mixed->latest;
}
