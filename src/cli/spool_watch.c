/* SPDX-License-Identifier: Apache-2.0 */
/* The recorder's side of a spool: see spool_watch.h. */
#include "spool_watch.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/uio.h>
#include <unistd.h>

#define FIRST_PACKETS 32 /* 2 MiB */
#define LEAST_AHEAD   16
/* At small intervals every allocation is a sample, which fills packets before the recorder wakes.
 */
#define BUSY_INTERVAL_LOG2 12
#define BUSY_AHEAD	   256

static off_t packets_end(uint64_t packets)
{
	return (off_t)(SPOOL_HEADER_BYTES + packets * SPOOL_PACKET_BYTES);
}

/* Lets the file end at `end` or later by writing zeros, for file systems without fallocate(). They
 * are appended, never written at a place: the agent may extend the file at the same time and put
 * records there. */
static int append_zeros(int fd, off_t end)
{
	static const char zeros[SPOOL_PACKET_BYTES];
	struct stat st;

	for (;;) {
		struct iovec iov = {(void *)zeros, sizeof(zeros)};

		if (fstat(fd, &st))
			return errno;
		if (st.st_size >= end)
			return 0;
		if (end - st.st_size < (off_t)sizeof(zeros))
			iov.iov_len = (size_t)(end - st.st_size);
		if (pwritev2(fd, &iov, 1, 0, RWF_APPEND) < 0 && errno != EINTR)
			return errno;
	}
}

static int reserve_range(int fd, off_t from, off_t to)
{
	int error;

	do
		error = fallocate(fd, 0, from, to - from) ? errno : 0;
	while (error == EINTR);
	if (error == EOPNOTSUPP || error == ENOSYS)
		error = append_zeros(fd, to);
	return error;
}

/* The agent reserves too when the recorder is late, so the number only ever grows. */
static void publish(struct spool_header *h, uint64_t packets)
{
	uint64_t old = atomic_load(&h->packets_reserved);

	while (old < packets && !atomic_compare_exchange_weak(&h->packets_reserved, &old, packets))
		;
}

/* Reserves up to `packets` in all; when the space is short, as much of it as there is. */
static int reserve(struct spool_watch *w, uint64_t packets)
{
	uint64_t have = atomic_load(&w->header->packets_reserved);
	uint64_t more = packets > have ? packets - have : 0;
	int error = 0;

	for (; more; more /= 2) {
		error = reserve_range(w->fd, packets_end(have), packets_end(have + more));
		if (!error) {
			publish(w->header, have + more);
			break;
		}
		if (error != ENOSPC && error != EDQUOT && error != EFBIG)
			break;
	}
	return error;
}

static void fill_header(struct spool_header *h, uint32_t sampler, uint32_t interval_log2)
{
	memcpy(h->magic, SPOOL_MAGIC, sizeof(h->magic));
	h->version = SPOOL_VERSION;
	h->header_bytes = SPOOL_HEADER_BYTES;
	h->packet_bytes = SPOOL_PACKET_BYTES;
	h->sampler = sampler;
	h->interval_log2 = interval_log2;
	atomic_store(&h->control_enabled, 1);
	atomic_store(&h->control_interval_log2, interval_log2);
	atomic_store(&h->recorder_pid, (uint32_t)getpid());
	atomic_store(&h->state, SPOOL_WAITING);
}

int spool_watch_create(struct spool_watch *w, const char *path, uint32_t sampler,
		       uint32_t interval_log2)
{
	void *map;
	int error;

	memset(w, 0, sizeof(*w));
	w->least_ahead = interval_log2 <= BUSY_INTERVAL_LOG2 ? BUSY_AHEAD : LEAST_AHEAD;
	w->fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
	if (w->fd < 0)
		return errno;
	error = reserve_range(w->fd, 0, SPOOL_HEADER_BYTES);
	if (!error) {
		map = mmap(NULL, SPOOL_HEADER_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, w->fd, 0);
		if (map == MAP_FAILED)
			error = errno;
		else
			w->header = map;
	}
	if (!error) {
		fill_header(w->header, sampler, interval_log2);
		error = reserve(w, w->least_ahead > FIRST_PACKETS ? w->least_ahead : FIRST_PACKETS);
		/* Less will do to begin with. */
		if (error && atomic_load(&w->header->packets_reserved))
			error = 0;
	}
	if (error) {
		unlink(path);
		spool_watch_close(w);
	}
	return error;
}

