/* SPDX-License-Identifier: Apache-2.0 */
/* Loading the agent into a program that runs: see attach.h. */
#include "attach/attach.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "attach/injection.h"
#include "attach/safe_point.h"
#include "attach/target_code.h"
#include "attach/target_process.h"
#include "base/system/clock.h"
#include "format/attachment.h"

#define THREADS_MOST 4096u
#define STACK_ROOM   (128u << 10) /* below the stack pointer, for the loader and the agent */
#define FIRST_PAUSE  2000000l	  /* ns between rounds over all threads */
#define LAST_PAUSE   100000000l

/* ---- one request ---- */

struct request {
	pid_t pid;
	const char *library, *settings; /* settings NULL: detach */
	int64_t end_ns;
	struct target_code code;
	uint64_t sigreturn;
	struct attach_result *result;
};

static bool fail(struct request *q, const char *format, ...) __attribute__((format(printf, 2, 3)));

static bool fail(struct request *q, const char *format, ...)
{
	va_list list;

	va_start(list, format);
	vsnprintf(q->result->why, ATTACH_WHY, format, list);
	va_end(list);
	return false;
}

/* ---- its threads, the best first ---- */

struct candidate {
	pid_t tid;
	int rank;
};

/* A thread that waits, and is not the main one, is missed least. -1: it cannot be stopped. */
static int rank_of(pid_t pid, pid_t tid)
{
	char path[64], text[128] = "";
	FILE *file;
	size_t n;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/stat", (int)pid, (int)tid);
	file = fopen(path, "re");
	if (!file)
		return -1;
	n = fread(text, 1, sizeof(text) - 1, file);
	text[n] = 0;
	fclose(file);
	switch (strrchr(text, ')') ? strrchr(text, ')')[2] : 'X') {
	case 'S':
		return tid == pid;
	case 'R':
		return 2 + (tid == pid);
	default: /* in the disk's driver, vfork, stopped, ended */
		return -1;
	}
}

static int compare_candidates(const void *a, const void *b)
{
	const struct candidate *x = a, *y = b;

	return x->rank - y->rank;
}

static size_t list_threads(pid_t pid, struct candidate *list)
{
	char path[64];
	struct dirent *d;
	size_t count = 0;
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
	dir = opendir(path);
	while (dir && count < THREADS_MOST && (d = readdir(dir))) {
		pid_t tid = atoi(d->d_name);
		int rank = tid > 0 ? rank_of(pid, tid) : -1;

		if (rank >= 0)
			list[count++] = (struct candidate){tid, rank};
	}
	if (dir)
		closedir(dir);
	qsort(list, count, sizeof(*list), compare_candidates);
	return count;
}

/* ---- one thread ---- */

/* Addresses of the library's functions, once it is loaded. */
static uint64_t function_of(struct request *q, const char *name)
{
	Dwfl_Module *module = target_code_module(&q->code, q->library);

	return module ? target_code_function(module, name) : 0;
}

static const char own_malloc[] = "the executable brings its own malloc, whose calls cannot be "
				 "redirected while it runs; 'mayfly record' sees all calls of "
				 "jemalloc and tcmalloc, and of another one those of libraries";

static bool say_result(struct request *q, int64_t value)
{
	int error = (int)(value >> ATTACHMENT_ERROR_SHIFT);

	switch ((enum attachment)(value & ((1 << ATTACHMENT_ERROR_SHIFT) - 1))) {
	case ATTACHMENT_DONE:
		return true;
	case ATTACHMENT_THERE:
		q->result->there = true;
		return fail(q, "%s",
			    q->settings ? ATTACH_RECORDED
					: "it is not being recorded by 'mayfly attach'");
	case ATTACHMENT_OWN_MALLOC:
		return fail(q, "%s", own_malloc);
	case ATTACHMENT_NO_SPOOL:
		return fail(q, "it cannot open the recording's file: %s",
			    error ? strerror(error) : "no room");
	case ATTACHMENT_OFF:
		return fail(q,
			    "the agent cannot work in it (too little memory, or a C library older "
			    "than glibc 2.35)");
	case ATTACHMENT_LOST:
		return fail(q,
			    "somebody emptied the recording's file meanwhile, or its disk failed");
	case ATTACHMENT_GUARDED: /* the call has not returned: said by injection_call() */
		break;
	case ATTACHMENT_FORK:
		return fail(q,
			    "it is a copy of a recorded process that has not settled; try again");
	}
	return fail(q, "the agent in it is of another version of mayfly; start the program again");
}

