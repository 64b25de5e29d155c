/* SPDX-License-Identifier: Apache-2.0 */
/* The threads of a process: see thread_watch.h. */
#include "record/thread_watch.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/system/clock.h"
#include "base/system/process_file.h"
#include "base/array.h"

#define SECOND_NS    1000000000ll
#define SHORTEST_NS  5000000ll
#define NAMED_NS     2000000000ll /* at first a thread has the name of the one that made it */
#define EARLY_PART   8	 /* of the time passed, until the next look, while that is below a second */
#define COST_SHARE   500 /* looking may cost 1/500 of a CPU; in the first second more */
#define FIRST_SHARE  20
#define MOST_THREADS 8192 /* further ones are not watched */
#define MOST_NAMES   65536u
#define MANY_NOTES   16384u
#define MOST_NOTES   65536u
#define NOT_YET	     UINT64_MAX

enum what { START, EXIT, CPU };

static const struct mayfly_track_type types[] = {
    [START] = {.name = "thread.start",
	       .category = "thread",
	       .unit = "",
	       .kind = MAYFLY_TYPE_INSTANT,
	       .fields = 2,
	       .field = {{"tid", MAYFLY_FIELD_UINT}, {"name", MAYFLY_FIELD_TEXT}}},
    [EXIT] = {.name = "thread.exit",
	      .category = "thread",
	      .unit = "",
	      .kind = MAYFLY_TYPE_INSTANT,
	      .fields = 1,
	      .field = {{"tid", MAYFLY_FIELD_UINT}}},
    [CPU] = {.name = "thread.cpu",
	     .category = "thread",
	     .unit = "ns",
	     .kind = MAYFLY_TYPE_COUNTER,
	     .fields = 1,
	     .field = {{"value", MAYFLY_FIELD_UINT}}},
};

/* ---- notes ---- */

static struct thread_note *thread_put(struct thread_watch *t, int64_t mono_ns, uint32_t tid,
				      enum what what)
{
	if (t->notes == MOST_NOTES ||
	    !array_reserve(&t->note, &t->note_room, t->notes, sizeof(*t->note)))
		return NULL;
	t->note[t->notes] = (struct thread_note){.mono_ns = mono_ns, .tid = tid, .what = what};
	return &t->note[t->notes++];
}

bool thread_watch_is_full(const struct thread_watch *t)
{
	return t->notes >= MANY_NOTES;
}

/* That a thread has begun is found later, so it is noted later. */
static int by_time(const void *a, const void *b)
{
	const struct thread_note *x = a, *y = b;

	if (x->mono_ns != y->mono_ns)
		return x->mono_ns < y->mono_ns ? -1 : 1;
	if (x->tid != y->tid)
		return x->tid < y->tid ? -1 : 1;
	return x->what - y->what;
}

static int hand(const struct thread_note *n, int64_t start_mono_ns, struct spool_stream *to)
{
	static const uint32_t kinds[] = {MAYFLY_TRACK_INSTANT, MAYFLY_TRACK_INSTANT,
					 MAYFLY_TRACK_COUNT};
	uint64_t value[MAYFLY_TRACK_VALUES] = {n->what == CPU ? n->cpu_ns : n->tid,
					       (uintptr_t)n->name};
	int64_t ns = n->mono_ns > start_mono_ns ? n->mono_ns : start_mono_ns;

	return spool_stream_note(to, (uint64_t)ns, n->tid, kinds[n->what], &types[n->what], value);
}

/* Those that are new or have changed. */
static int hand_names(struct thread_watch *t, struct spool_stream *to)
{
	int error = 0;

	for (size_t i = 0; t->news && i < t->names && !error; i++) {
		if (t->name[i].news)
			error = spool_stream_name(to, t->name[i].tid, t->name[i].name);
		t->name[i].news = false;
	}
	t->news = false;
	return error;
}

