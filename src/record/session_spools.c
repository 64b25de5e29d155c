/* SPDX-License-Identifier: Apache-2.0 */
/* mayfly record: the spools of the processes, and a recorder for each. */
#include "record/session.h"

#include <errno.h>
#include <limits.h>
#include <malloc.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "format/columns.h"
#include "format/events.h"
#include "base/array.h"
#include "record/script_entry.h"
#include "record/spool_control.h"
#include "record/spool_recorder.h"
#include "symbols/debug_server.h"
#include "symbols/names_file.h"
#include "symbols/symbols.h"

#define START_NS     1000000000ll /* frequent ticks at first */
#define FIND_NS	     100000000ll  /* spools of other images and processes */
#define SWEEP_NS     1000000000ll /* processes that have ended */
#define LARGEST_KEPT (32 << 20)	  /* bytes of a block; the most that glibc takes */
#define FREED_KEPT   (128 << 20)  /* bytes in all */

/* ---- files ---- */

bool record_choose_names(struct record *r)
{
	const char *name = spool_base_name(r->argv[0]);

	if (r->output)
		r->file = record_format("%s", r->output);
	else
		r->file = record_format("%s%smayfly.%s.%ld.mayfly",
					r->stream.only ? r->stream.spool_dir : "",
					r->stream.only ? "/" : "", name, (long)r->child.pid);
	r->spool = r->file ? record_format("%s.spool", r->file) : NULL;
	return r->spool;
}

static bool refuse_old_spool(const struct record *r, const char *path)
{
	record_say(r,
		   "'%s' is left from a recording that was cut off or still runs; "
		   "'mayfly report' reads it; remove it or use --force",
		   path);
	return false;
}

/* Without its files, the recording would be lost to the one who makes it. */
static bool refuse_running(const struct record *r)
{
	struct spool_control c;
	enum spool_recorder recorder;
	pid_t pid;

	if (spool_control_open(&c, r->spool, false))
		return false;
	recorder = spool_recorder_of(c.header, &pid);
	spool_control_close(&c);
	if (recorder != SPOOL_RECORDER_LIVES)
		return false;
	record_say(r, "'%s' is of a recording that goes on; choose another file with -o", r->spool);
	return true;
}

static bool clear_old_part(const struct record *r, const char *spool)
{
	char *part = spool_part_name(spool), *keys = part ? keys_file_name(part) : NULL;
	bool good = true;

	if (!part || !keys)
		good = record_no_memory(r);
	else if (r->force)
		unlink(part);
	else if (!access(part, F_OK))
		good = refuse_old_spool(r, part);
	/* Without the part it means nothing. */
	if (good)
		unlink(keys);
	free(part);
	free(keys);
	return good;
}

/* Spools that an earlier recording of the same name left would be taken for this one's. */
static bool clear_old_spools(const struct record *r)
{
	struct spool_list list;
	bool good = true;

	if (refuse_running(r))
		return false;
	if (r->force)
		unlink(r->spool);
	if (!spool_list_read(&list, r->file))
		return record_no_memory(r);
	for (size_t i = 0; i < list.count && good; i++) {
		if (!r->force || spool_in_use(&list.entry[i])) {
			good = refuse_old_spool(r, list.entry[i].path);
		} else {
			unlink(list.entry[i].path);
			good = clear_old_part(r, list.entry[i].path);
		}
	}
	spool_list_free(&list);
	return good && (!access(r->spool, F_OK) || clear_old_part(r, r->spool));
}

/* ---- recorders ---- */

struct recorder *record_find(const struct record *r, const char *spool)
{
	for (size_t i = 0; i < r->recorders; i++)
		if (!strcmp(spool_base_name(r->recorder[i]->spool), spool_base_name(spool)))
			return r->recorder[i];
	return NULL;
}

bool record_is_foreign(const struct record *r)
{
	return child_own_pid(&r->child) != r->child.pid;
}

bool record_is_of_program(const struct record *r, const struct spool_entry *e)
{
	return e->pid == child_own_pid(&r->child) && process_is_foreign(e) == record_is_foreign(r);
}

