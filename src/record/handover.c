/* SPDX-License-Identifier: Apache-2.0 */
/* The recorder gives spools to processes: see handover.h. */
#include "record/handover.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "base/array.h"
#include "record/process_watch.h"
#include "record/spool_watch.h"

#define CALLERS	      32 /* at once; one more takes the place of the oldest */
#define MOST_IMAGES   10000
#define MOST_EMPTY    64 /* spools that were made and that nobody has begun */
#define LOOK_MS	      100
#define YOUNG_SECONDS 60
#define SLACK_BYTES   (4u << 20) /* the header, and packets that the agent reserves too many */

struct handover_given {
	char *path;
	dev_t device;
	ino_t inode;
	bool made; /* here, not by the recorder */
};

static void close_file(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

/* ---- the socket ---- */

static bool make_key(struct handover_server *s)
{
	unsigned char bytes[HANDOVER_KEY_DIGITS / 2];

	if (getrandom(bytes, sizeof(bytes), 0) != (ssize_t)sizeof(bytes))
		return false;
	for (size_t i = 0; i < sizeof(bytes); i++)
		snprintf(s->key + 2 * i, 3, "%02x", bytes[i]);
	return true;
}

static socklen_t name_socket(const struct handover_server *s, const char *folder,
			     struct sockaddr_un *address)
{
	const size_t before = *folder ? 0 : 1;
	int length =
	    snprintf(address->sun_path + before, sizeof(address->sun_path) - before, "%s%s%.*s",
		     folder, HANDOVER_SOCKET, (int)HANDOVER_HALF_DIGITS, s->key);

	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + (size_t)length + 1);
}

/* A socket that everybody may connect to; -1: none. */
static int listen_at(const struct handover_server *s, const char *folder)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	socklen_t length = name_socket(s, folder, &address);
	mode_t mask = umask(0);
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (bind(fd, (struct sockaddr *)&address, length) || listen(fd, CALLERS))
		close_file(&fd);
	umask(mask);
	return fd;
}

static void remove_socket(const struct handover_server *s)
{
	struct sockaddr_un address = {0};

	name_socket(s, HANDOVER_FOLDER, &address);
	unlink(address.sun_path);
}

/* Nobody listens there any more. Somebody may be about to when the file is new. */
static bool is_dead(const char *path)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	struct stat st;
	int fd;
	bool dead;

	if (strlen(path) >= sizeof(address.sun_path) || lstat(path, &st) || !S_ISSOCK(st.st_mode) ||
	    st.st_uid != geteuid() || time(NULL) - st.st_mtime < YOUNG_SECONDS)
		return false;
	strcpy(address.sun_path, path);
	fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	dead = fd >= 0 && connect(fd, (struct sockaddr *)&address, sizeof(address)) &&
	       errno == ECONNREFUSED;
	close_file(&fd);
	return dead;
}

/* Those of recorders that were killed. */
static void remove_dead_sockets(void)
{
	DIR *folder = opendir(HANDOVER_FOLDER);
	struct dirent *d;
	char path[sizeof(HANDOVER_FOLDER) + NAME_MAX];

	while (folder && (d = readdir(folder))) {
		if (strncmp(d->d_name, HANDOVER_SOCKET, sizeof(HANDOVER_SOCKET) - 1))
			continue;
		snprintf(path, sizeof(path), HANDOVER_FOLDER "%s", d->d_name);
		if (is_dead(path))
			unlink(path);
	}
	if (folder)
		closedir(folder);
}

bool handover_open(struct handover_server *s)
{
	if (!make_key(s))
		return false;
	remove_dead_sockets();
	s->stop = eventfd(0, EFD_CLOEXEC);
	s->listener[0] = listen_at(s, "");
	s->listener[1] = listen_at(s, HANDOVER_FOLDER);
	if (s->stop >= 0 && (s->listener[0] >= 0 || s->listener[1] >= 0))
		return true;
	handover_stop(s);
	return false;
}

/* ---- what was given ---- */

static bool is_there(const struct handover_given *g, struct stat *st)
{
	return !lstat(g->path, st) && st->st_dev == g->device && st->st_ino == g->inode;
}

/* Forgets those that have become traces. True: there may be one more. */
static bool has_room(struct handover_server *s)
{
	size_t kept = 0, empty = 0;
	uint64_t bytes = 0;
	struct spool_glance g;
	struct stat st;

	for (size_t i = 0; i < s->count; i++) {
		if (!is_there(&s->given[i], &st)) {
			free(s->given[i].path);
			continue;
		}
		bytes += s->given[i].made ? (uint64_t)st.st_blocks * 512 : 0;
		empty += s->given[i].made && !spool_glance(s->given[i].path, &g);
		s->given[kept++] = s->given[i];
	}
	s->count = kept;
	return empty < MOST_EMPTY && (!s->most_bytes || bytes < s->most_bytes);
}

