/* SPDX-License-Identifier: Apache-2.0 */
/* The memory of a process at one moment: see freeze.h. */
#include "attach/freeze.h"

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "attach/injection.h"
#include "attach/target_code.h"
#include "attach/target_process.h"
#include "base/array.h"
#include "base/system/clock.h"
#include "base/system/process_file.h"

#define THREADS_MOST	 65536u
#define ROUNDS_MOST	 20u	     /* over threads that begin or get signals meanwhile */
#define STACK_ROOM	 (32u << 10) /* below the stack pointer, for the frame */
#define REAP_TRIES	 50u
#define REAP_PAUSE_NS	 2000000l
#define EXPECT_GIB_NS	 30000000.0 /* of pages that are in memory */
#define EXPECT_BASE_NS	 3000000
#define EXPECT_THREAD_NS 200000
#define COPY_GIB_NS	 400000000.0 /* of memory that is copied here */

struct freeze_held {
	struct injection **stop; /* of each thread that was seized */
	size_t stops, capacity;
	pid_t copy;
	uint64_t syscall_at, sigreturn_at, exit_at;
};

/* ---- its threads ---- */

static size_t count_threads(pid_t pid)
{
	char path[64];
	struct dirent *d;
	size_t count = 0;
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
	dir = opendir(path);
	while (dir && (d = readdir(dir)))
		count += atoi(d->d_name) > 0;
	if (dir)
		closedir(dir);
	return count;
}

static double gib_of_pages(unsigned long long pages)
{
	return (double)pages * (double)sysconf(_SC_PAGESIZE) / (double)(1 << 30);
}

/* In pages: all that is mapped, and what of it is in memory. */
static void read_sizes(pid_t pid, unsigned long long *mapped, unsigned long long *resident)
{
	char path[64];
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/statm", (int)pid);
	file = fopen(path, "re");
	if (!file || fscanf(file, "%llu %llu", mapped, resident) != 2)
		*mapped = *resident = 0;
	if (file)
		fclose(file);
}

int64_t freeze_expect_ns(pid_t pid)
{
	unsigned long long mapped, resident;

	read_sizes(pid, &mapped, &resident);
	return EXPECT_BASE_NS + EXPECT_THREAD_NS * (int64_t)count_threads(pid) +
	       (int64_t)(gib_of_pages(resident) * EXPECT_GIB_NS);
}

static struct injection *find_stop(const struct freeze_held *h, pid_t tid)
{
	for (size_t i = 0; i < h->stops; i++)
		if (h->stop[i]->tid == tid)
			return h->stop[i];
	return NULL;
}

static struct injection *add_stop(struct freeze_held *h)
{
	struct injection *i;

	if (!array_reserve(&h->stop, &h->capacity, h->stops, sizeof(struct injection *)))
		return NULL;
	i = aligned_alloc(64, (sizeof(*i) + 63) & ~(size_t)63);
	if (i)
		h->stop[h->stops++] = i;
	return i;
}

static void drop_stop(struct freeze_held *h, size_t at)
{
	free(h->stop[at]);
	h->stop[at] = h->stop[--h->stops];
}

/* Asks each thread that is new to stop. Returns how many; -1: errno says why not even one. */
static int interrupt_new(struct freeze *f)
{
	struct freeze_held *h = f->held;
	char path[64];
	struct dirent *d;
	int asked = 0, error = 0;
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%d/task", (int)f->pid);
	dir = opendir(path);
	while (dir && h->stops < THREADS_MOST && (d = readdir(dir))) {
		pid_t tid = atoi(d->d_name);
		struct injection *i;

		if (tid <= 0 || find_stop(h, tid))
			continue;
		i = add_stop(h);
		if (!i)
			break;
		error = injection_interrupt(i, f->pid, tid);
		if (error) {
			i->tid = 0;
			drop_stop(h, h->stops - 1);
		} else {
			asked++;
		}
	}
	if (dir)
		closedir(dir);
	errno = error ? error : ESRCH;
	return asked || h->stops ? asked : -1;
}

