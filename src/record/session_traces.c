/* SPDX-License-Identifier: Apache-2.0 */
/* mayfly record: when the program has ended, spools become traces. */
#include "record/session.h"

#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/array.h"

static bool add_piece(struct pieces *list, char *spool, pid_t pid, unsigned long number,
		      const struct spool_glance *g)
{
	if (!spool ||
	    !array_reserve(&list->piece, &list->room, list->count, sizeof(*list->piece))) {
		free(spool);
		return false;
	}
	list->piece[list->count++] =
	    (struct piece){.spool = spool, .pid = pid, .number = number, .glance = *g};
	return true;
}

void record_free_pieces(struct pieces *list)
{
	for (size_t i = 0; i < list->count; i++) {
		free(list->piece[i].spool);
		free(list->piece[i].trace);
	}
	free(list->piece);
	*list = (struct pieces){0};
}

static bool name_pieces(const struct record *r, struct pieces *list)
{
	for (size_t i = 0; i < list->count; i++) {
		struct piece *p = &list->piece[i], *next = p + 1;
		bool others = i + 1 < list->count && next->pid == p->pid;

		p->last = !others || (p->recorder && next->recorder &&
				      !record_same_process(p->recorder, next->recorder));
		if (p->recorder && (p->recorder->place.unwanted || p->recorder->place.settled))
			p->last = p->recorder->place.last;
		p->wanted = p->last || record_keeps_image(r, &p->glance);
		p->trace = record_trace_name(r, p->pid, p->number, p->last && !others);
		if (!p->trace)
			return false;
	}
	return true;
}

/* NULL: no memory, which has been said. */
static struct recorder *recorder_of(struct record *r, const struct spool_entry *e, pid_t pid)
{
	struct recorder *one = record_find(r, e->path);

	if (one)
		return one;
	one = record_add(r, e->path, pid);
	if (one)
		process_watch_begin(&one->process, e);
	return one;
}

static bool add_entry(struct record *r, struct pieces *list, const struct spool_entry *e,
		      bool is_program)
{
	pid_t pid = is_program ? r->child.pid : e->pid;
	struct recorder *one;
	struct piece *p;

	if (!add_piece(list, strdup(e->path), pid, e->number + is_program, &e->glance))
		return false;
	one = recorder_of(r, e, pid);
	p = &list->piece[list->count - 1];
	p->recorder = one;
	p->alive = !is_program && one && one->state < RECORDER_FINISHED &&
		   process_watch_writes(&one->process, one->spool);
	return true;
}

/* The spool may be gone, and still be read; but without its folder the trace has no place. */
static bool folder_is_gone(const char *path)
{
	const char *slash = strrchr(path, '/');
	char *folder = slash && slash > path ? strndup(path, (size_t)(slash - path)) : NULL;
	bool gone = folder && access(folder, F_OK);

	free(folder);
	return gone;
}

/* All spools of this recording that an agent has taken: those of the program first, in the order of
 * its images, then those of each child. */
bool record_collect_pieces(struct record *r, struct pieces *list)
{
	struct recorder *first = record_find(r, r->spool);
	struct spool_list others;
	struct spool_glance g;
	bool good = true;

	*list = (struct pieces){0};
	if (!spool_list_read(&others, r->file))
		return false;
	/* The file may be another one by now, or gone. */
	if (((first && spool_watch_glance(&first->watch, &g)) || spool_glance(r->spool, &g)) &&
	    g.state != SPOOL_WAITING && !recorder_is_lost(first) && !folder_is_gone(r->spool)) {
		good = add_piece(list, strdup(r->spool), r->child.pid, 0, &g);
		if (good)
			list->piece[0].recorder = first;
	}
	for (int mains = 1; mains >= 0; mains--) {
		for (size_t i = 0; i < others.count && good; i++) {
			const struct spool_entry *e = &others.entry[i];
			bool is_main = record_is_of_program(r, e);

			if (is_main == mains && (mains || r->follow) &&
			    e->glance.state != SPOOL_WAITING)
				good = add_entry(r, list, e, mains);
		}
	}
	spool_list_free(&others);
	if (!good || !name_pieces(r, list)) {
		record_free_pieces(list);
		return false;
	}
	return true;
}

