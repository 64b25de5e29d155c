/* SPDX-License-Identifier: Apache-2.0 */
/* Sending a trace while it is made: see sender.h. */
#include "stream/sender.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "stream/send_session.h"
#include "base/system/clock.h"

#define CONNECT_NS    5000000000ll
#define FIRST_WAIT_NS 50000000ll
#define MOST_WAIT_NS  1000000000ll
#define PING_NS	      5000000000ll
/* Nothing has come for so long although something should have: the connection is dead. */
#define SILENCE_NS 15000000000ll
#define READ_BYTES (4u << 10)

struct stream_sender {
	struct stream_sender_options options;
	pthread_t thread;
	bool started;
	pthread_mutex_t lock;
	pthread_cond_t change;
	int wake; /* eventfd: the thread should look again */

	/* under the lock */
	uint8_t *ring; /* of options.ring_bytes */
	int file;      /* -1: the ring is used */
	uint64_t given, stored;
	uint64_t ring_from; /* the trace's byte at the ring's beginning */
	uint8_t id[STREAM_ID];
	uint32_t generation;
	bool ending, end, whole, done, stop, gave_up;
	int64_t progress_ns;
	struct stream_sender_status status;

	/* the thread's */
	struct send_session session;
	int fd;
	int64_t said_ns, heard_ns;
	uint8_t piece[STREAM_MOST_DATA];
};

static void wake(struct stream_sender *s)
{
	uint64_t one = 1;
	ssize_t n = write(s->wake, &one, sizeof(one));

	(void)n; /* full: it will wake anyway */
}

static void drain_wake(struct stream_sender *s)
{
	uint64_t count;
	ssize_t n = read(s->wake, &count, sizeof(count));

	(void)n;
}

/* ---- one connection ---- */

static bool is_set(struct stream_sender *s, const bool *flag)
{
	bool set;

	pthread_mutex_lock(&s->lock);
	set = *flag;
	pthread_mutex_unlock(&s->lock);
	return set;
}

/* Waits for the socket or a call of the sender's functions, at most so long. True: the socket. */
static bool wait_for(struct stream_sender *s, int fd, short events, int64_t ns)
{
	struct pollfd list[2] = {{.fd = s->wake, .events = POLLIN}, {.fd = fd, .events = events}};
	int milliseconds = ns < 0 ? 0 : (int)(ns / 1000000) + 1;

	if (poll(list, fd >= 0 ? 2 : 1, milliseconds) <= 0)
		return false;
	if (list[0].revents)
		drain_wake(s);
	return fd >= 0 && list[1].revents;
}

static int connect_to(struct stream_sender *s, unsigned int n)
{
	int fd = stream_connect(s->options.address, n);
	int64_t end = now_ns() + CONNECT_NS, left;
	int error = ETIMEDOUT;

	if (fd < 0)
		return -1;
	while ((left = end - now_ns()) > 0 && !is_set(s, &s->stop)) {
		if (!wait_for(s, fd, POLLOUT, left))
			continue;
		error = stream_connected(fd);
		break;
	}
	if (!error)
		return fd;
	close(fd);
	errno = error;
	return -1;
}

static int connect_to_any(struct stream_sender *s)
{
	int fd = -1;

	for (unsigned int n = 0; n < s->options.address->count && fd < 0; n++)
		fd = connect_to(s, n);
	return fd;
}

static bool begin_session(struct stream_sender *s)
{
	uint8_t nonce[STREAM_NONCE];
	struct send_offer offer;

	stream_random(nonce, sizeof(nonce));
	pthread_mutex_lock(&s->lock);
	memcpy(offer.id, s->id, sizeof(offer.id));
	offer.generation = s->generation;
	offer.first = s->file >= 0 ? 0 : s->stored;
	offer.available = s->given;
	pthread_mutex_unlock(&s->lock);
	s->said_ns = s->heard_ns = now_ns();
	return send_session_begin(&s->session, s->options.key, &offer, nonce);
}