int spool_watch_tick(struct spool_watch *w)
{
	uint64_t claimed = atomic_load(&w->header->packets_claimed);
	uint64_t used = claimed - w->claimed, ahead = w->least_ahead;
	uint64_t reserved;
	int error = 0;

	w->claimed = claimed;
	w->busy = used > w->least_ahead / 4;
	if (ahead < 2 * used && used < UINT32_MAX)
		ahead = 2 * used;
	if (w->full || atomic_load(&w->header->state) != SPOOL_RUNNING)
		return 0;
	reserved = atomic_load(&w->header->packets_reserved);
	/* Claims run past the end when packets are missing; a damaged count must not fill the disk.
	 */
	if (claimed > reserved)
		claimed = reserved;
	if (reserved - claimed < ahead)
		error = reserve(w, claimed + 2 * ahead);
	if (error)
		w->full = true;
	return error;
}

void spool_watch_close(struct spool_watch *w)
{
	if (w->header)
		munmap(w->header, SPOOL_HEADER_BYTES);
	w->header = NULL;
	if (w->fd >= 0)
		close(w->fd);
	w->fd = -1;
}

/* ---- looking at spools ---- */

void spool_glance_at(const struct spool_header *h, struct spool_glance *g)
{
	uint64_t next = atomic_load(&h->next_sample_id);

	g->state = atomic_load(&h->state);
	g->image = h->image;
	g->pid = (pid_t)h->pid;
	g->start_mono_ns = (int64_t)h->start_mono_ns;
	g->samples = next > h->first_sample_id ? next - h->first_sample_id : 0;
	g->dropped = atomic_load(&h->dropped_samples);
	g->live_bytes = atomic_load(&h->live_bytes);
	memcpy(g->off_text, h->off_text, sizeof(g->off_text));
	g->off_text[sizeof(g->off_text) - 1] = 0;
}

bool spool_glance(const char *path, struct spool_glance *g)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	struct spool_header h;
	bool good;

	if (fd < 0)
		return false;
	good = pread(fd, &h, sizeof(h), 0) == (ssize_t)sizeof(h) &&
	       !memcmp(h.magic, SPOOL_MAGIC, sizeof(h.magic));
	close(fd);
	if (good)
		spool_glance_at(&h, g);
	return good;
}

char *spool_parent_name(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	char name[PATH_MAX] = "";
	struct spool_header h;
	ssize_t n = 0;

	if (fd < 0)
		return NULL;
	if (pread(fd, &h, sizeof(h), 0) == (ssize_t)sizeof(h) && h.fork_parent_pid &&
	    h.parent_spool_length < sizeof(name))
		n = pread(fd, name, h.parent_spool_length, h.parent_spool_offset);
	close(fd);
	if (n <= 0)
		return NULL;
	name[n] = 0;
	return strdup(strrchr(name, '/') ? strrchr(name, '/') + 1 : name);
}

/* "PID.K.spool" */
static bool parse_tail(const char *tail, struct spool_entry *e)
{
	unsigned long pid;
	char *end;

	if (*tail < '1' || *tail > '9')
		return false;
	pid = strtoul(tail, &end, 10);
	if (*end != '.' || pid > INT_MAX || end[1] < '0' || end[1] > '9')
		return false;
	e->pid = (pid_t)pid;
	e->number = strtoul(end + 1, &end, 10);
	return !strcmp(end, ".spool");
}

static int compare(const void *a, const void *b)
{
	const struct spool_entry *x = a, *y = b;

	if (x->pid != y->pid)
		return x->pid < y->pid ? -1 : 1;
	return x->number < y->number ? -1 : x->number > y->number;
}

static bool add_entry(struct spool_list *list, const struct spool_entry *e)
{
	struct spool_entry *grown = realloc(list->entry, (list->count + 1) * sizeof(*grown));

	if (!grown)
		return false;
	list->entry = grown;
	grown[list->count++] = *e;
	return true;
}