/* Waits for the threads from the first'th on. One that had a signal to take runs on, and is asked again. */
static void await_new(struct freeze *f, size_t first)
{
	struct freeze_held *h = f->held;

	for (size_t at = first; at < h->stops;) {
		int error = injection_await(h->stop[at]);

		if (error && error != EAGAIN)
			drop_stop(h, at);
		else
			at++;
	}
}

static bool stop_all(struct freeze *f, char *why, size_t size)
{
	struct freeze_held *h = f->held;

	for (unsigned int round = 0; round < ROUNDS_MOST; round++) {
		size_t before = h->stops;
		int asked = interrupt_new(f);

		if (asked < 0) {
			target_process_explain(f->pid, errno, why, size);
			return false;
		}
		if (!asked)
			break;
		await_new(f, before);
	}
	return true;
}

static void bury(struct freeze_held *h, bool is_first)
{
	for (size_t i = 0; i < h->stops; i++)
		if ((h->stop[i]->tid == h->stop[i]->pid) == is_first)
			injection_bury(h->stop[i]);
}

/* They may be killed in between: by an exit() that goes on in the first of them. */
static void release_all(struct freeze *f)
{
	struct freeze_held *h = f->held;

	for (size_t at = 0; at < h->stops; at++)
		injection_release(h->stop[at]);
	bury(h, false);
	bury(h, true);
	for (size_t at = 0; at < h->stops;)
		if (h->stop[at]->released)
			drop_stop(h, at);
		else
			at++;
}

void freeze_tend(struct freeze *f)
{
	struct freeze_held *h = f->held;

	for (size_t at = 0; h && at < h->stops;)
		if (!h->stop[at]->stopped && injection_let_go(h->stop[at]->tid))
			drop_stop(h, at);
		else
			at++;
}

/* ---- registers ---- */

static bool take_all_registers(struct freeze *f)
{
	struct freeze_held *h = f->held;

	f->thread = calloc(h->stops + 1, sizeof(*f->thread));
	if (!f->thread)
		return false;
	for (size_t i = 0; i < h->stops; i++)
		if (h->stop[i]->stopped) {
			struct frozen_thread *t = &f->thread[f->threads++];

			t->tid = h->stop[i]->tid;
			t->thread_pointer =
			    injection_registers(h->stop[i], t->registers, t->words, &t->word_count);
		}
	f->unstopped = h->stops - f->threads;
	return true;
}

/* ---- the copy ---- */

static int find_code(Dwfl_Module *module, void **user, const char *name, Dwarf_Addr start, void *to)
{
	struct freeze_held *h = to;

	(void)user, (void)name, (void)start;
	if (!h->syscall_at)
		h->syscall_at =
		    target_code_bytes(module, injection_syscall, injection_syscall_size);
	if (!h->sigreturn_at)
		h->sigreturn_at =
		    target_code_bytes(module, injection_sigreturn, injection_sigreturn_size);
	if (!h->exit_at)
		h->exit_at = target_code_function(module, "_exit");
	return h->syscall_at && h->sigreturn_at && h->exit_at ? DWARF_CB_ABORT : DWARF_CB_OK;
}

/* Before anything is stopped: this takes longest. */
static bool find_codes(struct freeze *f)
{
	struct target_code code;

	if (!target_code_open_any(&code, f->pid))
		return false;
	dwfl_getmodules(code.dwfl, find_code, f->held, 0);
	target_code_close(&code);
	return f->held->syscall_at && f->held->sigreturn_at && f->held->exit_at;
}

static bool open_files(struct freeze *f, pid_t pid)
{
	f->memory = process_file_open(pid, "mem");
	f->maps = process_file_open(pid, "maps");
	if (f->memory < 0 || f->maps < 0)
		return false;
	f->pages = process_file_open(pid, "pagemap");
	return true;
}

static void close_files(struct freeze *f)
{
	if (f->memory >= 0)
		close(f->memory);
	if (f->maps >= 0)
		close(f->maps);
	if (f->pages >= 0)
		close(f->pages);
	f->memory = f->maps = f->pages = -1;
}

