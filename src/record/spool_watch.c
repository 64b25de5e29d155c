/* SPDX-License-Identifier: Apache-2.0 */
/* The recorder's side of a spool: see spool_watch.h. */
#include "record/spool_watch.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/array.h"
#include "record/spool_recorder.h"
#include "base/system/clock.h"

#define FIRST_PACKETS 32 /* 2 MiB */
#define LEAST_AHEAD   16
/* At small intervals every allocation is a sample, which fills packets before the recorder wakes.
 */
#define BUSY_INTERVAL_LOG2 12
#define BUSY_AHEAD	   256
#define EXACT_AHEAD	   256

/* Packets in the ring beyond these lose their disk blocks, and the program's memory their pages. */
#define RING_KEEPS 128

/* What a look should find: enough to be worth waking up for, little enough to be still in a cache.
 */
#define PACKETS_A_LOOK 16
#define MOST_WAIT_MS   200
#define EXACT_WAIT_MS  100

#define WINDOW_PACKETS 1024u
#define WINDOW_BYTES   ((size_t)WINDOW_PACKETS * SPOOL_PACKET_BYTES)

/* Left free on the disk (or half of what is free), as the trace needs some space, too. */
#define MARGIN_BYTES (4u << 20)
#define PAUSE_TICKS  32
#define MOST_PACKETS (1u << 22) /* 256 GiB */

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

int spool_extend(int fd, struct spool_header *h, uint64_t packets)
{
	uint64_t have = atomic_load(&h->packets_reserved);
	int error = 0;

	if (packets > have)
		error = reserve_range(fd, packets_end(have), packets_end(packets));
	if (!error)
		publish(h, packets);
	return error;
}

int spool_reserve_first(int fd)
{
	return reserve_range(fd, 0, packets_end(SPOOL_FIRST_PACKETS));
}

/* The number of these packets for which there is disk space, leaving some for others. */
static uint64_t affordable(int fd, uint64_t packets)
{
	struct statvfs st;
	uint64_t available, margin;

	if (fstatvfs(fd, &st) || !st.f_blocks)
		return packets;
	available = (uint64_t)st.f_bavail * st.f_frsize;
	margin = available / 2 < MARGIN_BYTES ? available / 2 : MARGIN_BYTES;
	available = (available - margin) / SPOOL_PACKET_BYTES;
	return packets < available ? packets : available;
}

/* Limits the agent to the disk space that there is; beyond it, it would have to give up. It drops
 * what does not fit instead, until packets are given back. */
static void set_limit(struct spool_watch *w, uint64_t packets)
{
	uint64_t most = w->max_packets;

	if (!most || packets < most)
		most = packets;
	if (atomic_load(&w->header->control_max_packets) != most)
		atomic_store(&w->header->control_max_packets, most);
}

/* Reserves up to `packets` in all; when the space is short, as much of it as there is. */
static int spool_watch_reserve(struct spool_watch *w, uint64_t packets)
{
	uint64_t have = atomic_load(&w->header->packets_reserved), more;
	int error = 0;

	if (w->max_packets && packets > w->max_packets)
		packets = w->max_packets;
	if (packets <= have)
		return 0;
	more = affordable(w->fd, MOST_PACKETS);
	set_limit(w, have + more);
	if (more > packets - have)
		more = packets - have;
	if (!more)
		return ENOSPC;
	for (; more; more /= 2) {
		error = reserve_range(w->fd, packets_end(have), packets_end(have + more));
		if (!error) {
			publish(w->header, have + more);
			break;
		}
		if (error != ENOSPC && error != EDQUOT && error != EFBIG)
			break;
		set_limit(w, have + more / 2);
	}
	return error;
}

static void fill_header(struct spool_header *h, const struct spool_settings *s)
{
	memcpy(h->magic, SPOOL_MAGIC, sizeof(h->magic));
	h->version = SPOOL_VERSION;
	h->header_bytes = SPOOL_HEADER_BYTES;
	h->packet_bytes = SPOOL_PACKET_BYTES;
	h->sampler = s->sampler;
	h->interval_log2 = s->interval_log2;
	h->mode = s->exact ? SPOOL_EXACT : SPOOL_SAMPLED;
	atomic_store(&h->control_enabled, 1);
	atomic_store(&h->control_interval_log2, s->interval_log2);
	atomic_store(&h->control_overhead, s->overhead);
	atomic_store(&h->control_max_packets, s->max_packets);
	spool_recorder_sign(h);
	atomic_store(&h->attached, s->attached);
	atomic_store(&h->state, SPOOL_WAITING);
}

