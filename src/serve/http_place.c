/* SPDX-License-Identifier: Apache-2.0 */
/* Where a server listens: see http_place.h. */
#include "serve/http_place.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- reading ---- */

static bool read_port(const char *text, in_port_t *port)
{
	size_t digits = strspn(text, "0123456789");
	unsigned long number = strtoul(text, NULL, 10);

	*port = htons((uint16_t)number);
	return digits && digits <= 5 && !text[digits] && number <= UINT16_MAX;
}

static bool take_v4(const char *host, const char *port, struct http_place *place)
{
	struct sockaddr_in *to = &place->address.v4;

	*to = (struct sockaddr_in){.sin_family = AF_INET};
	if (!strcmp(host, "localhost"))
		host = "127.0.0.1";
	place->size = sizeof(*to);
	if (!read_port(port, &to->sin_port) || inet_pton(AF_INET, host, &to->sin_addr) != 1)
		return false;
	place->loopback = to->sin_addr.s_addr == htonl(INADDR_LOOPBACK);
	return true;
}

static bool take_v6(const char *host, const char *port, struct http_place *place)
{
	struct sockaddr_in6 *to = &place->address.v6;

	*to = (struct sockaddr_in6){.sin6_family = AF_INET6};
	place->size = sizeof(*to);
	if (!read_port(port, &to->sin6_port) || inet_pton(AF_INET6, host, &to->sin6_addr) != 1)
		return false;
	place->loopback = IN6_IS_ADDR_LOOPBACK(&to->sin6_addr);
	return true;
}

static bool take_unix(const char *path, struct http_place *place)
{
	struct sockaddr_un *to = &place->address.un;

	*to = (struct sockaddr_un){.sun_family = AF_UNIX};
	place->size = sizeof(*to);
	if (*path != '/' || strlen(path) >= sizeof(to->sun_path))
		return false;
	strcpy(to->sun_path, path);
	return true;
}

bool http_place_read(const char *text, struct http_place *place)
{
	const char *colon = strrchr(text, ':');
	char host[INET6_ADDRSTRLEN + 2];
	size_t length = colon ? (size_t)(colon - text) : 0;

	*place = (struct http_place){0};
	if (!strncmp(text, "unix:", 5))
		return take_unix(text + 5, place);
	if (!colon)
		return take_v4("127.0.0.1", text, place);
	if (length >= sizeof(host))
		return false;
	memcpy(host, text, length);
	host[length] = 0;
	if (length < 2 || *host != '[' || host[length - 1] != ']')
		return take_v4(host, colon + 1, place);
	host[length - 1] = 0;
	return take_v6(host + 1, colon + 1, place);
}

/* ---- listening ---- */

/* Nobody answers at the path: a server that was killed has left it. */
static void remove_left(const struct http_place *place)
{
	const char *path = place->address.un.sun_path;
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	struct stat status;

	if (fd >= 0 && !lstat(path, &status) && S_ISSOCK(status.st_mode) &&
	    connect(fd, &place->address.any, place->size) && errno == ECONNREFUSED)
		unlink(path);
	if (fd >= 0)
		close(fd);
}

/* Who may connect to a socket of Unix is decided when it gets its path. */
static int bind_unix(int fd, const struct http_place *place)
{
	mode_t before;
	int error;

	remove_left(place);
	before = umask(0117);
	error = bind(fd, &place->address.any, place->size) ? errno : 0;
	umask(before);
	return error;
}

static int bind_to(int fd, const struct http_place *place)
{
	int one = 1;

	if (http_place_is_unix(place))
		return bind_unix(fd, place);
	/* A port that is given is free again as soon as the server before has ended. */
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	return bind(fd, &place->address.any, place->size) ? errno : 0;
}

int http_place_listen(struct http_place *place, int *out)
{
	int fd =
	    socket(place->address.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	socklen_t size = sizeof(place->address);
	int error = fd < 0 ? errno : bind_to(fd, place);

	if (!error && listen(fd, SOMAXCONN))
		error = errno;
	if (!error && !http_place_is_unix(place) && getsockname(fd, &place->address.any, &size))
		error = errno;
	if (error && fd >= 0)
		close(fd);
	else
		*out = fd;
	return error;
}

void http_place_leave(const struct http_place *place)
{
	if (http_place_is_unix(place))
		unlink(place->address.un.sun_path);
}

/* ---- what it is ---- */

uint16_t http_place_port(const struct http_place *place)
{
	if (http_place_is_unix(place))
		return 0;
	return ntohs(place->address.any.sa_family == AF_INET ? place->address.v4.sin_port
							     : place->address.v6.sin6_port);
}

char *http_place_text(const struct http_place *place, char text[HTTP_PLACE_TEXT])
{
	char host[INET6_ADDRSTRLEN] = "";
	bool v4 = place->address.any.sa_family == AF_INET;

	if (http_place_is_unix(place)) {
		snprintf(text, HTTP_PLACE_TEXT, "unix:%s", place->address.un.sun_path);
		return text;
	}
	if (v4)
		inet_ntop(AF_INET, &place->address.v4.sin_addr, host, sizeof(host));
	else
		inet_ntop(AF_INET6, &place->address.v6.sin6_addr, host, sizeof(host));
	snprintf(text, HTTP_PLACE_TEXT, v4 ? "http://%s:%u/" : "http://[%s]:%u/", host,
		 (unsigned int)http_place_port(place));
	return text;
}
