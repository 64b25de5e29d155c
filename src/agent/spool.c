/* SPDX-License-Identifier: Apache-2.0 */
/* Packets and their writers: see spool.h. */
#include "agent/spool.h"

#include <errno.h>
#include <limits.h>
#include <string.h>
#include <sys/prctl.h>

#include "agent/cpu/sys.h"
#include "agent/unwind/modules.h"

static struct agent_lock pool_lock; /* protects pool */
static struct writer *pool;
static struct writer *_Atomic all; /* writers, by `older` */
static _Atomic uint32_t writers;

/* ---- packets ---- */

static void put_thread(struct writer *w)
{
	*w->at++ = SPOOL_THREAD;
	spool_put_u(w, w->tid);
	spool_put_text(w, w->name, strnlen(w->name, sizeof(w->name)));
}

static void put_lost(struct writer *w)
{
	*w->at++ = SPOOL_LOST;
	spool_put_time(w, w->last_ticks);
	spool_put_u(w, w->lost_samples);
	spool_put_u(w, w->lost_frees);
	spool_put_u(w, w->lost_events);
	w->lost_samples = w->lost_frees = w->lost_events = 0;
}

#define LABELS_UNKNOWN UINT64_MAX /* no version of a thread's */

/* A new packet has no labels in force, and no TYPE and LABEL records. */
static void forget_said(struct writer *w)
{
	w->label_count = 0;
	w->label_version = LABELS_UNKNOWN;
	if (w->types_said)
		memset(w->type_said, 0, sizeof(w->type_said));
	if (w->labels_said)
		memset(w->label_said, 0, sizeof(w->label_said));
	w->types_said = w->labels_said = false;
}

/* If there is no packet, the writer is left without one; the LOST record then comes at the start of
 * its next packet. */
static bool begin_packet(struct writer *w)
{
	const struct spool_header *h = spool_header;
	struct spool_packet *p;

	if (w->packet)
		spool_file_full(w->packet);
	p = spool_file_claim();
	w->packet = p;
	w->at = w->end = NULL;
	if (!p)
		return false;
	w->last_ticks = w->clock_ticks = agent_ticks();
	p->mono_ns = agent_clock_ns(CLOCK_MONOTONIC);
	p->ticks = w->last_ticks;
	p->writer = w->number;
	p->tid = w->tid;
	p->interval_log2 = w->interval_log2;
	atomic_store_explicit(&p->late_ticks, 0, memory_order_relaxed);
	atomic_store_explicit(&p->late_mono_ns, 0, memory_order_relaxed);
	p->pad0 = 0;
	p->sequence = 1 + atomic_fetch_add(&spool_header->claims, 1);
	w->last_id = spool_header->first_sample_id;
	w->last_address = 0;
	w->at = (uint8_t *)(p + 1);
	w->end = (uint8_t *)p + SPOOL_PACKET_BYTES;
	w->depth = 0;
	w->stack_known = w->ocaml_known = false;
	memset(w->cache, 0, sizeof(w->cache));
	forget_said(w);
	atomic_store_explicit(&p->used, 0, memory_order_relaxed);
	__atomic_store_n(&p->magic, SPOOL_PACKET_MAGIC, __ATOMIC_RELEASE);
	atomic_store_explicit(&spool_header->last_ticks, w->last_ticks, memory_order_relaxed);
	put_thread(w);
	if (w->lost_samples || w->lost_frees || w->lost_events)
		put_lost(w);
	spool_commit(w);
	if (UNLIKELY(h != spool_header)) { /* a packet of a spool that was left meanwhile */
		w->packet = NULL;
		w->at = w->end = NULL;
		return false;
	}
	return true;
}

/* Room for `bytes` more in the packet, or a new packet. */
static bool room(struct writer *w, size_t bytes)
{
	if (w->packet && spool_left(w) >= (ptrdiff_t)bytes)
		return true;
	return begin_packet(w);
}

/* Between the end of a recording and the next one, records have no place to be missed from. */
static bool is_over(void)
{
	return atomic_load(&agent_state) == AGENT_OFF;
}

void spool_drop_sample(struct writer *w)
{
	if (is_over())
		return;
	w->lost_samples++;
	atomic_fetch_add_explicit(&spool_header->dropped_samples, 1, memory_order_relaxed);
}

void spool_drop_free(struct writer *w)
{
	if (is_over())
		return;
	w->lost_frees++;
	atomic_fetch_add_explicit(&spool_header->dropped_frees, 1, memory_order_relaxed);
}

void spool_drop_event(struct writer *w)
{
	if (is_over())
		return;
	if (w)
		w->lost_events++;
	atomic_fetch_add_explicit(&spool_header->dropped_events, 1, memory_order_relaxed);
}

/* While recording was dormant, spans may have ended without a record or a count. If the interval
 * has changed, the new generation was for that, and recording was not dormant. */
COLD void spool_tell_gap(struct writer *w)
{
	uint32_t interval = atomic_load(&spool_header->control_interval_log2);
	bool same = interval == w->control_interval;

	w->control_generation = atomic_load(&spool_header->control_generation);
	w->control_interval = interval;
	if (same && room(w, SPOOL_RECORD_BYTES)) {
		put_lost(w);
		spool_commit(w);
	}
}