struct recorder *record_add(struct record *r, const char *spool, pid_t pid)
{
	bool child = pid != r->child.pid;
	struct recorder_options options = {.snapshot_ns = r->snapshot_ns,
					   .max_size = r->max_size,
					   .symbols = r->symbols,
					   .debug_dir = r->debug_dir,
					   .follow = r->follow,
					   .prompt = r->rules && r->rules->count,
					   .quick = child ? r->columns : NULL,
					   .quick_events = child ? r->events : NULL,
					   .sender = r->stream.sender,
					   .no_file = r->stream.only};
	char *part = spool_part_name(spool);
	struct recorder *made = NULL;

	if (part &&
	    array_reserve(&r->recorder, &r->recorder_room, r->recorders, sizeof(*r->recorder)))
		made = recorder_new(spool, part, pid, &options);
	free(part);
	if (!made) {
		record_say(r, "out of memory; '%s' is not read while %s runs", spool, r->argv[0]);
		return NULL;
	}
	if (r->events_folder && r->follow)
		recorder_watch_events(made, r->events_folder, -1);
	r->recorder[r->recorders++] = made;
	return made;
}

static void say_not_made(const struct record *r, int error)
{
	int length = (int)(spool_base_name(r->file) - r->file);

	if (error == ENOENT && length)
		record_say(r, "cannot write '%s': there is no folder '%.*s'", r->file, length,
			   r->file);
	else
		record_say(r, "cannot make '%s': %s", r->spool, strerror(error));
}

/* What the trace of one process has freed, the next ones use, instead of fresh pages of the kernel. */
static void keep_freed_memory(void)
{
	mallopt(M_MMAP_THRESHOLD, LARGEST_KEPT);
	mallopt(M_TRIM_THRESHOLD, FREED_KEPT);
}

bool record_make_spool(struct record *r)
{
	struct spool_settings settings = {
	    .sampler = (uint32_t)r->sampler,
	    .interval_log2 = r->interval_log2,
	    .exact = r->exact,
	    .attached = r->child.adopted,
	    .overhead = r->overhead,
	    .max_packets = r->max_spool / SPOOL_PACKET_BYTES,
	};
	struct symbols_options symbols = {.debug_dir = &r->debug_dir,
					  .debug_dirs = r->debug_dir != NULL};
	char cache_folder[PATH_MAX];
	const char *obstacle;
	struct recorder *first;
	int error;

	if (!r->no_debuginfod)
		r->debug_server =
		    debug_server_new(r->debuginfod_ns, r->download_progress, r->say_context);
	symbols.server = r->debug_server;
	symbols.cache_folder = names_cache_folder(cache_folder);
	r->symbols = symbols_new(&symbols);
	if (r->follow)
		keep_freed_memory();
	r->columns = r->follow ? column_writer_new(COLUMNS_LEAN) : NULL;
	r->events = r->columns ? event_coder_new(r->columns) : NULL;
	if (!r->symbols)
		return record_no_memory(r);
	error = record_stream_open(&r->stream);
	if (error) {
		record_say(r, "cannot stream: %s", strerror(error));
		return false;
	}
	obstacle = part_obstacle(r->file, r->force);
	if (obstacle) {
		record_say(r, "'%s' %s", r->file, obstacle);
		return false;
	}
	if (!clear_old_spools(r))
		return false;
	first = record_add(r, r->spool, r->child.pid);
	if (!first)
		return false;
	first->process.foreign = record_is_foreign(r);
	error = recorder_create(first, &settings);
	if (error == EEXIST)
		return refuse_old_spool(r, r->spool);
	if (error)
		say_not_made(r, error);
	else
		record_make_events(r, first);
	return !error && record_offer_last_heap(r);
}

void record_start_handover(struct record *r)
{
	r->handover.file = r->file;
	r->handover.first = r->child.pid;
	r->handover.only = r->follow ? 0 : r->child.pid;
	r->handover.most_bytes = r->max_spool;
	handover_start(&r->handover);
}

/* What a spool says of its parent does not change once an agent has begun it. */
static void learn_origin(struct recorder *one)
{
	struct recorder_place *place = &one->place;
	struct spool_glance g;

	if (place->origin_known || !spool_glance(one->spool, &g) || g.state == SPOOL_WAITING)
		return;
	place->fork_ticks = g.fork_ticks;
	place->start_mono_ns = g.start_mono_ns;
	place->parent_name = spool_parent_name(one->spool);
	place->origin_known = true;
}

struct recorder *record_parent_of(const struct record *r, struct recorder *child)
{
	struct recorder *parent;

