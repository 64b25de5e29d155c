/* SPDX-License-Identifier: Apache-2.0 */
/* Messages to systemd: see notify.h. */
#include "fleet/host/notify.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define MESSAGE_BYTES 512

void notify(const char *format, ...)
{
	struct sockaddr_un to = {.sun_family = AF_UNIX};
	const char *name = getenv("NOTIFY_SOCKET");
	size_t length = name ? strlen(name) : 0;
	char message[MESSAGE_BYTES];
	va_list list;
	int fd;

	if (!length || length >= sizeof(to.sun_path))
		return;
	memcpy(to.sun_path, name, length);
	if (*name == '@') /* an abstract one */
		to.sun_path[0] = 0;
	va_start(list, format);
	vsnprintf(message, sizeof(message), format, list);
	va_end(list);
	fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return;
	/* A receiver that does not listen misses it. */
	(void)!sendto(fd, message, strlen(message), MSG_NOSIGNAL, (struct sockaddr *)&to,
		      (socklen_t)(offsetof(struct sockaddr_un, sun_path) + length));
	close(fd);
}

int64_t notify_watchdog_ns(void)
{
	const char *time = getenv("WATCHDOG_USEC"), *pid = getenv("WATCHDOG_PID");
	long long us = time ? strtoll(time, NULL, 10) : 0;

	if (us <= 0 || us > INT64_MAX / 1000 || (pid && strtol(pid, NULL, 10) != getpid()))
		return 0;
	return us * 1000 / 2;
}