COLD void spool_note_clock(struct writer *w)
{
	w->clock_ticks = agent_ticks();
	if (agent_sandboxed)
		return;
	uint64_t mono = agent_clock_ns(CLOCK_MONOTONIC);
	atomic_store_explicit(&w->packet->late_mono_ns, mono, memory_order_relaxed);
	atomic_store_explicit(&w->packet->late_ticks, agent_ticks(), memory_order_relaxed);
	atomic_store_explicit(&spool_header->last_ticks, w->clock_ticks, memory_order_relaxed);
}

void spool_note(const char *text)
{
	struct spool_header *h = spool_header;

	agent_add_note(text, "", 0);
	memcpy((char *)h + h->note_offset, agent_config.note, sizeof(agent_config.note));
	atomic_store_explicit(&h->note_length, (uint32_t)strlen(agent_config.note),
			      memory_order_release);
}

/* ---- modules ---- */

void (*spool_on_module)(uint64_t start);
void (*spool_mix)(struct writer *w);

/* A module's record found no room: all are written again as soon as there is some. */
static _Atomic bool module_missed;

static void put_module(const struct module *m, const char *folder, size_t before, const char *name)
{
	struct writer *w = self.writer;
	size_t length = strnlen(name, PATH_MAX - 1);
	size_t id_length = m->build_id_length <= 32 ? m->build_id_length : 0;

	if (!w || !room(w, SPOOL_RECORD_BYTES + before + length + id_length)) {
		atomic_store(&module_missed, true);
		return;
	}
	*w->at++ = SPOOL_MODULE;
	spool_put_time(w, agent_ticks());
	spool_put_q(w, m->start);
	spool_put_q(w, m->end);
	spool_put_q(w, m->bias);
	spool_put_u(w, before + length);
	memcpy(w->at, folder, before);
	w->at += before;
	memcpy(w->at, name, length);
	w->at += length;
	spool_put_text(w, (const char *)m->build_id, id_length);
	spool_commit(w);
}

/* A library loaded by a relative path: the folder must be recorded now. In a function of its own,
 * because of the large buffer: the program's stack may be small. */
static COLD void put_relative_module(const struct module *m, const char *name)
{
	char folder[PATH_MAX];
	size_t before = 0;

	if (!agent_sandboxed && sys_getcwd(folder, sizeof(folder) - 1) > 0) {
		before = strlen(folder);
		folder[before++] = '/';
	}
	put_module(m, folder, before, name);
}

/* Modules are found while a stack is walked, and the walking thread's writer takes the record. This
 * may begin a new packet, which is harmless, as the sample itself is written later. */
static void module_seen(const struct module *m)
{
	const char *name = spool_file_program(m->path);

	if (name[0] != '/' && strchr(name, '/'))
		put_relative_module(m, name);
	else
		put_module(m, "", 0, name);
}

/* Its code is on this thread's stack, so it stays mapped meanwhile. */
static void module_met(const struct module *m)
{
	if (spool_on_module)
		spool_on_module(m->start);
	module_seen(m);
}

static void module_gone(uint64_t start)
{
	struct writer *w = self.writer;

	if (!w || !room(w, SPOOL_RECORD_BYTES))
		return;
	*w->at++ = SPOOL_GONE;
	spool_put_time(w, agent_ticks());
	spool_put_q(w, start);
	spool_commit(w);
}

void spool_tell_modules(void)
{
	if (!modules_each(module_seen))
		atomic_store(&module_missed, true);
}

COLD bool spool_make_room(struct writer *w, size_t bytes)
{
	int error = errno;
	bool good = room(w, bytes);

	if (good && UNLIKELY(atomic_load_explicit(&module_missed, memory_order_relaxed))) {
		atomic_store(&module_missed, false);
		spool_tell_modules();
		good = room(w, bytes);
	}
	errno = error;
	return good;
}

/* ---- writers ---- */

static void read_name(struct writer *w)
{
	memset(w->name, 0, sizeof(w->name));
	if (!agent_sandboxed)
		sys_prctl(PR_GET_NAME, (long)w->name, 0, 0);
	w->name[sizeof(w->name) - 1] = 0;
}

struct writer *spool_acquire(void)
{
	if (!agent_lock(&pool_lock))
		return NULL;
	struct writer *w = pool;
	if (w)
		pool = w->next;
	agent_unlock(&pool_lock);
	if (!w) {
		if (agent_sandboxed)
			return NULL;
		w = sys_memory(sizeof(*w));
		if (!w)
			return NULL;
		w->number = atomic_fetch_add(&writers, 1) + 1;
		w->older = atomic_load(&all);
		while (!atomic_compare_exchange_weak(&all, &w->older, w))
			;
	}
	w->tid = self.tid;
	w->label_version = LABELS_UNKNOWN;
	w->interval_log2 = self.sampler.interval_log2;
	w->control_generation = atomic_load(&spool_header->control_generation);
	w->control_interval = atomic_load(&spool_header->control_interval_log2);
	walk_forget(&w->walk);
	w->stack_known = false;
	w->mixed_depth = 0;
	read_name(w);
	if (w->packet && room(w, SPOOL_RECORD_BYTES)) {
		put_thread(w);
		/* The interval in force in the packet is that of its last thread. */
		*w->at++ = SPOOL_INTERVAL;
		*w->at++ = (uint8_t)w->interval_log2;
		spool_commit(w);
	}
	return w;
}