	if (!r->follow)
		return NULL;
	learn_origin(child);
	parent = child->place.parent_name ? record_find(r, child->place.parent_name) : NULL;
	return parent != child ? parent : NULL;
}

/* Another recorder that has not finished needs the spool of this one. */
static bool is_parent(const struct record *r, const struct recorder *one)
{
	for (size_t i = 0; i < r->recorders; i++)
		if (r->recorder[i] != one && r->recorder[i]->state != RECORDER_FINISHED &&
		    record_parent_of(r, r->recorder[i]) == one)
			return true;
	return false;
}

uint64_t record_fork_ticks(struct recorder *one)
{
	learn_origin(one);
	return one->place.fork_ticks;
}

static int compare_forks(const void *a, const void *b)
{
	uint64_t x = record_fork_ticks(*(struct recorder *const *)a);
	uint64_t y = record_fork_ticks(*(struct recorder *const *)b);

	return (x > y) - (x < y);
}

struct recorder **record_idle_children(const struct record *r, const struct recorder *parent,
				       size_t *count)
{
	struct recorder **list = r->follow ? calloc(r->recorders, sizeof(*list)) : NULL;

	*count = 0;
	for (size_t i = 0; list && i < r->recorders; i++)
		if (r->recorder[i]->state == RECORDER_IDLE &&
		    record_parent_of(r, r->recorder[i]) == parent)
			list[(*count)++] = r->recorder[i];
	if (*count)
		qsort(list, *count, sizeof(*list), compare_forks);
	return list;
}

/* Begins to read a spool. What a forked child has inherited, its parent's stream keeps only for a
 * while, so children begin as soon as their parent has come to the fork. */
static void begin_reading(const struct record *r, struct recorder *one, struct recorder *parent)
{
	struct recorder **child;
	size_t children;

	if (!recorder_begin(one, parent))
		return;
	child = record_idle_children(r, one, &children);
	for (size_t i = 0; i < children; i++) {
		recorder_read_until(one, record_fork_ticks(child[i]) + 1);
		begin_reading(r, child[i], one);
	}
	free(child);
}

/* The ancestors first. */
static void begin_with_ancestors(const struct record *r, struct recorder *one, unsigned int depth)
{
	struct recorder *parent = record_parent_of(r, one);

	if (parent && parent->state == RECORDER_IDLE && depth < MOST_ANCESTORS)
		begin_with_ancestors(r, parent, depth + 1);
	if (one->state == RECORDER_IDLE)
		begin_reading(r, one, parent && parent->stream ? parent : NULL);
}

bool record_same_process(const struct recorder *a, const struct recorder *b)
{
	/* Short-lived namespaces use their small numbers again and again. */
	if (a->process.foreign || b->process.foreign)
		return a->pid == b->pid && a->process.pid && a->process.pid == b->process.pid;
	return a->pid == b->pid;
}

bool record_keeps_image(const struct record *r, const struct spool_glance *g)
{
	/* A stream is one trace. */
	return !r->last_image_only && !r->stream.to && (g->samples || g->exact);
}

bool record_is_last_image(const struct record *r, const struct recorder *one)
{
	for (size_t i = r->recorders; i-- && r->recorder[i] != one;)
		if (record_same_process(r->recorder[i], one))
			return false;
	return true;
}

/* Another PID namespace may be there for a moment, and the next one have the same numbers: what follows in
 * it is not known for sure. */
static bool is_known_to_be_last(const struct record *r, const struct recorder *one, bool last)
{
	return last && (!one->process.foreign || one->pid == r->child.pid);
}

const char *record_unrecorded(struct record *r, struct recorder *one, bool last)
{
	char **note = &one->place.unrecorded;
	struct spool_glance g;

	if (*note || !(spool_watch_glance(&one->watch, &g) || spool_glance(one->spool, &g)))
		return *note;
	if (g.child_lost)
		*note =
		    record_format("a child process is not recorded: the agent in it cannot reach "
				  "the recorder (doc/CONTAINERS.md), or the disk is full");
	else if (g.executed && is_known_to_be_last(r, one, last))
		*note =
		    record_format("by exec it became '%s', of which nothing is recorded: the agent "
				  "does not fit it, is not readable there, or cannot reach the "
				  "recorder (doc/CONTAINERS.md)",
				  g.off_text);
	if (*note && (one->pid == r->child.pid || !r->unrecorded_said))
		record_say(r, "process %ld: %s", (long)one->pid, *note);
	r->unrecorded_said |= *note && one->pid != r->child.pid;
	return *note;
}

