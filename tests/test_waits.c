/* SPDX-License-Identifier: Apache-2.0 */
/* The recorder waits without using the CPU. */
#include "record/session.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "test.h"

#define MS 1000000

/* With --heap-at exit, it looks after programs that wait for it more often. */
static void a_short_wait_is_one(void)
{
	static struct record r;
	int64_t begin = now_ns();

	r.child.signals = -1;
	r.serving = 1;
	record_wait_for_signal(&r, 4);
	CHECK(now_ns() - begin >= 4 * MS);
	begin = now_ns();
	record_wait_for_signal(&r, 23);
	CHECK(now_ns() - begin >= 22 * MS);
}

static int64_t cpu_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return t.tv_sec * 1000000000ll + t.tv_nsec;
}

static bool call(int fd, const struct handover_server *s)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int length = snprintf(address.sun_path + 1, sizeof(address.sun_path) - 1,
			      HANDOVER_SOCKET "%.*s", (int)HANDOVER_HALF_DIGITS, s->key);

	return !connect(fd, (struct sockaddr *)&address,
			(socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length));
}

/* Who calls meanwhile is answered when there are some again. */
static void no_descriptor_is_left(void)
{
	static struct handover_server s;
	struct rlimit before, few;
	struct handover h = {0};
	int64_t begin, used;
	int fd = socket(AF_UNIX, SOCK_SEQPACKET, 0);

	CHECK(handover_open(&s));
	s.file = "/nowhere/t.mayfly";
	handover_start(&s);
	getrlimit(RLIMIT_NOFILE, &before);
	few = before;
	few.rlim_cur = 3;
	setrlimit(RLIMIT_NOFILE, &few);
	CHECK(call(fd, &s));
	begin = now_ns();
	used = cpu_ns();
	nanosleep(&(struct timespec){.tv_nsec = 300 * MS}, NULL);
	used = cpu_ns() - used;
	CHECK(used < (now_ns() - begin) / 30, "%lld ns of CPU", (long long)used);
	setrlimit(RLIMIT_NOFILE, &before);
	CHECK(send(fd, &h, sizeof(h), 0) == (ssize_t)sizeof(h));
	CHECK(recv(fd, &h, sizeof(h), 0) == (ssize_t)sizeof(h) && h.error == EACCES);
	close(fd);
	handover_stop(&s);
}

int main(void)
{
	RUN(a_short_wait_is_one);
	RUN(no_descriptor_is_left);
	DONE();
}