static bool remember(struct handover_server *s, const char *path, int fd, bool made)
{
	struct handover_given g = {.path = strdup(path), .made = made};
	struct stat st;

	if (!g.path || fstat(fd, &st) ||
	    !array_reserve(&s->given, &s->room, s->count, sizeof(*s->given))) {
		free(g.path);
		return false;
	}
	g.device = st.st_dev;
	g.inode = st.st_ino;
	for (size_t i = 0; i < s->count; i++) {
		if (s->given[i].inode == g.inode && s->given[i].device == g.device) {
			free(g.path);
			return true;
		}
	}
	s->given[s->count++] = g;
	return true;
}

/* The agent keeps to its limit, but whoever has the descriptor could write more. Behind the limit, the
 * agent has nothing but room that it does not use. */
static void keep_to_limit(const struct handover_server *s)
{
	struct stat st;

	for (size_t i = 0; s->most_bytes && i < s->count; i++) {
		const struct handover_given *g = &s->given[i];
		int fd;

		if (!is_there(g, &st) || (uint64_t)st.st_size <= s->most_bytes + SLACK_BYTES)
			continue;
		fd = open(g->path, O_WRONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
		if (!fstat(fd, &st) && st.st_dev == g->device && st.st_ino == g->inode &&
		    ftruncate(fd, (off_t)(s->most_bytes + SLACK_BYTES)))
			errno = 0; /* the next look tries again */
		close_file(&fd);
	}
}

/* ---- requests ---- */

/* The name of a spool of this recording: nothing else is opened for anybody. */
static bool is_spool_name(const struct handover_server *s, const char *name)
{
	const char *base = spool_base_name(s->file);
	size_t length = strlen(base);

	if (strncmp(name, base, length))
		return false;
	name += length;
	for (int number = 0; number < 2 && strcmp(name, SPOOL_ENDING); number++) {
		if (*name++ != '.' || !isdigit((unsigned char)*name))
			return false;
		name += strspn(name, "0123456789");
	}
	return !strcmp(name, SPOOL_ENDING);
}

static char *path_of(const struct handover_server *s, const char *name)
{
	char *path;
	int folder = (int)(spool_base_name(s->file) - s->file);

	return asprintf(&path, "%.*s%s", folder, s->file, name) < 0 ? NULL : path;
}

/* Returns a descriptor or -errno. */
static int open_again(struct handover_server *s, const struct handover *h, pid_t caller)
{
	char *path = is_spool_name(s, h->name) ? path_of(s, h->name) : NULL;
	struct stat st;
	int fd, error = 0;

	if (!path)
		return -EPERM;
	fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
	if (fd < 0 || fstat(fd, &st))
		error = errno;
	else if (!S_ISREG(st.st_mode) || st.st_dev != h->device || st.st_ino != h->inode ||
		 !process_maps_file(caller, &st))
		error = EPERM;
	if (!error && !remember(s, path, fd, false))
		error = ENOMEM;
	if (error)
		close_file(&fd);
	free(path);
	return error ? -error : fd;
}

static int make_spool(struct handover_server *s, struct handover *h)
{
	int fd = -1, error = has_room(s) ? EEXIST : ENOSPC;
	char *path = NULL;

	for (h->image = 0; error == EEXIST && h->image < MOST_IMAGES; h->image++) {
		free(path);
		if (asprintf(&path, "%s.%u.%u" SPOOL_ENDING, s->file, h->pid, h->image) < 0)
			return -ENOMEM;
		fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
		error = fd < 0 ? errno : 0;
	}
	h->image--;
	if (!error && strlen(spool_base_name(path)) >= sizeof(h->name))
		error = ENAMETOOLONG;
	/* The process may be limited in what it can write. */
	if (!error)
		error = spool_reserve_first(fd);
	if (!error && !remember(s, path, fd, true))
		error = ENOMEM;
	if (!error)
		strcpy(h->name, spool_base_name(path));
	else if (fd >= 0)
		unlink(path);
	if (error)
		close_file(&fd);
	free(path);
	return error ? -error : fd;
}

/* The spool that the recorder has made, while no agent has taken it. Returns a descriptor or -errno. */
static int give_first(struct handover_server *s, struct handover *h)
{
	struct spool_glance g;
	char *path;
	int fd, error = 0;

	if (asprintf(&path, "%s" SPOOL_ENDING, s->file) < 0)
		return -ENOMEM;
	fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
	if (fd < 0 || !spool_glance(path, &g) || g.state != SPOOL_WAITING)
		error = ENOENT;
	else if (strlen(spool_base_name(path)) >= sizeof(h->name))
		error = ENAMETOOLONG;
	else if (!remember(s, path, fd, false))
		error = ENOMEM;
	else
		strcpy(h->name, spool_base_name(path));
	if (error)
		close_file(&fd);
	free(path);
	return error ? -error : fd;
}

/* Returns a descriptor or -errno. */
static int grant(struct handover_server *s, struct handover *h, const struct ucred *caller)
{
	int fd;

	if (memcmp(h->secret, s->key + HANDOVER_HALF_DIGITS, HANDOVER_HALF_DIGITS) ||
	    !memchr(h->name, 0, sizeof(h->name)))
		return -EACCES;
	if (!caller->pid || (s->only && caller->pid != s->only))
		return -EPERM;
	if (h->inode)
		return open_again(s, h, caller->pid);
	fd = caller->pid == s->first ? give_first(s, h) : -ENOENT;
	return fd == -ENOENT ? make_spool(s, h) : fd;
}

static void send_answer(int caller, struct handover *h, int fd)
{
	union {
		struct cmsghdr header;
		char bytes[CMSG_SPACE(sizeof(int))];
	} control = {.header = {.cmsg_len = CMSG_LEN(sizeof(int)),
				.cmsg_level = SOL_SOCKET,
				.cmsg_type = SCM_RIGHTS}};
	struct iovec data = {h, sizeof(*h)};
	struct msghdr message = {.msg_iov = &data, .msg_iovlen = 1};

	h->error = fd < 0 ? -fd : 0;
	memset(h->secret, 0, sizeof(h->secret));
	if (fd >= 0) {
		memcpy(CMSG_DATA(&control.header), &fd, sizeof(fd));
		message.msg_control = &control;
		message.msg_controllen = sizeof(control);
	}
	sendmsg(caller, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
}

/* What the caller has sent is there. */
static void answer(struct handover_server *s, int caller)
{
	struct ucred peer = {0};
	socklen_t length = sizeof(peer);
	struct handover h;
	int fd;

	if (recv(caller, &h, sizeof(h), MSG_DONTWAIT) != (ssize_t)sizeof(h) ||
	    getsockopt(caller, SOL_SOCKET, SO_PEERCRED, &peer, &length))
		return;
	fd = grant(s, &h, &peer);
	send_answer(caller, &h, fd);
	close_file(&fd);
}

/* ---- the thread ---- */

enum { THE_END, LISTENERS, FIRST_CALLER = LISTENERS + 2 }; /* places in the array */

struct waiting {
	struct pollfd file[FIRST_CALLER + CALLERS]; /* callers: the oldest first */
	nfds_t count;
};

static void hang_up(struct waiting *w, nfds_t i)
{
	close(w->file[i].fd);
	w->count--;
	memmove(w->file + i, w->file + i + 1, (w->count - i) * sizeof(*w->file));
}

static void take_caller(struct waiting *w, int listener)
{
	int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

	if (fd < 0) {
		/* No descriptor is left. The caller stays in the queue, so that poll() returns at once. */
		poll(&w->file[THE_END], 1, LOOK_MS);
		return;
	}
	if (w->count == FIRST_CALLER + CALLERS)
		hang_up(w, FIRST_CALLER);
	w->file[w->count++] = (struct pollfd){.fd = fd, .events = POLLIN};
}

static void *serve(void *context)
{
	struct handover_server *s = context;
	struct waiting w = {.file = {{.fd = s->stop, .events = POLLIN},
				     {.fd = s->listener[0], .events = POLLIN},
				     {.fd = s->listener[1], .events = POLLIN}},
			    .count = FIRST_CALLER};

	while (!w.file[THE_END].revents) {
		int ready = poll(w.file, w.count, s->count ? LOOK_MS : -1);

		keep_to_limit(s);
		if (ready <= 0)
			continue;
		for (nfds_t i = w.count; i-- > FIRST_CALLER;) {
			if (!w.file[i].revents)
				continue;
			answer(s, w.file[i].fd);
			hang_up(&w, i);
		}
		for (nfds_t i = LISTENERS; i < FIRST_CALLER; i++)
			if (w.file[i].revents)
				take_caller(&w, w.file[i].fd);
	}
	while (w.count > FIRST_CALLER)
		hang_up(&w, FIRST_CALLER);
	return NULL;
}

void handover_start(struct handover_server *s)
{
	pthread_t thread;

	if (!*s->key)
		return;
	s->runs = !pthread_create(&thread, NULL, serve, s);
	s->thread = thread;
}

void handover_stop(struct handover_server *s)
{
	const uint64_t one = 1;
	struct spool_glance g;
	struct stat st;

	if (!*s->key)
		return;
	if (s->runs && write(s->stop, &one, sizeof(one)) == (ssize_t)sizeof(one))
		pthread_join(s->thread, NULL);
	remove_socket(s);
	for (int i = 0; i < 2; i++) {
		/* Also where a child of ours has it: nobody waits there in vain. */
		shutdown(s->listener[i], SHUT_RDWR);
		close_file(&s->listener[i]);
	}
	close_file(&s->stop);
	for (size_t i = 0; i < s->count; i++) {
		const char *path = s->given[i].path;

		if (s->given[i].made && is_there(&s->given[i], &st) &&
		    (!spool_glance(path, &g) || g.state == SPOOL_WAITING))
			spool_remove(path);
		free(s->given[i].path);
	}
	free(s->given);
	*s = (struct handover_server){0};
}