static uint64_t nanoseconds(struct timeval t)
{
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_usec * 1000u;
}

static void take_status(struct spool_ending *e, int status)
{
	bool killed = WIFSIGNALED(status);

	e->ending = killed ? MAYFLY_END_KILLED : MAYFLY_END_EXITED;
	e->code = killed ? WTERMSIG(status) : WEXITSTATUS(status);
}

struct spool_ending record_ending_of(const struct record *r, const struct recorder *one, bool last)
{
	const struct spool_header *h = one->watch.header;
	const struct child *c = &r->child;
	struct spool_ending e = {.ending = MAYFLY_END_UNKNOWN,
				 .title = one->title.text,
				 .title_bytes = one->title.bytes};
	int status;

	if (!last) {
		e.ending = MAYFLY_END_EXEC;
	} else if (one->pid == c->pid && c->adopted) {
		if (c->ended)
			e.ending = MAYFLY_END_ENDED;
		if (h && c->ended_ns > (int64_t)h->start_mono_ns)
			e.duration_ns = c->ended_ns - (int64_t)h->start_mono_ns;
	} else if (one->pid == c->pid) {
		take_status(&e, c->status);
		e.cpu_ns = nanoseconds(c->usage.ru_utime) + nanoseconds(c->usage.ru_stime);
		e.max_rss_bytes = (uint64_t)c->usage.ru_maxrss * 1024;
		if (h && c->ended_ns > (int64_t)h->start_mono_ns)
			e.duration_ns = c->ended_ns - (int64_t)h->start_mono_ns;
	} else if (process_watch_ended(&one->process)) {
		/* Else the spool has what the agent knows. */
		e.ending = MAYFLY_END_ENDED;
		if (process_watch_status(&one->process, &status))
			take_status(&e, status);
	}
	if (h)
		script_entry(e.entry, sizeof(e.entry), h, one->pid);
	if (h && h->clock == SPOOL_CLOCK_TSC)
		recorder_clock(h, &e.end_ticks, &e.end_mono_ns);
	return e;
}

/* The image has ended while other processes run on: finishes it now, so that many processes, one
 * after the other, do not pile up. */
static void retire(struct record *r, struct recorder *one, bool last)
{
	struct spool_ending ending = record_ending_of(r, one, last);
	struct spool_glance g = {0};
	bool wanted = last;
	struct recorder *parent;

	/* It has no header any more when an earlier exec retired it. */
	if (!spool_watch_glance(&one->watch, &g))
		spool_glance(one->spool, &g);
	wanted |= record_keeps_image(r, &g);
	one->place.last = last;
	if (wanted && one->state == RECORDER_IDLE && one->pid != r->child.pid &&
	    one->watch.header) {
		begin_with_ancestors(r, one, 0);
		/* An image that was left before its child was seen: it had nothing to begin for. */
		parent = record_parent_of(r, one);
		if (parent && parent->state == RECORDER_READING && !record_is_last_image(r, parent))
			retire(r, parent, false);
	}
	if (one->state == RECORDER_READING && wanted) {
		one->keep_stream = r->follow;
		ending.note = record_unrecorded(r, one, last);
		record_tell_last_heap(r, one, &ending);
		recorder_finish(one, NULL, &ending);
	} else if (!wanted && one->state <= RECORDER_READING) {
		recorder_drop(one);
		one->place.unwanted = r->follow && one->pid != r->child.pid;
	}
	recorder_detach(one);
}

/* After an exec, the program continues in the spool of the new image. False: there is none. */
static bool find_image(struct record *r)
{
	char *next =
	    record_format("%s.%ld.%lu.spool", r->file, (long)child_own_pid(&r->child), r->images);
	struct recorder *made;
	struct spool_glance g;
	bool found = next && spool_glance(next, &g) && g.state != SPOOL_WAITING;

	if (found) {
		r->images++;
		made = record_add(r, next, r->child.pid);
		if (made) {
			made->process.foreign = record_is_foreign(r);
			recorder_attach(made);
		}
		for (size_t i = 0; made && i + 1 < r->recorders; i++)
			if (r->recorder[i]->pid == r->child.pid)
				retire(r, r->recorder[i], false);
	}
	free(next);
	return found;
}

