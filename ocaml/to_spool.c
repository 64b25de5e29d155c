/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes blocks to a spool by the agent's own code (agent/spool.c, agent/ocaml/ocaml_blocks.c and
 * what they need). There is one writer, handed from thread to thread, under engine_lock().
 * The parts of the agent that are not in the program are replaced here: no C stacks are walked, and
 * a thread is ready while the session has not failed.
 *
 * Events and labels of the program are written, too, by agent/events/tracks.c and agent/labels.c. A
 * thread's labels are copied into the one `self` when the thread comes here.
 */
#include "library.h"

#include <errno.h>
#include <string.h>
#include <time.h>

#include "agent/agent.h"
#include "agent/events/calls.h"
#include "agent/cpu/sys.h"
#include "agent/labels.h"
#include "agent/unwind/modules.h"
#include "agent/ocaml/ocaml_blocks.h"
#include "agent/ocaml/ocaml_domain.h"
#include "agent/life.h"
#include "agent/spool.h"
#include "agent/events/tracks.h"
#include "agent/unwind/walk.h"

/* Forks are noticed before anything comes here. */
static volatile uint32_t same_process = 1;

static struct writer *writer;

static bool off(void)
{
	return atomic_load_explicit(&agent_state, memory_order_relaxed) != AGENT_ON;
}

/* No C stacks are walked here. */
void walk_forget(struct walk *w)
{
	(void)w;
}

uint32_t walk_capture(struct walk *w, const struct walk_start *start)
{
	(void)start;
	w->depth = w->common = 0;
	return 0;
}

bool life_thread_ready(void)
{
	return !off();
}

/* ---- threads ---- */

static __thread uint32_t thread; /* its id; 0: not known yet */

/* The labels of this thread, and the session in which it pushed them. */
static __thread struct {
	uint32_t session, labels, label[SPOOL_LABELS_MOST];
} mine;
static uint32_t session;
static uint32_t labels_owner; /* the thread whose labels are in self; 0: none */

static void take_labels(void)
{
	if (__builtin_expect(labels_owner == thread, 1))
		return;
	if (mine.session != session)
		memset(&mine, 0, sizeof(mine));
	mine.session = session;
	labels_owner = thread;
	self.labels = mine.labels;
	for (uint32_t i = 0; i < SPOOL_LABELS_MOST; i++)
		self.label[i] = mine.label[i];
	self.label_version++;
}

static void keep_labels(void)
{
	mine.labels = self.labels;
	for (uint32_t i = 0; i < SPOOL_LABELS_MOST; i++)
		mine.label[i] = self.label[i];
}

/* The writer, as this thread's. NULL: no memory. */
static struct writer *take_writer(void)
{
	if (__builtin_expect(!thread, 0))
		thread = (uint32_t)sys_gettid();
	self.tid = thread;
	take_labels();
	if (writer && __builtin_expect(writer->tid != self.tid, 0)) {
		self.state = THREAD_EXITING; /* its name is not the writer's last thread's */
		spool_release(writer);
		writer = NULL;
		self.state = THREAD_ACTIVE;
	}
	if (!writer)
		writer = spool_acquire();
	self.writer = writer;
	if (writer)
		ocaml_domain_tell();
	return writer;
}

/* ---- blocks ---- */

static bool to_spool_allocated(const struct memprof_block *block, bool outside, intptr_t *kept)
{
	struct writer *w;

	if (off() || !spool_enabled())
		return false;
	w = take_writer();
	if (!w) {
		runtime_blocks_drop();
		return false;
	}
	return ocaml_blocks_allocated(
	    w, block, outside ? SPOOL_HEAP_EXTERNAL : ocaml_blocks_heap(block), kept);
}

static void to_spool_promoted(intptr_t kept)
{
	if (!off())
		runtime_blocks_promoted(take_writer(), kept);
}

static void to_spool_collected(intptr_t kept)
{
	if (!off())
		runtime_blocks_collected(take_writer(), kept);
}

static bool to_spool_failed(void)
{
	return off();
}

