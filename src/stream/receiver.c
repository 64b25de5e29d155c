/* SPDX-License-Identifier: Apache-2.0 */
/* Receiving a recording: see receiver.h. */
#include "stream/receiver.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/system/clock.h"

#define CONNECTIONS 16u
#define NO_ROOM_NS                                                                                 \
	100000000ll /* until it looks again whether there is a descriptor for the next one */
#define HANDSHAKE_NS 5000000000ll
#define SILENCE_NS   20000000000ll
#define RETRY_NS     200000000ll /* to store what could not be */
/* After the end: how long to stay for a sender whose connection broke before it learned of that. */
#define LINGER_NS  3000000000ll
#define READ_BYTES (64u << 10)

struct connection {
	int fd; /* -1: free */
	int64_t since_ns, heard_ns;
	char peer[STREAM_PEER_TEXT];
	struct receive_session session;
};

struct receiver {
	const struct stream_receiver_options *options;
	struct connection connection[CONNECTIONS];
	struct connection *open;   /* brings the recording; NULL: none does */
	bool full, finished, told; /* told: the sender knows that it is finished */
	int64_t retry_ns, lost_ns, finished_ns;
};

static void receiver_tell(struct receiver *r, enum stream_event event, const char *peer,
			  enum stream_fault fault, int error)
{
	r->options->event(r->options->context, event, peer, fault, error);
}

/* ---- connections ---- */

static void receiver_drop(struct receiver *r, struct connection *c)
{
	if (c->fd < 0)
		return;
	if (r->open == c) {
		r->open = NULL;
		r->lost_ns = now_ns();
		if (!r->finished)
			receiver_tell(r, STREAM_EVENT_LOST, c->peer, c->session.fault, 0);
	}
	receive_session_free(&c->session);
	close(c->fd);
	c->fd = -1;
}

/* A free place, or else the one that has waited longest. */
static struct connection *receiver_find_place(struct receiver *r)
{
	struct connection *oldest = NULL;

	for (size_t i = 0; i < CONNECTIONS; i++) {
		struct connection *c = &r->connection[i];

		if (c->fd < 0)
			return c;
		if (c != r->open && (!oldest || c->since_ns < oldest->since_ns))
			oldest = c;
	}
	receiver_drop(r, oldest);
	return oldest;
}

static void take_connection(struct receiver *r)
{
	char peer[STREAM_PEER_TEXT];
	uint8_t nonce[STREAM_NONCE];
	struct connection *c;
	int fd = stream_accept(r->options->listener, peer);

	if (fd < 0) {
		/* The one that waits makes poll() return at once. */
		if (errno == EMFILE || errno == ENFILE)
			clock_wait(NO_ROOM_NS);
		return;
	}
	c = receiver_find_place(r);
	memcpy(c->peer, peer, sizeof(peer));
	c->fd = fd;
	c->since_ns = c->heard_ns = now_ns();
	stream_random(nonce, sizeof(nonce));
	receive_session_begin(&c->session, r->options->key, r->options->intake, nonce);
}

/* False: the connection is closed. */
static bool receiver_send_waiting(struct connection *c)
{
	size_t size;
	const uint8_t *bytes = stream_wire_waiting(&c->session.wire, &size);
	ssize_t n;

	if (!size)
		return true;
	n = send(c->fd, bytes, size, MSG_NOSIGNAL | MSG_DONTWAIT);
	if (n < 0)
		return errno == EAGAIN || errno == EINTR;
	stream_wire_went(&c->session.wire, (size_t)n);
	return true;
}

/* False: no more useful data will come. */
static bool read_some(struct connection *c)
{
	size_t most = c->session.state == RECEIVE_OPEN ? READ_BYTES : 2 * STREAM_MOST_SMALL;
	uint8_t *room = stream_wire_room(&c->session.wire, most);
	ssize_t n;

	if (!room)
		return false;
	n = recv(c->fd, room, most, MSG_DONTWAIT);
	if (n <= 0)
		return n < 0 && (errno == EAGAIN || errno == EINTR);
	stream_wire_came(&c->session.wire, (size_t)n);
	c->heard_ns = now_ns();
	return true;
}

/* The connection has shown that it brings the recording, so the one before it is dead, even if no
 * error has been seen yet. */
static void take_over(struct receiver *r, struct connection *c)
{
	struct connection *before = r->open;

	r->open = NULL;
	if (before)
		receiver_drop(r, before);
	r->open = c;
	receiver_tell(r, STREAM_EVENT_BEGUN, c->peer, STREAM_FINE, 0);
}

static void listen_to(struct receiver *r, struct connection *c)
{
	bool was_open = c->session.state == RECEIVE_OPEN, alive = read_some(c);

	receive_session_take(&c->session);
	if (c->session.state == RECEIVE_OPEN && !was_open)
		take_over(r, c);
	if (c->session.fault && c->session.fault <= STREAM_NO_STREAM)
		receiver_tell(r, STREAM_EVENT_REFUSED, c->peer, c->session.fault, 0);
	if (c->session.fault)
		receiver_send_waiting(c); /* a refusal; it fits */
	if (c->session.state == RECEIVE_OVER && c == r->open)
		r->told = r->finished;
	if (!alive || c->session.fault || c->session.state == RECEIVE_OVER)
		receiver_drop(r, c);
}