/* The thread is stopped at a safe point. */
static bool call_agent(struct request *q, struct injection *i)
{
	size_t bytes = sizeof(struct attachment_call) + (q->settings ? strlen(q->settings) : 0) + 1;
	uint64_t function = function_of(q, q->settings ? ATTACH_FUNCTION : DETACH_FUNCTION);
	struct attachment_call *call;
	bool good = false;
	int error;

	if (!function)
		return fail(q, "the library %s has no function %s", q->library, ATTACH_FUNCTION);
	call = calloc(1, bytes);
	if (!call)
		return fail(q, "out of memory");
	if (q->settings)
		strcpy(call->settings, q->settings);
	call->result = -1;
	i->guarded = ATTACHMENT_GUARDED;
	error = injection_call(i, function, call, bytes, 0);
	if (error == EFAULT)
		fail(q, "the agent has failed in it, and was taken out of its way");
	else if (error)
		fail(q, "a call in it has failed: %s", strerror(error));
	else
		good = say_result(q, call->result);
	free(call);
	return good;
}

static bool load_library(struct request *q, struct injection *i)
{
	uint64_t dlopen_at = target_code_function(q->code.libc, "dlopen");
	char path[PATH_MAX];
	int error;

	if (target_code_module(&q->code, q->library))
		return true;
	if (!dlopen_at)
		return fail(q, "its C library is older than glibc 2.34");
	snprintf(path, sizeof(path), "%s", q->library);
	error = injection_call(i, dlopen_at, path, strlen(path) + 8, RTLD_NOW | RTLD_LOCAL);
	if (error)
		return fail(q, "loading the agent has failed: %s", strerror(error));
	/* What is loaded has changed. */
	target_code_close(&q->code);
	if (target_code_open(&q->code, q->pid) && target_code_module(&q->code, q->library))
		return true;
	return fail(
	    q,
	    "its loader did not load %s: no room for thread-local variables, or the library "
	    "is for another C library",
	    q->library);
}

enum outcome { OUTCOME_NOT_SAFE, OUTCOME_REFUSED, OUTCOME_DONE, OUTCOME_FAILED };

/* When the kernel refuses the process, it refuses all of its threads each time. */
#define REFUSALS 3

static enum outcome try_thread(struct request *q, pid_t tid, enum safe_point_demand demand)
{
	static struct injection i;
	enum outcome outcome = OUTCOME_NOT_SAFE;
	int error = injection_stop(&i, q->pid, tid);

	if (error == ENOTSUP) {
		target_process_explain(q->pid, error, q->result->why, ATTACH_WHY);
		return OUTCOME_FAILED;
	}
	if (error == EAGAIN)
		injection_let_go_later(tid);
	/* The kernel says the same of a thread that has just ended. */
	if (error)
		return error == EPERM && rank_of(q->pid, tid) >= 0 ? OUTCOME_REFUSED
								   : OUTCOME_NOT_SAFE;
	i.sigreturn = q->sigreturn;
	if (target_process_has_room(q->pid, injection_stack(&i), STACK_ROOM) &&
	    safe_point_here(&q->code, tid, i.waits, demand)) {
		bool good = (!q->settings || load_library(q, &i)) && call_agent(q, &i);

		outcome = good ? OUTCOME_DONE : OUTCOME_FAILED;
	}
	injection_release(&i);
	if (i.stopped_ns > q->result->stopped_ns)
		q->result->stopped_ns = i.stopped_ns;
	return outcome;
}

/* ---- until one is safe ---- */