static void kill_copy(struct freeze_held *h)
{
	int status;

	if (!h->copy)
		return;
	kill(h->copy, SIGKILL);
	while (waitpid(h->copy, &status, __WALL) == h->copy && WIFSTOPPED(status))
		;
}

/* One of the stopped threads forks. */
static bool make_copy(struct freeze *f)
{
	struct freeze_held *h = f->held;
	int error = ESRCH;

	for (size_t i = 0; i < h->stops && !h->copy; i++) {
		struct injection *stop = h->stop[i];

		if (!stop->stopped ||
		    !target_process_has_room(f->pid, injection_stack(stop), STACK_ROOM))
			continue;
		stop->sigreturn = h->sigreturn_at;
		error = injection_fork(stop, h->syscall_at, h->exit_at, &h->copy);
		if (error && error != ESRCH)
			break;
	}
	if (h->copy && open_files(f, h->copy)) {
		injection_copy_calls(h->copy, h->syscall_at, SYS_prctl, PR_SET_DUMPABLE, 0);
		return true;
	}
	snprintf(f->why_no_copy, sizeof(f->why_no_copy), "it could not fork: %s",
		 strerror(h->copy ? errno : error));
	return false;
}

static bool reap_by(struct freeze *f, pid_t tid)
{
	struct freeze_held *h = f->held;
	struct injection *i = add_stop(h);
	int error = i ? injection_stop(i, f->pid, tid) : ENOMEM;
	bool reaped = false;

	if (!i || error == EAGAIN) /* it stops later */
		return false;
	if (!error) {
		i->sigreturn = h->sigreturn_at;
		reaped = target_process_has_room(f->pid, injection_stack(i), STACK_ROOM) &&
			 injection_reap(i, h->syscall_at, h->copy) != ESRCH;
		injection_release(i);
		injection_bury(i);
	}
	drop_stop(h, h->stops - 1);
	return reaped;
}

/* A thread of the program waits for the copy, which no other wait() of it has seen. */
static void reap_copy(struct freeze *f)
{
	bool reaped = false;

	for (unsigned int try = 0; try < REAP_TRIES && !reaped; try++) {
		char path[64];
		struct dirent *d;
		DIR *dir;

		snprintf(path, sizeof(path), "/proc/%d/task", (int)f->pid);
		dir = opendir(path);
		if (!dir)
			break;
		while (!reaped && (d = readdir(dir))) {
			pid_t tid = atoi(d->d_name);

			reaped = tid > 0 && !find_stop(f->held, tid) && reap_by(f, tid);
		}
		closedir(dir);
		if (!reaped)
			clock_wait(REAP_PAUSE_NS);
	}
}

/* ---- all of it ---- */

static void forget(struct freeze *f)
{
	close_files(f);
	free(f->thread);
	f->thread = NULL;
	if (f->held) {
		for (size_t i = 0; i < f->held->stops; i++) {
			injection_let_go_later(f->held->stop[i]->tid);
			free(f->held->stop[i]);
		}
		free(f->held->stop);
		free(f->held);
		f->held = NULL;
	}
}

static bool fails(char *why, size_t size, const char *text)
{
	snprintf(why, size, "%s", text);
	return false;
}

/* Memory that fork() does not copy is not in the copy. */
static bool add_missing(struct freeze *f, const struct freeze_wishes *wishes, char *why,
			size_t size)
{
	unsigned long long mapped, copied, resident, copied_resident, pages;
	double expected;

	read_sizes(f->pid, &mapped, &resident);
	read_sizes(f->held->copy, &copied, &copied_resident);
	if (!wishes->copy_missing || mapped <= copied)
		return true;
	/* Pages that were never touched are not copied. The copy has no pages of files in memory at first,
	 * so this may be too many. */
	pages = resident > copied_resident ? resident - copied_resident : 0;
	expected = gib_of_pages(pages < mapped - copied ? pages : mapped - copied) * COPY_GIB_NS;
	if (wishes->most_stop_ns && expected > (double)wishes->most_stop_ns)
		return fails(
		    why, size,
		    "memory that fork does not copy (MADV_DONTFORK) would have to be copied, "
		    "so it would be stopped for longer than --max-stop");
	return wishes->copy_missing(wishes->context, f) ||
	       fails(why, size, "there is too little memory for a copy of its memory");
}