/* Without reading ahead, as the agent maps it. NULL: errno says why. */
static void *map_part(const struct spool_watch *w, off_t offset, size_t bytes)
{
	void *map = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, w->fd, offset);

	if (map == MAP_FAILED)
		return NULL;
	madvise(map, bytes, MADV_RANDOM);
	return map;
}

/* ---- spools that go ---- */

static struct spool_watch *all_open;

static void put_zeros_over(void *map, size_t bytes)
{
	mmap(map, bytes, PROT_READ | PROT_WRITE,
	     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
}

static bool is_mapped_at(const struct spool_watch *w, uintptr_t address)
{
	if (address - (uintptr_t)w->header < SPOOL_HEADER_BYTES)
		return true;
	for (size_t i = 0; i < w->windows; i++)
		if (w->window[i] && address - (uintptr_t)w->window[i] < WINDOW_BYTES)
			return true;
	return false;
}

bool spool_watch_lost_at(const void *address)
{
	struct spool_watch *w = all_open;

	while (w && !is_mapped_at(w, (uintptr_t)address))
		w = w->next;
	if (!w)
		return false;
	w->lost = true;
	for (size_t i = 0; i < w->windows; i++)
		if (w->window[i])
			put_zeros_over(w->window[i], WINDOW_BYTES);
	put_zeros_over(w->header, SPOOL_HEADER_BYTES);
	return true;
}

static void spool_bus_error(int number, siginfo_t *info, void *context)
{
	(void)context;
	if (!spool_watch_lost_at(info->si_addr))
		signal(number, SIG_DFL); /* it happens again */
}

/* Commands that have a handler of their own ask us there. */
static void guard(struct spool_watch *w)
{
	struct sigaction action = {.sa_sigaction = spool_bus_error, .sa_flags = SA_SIGINFO}, now;

	w->next = all_open;
	all_open = w;
	if (!sigaction(SIGBUS, NULL, &now) && now.sa_handler == SIG_DFL)
		sigaction(SIGBUS, &action, NULL);
}

static void unguard(const struct spool_watch *w)
{
	struct spool_watch **place = &all_open;

	while (*place && *place != w)
		place = &(*place)->next;
	if (*place)
		*place = w->next;
}

bool spool_watch_glance(const struct spool_watch *w, struct spool_glance *g)
{
	static const char text[] =
	    "somebody emptied the spool, or its disk failed: what it held is lost";

	if (!w->header)
		return false;
	if (!w->lost)
		spool_glance_at(w->header, g);
	if (!w->lost) /* meanwhile neither */
		return true;
	*g = w->last;
	g->state = SPOOL_OFF;
	snprintf(g->off_text, sizeof(g->off_text), "%s", text);
	return g->pid != 0;
}

/* Whether all that the agent may write to is there. */
static bool is_whole(struct spool_watch *w)
{
	struct stat st;
	uint64_t packets = atomic_load(&w->header->packets_reserved);

	if (!w->lost && ((!fstat(w->fd, &st) && st.st_size < packets_end(packets)) ||
			 memcmp(w->header->magic, SPOOL_MAGIC, sizeof(w->header->magic))))
		spool_watch_lost_at(w->header);
	if (!w->lost)
		spool_glance_at(w->header, &w->last);
	return !w->lost;
}

static int map_header(struct spool_watch *w)
{
	void *map = map_part(w, 0, SPOOL_HEADER_BYTES);

	if (!map)
		return errno;
	w->header = map;
	guard(w);
	w->begun_at = now_ns();
	w->wait_ms = 1;
	return 0;
}

static void choose_ahead(struct spool_watch *w)
{
	w->least_ahead = w->header->mode == SPOOL_EXACT			  ? EXACT_AHEAD
			 : w->header->interval_log2 <= BUSY_INTERVAL_LOG2 ? BUSY_AHEAD
									  : LEAST_AHEAD;
}

int spool_watch_create(struct spool_watch *w, const char *path, const struct spool_settings *s)
{
	int error;

	memset(w, 0, sizeof(*w));
	/* Like the agent: its stacks and labels are for the owner alone. */
	w->fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (w->fd < 0)
		return errno;
	error = reserve_range(w->fd, 0, SPOOL_HEADER_BYTES);
	if (!error)
		error = map_header(w);
	if (!error) {
		w->max_packets = s->max_packets;
		fill_header(w->header, s);
		choose_ahead(w);
		error = spool_watch_reserve(w, w->least_ahead > FIRST_PACKETS ? w->least_ahead
									      : FIRST_PACKETS);
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

int spool_watch_open(struct spool_watch *w, const char *path)
{
	struct stat st;
	int error = 0;

	memset(w, 0, sizeof(*w));
	w->fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
	if (w->fd < 0)
		return errno;
	if (fstat(w->fd, &st) || !S_ISREG(st.st_mode) || st.st_size < (off_t)SPOOL_HEADER_BYTES)
		error = EINVAL;
	if (!error)
		error = map_header(w);
	if (!error &&
	    (memcmp(w->header->magic, SPOOL_MAGIC, sizeof(w->header->magic)) ||
	     w->header->version != SPOOL_VERSION || w->header->header_bytes != SPOOL_HEADER_BYTES ||
	     w->header->packet_bytes != SPOOL_PACKET_BYTES))
		error = EINVAL;
	if (!error) {
		w->max_packets = atomic_load(&w->header->control_max_packets);
		choose_ahead(w);
		atomic_store(&w->header->written_until_ns, 0); /* a dead recorder's */
		spool_recorder_sign(w->header);
	} else {
		spool_watch_close(w);
	}
	return error;
}

/* ---- packets ---- */

const void *spool_watch_at(struct spool_watch *w, uint64_t offset, size_t bytes)
{
	uint64_t end, index, window;
	struct stat st;

	if (__builtin_add_overflow(offset, bytes, &end))
		return NULL;
	if (end <= SPOOL_HEADER_BYTES)
		return (const uint8_t *)w->header + offset;
	if (offset < SPOOL_HEADER_BYTES)
		return NULL;
	if (end > w->file_bytes) {
		if (fstat(w->fd, &st) || end > (uint64_t)st.st_size)
			return NULL;
		w->file_bytes = (uint64_t)st.st_size;
	}
	offset -= SPOOL_HEADER_BYTES;
	index = offset / SPOOL_PACKET_BYTES;
	window = index / WINDOW_PACKETS;
	if (index / 8 < w->in_hole_bytes && w->in_hole[index / 8] >> index % 8 & 1)
		return NULL;
	if (offset % WINDOW_BYTES + bytes > WINDOW_BYTES)
		return NULL;
	if (!array_reserve_filled(&w->window, &w->windows, window, sizeof(*w->window), 0))
		return NULL;
	if (!w->window[window]) {
		void *map = map_part(w, packets_end(window * WINDOW_PACKETS), WINDOW_BYTES);

		if (!map)
			return NULL;
		w->window[window] = map;
	}
	return w->window[window] + offset % WINDOW_BYTES;
}

static uint64_t ring_holds(const struct spool_header *h)
{
	return atomic_load(&h->recycled_head) - atomic_load(&h->recycled_tail);
}

static void spool_watch_push(struct spool_header *h, uint32_t index)
{
	uint64_t head = atomic_load_explicit(&h->recycled_head, memory_order_relaxed);

	atomic_store_explicit(&h->recycled[head % SPOOL_RECYCLED], index, memory_order_relaxed);
	atomic_store_explicit(&h->recycled_head, head + 1, memory_order_release);
}

static bool make_hole_room(struct spool_watch *w, uint64_t index)
{
	return array_reserve(&w->hole, &w->hole_room, w->holes, sizeof(*w->hole)) &&
	       array_reserve_filled(&w->in_hole, &w->in_hole_bytes, index / 8, 1, 0);
}

void spool_watch_punch(struct spool_watch *w, uint64_t index)
{
	if (!make_hole_room(w, index))
		return; /* only its space is lost */
	if (!w->kept &&
	    fallocate(w->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, packets_end(index),
		      SPOOL_PACKET_BYTES) &&
	    errno != EINTR)
		w->kept = true;
	w->in_hole[index / 8] |= (uint8_t)(1u << index % 8);
	w->hole[w->holes++] = (uint32_t)index;
}

void spool_watch_give_back(struct spool_watch *w, uint64_t index, bool reuse)
{
	struct spool_packet *packet =
	    (void *)(uintptr_t)spool_watch_at(w, (uint64_t)packets_end(index), sizeof(*packet));

	if (!packet)
		return;
	/* In this order: a spool that lacks a packet must say so, whenever mayfly is killed. */
	atomic_fetch_add(&w->header->consumed_packets, 1);
	__atomic_store_n(&packet->magic, 0, __ATOMIC_RELEASE);
	if (!reuse)
		return;
	if (ring_holds(w->header) < RING_KEEPS)
		spool_watch_push(w->header, (uint32_t)index);
	else
		spool_watch_punch(w, index);
}

/* Packets from holes, with disk blocks again, go back into the ring. */
static int fill_ring(struct spool_watch *w, uint64_t packets)
{
	while (packets && w->holes && ring_holds(w->header) < SPOOL_RECYCLED) {
		uint32_t index = w->hole[w->holes - 1];
		int error = 0;

		if (!w->kept)
			error = affordable(w->fd, 1) ? reserve_range(w->fd, packets_end(index),
								     packets_end(index + 1))
						     : ENOSPC;
		if (error)
			return error;
		w->holes--;
		w->in_hole[index / 8] &= (uint8_t) ~(1u << index % 8);
		spool_watch_push(w->header, index);
		packets--;
	}
	return 0;
}

/* How soon to look again, by how fast packets are begun. */
static uint64_t measure(struct spool_watch *w)
{
	unsigned int most = w->header->mode == SPOOL_EXACT ? EXACT_WAIT_MS : MOST_WAIT_MS;
	uint64_t begun = atomic_load(&w->header->claims), now = now_ns();
	uint64_t used = begun - w->begun, passed = now - w->begun_at;
	uint64_t wait = used ? passed / 1000000 * PACKETS_A_LOOK / used : 2ull * w->wait_ms;

	w->begun = begun;
	w->begun_at = now;
	w->wait_ms = wait < 1 ? 1 : wait > most ? most : (unsigned int)wait;
	return used;
}

bool spool_watch_was_short(struct spool_watch *w)
{
	const struct spool_header *h = w->header;
	uint64_t most = h ? atomic_load(&h->control_max_packets) : 0;
	uint64_t dropped =
	    h ? atomic_load(&h->dropped_samples) + atomic_load(&h->dropped_frees) : 0;

	w->short_of_space |=
	    dropped > w->dropped && most && (!w->max_packets || most < w->max_packets);
	w->dropped = dropped;
	return w->short_of_space;
}

int spool_watch_tick(struct spool_watch *w)
{
	struct spool_header *h = w->header;
	uint64_t used, ahead = w->least_ahead, claimed, reserved, available;
	int error = 0;

	if (!is_whole(w))
		return 0;
	spool_watch_was_short(w);
	used = measure(w);
	claimed = atomic_load(&h->packets_claimed);
	if (ahead < 2 * used && used < UINT32_MAX)
		ahead = 2 * used;
	if (atomic_load(&h->state) != SPOOL_RUNNING)
		return 0;
	if (w->pause) {
		w->pause--;
		return 0;
	}
	reserved = atomic_load(&h->packets_reserved);
	/* Claims run past the end when packets are missing; a damaged count must not fill the disk.
	 */
	if (claimed > reserved)
		claimed = reserved;
	available = reserved - claimed + ring_holds(h);
	if (available >= ahead - ahead / 4)
		return 0;
	if (w->holes) {
		error = fill_ring(w, 2 * ahead - available);
		available = reserved - claimed + ring_holds(h);
	}
	if (available < ahead && !error)
		error = spool_watch_reserve(w, reserved + 2 * ahead - available);
	if (!error)
		return 0;
	w->pause = PAUSE_TICKS;
	if (w->full)
		return 0;
	w->full = true;
	return error;
}

void spool_watch_close(struct spool_watch *w)
{
	unguard(w);
	for (size_t i = 0; i < w->windows; i++)
		if (w->window[i])
			munmap(w->window[i], WINDOW_BYTES);
	free(w->window);
	free(w->hole);
	free(w->in_hole);
	if (w->header)
		munmap(w->header, SPOOL_HEADER_BYTES);
	if (w->fd >= 0)
		close(w->fd);
	memset(w, 0, sizeof(*w));
	w->fd = -1;
}

/* ---- looking at spools ---- */

void spool_glance_at(const struct spool_header *h, struct spool_glance *g)
{
	uint64_t next = atomic_load(&h->next_sample_id);

	g->state = atomic_load(&h->state);
	g->image = h->image;
	g->pid = (pid_t)h->pid;
	g->pid_namespace = h->pid_namespace;
	g->start_mono_ns = (int64_t)h->start_mono_ns;
	g->samples = next > h->first_sample_id ? next - h->first_sample_id : 0;
	g->dropped = atomic_load(&h->dropped_samples);
	g->begun = atomic_load(&h->claims);
	g->fork_ticks = h->fork_ticks;
	g->exact = h->mode == SPOOL_EXACT;
	g->live_bytes = atomic_load(&h->live_bytes);
	g->child_lost = atomic_load(&h->exited) & SPOOL_CHILD_LOST;
	g->executed = atomic_load(&h->exited) & SPOOL_EXECUTED;
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

void spool_remove(const char *path)
{
	static const char zeros[sizeof(SPOOL_MAGIC) - 1];
	char begin[sizeof(zeros)] = {0};
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	ssize_t got;

	if (fd < 0)
		return;
	got = pread(fd, begin, sizeof(begin), 0);
	close(fd);
	if (got >= 0 &&
	    (!memcmp(begin, zeros, sizeof(begin)) || !memcmp(begin, SPOOL_MAGIC, sizeof(begin))))
		unlink(path);
}

const char *spool_base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

char *spool_part_name(const char *path)
{
	size_t length = strlen(path), ending = strlen(SPOOL_ENDING);
	char *name;

	if (length <= ending || strcmp(path + length - ending, SPOOL_ENDING) != 0)
		return NULL;
	return asprintf(&name, "%.*s.part", (int)(length - ending), path) < 0 ? NULL : name;
}

unsigned long spool_image_number(const char *path)
{
	const char *base = spool_base_name(path), *at = base + strlen(base) - strlen(SPOOL_ENDING);

	while (at > base && at[-1] >= '0' && at[-1] <= '9')
		at--;
	return strtoul(at, NULL, 10);
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
	return strdup(spool_base_name(name));
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
	return !strcmp(end, SPOOL_ENDING);
}

static int spool_watch_compare(const void *a, const void *b)
{
	const struct spool_entry *x = a, *y = b;

	if (x->pid != y->pid)
		return x->pid < y->pid ? -1 : 1;
	return x->number < y->number ? -1 : x->number > y->number;
}

/* The entries of `folder` whose name is `base` followed by ".PID.K.spool". */
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
		if (!array_reserve(&list->entry, &list->room, list->count, sizeof(*list->entry))) {
			free(e.path);
			return false;
		}
		list->entry[list->count++] = e;
	}
	return true;
}

bool spool_list_read(struct spool_list *list, const char *file)
{
	const char *base = spool_base_name(file);
	char *folder = strndup(file, (size_t)(base - file));
	DIR *dir;
	bool good = true;

	*list = (struct spool_list){0};
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
		qsort(list->entry, list->count, sizeof(*list->entry), spool_watch_compare);
	return good;
}

void spool_list_free(struct spool_list *list)
{
	for (size_t i = 0; i < list->count; i++)
		free(list->entry[i].path);
	free(list->entry);
	*list = (struct spool_list){0};
}
