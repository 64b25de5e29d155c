/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The agent's tables and its spool under several threads at once, linked into a program instead of
 * preloaded: so that a build with -fsanitize=thread sees them (tests/test_threads.py).
 *
 * What other processes do to the spool is out of its sight, as they map it elsewhere.
 */
#include "agent/cpu/cpu.h"
#include "agent/cpu/sys.h"
#include "agent/labels.h"
#include "agent/latest.h"
#include "agent/live.h"
#include "agent/records.h"
#include "agent/spool.h"
#include "agent/unwind/modules.h"
#include "test.h"

#include <pthread.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define THREADS	   4
#define LABELS	   2000
#define BLOCKS	   20000 /* live of each thread: the table and the filter grow several times */
#define ROUNDS	   3
#define SAMPLES	   10000 /* of each thread */
#define DEPTHS	   20
#define LABEL_TEXT 16

static _Atomic uint32_t problems; /* seen by threads: CHECK is for one of them */

/* ---- threads ---- */

static pthread_barrier_t all_there;

static void expect(bool condition)
{
	if (!condition)
		atomic_fetch_add(&problems, 1);
}

static void in_threads(void *(*run)(void *number))
{
	pthread_t thread[THREADS];

	atomic_store(&problems, 0);
	pthread_barrier_init(&all_there, NULL, THREADS);
	for (uintptr_t i = 0; i < THREADS; i++)
		CHECK(!pthread_create(&thread[i], NULL, run, (void *)i));
	for (int i = 0; i < THREADS; i++)
		pthread_join(thread[i], NULL);
	pthread_barrier_destroy(&all_there);
	CHECK(atomic_load(&problems) == 0, "%u problems", atomic_load(&problems));
	CHECK(agent_state != AGENT_OFF);
}

/* ---- the live blocks ---- */

static uintptr_t block_of(uintptr_t thread, uintptr_t i)
{
	return ((thread * BLOCKS + i) * 48 + 0x10000) & ~(uintptr_t)15;
}

static bool remove_block(uintptr_t block, uint64_t before_id, struct live_block *removed)
{
	return live_maybe((void *)block) && live_remove(block, before_id, removed);
}

static void *use_live(void *number)
{
	uintptr_t thread = (uintptr_t)number;
	struct live_block removed, stale;

	pthread_barrier_wait(&all_there);
	for (uint64_t round = 0; round < ROUNDS; round++) {
		for (uintptr_t i = 0; i < BLOCKS; i++) {
			struct live_block b = {.block = block_of(thread, i),
					       .id = round * BLOCKS + i};

			expect(!live_add(&b, &stale));
			/* Blocks of others and of nobody, which are not older than that. */
			expect(!remove_block(block_of((thread + 1) % THREADS, i), 0, &removed));
			expect(!remove_block(b.block + (1ull << 40), UINT64_MAX, &removed));
		}
		for (uintptr_t i = 0; i < BLOCKS; i++) {
			expect(remove_block(block_of(thread, i), UINT64_MAX, &removed));
			expect(removed.block == block_of(thread, i) &&
			       removed.id == round * BLOCKS + i);
		}
	}
	return NULL;
}

/* A larger filter keeps the bits of the smaller one until blocks with the same bits are removed. So
 * it grows before, and not in the last round, when the threads happen to meet there first. */
static void grow_to_all_blocks(void)
{
	struct live_block removed, stale;

	for (uintptr_t i = 0; i < THREADS * BLOCKS; i++)
		CHECK(!live_add(&(struct live_block){.block = block_of(0, i), .id = i}, &stale));
	for (uintptr_t i = 0; i < THREADS * BLOCKS; i++)
		CHECK(remove_block(block_of(0, i), UINT64_MAX, &removed));
}

static void live_blocks(void)
{
	CHECK(live_init());
	grow_to_all_blocks();
	in_threads(use_live);
	for (uintptr_t i = 0; i < THREADS * BLOCKS; i++)
		CHECK(!live_maybe((void *)block_of(0, i)), "a bit of block %zu is left", i);
}