static size_t count_alive(const struct record *r)
{
	size_t alive = 0;

	for (size_t i = 0; i < r->recorders; i++) {
		const struct recorder *one = r->recorder[i];
		const struct spool_header *h = one->watch.header;

		alive += one->pid != r->child.pid && one->state < RECORDER_FINISHED &&
			 !(h && atomic_load(&h->state) == SPOOL_OFF) &&
			 process_watch_writes(&one->process, one->spool);
	}
	return alive;
}

static void say_waiting(const struct record *r, size_t alive)
{
	if (r->quiet)
		return;
	if (alive)
		record_say(r, "waiting for %zu child process%s of %s; Ctrl-C stops waiting", alive,
			   alive == 1 ? "" : "es", r->argv[0]);
	else
		record_say(r, "waiting for a child process of %s; Ctrl-C stops waiting",
			   r->argv[0]);
}

/* Looks after the spools for so long, or until a signal comes. */
static void read_for(struct record *r, int milliseconds)
{
	int64_t end = now_ns() + milliseconds * 1000000ll, left;

	while (!r->child.interrupted && (left = end - now_ns()) > 0) {
		int wait = (int)record_serve(r), most = (int)(left / 1000000) + 1;

		record_wait_for_signal(r, wait < most ? wait : most);
		child_signals(&r->child);
	}
}

/* A trace of a process that still runs would be half of one. A child is seen by its spool, which a
 * new one does not have yet, but its parent's mapped; and one that is just becoming another program
 * has none. So "none" counts when it is found twice, a moment apart. */
void record_wait_for_children(struct record *r)
{
	unsigned int none = 0, unseen = 0;
	bool said = false;

	r->child.interrupted = false;
	while (!r->child.interrupted) {
		size_t alive = count_alive(r);

		if (alive || spool_anybody(r->file)) {
			none = 0;
			unseen += !alive;
			if (!said && (alive || unseen * TICK_SOON_MS > 1000)) {
				say_waiting(r, alive);
				said = true;
			}
		} else if (++none == 2) {
			break;
		}
		read_for(r, alive ? TICK_MS : TICK_SOON_MS);
	}
}

char *record_places(const struct recorder *one, bool part)
{
	if (part && one->options.no_file)
		return record_format("'%s', but for what was read of it before; "
				     "'mayfly report' reads it",
				     one->spool);
	if (part)
		return record_format("'%s' and, from there on, '%s'; 'mayfly report' reads both",
				     one->part_path, one->spool);
	return record_format("'%s'; 'mayfly report' reads it", one->spool);
}

static struct piece *piece_of(struct pieces *list, const struct recorder *one)
{
	for (size_t i = 0; i < list->count; i++)
		if (list->piece[i].recorder == one)
			return &list->piece[i];
	return NULL;
}

/* What the trace of a process says about what it was before an exec, as far as that has samples. */
static const char *exec_note(const struct pieces *list, const struct piece *p)
{
	const char *note = NULL;

	for (size_t i = 0; p->last && i < list->count; i++) {
		const struct piece *other = &list->piece[i];

		if (other->pid != p->pid || other == p ||
		    !(other->glance.samples || other->glance.exact))
			continue;
		note = other->wanted
			   ? "the process ran another program before this one (exec); its trace is "
			     "beside this one, with the process number in its name"
			   : "the process ran another program before this one (exec), which is not "
			     "in this trace; record without --exec=last to keep it";
	}
	return note;
}

/* Reads the rest of a spool and, before its end, the spools of its forked children: each takes over
 * the blocks that are live at its fork. */