/* The images of a process stand in the order in which they began. A listing of the folder can show one and
 * not the one before it, which is then added after it. */
static void put_in_order(struct record *r, struct recorder *made)
{
	size_t at = r->recorders - 1;

	learn_origin(made);
	for (size_t i = at; i--;) {
		struct recorder *one = r->recorder[i];

		if (!record_same_process(one, made))
			continue;
		learn_origin(one);
		if (!one->place.origin_known ||
		    one->place.start_mono_ns <= made->place.start_mono_ns)
			break;
		at = i;
	}
	memmove(r->recorder + at + 1, r->recorder + at,
		(r->recorders - 1 - at) * sizeof(*r->recorder));
	r->recorder[at] = made;
}

/* A new child of a process that is being read. */
static void begin_after_parent(const struct record *r, struct recorder *child)
{
	struct recorder *parent = record_parent_of(r, child);

	if (!parent || !parent->stream)
		return;
	if (parent->state == RECORDER_READING)
		recorder_read_until(parent, record_fork_ticks(child) + 1);
	begin_reading(r, child, parent);
}

static void find_children(struct record *r)
{
	struct spool_list list;
	struct recorder *made;

	if (!spool_list_read(&list, r->file))
		return;
	for (size_t i = 0; i < list.count; i++) {
		const struct spool_entry *e = &list.entry[i];

		if (record_is_of_program(r, e) || e->glance.state == SPOOL_WAITING ||
		    record_find(r, e->path))
			continue;
		made = record_add(r, e->path, e->pid);
		if (!made)
			break;
		process_watch_begin(&made->process, e);
		put_in_order(r, made);
		if (!recorder_attach(made))
			begin_after_parent(r, made);
		for (size_t j = 0; j < r->recorders; j++)
			if (record_same_process(r->recorder[j], made) &&
			    !record_is_last_image(r, r->recorder[j]))
				retire(r, r->recorder[j], false);
	}
	spool_list_free(&list);
}

/* The process has ended, or has had another spool, or none, for a while: it may be just becoming
 * another program. */
static bool has_left(struct recorder *one)
{
	struct spool_glance g;

	/* Who was seen in the middle of an exec is not known to run. */
	if (process_watch_ended(&one->process))
		return !(spool_watch_glance(&one->watch, &g) && g.executed) ||
		       ++one->place.sweeps > 2;
	if (process_watch_writes(&one->process, one->spool)) {
		one->place.sweeps = 0;
		return false;
	}
	return ++one->place.sweeps > 2;
}

static bool note_settled(struct record *r, pid_t pid)
{
	if (!array_reserve(&r->settled, &r->settled_room, r->settled_count, sizeof(*r->settled)))
		return false;
	r->settled[r->settled_count++] = pid;
	return true;
}

/* A child's trace that is complete gets its name. When nothing needs the spool any more, that is
 * removed, and so can *one be: then true. */
static bool settle(struct record *r, struct recorder *one)
{
	struct recorder_place *place = &one->place;
	unsigned long number = spool_image_number(one->spool);
	struct piece p = {.spool = one->spool, .pid = one->pid, .recorder = one};

	if (place->unwanted) {
		if (place->sweeps <= 2)
			return false;
	} else if (one->state != RECORDER_FINISHED) {
		return false;
	} else if (!place->settled) {
		p.trace = record_trace_name(r, one->pid, number, place->last);
		place->settled = p.trace && (!place->last || note_settled(r, one->pid)) &&
				 record_name_trace(r, &p);
		free(p.trace);
	}
	if (!(place->settled || place->unwanted) || one->keep_stream || is_parent(r, one))
		return false;
	recorder_remove_spool(one);
	return true;
}

static void end_streams(struct record *r)
{
	for (size_t i = 0; i < r->recorders; i++) {
		struct recorder *one = r->recorder[i];

		if (one->place.unwanted)
			one->place.sweeps++;
		else if (one->state == RECORDER_FINISHED && one->keep_stream &&
			 (!spool_stream_forks(one->stream) ||
			  (++one->place.sweeps > 2 && !is_parent(r, one))))
			recorder_forget(one);
	}
}

