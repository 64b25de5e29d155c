/* SPDX-License-Identifier: Apache-2.0 */
/* Addresses and sockets: see address.h. */
#include "stream/address.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#define MOST_HOST 256
#define BACKLOG	  16

static const char *address_read_path(struct stream_address *a, const char *path)
{
	struct sockaddr_un *name = (struct sockaddr_un *)&a->at[0].name;

	if (!*path)
		return "the path is empty";
	if (strlen(path) >= sizeof(name->sun_path))
		return "the path is too long for a socket (107 bytes)";
	name->sun_family = AF_UNIX;
	strcpy(name->sun_path, path);
	strcpy(a->path, path);
	a->at[0].size = sizeof(*name);
	a->count = 1;
	a->local = true;
	return NULL;
}

static bool is_loopback(const struct sockaddr *name)
{
	if (name->sa_family == AF_INET) {
		const struct sockaddr_in *v4 = (const struct sockaddr_in *)name;

		return ntohl(v4->sin_addr.s_addr) >> 24 == 127;
	}
	if (name->sa_family == AF_INET6) {
		const struct in6_addr *v6 = &((const struct sockaddr_in6 *)name)->sin6_addr;

		return IN6_IS_ADDR_LOOPBACK(v6) ||
		       (IN6_IS_ADDR_V4MAPPED(v6) && v6->s6_addr[12] == 127);
	}
	return false;
}

static const char *resolve(struct stream_address *a, const char *host, const char *port)
{
	struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM}, *list;
	int error = getaddrinfo(host, port, &hints, &list);

	if (error)
		return error == EAI_SYSTEM ? strerror(errno) : gai_strerror(error);
	a->local = true;
	for (struct addrinfo *i = list; i && a->count < STREAM_ADDRESSES; i = i->ai_next) {
		if (i->ai_addrlen > sizeof(a->at[0].name))
			continue;
		memcpy(&a->at[a->count].name, i->ai_addr, i->ai_addrlen);
		a->at[a->count++].size = i->ai_addrlen;
		a->local &= is_loopback(i->ai_addr);
	}
	freeaddrinfo(list);
	return a->count ? NULL : "the host has no address";
}

static bool is_port(const char *text)
{
	unsigned int port = 0;

	if (!*text || strlen(text) > 5 || strspn(text, "0123456789") != strlen(text))
		return false;
	for (; *text; text++)
		port = port * 10 + (unsigned int)(*text - '0');
	return port > 0 && port < 65536;
}

const char *stream_address_read(struct stream_address *a, const char *text)
{
	const char *colon = strrchr(text, ':');
	char host[MOST_HOST];
	size_t length;

	memset(a, 0, sizeof(*a));
	if (!strncmp(text, "unix:", 5))
		return address_read_path(a, text + 5);
	if (strchr(text, '/'))
		return address_read_path(a, text);
	if (!colon || !is_port(colon + 1))
		return "write HOST:PORT, :PORT, or unix:PATH";
	length = (size_t)(colon - text);
	if (length >= sizeof(host))
		return "the host's name is too long";
	if (length > 2 && *text == '[' && text[length - 1] == ']') {
		text++;
		length -= 2;
	} else if (memchr(text, ':', length)) {
		return "write an IPv6 address in brackets, [ADDRESS]:PORT";
	}
	memcpy(host, text, length);
	host[length] = 0;
	return resolve(a, *host ? host : "127.0.0.1", colon + 1);
}

/* Nobody listens there any more: the name may be had again. */
static bool remove_dead(const struct stream_address *a)
{
	const struct sockaddr *name = (const struct sockaddr *)&a->at[0].name;
	struct stat st;
	int fd, error;

	if (lstat(a->path, &st) || !S_ISSOCK(st.st_mode)) {
		errno = EEXIST;
		return false;
	}
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return false;
	error = connect(fd, name, a->at[0].size) ? errno : 0;
	close(fd);
	errno = EADDRINUSE;
	return error == ECONNREFUSED && !unlink(a->path);
}

/* A name may have several addresses. The receiver listens at one, preferring IPv4 as it does
 * without a name; senders try all. */
static unsigned int choose(const struct stream_address *a)
{
	for (unsigned int n = 0; n < a->count; n++)
		if (a->at[n].name.ss_family == AF_INET)
			return n;
	return 0;
}

static int bind_to(int fd, const struct stream_address *a)
{
	unsigned int n = choose(a);
	const struct sockaddr *name = (const struct sockaddr *)&a->at[n].name;
	mode_t mask = 0;
	int result, error, one = 1;

	if (*a->path)
		mask = umask(0177);
	else
		setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	result = bind(fd, name, a->at[n].size);
	if (result && errno == EADDRINUSE && *a->path && remove_dead(a))
		result = bind(fd, name, a->at[n].size);
	error = errno;
	if (*a->path)
		umask(mask);
	errno = error;
	return result;
}

int stream_listen(const struct stream_address *a)
{
	int fd =
	    socket(a->at[choose(a)].name.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	int error;

	if (fd < 0)
		return -1;
	if (!bind_to(fd, a) && !listen(fd, BACKLOG))
		return fd;
	error = errno;
	close(fd);
	errno = error;
	return -1;
}

void stream_unlisten(const struct stream_address *a, int fd)
{
	close(fd);
	if (*a->path)
		unlink(a->path);
}

static void send_at_once(int fd)
{
	int one = 1;

	/* Not with a Unix socket, which does so anyway. */
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
}

int stream_accept(int listener, char peer[STREAM_PEER_TEXT])
{
	struct sockaddr_storage name;
	socklen_t size = sizeof(name);
	char host[64], port[16];
	int fd = accept4(listener, (struct sockaddr *)&name, &size, SOCK_CLOEXEC | SOCK_NONBLOCK);

	if (fd < 0)
		return -1;
	send_at_once(fd);
	snprintf(peer, STREAM_PEER_TEXT, "this machine");
	if (name.ss_family != AF_UNIX &&
	    !getnameinfo((struct sockaddr *)&name, size, host, sizeof(host), port, sizeof(port),
			 NI_NUMERICHOST | NI_NUMERICSERV))
		snprintf(peer, STREAM_PEER_TEXT, "%s port %s", host, port);
	return fd;
}

int stream_connect(const struct stream_address *a, unsigned int n)
{
	int fd = socket(a->at[n].name.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	int error;

	if (fd < 0)
		return -1;
	send_at_once(fd);
	if (!connect(fd, (const struct sockaddr *)&a->at[n].name, a->at[n].size) ||
	    errno == EINPROGRESS)
		return fd;
	error = errno;
	close(fd);
	errno = error;
	return -1;
}

int stream_connected(int fd)
{
	socklen_t size = sizeof(int);
	int error;

	return getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) ? errno : error;
}
