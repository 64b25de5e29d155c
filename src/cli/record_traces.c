/* SPDX-License-Identifier: Apache-2.0 */
/* mayfly record: when the program has ended, spools become traces. */
#include "cli/record.h"

#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/message.h"

static bool add_piece(struct pieces *list, char *spool, pid_t pid, const struct spool_glance *g)
{
	struct piece *grown = realloc(list->piece, (list->count + 1) * sizeof(*grown));

	if (!grown)
		return false;
	list->piece = grown;
	grown[list->count++] = (struct piece){.spool = spool, .pid = pid, .glance = *g};
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

/* FILE with `tail` before its suffix: out.mayfly and ".12" make out.12.mayfly. */
char *record_name_with(const char *file, const char *tail)
{
	const char *slash = strrchr(file, '/');
	const char *base = slash ? slash + 1 : file;
	const char *dot = strrchr(base, '.');

	if (!dot || dot == base)
		dot = file + strlen(file);
	return record_format("%.*s%s%s", (int)(dot - file), file, tail, dot);
}

/* A process's last image gets its plain name. Of the ones before, which exec replaced, only those
 * with samples are worth a file, and only with --follow. In exact mode all have some. */
static void name_pieces(const struct record *r, struct pieces *list)
{
	unsigned int image = 0;

	for (size_t i = 0; i < list->count; i++) {
		struct piece *p = &list->piece[i];
		bool is_main = p->pid == r->child.pid;
		char *tail;

		if (i && list->piece[i - 1].pid != p->pid)
			image = 0;
		p->last = i + 1 == list->count || list->piece[i + 1].pid != p->pid;
		p->wanted = p->last || (r->follow && (p->glance.samples || p->glance.exact));
		if (p->last && is_main)
			tail = record_format("%s", "");
		else if (p->last)
			tail = record_format(".%ld", (long)p->pid);
		else
			tail = record_format(".%ld.%u", (long)p->pid, image);
		p->trace = record_name_with(r->file, tail);
		free(tail);
		image++;
	}
}

/* All spools of this recording that an agent has taken: those of the program first, in the order of
 * its images, then those of each child. */
bool record_collect_pieces(struct record *r, struct pieces *list)
{
	struct spool_list others;
	struct spool_glance g;
	bool good = true;

	*list = (struct pieces){0};
	if (!spool_list_read(&others, r->file))
		return false;
	if (spool_glance(r->spool, &g) && g.state != SPOOL_WAITING)
		good = add_piece(list, record_format("%s", r->spool), r->child.pid, &g);
	for (int mains = 1; mains >= 0; mains--) {
		for (size_t i = 0; i < others.count && good; i++) {
			struct spool_entry *e = &others.entry[i];

			if ((e->pid == r->child.pid) != mains || (!mains && !r->follow) ||
			    e->glance.state == SPOOL_WAITING)
				continue;
			good = add_piece(list, record_format("%s", e->path), e->pid, &e->glance);
			if (good && !mains)
				list->piece[list->count - 1].alive = spool_in_use(e);
		}
	}
	spool_list_free(&others);
	if (!good) {
		record_free_pieces(list);
		return false;
	}
	name_pieces(r, list);
	for (size_t i = 0; i < list->count; i++) {
		struct piece *p = &list->piece[i];

		p->recorder = record_find(r, p->spool);
		if (!p->recorder)
			p->recorder = record_add(r, p->spool, p->pid);
	}
	return true;
}

static size_t count_alive(const struct record *r)
{
	struct spool_list list;
	size_t alive = 0;

	if (!spool_list_read(&list, r->file))
		return 0;
	for (size_t i = 0; i < list.count; i++)
		if (list.entry[i].pid != r->child.pid && list.entry[i].glance.state != SPOOL_OFF &&
		    spool_in_use(&list.entry[i]))
			alive++;
	spool_list_free(&list);
	return alive;
}

static void say_waiting(const struct record *r, size_t alive)
{
	if (r->quiet)
		return;
	if (alive)
		cli_error("waiting for %zu child process%s of %s; Ctrl-C stops waiting", alive,
			  alive == 1 ? "" : "es", r->argv[0]);
	else
		cli_error("waiting for a child process of %s; Ctrl-C stops waiting", r->argv[0]);
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

/* Where a recording is that did not become a trace. */
static char *places_text(const struct recorder *one)
{
	if (recorder_has_part(one) && one->options.no_file)
		return record_format("'%s', but for what was read of it before; "
				     "'mayfly report' reads it",
				     one->spool);
	if (recorder_has_part(one))
		return record_format("'%s' and, from there on, '%s'; 'mayfly report' reads both",
				     one->part_path, one->spool);
	return record_format("'%s'; 'mayfly report' reads it", one->spool);
}

static char *interruption; /* what the handler says */

/* SIGINT and the like while the trace is made. */
static void abandon(int number)
{
	ssize_t n;

	recorder_abandon();
	n = write(STDERR_FILENO, interruption, strlen(interruption));
	(void)n;
	_exit(128 + number);
}

void record_allow_interruption(struct record *r)
{
	static const int numbers[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};
	struct sigaction action = {.sa_handler = abandon}, before;
	char *places = places_text(r->recorder[0]);

	/* On a terminal it comes behind a ^C. */
	interruption = record_format("%smayfly: interrupted; the recording stays in %s\n",
				     isatty(STDERR_FILENO) ? "\n" : "", places);
	free(places);
	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
		sigaction(numbers[i], NULL, &before);
		if (before.sa_handler != SIG_IGN)
			sigaction(numbers[i], &action, NULL);
	}
	child_release_signals(&r->child);
}

static struct piece *piece_of(struct pieces *list, const struct recorder *one)
{
	for (size_t i = 0; i < list->count; i++)
		if (list->piece[i].recorder == one)
			return &list->piece[i];
	return NULL;
}

/* Reads all that is left of a spool, and before its end the spools of its forked children: each
 * takes over what is live at its fork. */
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
	if (!recorder_begin_last(one, parent, &ending))
		return;
	child = record_idle_children(r, one, &children);
	for (size_t i = 0; i < children; i++) {
		recorder_read_until(one, record_fork_ticks(child[i]) + 1);
		finish_recorder(r, list, child[i], one);
	}
	free(child);
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

static bool name_trace(const struct piece *p)
{
	struct recorder *one = p->recorder;
	int error;

	if (!one)
		return false; /* said */
	if (one->state != RECORDER_FINISHED) {
		if (one->error > 0)
			cli_error("cannot write '%s': %s", p->trace, strerror(one->error));
		else
			cli_error("'%s': %s", p->spool, mayfly_error_text(one->error));
		return false;
	}
	error = recorder_become(one, p->trace);
	if (error)
		cli_error("cannot write '%s': %s; it is complete in '%s'", p->trace,
			  strerror(error), one->part_path);
	return !error;
}

static void say_alive(const struct piece *p)
{
	char *places = p->recorder ? places_text(p->recorder) : record_format("'%s'", p->spool);

	cli_error("process %ld still runs; its recording stays in %s", (long)p->pid, places);
	free(places);
}

static void say_kept(const struct piece *p)
{
	char *places = p->recorder ? places_text(p->recorder) : record_format("'%s'", p->spool);

	cli_error("the recording stays in %s", places);
	free(places);
}

/* What no receiver took, to a file beside the spool. NULL: that cannot be had. */
static char *save_rest(const struct record *r, const struct piece *p, uint64_t *from)
{
	const struct recorder *one = p->recorder;
	char *rest = record_format("%s.rest", p->trace), *whole;
	int fd = open(rest, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
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
	whole = record_format("%s", one->state == RECORDER_FINISHED ? p->trace : one->part_path);
	good = good && !rename(rest, whole);
	free(rest);
	if (good)
		return whole;
	free(whole);
	return NULL;
}

/* The receiver does not have all: what of the recording stays, and where. True: the spool must. */
static bool keep_rest(const struct record *r, const struct piece *p, bool consumed)
{
	bool finished = p->recorder->state == RECORDER_FINISHED;
	char *why = record_stream_why(&r->stream), *rest;
	const char *text = why ? why : "out of memory";
	uint64_t from = 0;

	rest = finished || consumed ? save_rest(r, p, &from) : NULL;
	if (rest && !from)
		cli_error("%s; %s in '%s'", text, finished ? "all of it is" : "its beginning is",
			  rest);
	else if (rest)
		cli_error("%s; what follows its first %" PRIu64 " bytes is in '%s'", text, from,
			  rest);
	else
		cli_error("%s%s", text, consumed ? "; some of it is lost" : "");
	free(why);
	free(rest);
	return !finished || (!rest && !consumed);
}

/* The receiver gets the rest. Its failing is no error of the program's run, which has been as it
 * should. */
static void finish_stream(struct record *r, struct piece *p, bool consumed)
{
	const struct recorder *one = p->recorder;
	char *why;

	if (record_stream_finish(&r->stream, one->state == RECORDER_FINISHED))
		return;
	if (r->stream.only) {
		p->kept = keep_rest(r, p, consumed);
		if (p->kept)
			say_kept(p);
		return;
	}
	why = record_stream_why(&r->stream);
	cli_error("%s; all of it is in '%s'", why ? why : "out of memory", p->trace);
	free(why);
}

/* False: there is no trace, for a reason that is not the receiver's. */
static bool end_trace(struct record *r, struct piece *p)
{
	const struct recorder *one = p->recorder;
	bool consumed = one && recorder_has_part(one);
	bool gave_up = one && one->state == RECORDER_FAILED && r->stream.only &&
		       stream_sender_gave_up(r->stream.sender);

	if (!gave_up && !name_trace(p)) {
		record_stream_finish(&r->stream, one && one->state == RECORDER_FINISHED);
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
				    strcmp(record_base_name(list->piece[j].spool), parent) != 0)
					continue;
				list->piece[j].kept = true;
				changed = true;
			}
			free(parent);
		}
	}
}

/* A receiver takes the trace of the program's last image for what it was told of the ones before,
 * so those must go first. */
static void drop_unwanted(struct pieces *list)
{
	for (size_t i = 0; i < list->count; i++)
		if (list->piece[i].recorder && !list->piece[i].wanted)
			recorder_drop(list->piece[i].recorder);
}

/* Makes the traces, then removes the spools. False when one failed: its spool stays. */
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
			say_alive(p);
		} else if (p->wanted && !end_trace(r, p)) {
			all = false;
			if (p->recorder && p->recorder->state == RECORDER_FINISHED)
				continue; /* its part is complete */
			p->kept = true;
			say_kept(p);
		}
	}
	keep_ancestors(list);
	drop_unwanted(list);
	for (size_t i = 0; i < list->count; i++) {
		if (!list->piece[i].kept)
			unlink(list->piece[i].spool);
	}
	return all;
}
