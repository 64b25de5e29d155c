/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where the ends of a stream meet:
 *
 *	unix:PATH, /PATH	a Unix socket, for its owner only
 *	HOST:PORT, [V6]:PORT	TCP
 *	:PORT			TCP on this machine only
 */
#ifndef MAYFLY_STREAM_ADDRESS_H
#define MAYFLY_STREAM_ADDRESS_H

#include <stdbool.h>
#include <sys/socket.h>

#define STREAM_ADDRESSES 8
#define STREAM_PEER_TEXT 128

struct stream_address {
	struct {
		struct sockaddr_storage name;
		socklen_t size;
	} at[STREAM_ADDRESSES];
	unsigned int count;
	bool local;	/* other machines cannot reach it */
	char path[108]; /* of a Unix socket, or "" */
};

/* NULL, or what is wrong with the text. */
const char *stream_address_read(struct stream_address *a, const char *text);

/* A listening socket, or -1 with errno. A Unix socket whose listener is gone is removed first; a
 * file that is not a socket is EEXIST. */
int stream_listen(const struct stream_address *a);
void stream_unlisten(const struct stream_address *a, int fd);

/* A socket that is being connected to the n-th of the addresses, or -1 with errno. */
int stream_connect(const struct stream_address *a, unsigned int n);

/* 0 or the errno of that, when the socket has become writable. */
int stream_connected(int fd);

/* Accepts one; -1: none there. */
int stream_accept(int listener, char peer[STREAM_PEER_TEXT]);

#endif