/* ---- labels, and the texts that they keep ---- */

static uint32_t numbers[THREADS][LABELS];

static void *number_labels(void *number)
{
	uintptr_t thread = (uintptr_t)number;

	pthread_barrier_wait(&all_there);
	for (uint32_t k = 0; k < LABELS; k++) {
		uint32_t i = thread % 2 ? k : LABELS - 1 - k;
		char key[LABEL_TEXT], value[LABEL_TEXT];

		snprintf(key, sizeof(key), "key %u", i % 10);
		snprintf(value, sizeof(value), "value %u", i);
		numbers[thread][i] = labels_number(key, value);
	}
	return NULL;
}

static void labels(void)
{
	in_threads(number_labels);
	for (uint32_t i = 0; i < LABELS; i++)
		for (int thread = 0; thread < THREADS; thread++)
			CHECK(numbers[thread][i] && numbers[thread][i] == numbers[0][i],
			      "label %u is %u and %u", i, numbers[thread][i], numbers[0][i]);
}

/* ---- walks, modules and the spool's packets ---- */

static __attribute__((noinline)) void sample(uint64_t id)
{
	struct writer *w = self.writer;
	struct walk_start here;

	cpu_here(here.pc, here.sp, here.bp);
	walk_capture(&w->walk, &here);
	expect(w->walk.depth > 1 && !w->walk.truncated);
	expect(records_sample(w, agent_ticks(), id, 16, 1, 0));
	records_free(w, agent_ticks(), id, 0);
}

static _Atomic uint64_t sampled;
static __thread int depth;

/* Through qsort() again and again: frames of libc and of this program. */
static int deeper(const void *a, const void *b)
{
	int pair[2] = {1, 2};

	(void)a, (void)b;
	/* Once: a qsort() may compare twice. */
	if (depth == 0)
		sample(atomic_fetch_add(&sampled, 1));
	if (depth-- > 0)
		qsort(pair, 2, sizeof(pair[0]), deeper);
	return 0;
}

static void *record(void *number)
{
	int pair[2] = {1, 2};

	self =
	    (struct thread){.tid = (uint32_t)sys_gettid(), .number = (uint32_t)(uintptr_t)number};
	self.sampler.interval_log2 = 19;
	pthread_barrier_wait(&all_there);
	for (int i = 0; i < SAMPLES; i++) {
		if (!self.writer)
			self.writer = spool_acquire();
		labels_push(labels_number("thread", i % 2 ? "odd" : "even"));
		depth = i % DEPTHS;
		qsort(pair, 2, sizeof(pair[0]), deeper);
		labels_pop();
		/* What the hooks do when a library is closed, and at a thread's end. */
		if (i % 64 == 0) {
			walk_code_changed();
			modules_check();
		}
		if (i % 512 == 0) {
			spool_release(self.writer);
			self.writer = NULL;
		}
	}
	spool_release(self.writer);
	return NULL;
}

/* Each packet was claimed once, and is one. */
static void check_packets(const uint8_t *spool, uint64_t packets)
{
	uint8_t *seen = calloc(packets + 1, 1);

	for (uint64_t i = 0; i < packets; i++) {
		const struct spool_packet *p =
		    (const struct spool_packet *)(spool + SPOOL_HEADER_BYTES +
						  i * SPOOL_PACKET_BYTES);

		CHECK(p->magic == SPOOL_PACKET_MAGIC, "packet %zu", (size_t)i);
		CHECK(p->used <= SPOOL_PACKET_BYTES - sizeof(*p));
		CHECK(p->sequence >= 1 && p->sequence <= packets && !seen[p->sequence]++);
		CHECK(p->writer >= 1 && p->writer <= THREADS);
	}
	free(seen);
}