static void finish_recorder(struct record *r, struct pieces *list, struct recorder *one,
			    struct recorder *parent)
{
	struct piece *p = piece_of(list, one);
	struct spool_ending ending;
	struct recorder **child;
	size_t children;

	if (one->state >= RECORDER_FINISHED || !p || p->alive || !p->wanted)
		return;
	if (!one->watch.header)
		recorder_attach(one); /* it says so itself when that fails */
	ending = record_ending_of(r, one, p->last);
	ending.note = record_unrecorded(r, one, p->last);
	if (!ending.note)
		ending.note = exec_note(list, p);
	if (!recorder_begin_last(one, parent, &ending))
		return;
	child = record_idle_children(r, one, &children);
	for (size_t i = 0; i < children; i++) {
		recorder_read_until(one, record_fork_ticks(child[i]) + 1);
		finish_recorder(r, list, child[i], one);
	}
	free(child);
	record_tell_last_heap(r, one, &ending);
	recorder_finish(one, parent, &ending);
	record_tell_thinning(r, one);
}

/* All, ancestors first. */
static void finish_recorders(struct record *r, struct pieces *list)
{
	for (size_t i = 0; i < list->count; i++) {
		struct recorder *one = list->piece[i].recorder, *parent;

		for (unsigned int depth = 0; one && depth < MOST_ANCESTORS; depth++) {
			parent = record_parent_of(r, one);
			if (!parent || parent->state != RECORDER_IDLE)
				break;
			one = parent;
		}
		parent = one ? record_parent_of(r, one) : NULL;
		if (one)
			finish_recorder(r, list, one, parent && parent->stream ? parent : NULL);
	}
	/* What is left has an ancestor that still runs, or was none of ours. */
	for (size_t i = 0; i < list->count; i++)
		if (list->piece[i].recorder)
			finish_recorder(r, list, list->piece[i].recorder, NULL);
}

static void say_where(const struct record *r, const struct piece *p)
{
	char *places =
	    p->recorder ? record_places(p->recorder, recorder_has_part(p->recorder)) : NULL;
	const char *text = places ? places : p->spool;

	if (p->alive)
		record_say(r, "process %ld still runs; its recording stays in %s", (long)p->pid,
			   text);
	else
		record_say(r, "the recording stays in %s", text);
	free(places);
}

/* Writes what the receiver did not take to a file beside the spool. NULL: that failed. */
static char *save_rest(const struct record *r, const struct piece *p, uint64_t *from)
{
	const struct recorder *one = p->recorder;
	char *rest = record_format("%s.rest", p->trace), *whole;
	int fd = rest ? open(rest, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666) : -1;
	bool good = fd >= 0 && !stream_sender_save(r->stream.sender, fd, from);

	if (good && one->part)
		good = write(fd, one->part->buffer, one->part->used) == (ssize_t)one->part->used;
	if (fd >= 0 && close(fd))
		good = false;
	if (good && *from)
		return rest;
	if (!good && fd >= 0)
		unlink(rest);
	/* From its beginning on it is a trace. */
	whole = strdup(one->state == RECORDER_FINISHED ? p->trace : one->part_path);
	good = good && whole && !rename(rest, whole);
	free(rest);
	if (good)
		return whole;
	free(whole);
	return NULL;
}

/* The receiver does not have the whole trace: saves the rest and reports where it is. True: the
 * spool must stay. */
static bool keep_rest(const struct record *r, const struct piece *p, bool consumed)
{
	bool finished = p->recorder->state == RECORDER_FINISHED;
	char *why = record_stream_why(&r->stream), *rest;
	const char *text = why ? why : "out of memory";
	uint64_t from = 0;

	rest = finished || consumed ? save_rest(r, p, &from) : NULL;
	if (rest && !from)
		record_say(r, "%s; %s in '%s'", text,
			   finished ? "all of it is" : "its beginning is", rest);
	else if (rest)
		record_say(r, "%s; what follows its first %" PRIu64 " bytes is in '%s'", text, from,
			   rest);
	else
		record_say(r, "%s%s", text, consumed ? "; some of it is lost" : "");
	free(why);
	free(rest);
	return !finished || (!rest && !consumed);
}