/* In `folder`, those whose name is `base` with ".PID.K.spool" behind. */
static bool read_folder(struct spool_list *list, DIR *dir, const char *folder, const char *base)
{
	size_t length = strlen(base);
	struct dirent *d;

	while ((d = readdir(dir))) {
		struct spool_entry e = {0};

		if (strncmp(d->d_name, base, length) || d->d_name[length] != '.' ||
		    !parse_tail(d->d_name + length + 1, &e))
			continue;
		if (asprintf(&e.path, "%s%s", folder, d->d_name) < 0)
			return false;
		if (!spool_glance(e.path, &e.glance)) {
			free(e.path);
			continue;
		}
		if (!add_entry(list, &e)) {
			free(e.path);
			return false;
		}
	}
	return true;
}

bool spool_list_read(struct spool_list *list, const char *file)
{
	const char *slash = strrchr(file, '/');
	const char *base = slash ? slash + 1 : file;
	char *folder = strndup(file, (size_t)(base - file));
	DIR *dir;
	bool good = true;

	list->entry = NULL;
	list->count = 0;
	if (!folder)
		return false;
	dir = opendir(*folder ? folder : ".");
	if (dir) {
		good = read_folder(list, dir, folder, base);
		closedir(dir);
	}
	free(folder);
	if (!good)
		spool_list_free(list);
	else if (list->count)
		qsort(list->entry, list->count, sizeof(*list->entry), compare);
	return good;
}

void spool_list_free(struct spool_list *list)
{
	for (size_t i = 0; i < list->count; i++)
		free(list->entry[i].path);
	free(list->entry);
	list->entry = NULL;
	list->count = 0;
}

/* Whether a line of /proc/PID/maps is of this file. */
static bool maps_file(char *line, const struct stat *st, const char *path)
{
	unsigned int major_number, minor_number;
	unsigned long inode;
	int at = 0;

	if (sscanf(line, "%*x-%*x %*s %*x %x:%x %lu %n", &major_number, &minor_number, &inode,
		   &at) != 3 ||
	    !at)
		return false;
	line[strcspn(line, "\n")] = 0;
	/* Some file systems have other numbers here than in stat(), and some names are escaped. */
	return (inode == st->st_ino && makedev(major_number, minor_number) == st->st_dev) ||
	       (path && !strcmp(line + at, path));
}

bool spool_in_use(const struct spool_entry *e)
{
	char name[64], line[PATH_MAX + 128], *path;
	bool used = false;
	struct stat st;
	FILE *maps;

	if (stat(e->path, &st))
		return false;
	snprintf(name, sizeof(name), "/proc/%d/maps", (int)e->pid);
	maps = fopen(name, "re");
	if (!maps) /* not allowed to look: then whether the process is there has to do */
		return errno == EACCES && (!kill(e->pid, 0) || errno == EPERM);
	path = realpath(e->path, NULL);
	while (!used && fgets(line, sizeof(line), maps))
		used = maps_file(line, &st, path);
	fclose(maps);
	free(path);
	return used;
}

/* "/folder/FILE." as the kernel writes it. */
static char *real_prefix(const char *file)
{
	const char *slash = strrchr(file, '/');
	const char *base = slash ? slash + 1 : file;
	char *folder = strndup(file, (size_t)(base - file));
	char *real = folder ? realpath(*folder ? folder : ".", NULL) : NULL;
	char *prefix = NULL;

	if (real && asprintf(&prefix, "%s/%s.", real[1] ? real : "", base) < 0)
		prefix = NULL;
	free(real);
	free(folder);
	return prefix;
}

static bool process_maps(const char *pid, const char *prefix)
{
	char name[sizeof("/proc//maps") + NAME_MAX], line[PATH_MAX + 128];
	bool found = false;
	FILE *maps;

	snprintf(name, sizeof(name), "/proc/%s/maps", pid);
	maps = fopen(name, "re");
	if (!maps)
		return false;
	while (!found && fgets(line, sizeof(line), maps)) {
		const char *at = strstr(line, prefix);

		found = at && strstr(at + strlen(prefix) - 1, ".spool");
	}
	fclose(maps);
	return found;
}

bool spool_anybody(const char *file)
{
	char *prefix = real_prefix(file);
	DIR *dir = prefix ? opendir("/proc") : NULL;
	struct dirent *d;
	bool found = false;

	while (dir && !found && (d = readdir(dir)))
		found = d->d_name[0] >= '1' && d->d_name[0] <= '9' && atoi(d->d_name) != getpid() &&
			process_maps(d->d_name, prefix);
	if (dir)
		closedir(dir);
	free(prefix);
	return found;
}