/* ---- events and labels ---- */

/* Another domain may have ended the session since the caller asked for it. */
static bool enter(void)
{
	engine_lock();
	return !off() && take_writer();
}

static void to_spool_span_begin(const struct mayfly_event_type *type, uint64_t a, uint64_t b,
				uint64_t c, uint64_t d)
{
	if (enter())
		tracks_span_begin(type, a, b, c, d);
	engine_unlock();
}

static void to_spool_span_end(const struct mayfly_event_type *type)
{
	if (enter())
		tracks_span_end(type);
	engine_unlock();
}

static void to_spool_instant(const struct mayfly_event_type *type, uint64_t a, uint64_t b,
			     uint64_t c, uint64_t d)
{
	if (enter())
		tracks_instant(type, a, b, c, d);
	engine_unlock();
}

static void to_spool_counter(const struct mayfly_event_type *type, uint64_t number)
{
	if (enter())
		tracks_counter(type, number);
	engine_unlock();
}

static void to_spool_label_push(const char *key, const char *text)
{
	if (enter()) {
		labels_push(labels_number(key, text));
		keep_labels();
	}
	engine_unlock();
}

static void to_spool_label_pop(void)
{
	if (enter()) {
		labels_pop();
		keep_labels();
	}
	engine_unlock();
}

static int to_spool_active(void)
{
	return tracks_wanted();
}

/* OCaml code has no pools. */
static const struct mayfly_agent_calls calls = {
    .span_begin = to_spool_span_begin,
    .span_end = to_spool_span_end,
    .instant = to_spool_instant,
    .counter = to_spool_counter,
    .label_push = to_spool_label_push,
    .label_pop = to_spool_label_pop,
    .active = to_spool_active,
};

/* ---- the session ---- */

static void to_spool_forget(void)
{
	self.tid = (uint32_t)sys_gettid();
	self.writer = writer;
	spool_forget();
	if (writer)
		spool_release(writer); /* for the next session */
	self.writer = writer = NULL;
	atomic_store(&agent_state, AGENT_OFF);
	ocaml_blocks_forget();
	ocaml_domain_forget();
}

static const char *to_spool_finish(void)
{
	static char text[sizeof(((struct spool_header *)0)->off_text)];

	self.writer = writer;
	text[0] = 0;
	if (off())
		memcpy(text, spool_header->off_text, sizeof(text) - 1);
	spool_end();
	to_spool_forget();
	return text[0] ? text : NULL;
}

static const struct library_sink sink = {
    .allocated = to_spool_allocated,
    .promoted = to_spool_promoted,
    .collected = to_spool_collected,
    .failed = to_spool_failed,
    .close = to_spool_finish,
    .abandon = to_spool_forget,
    .calls = &calls,
};

const struct library_sink *to_spool_open(const struct library_spool *how, const char **problem)
{
	static const char scope[] = "recorded by the OCaml library: no blocks of malloc's";
	uint32_t reason;
	int error;

	if (strlen(how->output) >= sizeof(agent_config.output)) {
		*problem = strerror(ENAMETOOLONG);
		return NULL;
	}
	memset(&agent_config, 0, sizeof(agent_config));
	strcpy(agent_config.output, how->output);
	agent_config.interval_log2 = SPOOL_INTERVAL_DEFAULT_LOG2;
	agent_config.dormant = how->dormant;
	agent_config.max_spool = how->max_bytes;
	agent_add_note(scope, "", 0);
	if (how->note[0])
		agent_add_note(how->note, "", 0);
	runtime_blocks_set_rate(how->rate);
	self.sampler.interval_log2 = agent_config.interval_log2;
	thread = labels_owner = 0; /* of the parent, perhaps */
	session++;
	agent_same_process = &same_process;
	modules_init();
	if (!spool_open(&reason, &error)) {
		*problem = strerror(error);
		return NULL;
	}
	atomic_store(&agent_state, AGENT_ON);
	runtime_blocks_tell_rate();
	spool_tell_modules();
	return &sink;
}
