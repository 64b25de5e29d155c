/* SPDX-License-Identifier: Apache-2.0 */
/* Asking the recorder for a spool: see spool_request.h. */
#include "agent/spool_request.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "agent/agent.h"
#include "agent/cpu/sys.h"
#include "agent/namespaces.h"
#include "base/seccomp_filters.h"

#define MOST_SECONDS 2 /* that the program waits for a recorder which does not answer */

/* Signals of a timer can interrupt each wait before its time is over, for ever. */
static uint64_t end_of_waiting(void)
{
	return agent_clock_ns(CLOCK_MONOTONIC) + MOST_SECONDS * 1000000000ull;
}

static bool is_worth_a_try(long result, uint64_t end)
{
	return result == -EINTR && agent_clock_ns(CLOCK_MONOTONIC) < end;
}

static bool set_time_limit(int socket, int option)
{
	const struct timeval time = {.tv_sec = MOST_SECONDS};

	return !sys_failed(
	    sys_call6(SYS_setsockopt, socket, SOL_SOCKET, option, (long)&time, sizeof(time), 0));
}

/* A filter of system calls that the program brings, or gets from what started it, may kill it for a
 * socket. One that the recorder runs under, too, has not killed that for its own. */
static bool may_ask(void)
{
	char text[SECCOMP_STATUS_BYTES];
	size_t used = 0;
	long n, fd;

	if (agent_sandboxed)
		return false;
	fd = sys_openat(AT_FDCWD, "/proc/self/status", O_RDONLY | O_CLOEXEC, 0);
	if (sys_failed(fd))
		return false;
	while ((n = sys_read((int)fd, text + used, sizeof(text) - 1 - used)) > 0) {
		used += (size_t)n;
		if (used == sizeof(text) - 1) { /* many groups, which come before */
			memmove(text, text + used / 2, used - used / 2);
			used -= used / 2;
		}
	}
	sys_close((int)fd);
	text[used] = 0;
	return seccomp_filters(text) == agent_config.seccomp_filters;
}

bool spool_request_is_possible(void)
{
	return *agent_config.handover != 0;
}

static long receive(int socket, struct handover *h)
{
	union {
		struct cmsghdr header;
		char bytes[CMSG_SPACE(sizeof(int))];
	} control;
	struct iovec data = {h, sizeof(*h)};
	struct msghdr message = {.msg_iov = &data,
				 .msg_iovlen = 1,
				 .msg_control = &control,
				 .msg_controllen = sizeof(control)};
	uint64_t end = end_of_waiting();
	long n;
	int fd;

	do
		n = sys_call3(SYS_recvmsg, socket, (long)&message, MSG_CMSG_CLOEXEC);
	while (is_worth_a_try(n, end));
	if (sys_failed(n))
		return n;
	if (message.msg_controllen < CMSG_LEN(sizeof(fd)) ||
	    control.header.cmsg_level != SOL_SOCKET || control.header.cmsg_type != SCM_RIGHTS)
		return n == (long)sizeof(*h) && h->error > 0 ? -h->error : -EPROTO;
	memcpy(&fd, CMSG_DATA(&control.header), sizeof(fd));
	return fd;
}

/* In a folder, or, where that is "", among the abstract names. */
static long connect_to(int socket, const char *folder)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	char *at = address.sun_path;
	size_t length = strlen(folder);
	uint64_t end = end_of_waiting();
	long result;

	memcpy(at, folder, length);
	at += length ? length : 1;
	memcpy(at, HANDOVER_SOCKET, sizeof(HANDOVER_SOCKET) - 1);
	at += sizeof(HANDOVER_SOCKET) - 1;
	memcpy(at, agent_config.handover, HANDOVER_HALF_DIGITS);
	at += HANDOVER_HALF_DIGITS + (length != 0);
	do
		result = sys_call3(SYS_connect, socket, (long)&address, at - (char *)&address);
	while (is_worth_a_try(result, end));
	return result;
}

/* When the recorder has died, another user may have taken its name. In another user namespace, its user has
 * another number or none, so nothing can be told there. */
static bool is_recorders(int socket)
{
	struct ucred peer;
	socklen_t size = sizeof(peer);

	if (!agent_config.recorder_users ||
	    namespace_of("/proc/self/ns/user") != agent_config.recorder_users)
		return true;
	return !sys_failed(sys_call6(SYS_getsockopt, socket, SOL_SOCKET, SO_PEERCRED, (long)&peer,
				     (long)&size, 0)) &&
	       peer.uid == agent_config.recorder_owner;
}

/* A socket that the recorder is at the other end of, or -errno. */
static long call_recorder(void)
{
	long socket, result = -EINVAL;

	if (!may_ask())
		return -EPERM;
	socket = sys_call3(SYS_socket, AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (sys_failed(socket))
		return socket;
	if (set_time_limit((int)socket, SO_SNDTIMEO) && set_time_limit((int)socket, SO_RCVTIMEO))
		result = connect_to((int)socket, "");
	if (sys_failed(result))
		result = connect_to((int)socket, HANDOVER_FOLDER);
	if (!sys_failed(result) && !is_recorders((int)socket))
		result = -EPERM;
	if (!sys_failed(result))
		return socket;
	sys_close((int)socket);
	return result;
}

static long converse(int socket, struct handover *h)
{
	long result;

	memcpy(h->secret, agent_config.handover + HANDOVER_HALF_DIGITS, HANDOVER_HALF_DIGITS);
	result = sys_call6(SYS_sendto, socket, (long)h, sizeof(*h), MSG_NOSIGNAL, 0, 0);
	return sys_failed(result) ? result : receive(socket, h);
}

bool spool_request_is_heard(void)
{
	long socket = spool_request_is_possible() ? call_recorder() : -EPERM;

	if (sys_failed(socket))
		return false;
	sys_close((int)socket);
	return true;
}

long spool_request_send(struct handover *h)
{
	long fd, socket = call_recorder();

	if (sys_failed(socket))
		return socket;
	fd = converse((int)socket, h);
	sys_close((int)socket);
	if (!sys_failed(fd))
		h->name[sizeof(h->name) - 1] = 0;
	return fd;
}
