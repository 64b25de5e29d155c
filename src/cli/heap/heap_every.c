/* SPDX-License-Identifier: Apache-2.0 */
/* Pictures again and again: see heap_every.h. */
#include "terminal/border.h"
#include "cli/heap/heap_every.h"

#include <errno.h>
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "answer/figures.h"
#include "answer/text_format.h"
#include "base/system/clock.h"

#define SECOND_NS 1000000000ll

struct watching {
	const struct heap_every *e;
	struct heap_growth *g;
	pid_t pid;
	int fd; /* the process's, which keeps its number; -1: an old kernel */
	int64_t begin_ns;
};

static bool has_ended(const struct watching *w)
{
	struct pollfd fd = {.fd = w->fd, .events = POLLIN};

	if (w->fd < 0)
		return kill(w->pid, 0) && errno == ESRCH;
	return poll(&fd, 1, 0) > 0;
}

static void show_wait(const struct watching *w, int64_t left_ns)
{
	char text[128], time[FIGURE_TEXT];

	text_duration(time, sizeof(time),
		      (double)((left_ns + SECOND_NS - 1) / SECOND_NS * SECOND_NS));
	border_replace_line(text_format(
	    text, sizeof(text), "%zu %s; the next one in %s; Ctrl-C ends and shows what grew",
	    w->g->moments, w->g->moments == 1 ? "picture" : "pictures", time));
}

/* Until that moment, the end of the process or a signal. */
static void wait_until(const struct watching *w, int64_t until_ns)
{
	static const int numbers[] = {SIGINT, SIGTERM, SIGHUP};
	struct pollfd fd = {.fd = w->fd, .events = POLLIN};
	sigset_t set, old;

	sigemptyset(&set);
	for (size_t i = 0; i < sizeof(numbers) / sizeof(*numbers); i++)
		sigaddset(&set, numbers[i]);
	/* A signal between the look and the wait must end the wait. */
	sigprocmask(SIG_BLOCK, &set, &old);
	while (!*w->e->stopped && !has_ended(w)) {
		int64_t left = until_ns - now_ns(), now = left;
		struct timespec time;

		if (left <= 0)
			break;
		if (w->e->shows)
			show_wait(w, left);
		if (now > SECOND_NS && (w->e->shows || w->fd < 0))
			now = SECOND_NS;
		time = (struct timespec){now / SECOND_NS, now % SECOND_NS};
		ppoll(&fd, 1, &time, &old);
	}
	sigprocmask(SIG_SETMASK, &old, NULL);
}

/* The next moment of the raster that is not over, and the end of the time in any case. */
static int64_t next_moment(const struct watching *w, int64_t now)
{
	const struct heap_every *e = w->e;
	int64_t next = ((now - w->begin_ns) / e->every_ns + 1) * e->every_ns;

	if (e->for_ns && next > e->for_ns)
		next = e->for_ns;
	return w->begin_ns + next;
}

static bool watch(struct watching *w, const struct picture_wishes *wishes, char *why, size_t size)
{
	const struct heap_every *e = w->e;

	while (!*e->stopped) {
		int64_t began = now_ns();
		struct picture p;
		bool good;

		if (!picture_of_process(&p, w->pid, wishes, why, size))
			return w->g->moments && (*e->stopped || has_ended(w));
		if (!w->g->moments)
			w->begin_ns = began;
		good = heap_growth_add(w->g, &p, began - w->begin_ns);
		picture_free(&p);
		if (!good) {
			text_format(why, size, "out of memory");
			return false;
		}
		if (e->for_ns && began - w->begin_ns >= e->for_ns)
			return true;
		wait_until(w, next_moment(w, now_ns()));
		if (has_ended(w))
			return true;
	}
	return true;
}

bool heap_every_run(const struct heap_every *e, struct heap_growth *g, pid_t pid,
		    const struct picture_wishes *wishes, char *why, size_t size)
{
	struct watching w = {.e = e, .g = g, .pid = pid, .fd = -1};
	bool good;

#ifdef SYS_pidfd_open
	w.fd = (int)syscall(SYS_pidfd_open, pid, 0);
#endif
	good = watch(&w, wishes, why, size);
	if (w.fd >= 0)
		close(w.fd);
	return good;
}