/* Handles what has changed on the other side. False: this connection cannot be used any more. */
static bool take_progress(struct stream_sender *s)
{
	const struct send_session *session = &s->session;
	bool open = session->state >= SEND_OPEN, same;

	pthread_mutex_lock(&s->lock);
	same = session->offer.generation == s->generation;
	if (same && open) {
		if (session->acked > s->stored || session->state == SEND_DONE)
			s->progress_ns = now_ns();
		if (s->file >= 0 || session->acked > s->stored)
			s->stored = session->acked;
		s->done |= session->state == SEND_DONE;
		if (!s->status.connected) {
			s->status.connected = true;
			s->status.since_ns = now_ns();
		}
		s->status.fault = STREAM_FINE;
		s->status.error = 0;
		pthread_cond_broadcast(&s->change);
	}
	pthread_mutex_unlock(&s->lock);
	return same;
}

/* Copies the next bytes into s->piece. If there are none, *end says whether the trace has ended. */
static size_t next_piece(struct stream_sender *s, bool *end, bool *whole)
{
	uint64_t at = s->session.sent, size, offset;
	size_t first;
	ssize_t got;

	pthread_mutex_lock(&s->lock);
	size = s->session.offer.generation == s->generation ? s->given - at : 0;
	if (size > sizeof(s->piece))
		size = sizeof(s->piece);
	*end = !size && s->end;
	*whole = s->whole;
	if (size && s->file >= 0) {
		got = pread(s->file, s->piece, size, (off_t)at);
		size = got > 0 ? (uint64_t)got : 0;
	} else if (size) {
		offset = (at - s->ring_from) % s->options.ring_bytes;
		first =
		    size < s->options.ring_bytes - offset ? size : s->options.ring_bytes - offset;
		memcpy(s->piece, s->ring + offset, first);
		memcpy(s->piece + first, s->ring, size - first);
	}
	pthread_mutex_unlock(&s->lock);
	return size;
}

/* Adds more to the bytes that wait to be sent. */
static bool say_more(struct stream_sender *s)
{
	bool end, whole;
	size_t size;

	if (s->session.state != SEND_OPEN)
		return true;
	size = next_piece(s, &end, &whole);
	if (size)
		return send_session_data(&s->session, s->piece, size);
	if (end)
		return send_session_end(&s->session, whole);
	if (now_ns() - s->said_ns >= PING_NS)
		return send_session_ping(&s->session);
	return true;
}

/* 0 or the errno of a closed connection. */
static int sender_send_waiting(struct stream_sender *s)
{
	const uint8_t *bytes;
	size_t size;
	ssize_t n;

	bytes = stream_wire_waiting(&s->session.wire, &size);
	if (!size)
		return 0;
	n = send(s->fd, bytes, size, MSG_NOSIGNAL | MSG_DONTWAIT);
	if (n < 0)
		return errno == EAGAIN || errno == EINTR ? 0 : errno;
	stream_wire_went(&s->session.wire, (size_t)n);
	s->said_ns = now_ns();
	return 0;
}

static int sender_receive(struct stream_sender *s)
{
	uint8_t *room = stream_wire_room(&s->session.wire, READ_BYTES);
	ssize_t n;

	if (!room)
		return ENOMEM;
	n = recv(s->fd, room, READ_BYTES, MSG_DONTWAIT);
	if (!n)
		return ECONNRESET;
	if (n < 0)
		return errno == EAGAIN || errno == EINTR ? 0 : errno;
	stream_wire_came(&s->session.wire, (size_t)n);
	s->heard_ns = now_ns();
	send_session_take(&s->session);
	return 0;
}

static bool is_silent(const struct stream_sender *s)
{
	const struct send_session *session = &s->session;
	bool waits = session->state != SEND_OPEN || session->acked < session->sent ||
		     s->said_ns > s->heard_ns;

	return waits && now_ns() - s->heard_ns > SILENCE_NS;
}

/* Until it breaks or all is done. Returns the errno of a broken connection, or 0. */
static int run_session(struct stream_sender *s)
{
	const struct stream_wire *wire = &s->session.wire;
	size_t before, after;
	int error = 0;

	while (!error && !s->session.fault && !is_set(s, &s->stop)) {
		stream_wire_waiting(wire, &before);
		if (!before && !say_more(s))
			break;
		stream_wire_waiting(wire, &before);
		error = sender_send_waiting(s);
		if (!take_progress(s) || s->session.state == SEND_DONE)
			break;
		stream_wire_waiting(wire, &after);
		if (is_silent(s))
			error = ETIMEDOUT;
		/* What has gone may be followed by more at once. */
		if (!error && wait_for(s, s->fd, after ? POLLIN | POLLOUT : POLLIN,
				       before && !after ? -1 : PING_NS / 2))
			error = sender_receive(s);
	}
	return error;
}

