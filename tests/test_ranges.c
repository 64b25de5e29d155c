/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of the program's mappings (agent/ranges.c) against one that keeps each page by itself: random
 * sequences of all that can happen to mappings, of every age.
 */
#include "agent/ranges.h"
#include "test.h"

#include <stdint.h>
#include <string.h>

#include "agent/agent.h"
#include "random_numbers.h"

_Atomic uint32_t agent_sandboxed;

bool agent_lock(struct agent_lock *l)
{
	(void)l;
	return true;
}

bool agent_lock_beside_fork(struct agent_lock *l, uint32_t naps)
{
	(void)naps;
	(void)l;
	return true;
}

void agent_unlock(struct agent_lock *l)
{
	(void)l;
}

#define PAGES	 300u
#define PAGE	 4096u
#define BASE	 ((uintptr_t)0x7f0000000000)
#define BLOCKS	 60000u
#define RESERVED UINT32_MAX

/* The other table: what each page belongs to, and when that came. */
static struct {
	uint32_t block; /* 0: none */
	uint64_t serial;
} page[PAGES];
static uint64_t bytes_of[BLOCKS], told_of[BLOCKS];
static bool told[BLOCKS];
static uint32_t latest;
static uint64_t calls, told_lost;

static uintptr_t address(uint32_t number)
{
	return BASE + (uintptr_t)number * PAGE;
}

static void changed(void *context, uint64_t id, uint64_t lost, uint64_t left)
{
	CHECK(context == page && id && id <= latest);
	CHECK(!told[id], "a block is told twice");
	told[id] = true;
	told_of[id] = left;
	told_lost += lost;
	calls++;
}

static void cut(struct ranges *r, uint32_t from, uint32_t to, uint64_t serial)
{
	uint64_t reserved = 0, expected_calls = 0, expected_lost = 0, got;
	static bool lost[BLOCKS];

	memset(lost, 0, sizeof(lost));
	for (uint32_t i = from; i < to; i++) {
		if (!page[i].block || page[i].serial > serial)
			continue;
		if (page[i].block == RESERVED) {
			reserved += PAGE;
		} else {
			bytes_of[page[i].block] -= PAGE;
			expected_lost += PAGE;
			expected_calls += !lost[page[i].block];
			lost[page[i].block] = true;
		}
		page[i].block = 0;
	}
	memset(told, 0, sizeof(told));
	calls = told_lost = 0;
	got = ranges_cut(r, address(from), address(to), serial, changed, page);
	CHECK(got == reserved, "%llu bytes were reserved, not %llu", (unsigned long long)reserved,
	      (unsigned long long)got);
	CHECK(calls == expected_calls && told_lost == expected_lost);
	for (uint32_t id = 1; id <= latest; id++)
		CHECK(told[id] == lost[id] && (!told[id] || told_of[id] == bytes_of[id]));
}

static void fill(uint32_t from, uint32_t to, uint32_t block, uint64_t serial)
{
	for (uint32_t i = from; i < to; i++) {
		page[i].block = block;
		page[i].serial = serial;
	}
	if (block != RESERVED)
		bytes_of[block] += (uint64_t)(to - from) * PAGE;
}

static void commit(struct ranges *r, uint32_t from, uint32_t to)
{
	uint64_t reserved = 0, serial = atomic_load(&r->serial), part = 0;

	for (uint32_t i = from; i < to; i++)
		reserved += page[i].block == RESERVED ? PAGE : 0;
	CHECK(ranges_reserved(r, address(from), address(to)) == reserved);
	if (!reserved)
		return;
	latest++;
	CHECK(ranges_commit(r, address(from), address(to), latest));
	/* Each part of what was reserved gets a serial number, from the highest down. */
	for (uint32_t i = to; i-- > from;) {
		if (page[i].block != RESERVED) {
			part = 0;
			continue;
		}
		serial += page[i].serial != part;
		part = page[i].serial;
		fill(i, i + 1, latest, serial);
	}
	CHECK(serial == atomic_load(&r->serial));
}