/* Records, at the thread's end, a name that it was given after its first sample. */
static void last_name(struct writer *w)
{
	char before[sizeof(w->name)];

	memcpy(before, w->name, sizeof(before));
	read_name(w);
	if (memcmp(before, w->name, sizeof(before)) && w->packet && room(w, SPOOL_RECORD_BYTES)) {
		put_thread(w);
		spool_commit(w);
	}
}

void spool_release(struct writer *w)
{
	if (self.state != THREAD_EXITING)
		last_name(w);
	if (!agent_lock(&pool_lock))
		return;
	w->next = pool;
	pool = w;
	agent_unlock(&pool_lock);
}

/* ---- begin, fork and exit ---- */

bool spool_fork_room(struct writer *w)
{
	return room(w, SPOOL_RECORD_BYTES);
}

uint64_t spool_fork(struct writer *w)
{
	uint64_t ticks = agent_ticks();

	*w->at++ = SPOOL_FORK;
	spool_put_time(w, ticks);
	spool_commit(w);
	return ticks;
}

/* In a forked child. The writers of other threads are lost memory, as their stacks are. */
static void forget_writers(void)
{
	pool = NULL;
	atomic_store(&pool_lock.held, 0);
	if (self.writer) {
		self.writer->packet = NULL;
		self.writer->at = self.writer->end = NULL;
		self.writer->lost_samples = self.writer->lost_frees = 0;
		self.writer->lost_events = 0;
		self.writer->stack_known = self.writer->ocaml_known = false;
		self.writer->ocaml_depth = self.writer->ocaml_slots = 0;
	}
}

void spool_forget(void)
{
	forget_writers();
	spool_file_forget();
}

static uint64_t live_where; /* 0: nobody has told it */

/* For readers of the program's memory: mayfly heap. */
static void tell_own_memory(void)
{
	spool_header->live_where = spool_header->mode == SPOOL_SAMPLED ? live_where : 0;
	spool_header->writers_where = (uintptr_t)&all;
	spool_header->writer_older = offsetof(struct writer, older);
	spool_header->writer_bytes = sizeof(struct writer);
}

void spool_tell_live(uint64_t where)
{
	live_where = where;
	tell_own_memory();
}

bool spool_open(uint32_t *reason, int *error)
{
	modules_watch(module_met, module_gone);
	if (!spool_file_open(reason, error))
		return false;
	tell_own_memory();
	return true;
}

void spool_leave(void)
{
	spool_file_leave();
}

/* A writer's packet is of the spool that was left. One that is in the middle of a record goes on in
 * memory that nobody reads. */
bool spool_open_again(uint32_t *reason, int *error)
{
	if (!spool_file_open(reason, error))
		return false;
	tell_own_memory();
	for (struct writer *w = atomic_load(&all); w; w = w->older) {
		__atomic_store_n(&w->end, w->at, __ATOMIC_RELAXED);
		w->control_generation = atomic_load(&spool_header->control_generation);
		w->control_interval = atomic_load(&spool_header->control_interval_log2);
	}
	return true;
}

bool spool_open_child(uint64_t fork_ticks, uint32_t *reason, int *error)
{
	forget_writers();
	if (!spool_file_open_child(fork_ticks, reason, error))
		return false;
	tell_own_memory();
	return true;
}

void spool_end(void)
{
	if (!spool_header)
		return;
	if (self.writer && !self.busy)
		last_name(self.writer);
	uint64_t mono = agent_clock_ns(CLOCK_MONOTONIC);
	atomic_store(&spool_header->end_ticks, agent_ticks());
	atomic_store(&spool_header->end_mono_ns, mono);
}

static void set_end(struct spool_header *h, uint32_t end)
{
	uint32_t before = atomic_load(&h->exited);

	while (
	    !atomic_compare_exchange_weak(&h->exited, &before, end | (before & SPOOL_CHILD_LOST)))
		;
}

void spool_exited(int status)
{
	struct spool_header *h = spool_header;

	if (h)
		set_end(h, SPOOL_EXITED | ((uint32_t)status & 0xff));
}

void spool_executed(const char *path)
{
	struct spool_header *h = spool_header;
	size_t n = 0;

	if (!h || atomic_load(&h->state) != SPOOL_RUNNING ||
	    (!agent_sandboxed && spool_file_has_limit()))
		return;
	for (; path && path[n] && n < sizeof(h->off_text) - 1; n++)
		h->off_text[n] = path[n];
	h->off_text[n] = 0;
	set_end(h, path ? SPOOL_EXECUTED : 0);
}