/* The threads are stopped. */
static bool freeze_stopped(struct freeze *f, const struct freeze_wishes *wishes, bool may_copy,
			   char *why, size_t size)
{
	f->frozen_ns = now_ns();
	if (!take_all_registers(f))
		return fails(why, size, "out of memory");
	if (!f->threads)
		return fails(why, size, "none of its threads could be stopped; try again");
	f->how = FROZEN_HELD;
	if (wishes->hold)
		return open_files(f, f->pid) || fails(why, size, "its memory cannot be read");
	f->how = FROZEN_COPY;
	if (may_copy && make_copy(f))
		return add_missing(f, wishes, why, size);
	f->how = FROZEN_MEMORY;
	close_files(f);
	if (!wishes->copy_memory || !open_files(f, f->pid))
		return fails(why, size, *f->why_no_copy ? f->why_no_copy : "no copy can be made");
	if (wishes->most_stop_ns)
		return fails(why, size,
			     *f->why_no_copy ? f->why_no_copy
					     : "no copy can be made of it, so it would be stopped "
					       "for longer than --max-stop");
	return wishes->copy_memory(wishes->context, f) ||
	       fails(why, size, "there is too little memory for a copy of its memory");
}

static bool refuse_long(struct freeze *f, const struct freeze_wishes *wishes, char *why,
			size_t size)
{
	int64_t expected = freeze_expect_ns(f->pid);

	if (!wishes->most_stop_ns || expected <= wishes->most_stop_ns)
		return false;
	snprintf(why, size,
		 "the program would be stopped for about %.0f ms, which is more than --max-stop "
		 "allows; --no-stop reads it while it runs",
		 (double)expected / 1e6);
	return true;
}

bool freeze_begin(struct freeze *f, pid_t pid, const struct freeze_wishes *wishes, char *why,
		  size_t size)
{
	bool may_copy = true, good;
	int64_t begin;

	*f = (struct freeze){.pid = pid, .memory = -1, .maps = -1, .pages = -1};
	if (!target_process_check_reading(pid, &may_copy, why, size))
		return false;
	if (wishes->no_stop) {
		f->how = FROZEN_RUNNING;
		if (open_files(f, pid))
			return true;
		target_process_explain(pid, errno == EACCES ? EPERM : errno, why, size);
		forget(f);
		return false;
	}
	if (!injection_works_here)
		return fails(why, size,
			     "stopping it is for x86-64; --no-stop reads it while it "
			     "runs");
	if (refuse_long(f, wishes, why, size))
		return false;
	f->held = calloc(1, sizeof(*f->held));
	if (!f->held)
		return fails(why, size, "out of memory");
	if (!may_copy && !wishes->hold)
		snprintf(f->why_no_copy, sizeof(f->why_no_copy),
			 "it runs in a sandbox or with a shadow stack, so nothing was run in it");
	else if (!wishes->hold && !find_codes(f)) {
		may_copy = false;
		snprintf(f->why_no_copy, sizeof(f->why_no_copy),
			 "its code was not found, through which it would fork");
	}
	begin = now_ns();
	good = stop_all(f, why, size) && freeze_stopped(f, wishes, may_copy, why, size);
	if (!good || !wishes->hold)
		release_all(f);
	f->stopped_ns = now_ns() - begin;
	if (!good)
		freeze_end(f);
	return good;
}

void freeze_end(struct freeze *f)
{
	bool had_copy = f->held && f->held->copy;

	close_files(f);
	if (had_copy)
		kill_copy(f->held);
	if (had_copy)
		reap_copy(f);
	if (f->held && f->how == FROZEN_HELD)
		release_all(f);
	freeze_tend(f);
	forget(f);
}