static bool open_code(struct request *q)
{
	target_code_close(&q->code);
	if (!target_code_open(&q->code, q->pid) || !safe_point_begin(&q->code, q->pid))
		return fail(q, "its libraries cannot be read");
	q->sigreturn =
	    target_code_bytes(q->code.libc, injection_sigreturn, injection_sigreturn_size);
	return q->sigreturn ||
	       fail(q, "its C library has another signal return than is known here");
}

/* All of its code would count as the allocator's, and no thread be outside of that. */
static bool brings_malloc(const struct request *q)
{
	Dwfl_Module *program = target_code_program(&q->code, q->pid);

	return program && target_code_exports(program, "malloc");
}

static bool run(struct request *q)
{
	static struct candidate list[THREADS_MOST];
	int64_t half = q->end_ns - (q->end_ns - now_ns()) / 2;
	long pause = FIRST_PAUSE;
	int refusals = 0;

	for (;;) {
		enum safe_point_demand demand = now_ns() < half ? SAFE_WHOLE : SAFE_VISIBLE;
		size_t count = list_threads(q->pid, list), refused = 0;

		injection_tend_late();
		if (!open_code(q))
			return false;
		if (!q->settings && !target_code_module(&q->code, q->library)) {
			q->result->there = true;
			return fail(q, "it is not being recorded by 'mayfly attach'");
		}
		if (q->settings && brings_malloc(q))
			return fail(q, "%s", own_malloc);
		for (size_t i = 0; i < count; i++) {
			enum outcome outcome = try_thread(q, list[i].tid, demand);

			if (outcome == OUTCOME_DONE || outcome == OUTCOME_FAILED)
				return outcome == OUTCOME_DONE;
			refused += outcome == OUTCOME_REFUSED;
		}
		refusals = count && refused == count ? refusals + 1 : 0;
		if (refusals == REFUSALS) {
			target_process_explain(q->pid, EPERM, q->result->why, ATTACH_WHY);
			return false;
		}
		if (!count && target_process_ended(q->pid)) {
			target_process_explain(q->pid, ESRCH, q->result->why, ATTACH_WHY);
			return false;
		}
		if (now_ns() > q->end_ns)
			break;
		clock_wait(pause);
		pause = 2 * pause < LAST_PAUSE ? 2 * pause : LAST_PAUSE;
	}
	return fail(q,
		    "no thread of it was found outside its allocator and its loader; try again, or "
		    "with a longer --timeout");
}

/* ---- in a process of its own: its end lets go of every thread, whatever happens ---- */

static bool perform(struct request *q)
{
	int ends[2], status;
	pid_t helper;
	ssize_t n;

	*q->result = (struct attach_result){0};
	if (!injection_works_here)
		return fail(q, "attaching is for x86-64; start the program under 'mayfly record'");
	if (!target_process_check(q->pid, q->library, q->result->why, ATTACH_WHY))
		return false;
	if (pipe(ends))
		return fail(q, "no more files can be opened: %s", strerror(errno));
	fflush(NULL);
	helper = fork();
	if (!helper) {
		run(q);
		n = write(ends[1], q->result, sizeof(*q->result));
		_exit(n != (ssize_t)sizeof(*q->result));
	}
	close(ends[1]);
	do
		n = helper > 0 ? read(ends[0], q->result, sizeof(*q->result)) : 0;
	while (n < 0 && errno == EINTR);
	close(ends[0]);
	while (helper > 0 && waitpid(helper, &status, 0) < 0 && errno == EINTR)
		;
	if (n != (ssize_t)sizeof(*q->result))
		return fail(q, "the process that attaches has failed");
	q->result->why[ATTACH_WHY - 1] = 0;
	return !*q->result->why;
}

bool attach_load(pid_t pid, const char *library, const char *settings, int64_t timeout_ns,
		 struct attach_result *result)
{
	struct request q = {.pid = pid,
			    .library = library,
			    .settings = settings,
			    .end_ns = now_ns() + timeout_ns,
			    .result = result};

	return perform(&q);
}

bool attach_unload(pid_t pid, const char *library, int64_t timeout_ns, struct attach_result *result)
{
	struct request q = {
	    .pid = pid, .library = library, .end_ns = now_ns() + timeout_ns, .result = result};

	return perform(&q);
}