int thread_watch_hand(struct thread_watch *t, int64_t start_mono_ns, struct spool_stream *to)
{
	int error = hand_names(t, to);

	if (t->notes)
		qsort(t->note, t->notes, sizeof(*t->note), by_time);
	for (size_t i = 0; i < t->notes && !error; i++)
		error = hand(&t->note[i], start_mono_ns, to);
	t->notes = 0;
	return error;
}

void thread_watch_free(struct thread_watch *t)
{
	free(t->note);
	free(t->thread);
	free(t->name);
	*t = (struct thread_watch){0};
}

/* ---- files of /proc ---- */

/* A small file of a thread as a text. */
static bool read_file(pid_t pid, uint32_t tid, const char *name, char *text, size_t size)
{
	char path[32];

	snprintf(path, sizeof(path), "task/%u/%s", tid, name);
	return process_file_read(pid, path, text, size);
}

/* "TID (NAME) S ...", where the name may hold anything. The 11th and 12th fields after the state
 * are utime and stime, the 19th is the start, all in clock ticks. */
struct stat_line {
	char name[THREAD_NAME];
	int64_t start_ns; /* CLOCK_MONOTONIC */
	uint64_t cpu_ns;
};

static bool read_stat(const struct thread_watch *t, pid_t pid, uint32_t tid, struct stat_line *s)
{
	uint64_t tick = (uint64_t)(SECOND_NS / sysconf(_SC_CLK_TCK));
	unsigned long long user, kernel, start;
	const char *open, *fields;
	char text[2048];
	size_t length;

	if (!read_file(pid, tid, "stat", text, sizeof(text)))
		return false;
	open = strchr(text, '(');
	fields = process_file_behind_name(text);
	if (!open || !fields || fields <= open ||
	    sscanf(fields,
		   " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %llu %llu %*d %*d %*d %*d %*d "
		   "%*d %llu",
		   &user, &kernel, &start) != 3)
		return false;
	length = (size_t)(fields - open - 2);
	if (length >= THREAD_NAME)
		length = THREAD_NAME - 1;
	memcpy(s->name, open + 1, length);
	s->name[length] = 0;
	s->cpu_ns = (user + kernel) * tick;
	/* Since the machine was switched on, its sleep included. */
	s->start_ns = t->boot_ns + (int64_t)(start * tick);
	return true;
}

/* To the nanosecond where the kernel counts that. */
static bool read_cpu(const struct thread_watch *t, pid_t pid, uint32_t tid, uint64_t *cpu_ns)
{
	struct stat_line s;
	char text[128], *end;

	if (read_file(pid, tid, "schedstat", text, sizeof(text))) {
		*cpu_ns = strtoull(text, &end, 10);
		if (end != text)
			return true;
	}
	if (!read_stat(t, pid, tid, &s))
		return false;
	*cpu_ns = s.cpu_ns;
	return true;
}

/* ---- threads ---- */

static int by_tid(const void *a, const void *b)
{
	const struct watched_thread *x = a, *y = b;

	return (x->tid > y->tid) - (x->tid < y->tid);
}

static bool thread_make_room(struct thread_watch *t)
{
	return t->threads < MOST_THREADS &&
	       array_reserve(&t->thread, &t->thread_room, t->threads, sizeof(*t->thread));
}

static void set_name(struct thread_watch *t, struct thread_name *to, const char *name)
{
	memcpy(to->name, name, THREAD_NAME);
	to->news = t->news = true;
}

/* Its place; t->names when there is none. */
static size_t add_name(struct thread_watch *t, uint32_t tid, const char *name)
{
	if (t->names == MOST_NAMES ||
	    !array_reserve(&t->name, &t->name_room, t->names, sizeof(*t->name)))
		return MOST_NAMES;
	t->name[t->names].tid = tid;
	set_name(t, &t->name[t->names], name);
	return t->names++;
}

/* Since the latest look, and the kernel says when to its clock tick. */
static void note_start(struct thread_watch *t, uint32_t tid, const struct stat_line *s, int64_t now)
{
	int64_t ns = s->start_ns > t->looked_ns ? s->start_ns : t->looked_ns;
	struct thread_note *note = thread_put(t, ns < now ? ns : now, tid, START);

	if (note)
		memcpy(note->name, s->name, sizeof(note->name));
}