/* ---- storing ---- */

static void receiver_store(struct receiver *r)
{
	const struct stream_intake *in = r->options->intake;
	int error;

	if (in->stored == in->taken && !r->full)
		return;
	if (r->full && now_ns() < r->retry_ns)
		return;
	error = r->options->flush(r->options->context);
	if (!error != !r->full)
		receiver_tell(r, error ? STREAM_EVENT_FULL : STREAM_EVENT_ROOM, "", STREAM_FINE,
			      error);
	r->full = error != 0;
	r->retry_ns = now_ns() + RETRY_NS;
}

/* False: it could not get its name. */
static bool receiver_finish(struct receiver *r)
{
	const struct stream_intake *in = r->options->intake;

	if (r->finished || !in->ended || in->stored != in->taken)
		return true;
	r->finished = true;
	r->finished_ns = now_ns();
	return r->options->finish(r->options->context, in->whole);
}

static void receiver_answer(struct receiver *r)
{
	struct connection *c = r->open;
	size_t waiting;

	if (!c)
		return;
	stream_wire_waiting(&c->session.wire, &waiting);
	if (waiting)
		return;
	if (r->finished && c->session.ended)
		receive_session_done(&c->session);
	else if (c->session.answer)
		receive_session_ack(&c->session);
}

/* ---- the loop ---- */

struct polled {
	struct pollfd fd[CONNECTIONS + 2];
	struct connection *connection[CONNECTIONS + 2];
	nfds_t count;
};

static void receiver_collect(struct receiver *r, struct polled *p)
{
	p->count = 0;
	p->fd[p->count++] = (struct pollfd){.fd = r->options->stop, .events = POLLIN};
	p->fd[p->count++] = (struct pollfd){.fd = r->options->listener, .events = POLLIN};
	for (size_t i = 0; i < CONNECTIONS; i++) {
		struct connection *c = &r->connection[i];
		short events = 0;
		size_t waiting;

		if (c->fd < 0)
			continue;
		stream_wire_waiting(&c->session.wire, &waiting);
		if (waiting)
			events |= POLLOUT;
		/* A sender with more data than can be stored waits. */
		if (c != r->open || !r->full)
			events |= POLLIN;
		p->connection[p->count] = c;
		p->fd[p->count++] = (struct pollfd){.fd = c->fd, .events = events};
	}
}

static void drop_silent(struct receiver *r)
{
	int64_t now = now_ns();

	for (size_t i = 0; i < CONNECTIONS; i++) {
		struct connection *c = &r->connection[i];

		if (c->fd < 0)
			continue;
		if (c != r->open ? now - c->since_ns > HANDSHAKE_NS
				 : !r->full && now - c->heard_ns > SILENCE_NS)
			receiver_drop(r, c);
	}
}

static void serve(struct receiver *r, const struct polled *p)
{
	for (nfds_t i = 2; i < p->count; i++) {
		struct connection *c = p->connection[i];

		if (c->fd != p->fd[i].fd)
			continue; /* dropped meanwhile */
		if (p->fd[i].revents & POLLOUT && !receiver_send_waiting(c))
			receiver_drop(r, c);
		else if (p->fd[i].revents & (POLLIN | POLLHUP | POLLERR))
			listen_to(r, c);
	}
	if (p->fd[1].revents)
		take_connection(r);
}

static bool is_timed_out(const struct receiver *r)
{
	int64_t most = r->options->timeout_ns;

	return most && r->options->intake->begun && !r->open && now_ns() - r->lost_ns > most;
}

/* The sender knows of the end, or has had its time. */
static bool receiver_is_over(const struct receiver *r)
{
	return r->finished && (r->told || now_ns() - r->finished_ns > LINGER_NS);
}

static enum stream_outcome loop(struct receiver *r)
{
	struct polled p;

	for (;;) {
		receiver_store(r);
		if (!receiver_finish(r)) {
			errno = 0;
			return STREAM_FAILED;
		}
		receiver_answer(r);
		if (receiver_is_over(r))
			return STREAM_RECEIVED;
		if (is_timed_out(r))
			return STREAM_TIMED_OUT;
		receiver_collect(r, &p);
		if (poll(p.fd, p.count, 100) < 0 && errno != EINTR)
			return STREAM_FAILED;
		if (p.fd[0].revents)
			return r->finished ? STREAM_RECEIVED : STREAM_STOPPED;
		serve(r, &p);
		drop_silent(r);
	}
}

enum stream_outcome stream_receive(const struct stream_receiver_options *options)
{
	struct receiver *r = calloc(1, sizeof(*r));
	enum stream_outcome outcome;
	int error;

	if (!r)
		return STREAM_FAILED;
	r->options = options;
	r->lost_ns = now_ns();
	for (size_t i = 0; i < CONNECTIONS; i++)
		r->connection[i].fd = -1;
	outcome = loop(r);
	error = errno;
	r->finished = true; /* nothing is to be told of what is closed now */
	for (size_t i = 0; i < CONNECTIONS; i++)
		receiver_drop(r, &r->connection[i]);
	free(r);
	errno = error;
	return outcome;
}