void record_finish_stream(struct record *r, bool whole)
{
	if (record_stream_is_lost(&r->stream) && isatty(STDERR_FILENO))
		record_say(r, "waiting up to %.3g s for the receiver; Ctrl-C stops waiting",
			   (double)r->stream.timeout_ns / 1e9);
	record_stream_finish(&r->stream, whole);
}

/* Sends the rest to the receiver. A failure does not change the exit status, as the program itself
 * ran as it should. */
static void finish_stream(struct record *r, struct piece *p, bool consumed)
{
	const struct recorder *one = p->recorder;
	char *why;

	record_finish_stream(r, one->state == RECORDER_FINISHED);
	if (!r->stream.failed)
		return;
	if (r->stream.only) {
		p->kept = keep_rest(r, p, consumed);
		if (p->kept)
			say_where(r, p);
		return;
	}
	why = record_stream_why(&r->stream);
	record_say(r, "%s; all of it is in '%s'", why ? why : "out of memory", p->trace);
	free(why);
}

/* False: there is no trace, for a reason other than the receiver. */
static bool end_trace(struct record *r, struct piece *p)
{
	const struct recorder *one = p->recorder;
	bool consumed = one && recorder_has_part(one);
	bool gave_up = one && one->state == RECORDER_FAILED && r->stream.only &&
		       stream_sender_gave_up(r->stream.sender);

	if (!gave_up && !record_name_trace(r, p)) {
		record_finish_stream(r, one && one->state == RECORDER_FINISHED);
		return false;
	}
	if (r->stream.sender)
		finish_stream(r, p, consumed);
	return true;
}

/* A spool that stays needs its ancestors' spools too: they have the samples that it inherited. */
static void keep_ancestors(struct pieces *list)
{
	bool changed = true;

	while (changed) {
		changed = false;
		for (size_t i = 0; i < list->count; i++) {
			char *parent =
			    list->piece[i].kept ? spool_parent_name(list->piece[i].spool) : NULL;

			for (size_t j = 0; parent && j < list->count; j++) {
				if (list->piece[j].kept ||
				    strcmp(spool_base_name(list->piece[j].spool), parent) != 0)
					continue;
				list->piece[j].kept = true;
				changed = true;
			}
			free(parent);
		}
	}
}

/* The receiver takes the trace of the program's last image as a replacement for the earlier ones,
 * so those must be dropped first. */
static void drop_unwanted(struct pieces *list)
{
	for (size_t i = 0; i < list->count; i++)
		if (list->piece[i].recorder && !list->piece[i].wanted)
			recorder_drop(list->piece[i].recorder);
}

bool record_finalise_pieces(struct record *r, struct pieces *list)
{
	bool all = true;

	if (r->stream.sender)
		drop_unwanted(list);
	finish_recorders(r, list);
	for (size_t i = 0; i < list->count; i++) {
		struct piece *p = &list->piece[i];

		if (p->alive) {
			p->kept = true;
			say_where(r, p);
		} else if (p->wanted && !(p->recorder && p->recorder->place.settled) &&
			   !end_trace(r, p)) {
			all = false;
			if (p->recorder && p->recorder->state == RECORDER_FINISHED)
				continue; /* its part is complete */
			p->kept = true;
			say_where(r, p);
		}
	}
	keep_ancestors(list);
	drop_unwanted(list);
	for (size_t i = 0; i < list->count; i++) {
		const struct piece *p = &list->piece[i];

		if (!p->kept && p->recorder)
			recorder_remove_spool(p->recorder);
		else if (!p->kept)
			spool_remove(p->spool);
	}
	return all;
}