/* Processes that have ended. A stream is kept for a while longer: a child that was forked last may
 * not have its spool yet. */
static void sweep(struct record *r)
{
	end_streams(r);
	for (size_t i = 0; i < r->recorders; i++) {
		struct recorder *one = r->recorder[i];

		one->place.left = one->pid != r->child.pid && one->state < RECORDER_FINISHED &&
				  one->watch.header && has_left(one);
	}
	/* Whatever a process that has ended became before is there by now. */
	if (r->follow)
		find_children(r);
	for (size_t i = 0; i < r->recorders; i++) {
		struct recorder *one = r->recorder[i];

		if (!one->place.left || one->state >= RECORDER_FINISHED)
			continue;
		one->place.sweeps = 0;
		retire(r, one, record_is_last_image(r, one));
	}
	for (size_t i = r->recorders; r->follow && i--;) {
		struct recorder *one = r->recorder[i];

		if (one->pid == r->child.pid || !settle(r, one))
			continue;
		r->recorders--;
		memmove(r->recorder + i, r->recorder + i + 1,
			(r->recorders - i) * sizeof(*r->recorder));
		recorder_free(one);
	}
}

static void tick(const struct record *r, struct recorder *one)
{
	int error = recorder_tick(one);

	if (!error)
		return;
	one->no_space = true;
	record_say(r, "cannot extend '%s': %s; samples that mayfly cannot read in time are dropped",
		   one->spool, strerror(error));
}

void record_tell_thinning(const struct record *r, struct recorder *one)
{
	if (!one->thin_error || one->thin_said)
		return;
	one->thin_said = true;
	if (one->thin_error == MAYFLY_E_RANGE) {
		record_say(
		    r,
		    "the trace of process %ld is larger than --max-size: its stacks and names, "
		    "which cannot be thinned, take most of it",
		    (long)one->pid);
		return;
	}
	record_say(r, "'%s' grows beyond --max-size: it cannot be thinned: %s", one->part_path,
		   one->thin_error > 0 ? strerror(one->thin_error)
				       : mayfly_error_text(one->thin_error));
}

static void tell_stream_news(struct record *r)
{
	char *news = record_stream_news(&r->stream);

	if (!news)
		return;
	if (!r->quiet)
		record_say(r, "%s", news);
	free(news);
}

unsigned int record_serve(struct record *r)
{
	int64_t now = now_ns();
	unsigned int wait = TICK_MS;
	bool more = false;

	if (now - r->found_ns >= FIND_NS) {
		/* Wrappers exec several times in a row: the next round looks again, at once. */
		more = find_image(r);
		r->found_ns = more ? 0 : now;
		if (r->follow)
			find_children(r);
	}
	if (now - r->swept_ns >= SWEEP_NS) {
		r->swept_ns = now;
		sweep(r);
	}
	for (size_t i = 0; i < r->recorders; i++) {
		struct recorder *one = r->recorder[i];

		tick(r, one);
		if (recorder_is_due(one))
			begin_with_ancestors(r, one, 0);
		record_take_heap(r, one);
		more |= recorder_round(one);
		record_tell_thinning(r, one);
		record_tell_events(r, one);
		if (r->rules)
			watch_list_look(r->rules, one);
		if (recorder_wait(one) < wait)
			wait = recorder_wait(one);
	}
	if (r->rules && r->rules->looked)
		r->rules->looked(r->rules->context);
	tell_stream_news(r);
	if (wait > TICK_SOON_MS && now - r->start_ns < START_NS)
		wait = TICK_SOON_MS;
	return more ? 0 : wait;
}

void record_drop_spool(struct record *r)
{
	recorder_drop(r->recorder[0]);
	recorder_remove_spool(r->recorder[0]);
}

void record_free(struct record *r)
{
	record_end_last_heap(r);
	record_remove_events(r);
	handover_stop(&r->handover);
	program_free(&r->program);
	free(r->folder);
	free(r->file);
	free(r->spool);
	free(r->preload);
	free(r->user_settings);
	for (size_t i = 0; i < r->recorders; i++)
		recorder_free(r->recorder[i]);
	free(r->recorder);
	free(r->settled);
	record_stream_close(&r->stream);
	symbols_free(r->symbols);
	event_coder_free(r->events);
	column_writer_free(r->columns);
	debug_server_free(r->debug_server);
}