/* ---- the thread ---- */

static void note_end(struct stream_sender *s, enum stream_fault fault, int error)
{
	pthread_mutex_lock(&s->lock);
	if (s->status.connected)
		s->status.since_ns = now_ns();
	s->status.connected = false;
	s->status.fault = fault;
	s->status.error = error;
	pthread_mutex_unlock(&s->lock);
}

/* Connects and sends, until that breaks. True: the connection was a good one. */
static bool connect_once(struct stream_sender *s)
{
	bool opened = false;
	int error = 0;

	s->fd = connect_to_any(s);
	if (s->fd < 0) {
		note_end(s, STREAM_FINE, errno);
		return false;
	}
	if (begin_session(s)) {
		error = run_session(s);
		opened = s->session.state >= SEND_OPEN;
		if (s->session.fault)
			sender_send_waiting(s); /* why */
	}
	note_end(s, s->session.fault, error);
	send_session_free(&s->session);
	close(s->fd);
	s->fd = -1;
	return opened;
}

static bool sender_is_over(struct stream_sender *s)
{
	return is_set(s, &s->stop) || is_set(s, &s->done);
}

/* Before it is tried again. True: the end has come meanwhile, which makes it urgent. */
static bool rest(struct stream_sender *s, int64_t ns)
{
	int64_t end = now_ns() + ns, left;
	bool ending = is_set(s, &s->ending);

	while ((left = end - now_ns()) > 0 && !sender_is_over(s)) {
		wait_for(s, -1, 0, left);
		if (!ending && is_set(s, &s->ending))
			return true;
	}
	return false;
}

static void *sender_run(void *context)
{
	struct stream_sender *s = context;
	int64_t wait = FIRST_WAIT_NS;

	while (!sender_is_over(s)) {
		if (connect_once(s))
			wait = FIRST_WAIT_NS;
		if (rest(s, wait))
			wait = FIRST_WAIT_NS;
		else if (wait < MOST_WAIT_NS)
			wait *= 2;
	}
	return NULL;
}

/* ---- what the recorder calls ---- */

/* The program's signals are none of the thread's. */
static int start_thread(struct stream_sender *s)
{
	sigset_t all, before;
	int error;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	error = pthread_create(&s->thread, NULL, sender_run, s);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return error;
}

static void init_lock(struct stream_sender *s)
{
	pthread_condattr_t attributes;

	pthread_mutex_init(&s->lock, NULL);
	pthread_condattr_init(&attributes);
	pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
	pthread_cond_init(&s->change, &attributes);
	pthread_condattr_destroy(&attributes);
}

static void sender_release(struct stream_sender *s)
{
	if (s->ring)
		munmap(s->ring, s->options.ring_bytes);
	if (s->wake >= 0)
		close(s->wake);
	if (s->file >= 0)
		close(s->file);
	pthread_cond_destroy(&s->change);
	pthread_mutex_destroy(&s->lock);
	free(s);
}