/* The same pages, in order, without overlaps; and what is known without the lock. */
static void compare(const struct ranges *r)
{
	uint32_t at = PAGES, reserved = 0;

	for (size_t i = 0; i < r->count; i++) {
		const struct range *a = &r->range[i];
		uint32_t from = (uint32_t)((a->start - BASE) / PAGE);
		uint32_t to = (uint32_t)((a->end - BASE) / PAGE);

		CHECK(a->start < a->end && to <= at);
		for (uint32_t k = to; k < at; k++)
			CHECK(!page[k].block, "page %u is missing", k);
		for (uint32_t k = from; k < to && k < PAGES; k++)
			CHECK(page[k].block == (a->block == RANGE_RESERVED
						    ? RESERVED
						    : (uint32_t)r->block[a->block].id));
		if (a->block != RANGE_RESERVED)
			CHECK(r->block[a->block].bytes == bytes_of[r->block[a->block].id]);
		reserved += a->block == RANGE_RESERVED;
		CHECK(ranges_end(r, a->start) == a->end);
		CHECK(ranges_maybe(r, (void *)a->start, 1) &&
		      ranges_maybe(r, (void *)(a->end - 1), 1));
		at = from;
	}
	for (uint32_t k = 0; k < at; k++)
		CHECK(!page[k].block);
	CHECK(atomic_load(&r->reserved) == reserved);
}

static void start_again(struct ranges *r)
{
	ranges_forget(r);
	memset(page, 0, sizeof(page));
	memset(bytes_of, 0, sizeof(bytes_of));
	latest = 0;
}

static void step(struct ranges *r)
{
	uint32_t from = (uint32_t)below(PAGES), length = 1 + (uint32_t)below(below(4) ? 20 : PAGES);
	uint32_t to = from + length < PAGES ? from + length : PAGES;
	uint64_t now = atomic_load(&r->serial);

	switch (below(8)) {
	case 0:
	case 1:
		cut(r, from, to, RANGES_ALL);
		CHECK(ranges_reserve(r, address(from), address(to)));
		fill(from, to, RESERVED, atomic_load(&r->serial));
		break;
	case 2:
		commit(r, from, to);
		break;
	case 3: /* a munmap that took its serial some ranges ago */
		cut(r, from, to, now - (now ? below(now < 10 ? (uint32_t)now : 10) : 0));
		break;
	case 4:
		cut(r, from, to, now);
		break;
	default:
		cut(r, from, to, RANGES_ALL);
		latest++;
		CHECK(ranges_add(r, address(from), address(to), latest));
		fill(from, to, latest, atomic_load(&r->serial));
	}
}

static void test_random_against_pages(void)
{
	static struct ranges r;

	for (uint64_t seed = 1; seed <= 40; seed++) {
		random_state = seed * 0x9e3779b97f4a7c15u;
		start_again(&r);
		for (uint32_t i = 0; i < 400; i++) {
			step(&r);
			compare(&r);
		}
	}
}

/* Thousands of ranges, the lowest last as the kernel gives them, and the highest last. */
static void test_many(void)
{
	static struct ranges r;
	uint64_t bytes = 0;

	ranges_forget(&r);
	for (uint32_t i = 0; i < 20000; i++) {
		uintptr_t at =
		    i % 2 ? BASE - i * (uintptr_t)PAGE * 4 : BASE + i * (uintptr_t)PAGE * 4;

		CHECK(ranges_add(&r, at, at + PAGE * 2, i + 1));
	}
	CHECK(r.count == 20000);
	for (size_t i = 0; i < r.count; i++)
		bytes += r.range[i].end - r.range[i].start;
	CHECK(bytes == 20000ull * 2 * PAGE);
	latest = 20000;
	memset(told, 0, sizeof(told));
	calls = 0;
	ranges_cut(&r, 0, UINTPTR_MAX, RANGES_ALL, changed, page);
	CHECK(calls == 20000 && r.count == 0);
	CHECK(!ranges_maybe(&r, (void *)BASE, UINT32_MAX));
}

/* No system call may be made in a sandbox: the table cannot grow, and stays right. */
static void test_without_memory(void)
{
	static struct ranges r;
	uint32_t added = 0;

	ranges_forget(&r);
	CHECK(ranges_add(&r, BASE, BASE + 100 * PAGE, 1));
	atomic_store(&agent_sandboxed, 1);
	for (uint32_t i = 0; i < 1000; i++)
		added += ranges_add(&r, BASE + (1000 + 2 * (uintptr_t)i) * PAGE,
				    BASE + (1001 + 2 * (uintptr_t)i) * PAGE, i + 2);
	CHECK(added > 0 && added < 1000 && r.count == added + 1);
	latest = 2000;
	memset(told, 0, sizeof(told));
	ranges_cut(&r, BASE + 10 * PAGE, BASE + 20 * PAGE, RANGES_ALL, changed, page);
	CHECK(told[1] && told_of[1] == 10 * PAGE, "what is above the hole is not followed");
	CHECK(r.count == added + 1 && r.range[r.count - 1].end == BASE + 10 * PAGE);
	atomic_store(&agent_sandboxed, 0);
}

int main(void)
{
	RUN(test_random_against_pages);
	RUN(test_many);
	RUN(test_without_memory);
	DONE();
}