static void note_cpu(struct thread_watch *t, struct watched_thread *thread, pid_t pid, int64_t now)
{
	struct thread_note *note;
	uint64_t cpu_ns;

	if (!read_cpu(t, pid, thread->tid, &cpu_ns) ||
	    (thread->cpu_ns != NOT_YET && cpu_ns <= thread->cpu_ns))
		return;
	note = thread_put(t, now, thread->tid, CPU);
	if (note)
		note->cpu_ns = thread->cpu_ns = cpu_ns;
}

/* The first `known` threads are in order; new ones follow. */
static void see(struct thread_watch *t, size_t known, uint32_t tid, pid_t pid, int64_t now)
{
	struct watched_thread key = {.tid = tid}, *thread = NULL;
	struct stat_line s;

	if (known)
		thread = bsearch(&key, t->thread, known, sizeof(key), by_tid);
	if (!thread) {
		if (!read_stat(t, pid, tid, &s) || !thread_make_room(t))
			return;
		thread = &t->thread[t->threads++];
		*thread = (struct watched_thread){
		    .tid = tid, .since = now, .cpu_ns = NOT_YET, .name = add_name(t, tid, s.name)};
		note_start(t, tid, &s, now);
	} else if (now - thread->since < NAMED_NS && thread->name < t->names &&
		   read_stat(t, pid, tid, &s)) {
		if (strcmp(t->name[thread->name].name, s.name) != 0)
			set_name(t, &t->name[thread->name], s.name);
	}
	thread->seen = true;
	note_cpu(t, thread, pid, now);
}

/* Those that were there and are not now. */
static void note_exits(struct thread_watch *t, int64_t now)
{
	size_t left = 0;

	for (size_t i = 0; i < t->threads; i++) {
		if (t->thread[i].seen)
			t->thread[left++] = t->thread[i];
		else
			thread_put(t, now, t->thread[i].tid, EXIT);
	}
	t->threads = left;
}

static void thread_look(struct thread_watch *t, pid_t pid, int64_t now)
{
	size_t known = t->threads;
	struct dirent *entry;
	char path[64];
	DIR *folder;

	snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
	folder = opendir(path);
	if (!folder)
		return;
	for (size_t i = 0; i < known; i++)
		t->thread[i].seen = false;
	while ((entry = readdir(folder)))
		if (entry->d_name[0] >= '1' && entry->d_name[0] <= '9')
			see(t, known, (uint32_t)strtoul(entry->d_name, NULL, 10), pid, now);
	closedir(folder);
	note_exits(t, now);
	if (t->threads)
		qsort(t->thread, t->threads, sizeof(*t->thread), by_tid);
	t->looked_ns = now;
}

static void thread_start(struct thread_watch *t, int64_t now)
{
	if (t->begun_ns)
		return;
	t->begun_ns = now;
	t->boot_ns = now - clock_ns(CLOCK_BOOTTIME);
}

void thread_watch_look(struct thread_watch *t, pid_t pid)
{
	int64_t now = clock_ns(CLOCK_MONOTONIC), before, passed, wait, least;

	if (now < t->next_ns)
		return;
	thread_start(t, now);
	before = clock_ns(CLOCK_THREAD_CPUTIME_ID);
	thread_look(t, pid, now);
	passed = now - t->begun_ns;
	least = (clock_ns(CLOCK_THREAD_CPUTIME_ID) - before) *
		(passed < SECOND_NS ? FIRST_SHARE : COST_SHARE);
	wait = passed / EARLY_PART < SECOND_NS ? passed / EARLY_PART : SECOND_NS;
	if (wait < SHORTEST_NS)
		wait = SHORTEST_NS;
	t->next_ns = now + (wait > least ? wait : least);
}

void thread_watch_last(struct thread_watch *t, pid_t pid)
{
	int64_t now = clock_ns(CLOCK_MONOTONIC);

	thread_start(t, now);
	see(t, t->threads, (uint32_t)pid, pid, now);
}