int stream_sender_new(const struct stream_sender_options *options, struct stream_sender **out)
{
	struct stream_sender *s = calloc(1, sizeof(*s));
	int error = 0;

	if (!s)
		return ENOMEM;
	s->options = *options;
	s->file = s->fd = -1;
	s->status.since_ns = now_ns();
	stream_random(s->id, sizeof(s->id));
	init_lock(s);
	s->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (s->wake < 0)
		error = errno;
	/* Only the used part takes memory. */
	s->ring = mmap(NULL, options->ring_bytes, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (s->ring == MAP_FAILED) {
		s->ring = NULL;
		error = ENOMEM;
	}
	if (error)
		sender_release(s);
	else
		*out = s;
	return error;
}

int stream_sender_start(struct stream_sender *s)
{
	int error;

	if (s->started)
		return 0;
	s->status.since_ns = now_ns();
	error = start_thread(s);
	s->started = !error;
	return error;
}

void stream_sender_free(struct stream_sender *s)
{
	if (!s)
		return;
	pthread_mutex_lock(&s->lock);
	s->stop = true;
	pthread_mutex_unlock(&s->lock);
	wake(s);
	if (s->started)
		pthread_join(s->thread, NULL);
	sender_release(s);
}

/* Under the lock: until something changes. False: it is given up. */
static bool wait_for_change(struct stream_sender *s)
{
	int64_t end = s->progress_ns + s->options.timeout_ns;
	struct timespec until = {end / 1000000000, end % 1000000000};

	if (now_ns() >= end)
		s->gave_up = true;
	else
		pthread_cond_timedwait(&s->change, &s->lock, &until);
	return !s->gave_up;
}

/* Under the lock. */
static size_t put_some(struct stream_sender *s, const uint8_t *bytes, size_t size)
{
	uint64_t room = s->options.ring_bytes, offset, first;

	/* An empty ring is filled from its beginning again, so pages that were never needed stay
	 * untouched. */
	if (s->given == s->stored)
		s->ring_from = s->given;
	if (size > room - (s->given - s->stored))
		size = room - (s->given - s->stored);
	offset = (s->given - s->ring_from) % room;
	first = size < room - offset ? size : room - offset;
	memcpy(s->ring + offset, bytes, first);
	memcpy(s->ring, bytes + first, size - first);
	s->given += size;
	return size;
}

size_t stream_sender_put(struct stream_sender *s, const void *bytes, size_t size)
{
	size_t done = 0;

	pthread_mutex_lock(&s->lock);
	while (done < size && !s->gave_up) {
		done += put_some(s, (const uint8_t *)bytes + done, size - done);
		wake(s);
		if (done == size || !s->ending || !wait_for_change(s))
			break;
	}
	pthread_mutex_unlock(&s->lock);
	return done;
}

int stream_sender_file(struct stream_sender *s, int fd)
{
	int copy = fcntl(fd, F_DUPFD_CLOEXEC, 3);

	if (copy < 0)
		return errno;
	pthread_mutex_lock(&s->lock);
	if (s->file >= 0)
		close(s->file);
	s->file = copy;
	pthread_mutex_unlock(&s->lock);
	return 0;
}

void stream_sender_grown(struct stream_sender *s, uint64_t size)
{
	pthread_mutex_lock(&s->lock);
	s->given = size;
	pthread_mutex_unlock(&s->lock);
	wake(s);
}

void stream_sender_restart(struct stream_sender *s)
{
	pthread_mutex_lock(&s->lock);
	s->given = s->stored = s->ring_from = 0;
	s->generation++;
	pthread_mutex_unlock(&s->lock);
	wake(s);
}

void stream_sender_ending(struct stream_sender *s)
{
	pthread_mutex_lock(&s->lock);
	if (!s->ending)
		s->progress_ns = now_ns();
	s->ending = true;
	pthread_mutex_unlock(&s->lock);
	wake(s);
}

bool stream_sender_gave_up(struct stream_sender *s)
{
	return is_set(s, &s->gave_up);
}

bool stream_sender_finish(struct stream_sender *s, bool whole)
{
	bool done;

	stream_sender_ending(s);
	if (stream_sender_start(s))
		return false;
	pthread_mutex_lock(&s->lock);
	s->end = true;
	s->whole = whole;
	wake(s);
	while (!s->done && wait_for_change(s))
		;
	done = s->done;
	pthread_mutex_unlock(&s->lock);
	return done;
}

static int sender_write_all(int fd, const uint8_t *bytes, size_t size)
{
	while (size) {
		ssize_t n = write(fd, bytes, size);

		if (n > 0) {
			bytes += n;
			size -= (size_t)n;
		} else if (n == 0 || errno != EINTR) {
			return n ? errno : ENOSPC;
		}
	}
	return 0;
}

int stream_sender_save(struct stream_sender *s, int fd, uint64_t *from)
{
	uint64_t room = s->options.ring_bytes, offset, size, first;
	int error;

	pthread_mutex_lock(&s->lock);
	s->stop = true;
	*from = s->stored;
	size = s->given - s->stored;
	offset = (s->stored - s->ring_from) % room;
	first = size < room - offset ? size : room - offset;
	error = sender_write_all(fd, s->ring + offset, first);
	if (!error)
		error = sender_write_all(fd, s->ring, size - first);
	pthread_mutex_unlock(&s->lock);
	return error;
}

void stream_sender_status(struct stream_sender *s, struct stream_sender_status *status)
{
	pthread_mutex_lock(&s->lock);
	*status = s->status;
	status->given = s->given;
	status->stored = s->stored;
	pthread_mutex_unlock(&s->lock);
}