static void spool(void)
{
	const struct spool_header *h;
	uint32_t reason = 0;
	int error = 0;
	long at;

	snprintf(agent_config.output, sizeof(agent_config.output), "races.%d.spool", getpid());
	agent_config.interval_log2 = 19;
	unlink(agent_config.output);
	CHECK(spool_open(&reason, &error), "reason %u, error %d", reason, error);
	CHECK(walk_init());
	in_threads(record);
	h = spool_header;
	CHECK(sampled == THREADS * SAMPLES && !h->dropped_samples && !h->dropped_frees);
	CHECK(h->packets_claimed == h->claims && h->packets_claimed <= h->packets_reserved);
	CHECK(h->packets_claimed > THREADS, "%zu packets", (size_t)h->packets_claimed);
	at = sys_openat(AT_FDCWD, agent_config.output, O_RDONLY, 0);
	if (at >= 0) {
		size_t bytes = SPOOL_HEADER_BYTES + h->packets_claimed * SPOOL_PACKET_BYTES;
		long p = sys_mmap(NULL, bytes, PROT_READ, MAP_SHARED, (int)at, 0);

		CHECK(!sys_failed(p));
		if (!sys_failed(p))
			check_packets((const uint8_t *)p, h->packets_claimed);
		sys_close((int)at);
	}
	CHECK(at >= 0);
	unlink(agent_config.output);
}

/* ---- the latest writers of addresses ---- */

#define ADDRESSES 64u	 /* several of each slot */
#define TURNS	  50000u /* of each thread */

static struct latest latest;
static struct address {
	struct agent_lock lock;
	uint32_t writer; /* of the latest record */
} addresses[ADDRESSES];
static _Atomic uint32_t found;

static uint64_t address_of(uint32_t i)
{
	return 0x7f0000000000u + (uint64_t)(i / 4) * 16 + (uint64_t)(i % 4) * LATEST_SLOTS * 16;
}

/* Who holds the lock has the block: nobody else makes a record about it. */
static void *take_turns(void *number)
{
	uint32_t own = (uint32_t)(uintptr_t)number + 1, random = own;

	pthread_barrier_wait(&all_there);
	for (uint32_t turn = 0; turn < TURNS; turn++) {
		uint32_t i = (random = random * 1664525u + 1013904223u) >> 20;
		struct address *a = &addresses[i % ADDRESSES];

		while (!agent_lock(&a->lock))
			;
		for (i = i % ADDRESSES; turn % 3 < 2; turn++) {
			bool is_own = latest_is_own(&latest, address_of(i), own);

			expect(!is_own || a->writer == own);
			if (is_own)
				atomic_fetch_add(&found, 1);
			a->writer = own;
		}
		agent_unlock(&a->lock);
	}
	return NULL;
}

static void latest_writers(void)
{
	const uint64_t block = 0x55550000, same_slot = block + LATEST_SLOTS * 16;

	CHECK(!latest_is_own(&latest, block, 1) && latest_is_own(&latest, block, 1));
	CHECK(!latest_is_own(&latest, block, 2) && !latest_is_own(&latest, block, 1));
	CHECK(!latest_is_own(&latest, same_slot, 1) && !latest_is_own(&latest, block, 1));
	latest_forget(&latest, block);
	CHECK(!latest_is_own(&latest, block, 1));
	/* A writer, or an address, that does not fit is never found, and replaces what was there. */
	CHECK(!latest_is_own(&latest, block, LATEST_WRITERS + 1));
	CHECK(!latest_is_own(&latest, block, LATEST_WRITERS + 1));
	CHECK(!latest_is_own(&latest, block, 1) && latest_is_own(&latest, block, 1));
	for (int bit = 48; bit < 61; bit++)
		for (int i = 0; i < 2; i++)
			CHECK(!latest_is_own(&latest, block | (uint64_t)1 << bit, 1), "bit %d",
			      bit);
	CHECK(!latest_is_own(&latest, block | SPOOL_ADDRESS_POOL, 1));
	CHECK(latest_is_own(&latest, block | SPOOL_ADDRESS_POOL, 1));
	in_threads(take_turns);
	CHECK(found > 0);
}

int main(void)
{
	RUN(live_blocks);
	RUN(labels);
	RUN(latest_writers);
	RUN(spool);
	DONE();
}
