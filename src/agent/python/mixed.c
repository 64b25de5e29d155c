/* SPDX-License-Identifier: Apache-2.0 */
/* Native frames and frames of Python as one stack: see mixed.h. */
#include "agent/python/mixed.h"

#include <string.h>

#define ROOT_KEPT 512u

uintptr_t mixed_own_start, mixed_own_size;

/* The stack that is made. As long as it is the one of before, that is only compared. */
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

/* ---- what is as it was ---- */

/* From the root. */
struct alike {
	uint32_t groups;
	uint32_t next; /* frames of the group after them */
};

static inline uint32_t group_start(const struct mixed_chain *c, uint32_t group)
{
	return group ? c->group[group - 1].end : 0;
}

static inline uint32_t group_size(const struct mixed_chain *c, uint32_t group)
{
	return c->group[group].end - group_start(c, group);
}

/* Frames on the side of the root that are in no group. */
static inline uint32_t ungrouped(const struct mixed_chain *c)
{
	return c->frames - group_start(c, c->groups);
}

static struct alike compare(const struct mixed_chain *a, const struct mixed_chain *b)
{
	const uint64_t *root_a = a->frame + a->frames, *root_b = b->frame + b->frames;
	uint32_t most = a->frames < b->frames ? a->frames : b->frames, frames = 0, left;
	uint32_t groups = a->groups < b->groups ? a->groups : b->groups;
	struct alike alike = {0, 0};

	if (a->lost != b->lost || ungrouped(a) != ungrouped(b))
		return alike;
	while (frames < most && root_a[-1 - (ptrdiff_t)frames] == root_b[-1 - (ptrdiff_t)frames])
		frames++;
	if (frames < ungrouped(a))
		return alike;
	left = frames - ungrouped(a);
	for (uint32_t k = 0; k < groups; k++) {
		uint32_t ga = a->groups - 1 - k, gb = b->groups - 1 - k, size = group_size(a, ga);

		if (a->group[ga].anchor != b->group[gb].anchor || size != group_size(b, gb) ||
		    size > left)
			break;
		left -= size;
		alike.groups++;
	}
	alike.next = left;
	return alike;
}

/* ---- merging ---- */

/* A group whose first frames, `count` of them, are in the stack of before at `depth`. */
struct there {
	uint32_t depth, count;
};

static void put_group(const struct mixed_chain *c, uint32_t group, struct there there,
		      struct making *out)
{
	uint32_t from = group_start(c, group), to = c->group[group].end;

	if (UNLIKELY(group + 1 == c->groups && c->lost))
		put(out, SPOOL_MARK(SPOOL_MARK_ELIDED, c->lost));
	if (out->before && out->depth == there.depth) {
		out->depth += there.count;
		to -= there.count;
	}
	while (to > from)
		put(out, c->frame[--to]);
}

/* Of the group after `done` from the root, which both chains have. */
static struct there group_there(const struct mixed *mixed, const struct alike *alike, uint32_t done)
{
	const struct mixed_chain *old = &mixed->chain[mixed->latest];
	const struct mixed_chain *now = &mixed->chain[!mixed->latest];
	uint32_t size = group_size(old, old->groups - 1 - done);
	uint32_t size_now = group_size(now, now->groups - 1 - done);
	uint32_t same = done < alike->groups ? size : alike->next;

	same = same < size ? same : size;
	same = same < size_now ? same : size_now;
	return (struct there){mixed->joint[done + 1].depth - size, same};
}

static inline uintptr_t anchor_of(const struct mixed_chain *c, uint32_t groups)
{
	return groups ? c->group[groups - 1].anchor : 0;
}

/* The group of this anchor comes after the frame, if not after one further out. */
static inline bool belongs(const struct walk_frame *f, uintptr_t anchor)
{
	return UNLIKELY(anchor >= f->cfa) && f->cfa;
}

/* The first native frame from `i` on that has to be put, or is followed by a group. Those before it are
 * where they were: one after the other, up to the group that was the next one. */
static uint32_t pass_over(const struct mixed *mixed, const struct walk *walk, uint32_t i,
			  uint32_t kept, uint32_t done, uintptr_t anchor)
{
	const struct mixed_chain *old = &mixed->chain[mixed->latest];
	uint32_t end = kept < mixed->own ? kept : mixed->own;

	if (done < old->groups) {
		uint32_t next = mixed->joint[done + 1].native;

		end = next < end ? next : end;
		if (next == end && anchor == anchor_of(old, old->groups - done))
			return next - 1 > i ? next - 1 : i;
	}
	if (!anchor)
		return end > i ? end : i;
	if (i && belongs(&walk->frames[i - 1], anchor))
		return i;
	while (i < end && !belongs(&walk->frames[i], anchor))
		i++;
	return i;
}

/* kept: native frames that are as they were, with their parts of the C stack. */
static void merge(struct mixed *mixed, const struct walk *walk, uint32_t kept, struct making *out)
{
	const struct mixed_chain *old = &mixed->chain[mixed->latest];
	const struct mixed_chain *now = &mixed->chain[!mixed->latest];
	struct alike alike = kept ? compare(old, now) : (struct alike){0, 0};
	struct there there = {0, 0};
	struct making m = *out; /* in registers */
	uint32_t done = alike.groups, group, i, from, own = UINT32_MAX;
	uintptr_t anchor;

	while (done && mixed->joint[done].native > kept)
		done--;
	from = i = mixed->joint[done].native;
	m.depth = mixed->joint[done].depth;
	group = now->groups - done;
	anchor = anchor_of(now, group);
	if (kept) {
		if (done < old->groups && group)
			there = group_there(mixed, &alike, done);
		i = pass_over(mixed, walk, i, kept, done, anchor);
		m.depth += i - from;
		if (mixed->own < i)
			own = mixed->own;
	}
	for (const struct walk_frame *f = walk->frames + i;; f++, i++) {
		/* First for the frame before `i`. */
		while (i && belongs(f - 1, anchor)) {
			put_group(now, --group, there, &m);
			there.count = 0;
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
		put_group(now, --group, there, &m);
		there.count = 0;
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
