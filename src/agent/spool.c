/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writing the spool: see spool.h, and format/spool_format.h for the layout of the file.
 *
 * The file is mapped in windows, the first large enough for most runs. Its disk blocks are reserved
 * before they are touched (a store into a hole of a full disk would be a SIGBUS), normally by the
 * recorder, which looks on from outside; when nobody does, by the thread that needs the next
 * packet. No descriptor stays open: the file is opened again for each extension.
 */
#include "agent/spool.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "agent/cpu/sys.h"
#include "agent/events/labels.h"
#include "agent/unwind/modules.h"

/* Address space is mapped in windows of 64 MiB, so that a program which has changed its root or its
 * user, and cannot open the file again, still has room for millions of samples; of 4 MiB where
 * address space is limited. */
#define WINDOW_PACKETS	       1024u
#define WINDOW_PACKETS_LIMITED 64u
#define WINDOWS		       4096u
#define EXTEND_PACKETS	       16u

struct spool_header *spool_header;

static const uint32_t awake_before = 1;
const uint32_t *spool_awake = &awake_before;

static _Atomic(uint8_t *) windows[WINDOWS];
static uint32_t window_packets = WINDOW_PACKETS;
static char path[4096 + 64];
static struct agent_lock extend_lock; /* protects the file's size and the windows */
static struct agent_lock pool_lock;   /* protects pool */
static struct writer *pool;
static _Atomic uint32_t writers;

/* ---- the file ---- */

static size_t packet_offset(uint64_t index)
{
	return SPOOL_HEADER_BYTES + (size_t)index * SPOOL_PACKET_BYTES;
}

/* RLIMIT_FSIZE must be asked first: going beyond it raises SIGXFSZ in the program. */
static int reserve(int fd, size_t from, size_t to)
{
	if (sys_soft_limit(RLIMIT_FSIZE) < to)
		return EFBIG;
	long result = sys_fallocate(fd, 0, (long)from, (long)(to - from));
	if (!sys_failed(result))
		return 0;
	if (result != -EOPNOTSUPP && result != -ENOSYS)
		return (int)-result;
	/* A filesystem without fallocate: append zeros. The recorder may be doing the same; who
	 * writes at a place instead could wipe out a packet that is already in use. */
	static const uint8_t zeros[4096];
	long size = sys_lseek(fd, 0, SEEK_END);
	sys_fcntl(fd, F_SETFL, O_APPEND);
	while (!sys_failed(size) && (size_t)size < to) {
		size_t n = to - (size_t)size < sizeof(zeros) ? to - (size_t)size : sizeof(zeros);
		long written = sys_write(fd, zeros, n);
		if (sys_failed(written) || written == 0)
			return written ? (int)-written : ENOSPC;
		size = sys_lseek(fd, 0, SEEK_END);
	}
	return sys_failed(size) ? (int)-size : 0;
}

static uint8_t *map_window(int fd, uint32_t window)
{
	size_t offset = packet_offset((uint64_t)window * window_packets);
	long p = sys_mmap(NULL, (size_t)window_packets * SPOOL_PACKET_BYTES, PROT_READ | PROT_WRITE,
			  MAP_SHARED, fd, (long)offset);

	return sys_failed(p) ? NULL : (uint8_t *)p;
}

/* Makes packet `index` usable: its blocks reserved, its window mapped. 0 or errno. */
static int extend(uint64_t index)
{
	uint32_t window = (uint32_t)(index / window_packets);
	int error = 0;

	if (window >= WINDOWS)
		return EFBIG;
	if (!agent_lock(&extend_lock))
		return EDEADLK;
	bool mapped = atomic_load(&windows[window]) != NULL;
	uint64_t reserved = atomic_load(&spool_header->packets_reserved);
	if (!mapped || index >= reserved) {
		if (agent_sandboxed) {
			error = EPERM;
		} else {
			long fd = sys_openat(AT_FDCWD, path, O_RDWR | O_CLOEXEC | O_NOFOLLOW, 0);
			if (sys_failed(fd)) {
				error = (int)-fd;
			} else {
				if (index >= reserved) {
					uint64_t to = index + EXTEND_PACKETS;
					error = reserve((int)fd, packet_offset(reserved),
							packet_offset(to));
					if (error) { /* perhaps there is room for just one */
						to = index + 1;
						error = reserve((int)fd, packet_offset(reserved),
								packet_offset(to));
					}
					/* The recorder may have gone further meanwhile. */
					while (!error && reserved < to &&
					       !atomic_compare_exchange_weak(
						   &spool_header->packets_reserved, &reserved, to))
						;
				}
				if (!error && !mapped) {
					uint8_t *p = map_window((int)fd, window);
					if (p)
						atomic_store(&windows[window], p);
					else
						error = ENOMEM;
				}
				sys_close((int)fd);
			}
		}
	}
	agent_unlock(&extend_lock);
	return error;
}

static void *packet_at(uint64_t index)
{
	uint8_t *window =
	    index / window_packets < WINDOWS ? atomic_load(&windows[index / window_packets]) : NULL;

	return window ? window + (size_t)(index % window_packets) * SPOOL_PACKET_BYTES : NULL;
}

/* ---- opening ---- */

static size_t append_number(char *out, uint64_t n)
{
	char digits[24];
	size_t length = 0, i = 0;

	do
		digits[length++] = (char)('0' + n % 10);
	while (n /= 10);
	while (length)
		out[i++] = digits[--length];
	return i;
}

/* The mark becomes the pid. With `suffix`, ".PID.K" goes before a final ".spool". */
static void make_path(char *out, bool suffix, uint32_t pid, uint32_t k)
{
	const char *in = agent_config.output;
	size_t n = 0, length = strlen(in);
	size_t stem = length;

	if (suffix && length > 6 && !memcmp(in + length - 6, ".spool", 6))
		stem = length - 6;
	for (size_t i = 0; i < length && n < sizeof(path) - 60; i++) {
		if (suffix && i == stem) {
			out[n++] = '.';
			n += append_number(out + n, pid);
			out[n++] = '.';
			n += append_number(out + n, k);
		}
		if (in[i] == AGENT_PID_MARK) {
			n += append_number(out + n, pid);
		} else {
			out[n++] = in[i];
		}
	}
	if (suffix && stem == length) {
		out[n++] = '.';
		n += append_number(out + n, pid);
		out[n++] = '.';
		n += append_number(out + n, k);
	}
	out[n] = 0;
}

static uint64_t clock_ns(clockid_t id)
{
	struct timespec t = {0, 0};

	clock_gettime(id, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* Reads a small /proc file or link; returns its length. */
static size_t read_text(const char *name, char *out, size_t size, bool link, bool *more)
{
	size_t n = 0;

	*more = false;
	if (link) {
		long length = sys_readlinkat(AT_FDCWD, name, out, size);
		return sys_failed(length) ? 0 : (size_t)length;
	}
	long fd = sys_openat(AT_FDCWD, name, O_RDONLY | O_CLOEXEC, 0);
	if (sys_failed(fd))
		return 0;
	while (n < size) {
		long got = sys_read((int)fd, out + n, size - n);
		if (sys_failed(got) || got == 0)
			break;
		n += (size_t)got;
	}
	if (n == size) {
		char next;
		*more = sys_read((int)fd, &next, 1) == 1;
	}
	sys_close((int)fd);
	return n;
}

/*
 * The program under the name that it was started by: redis-server, where the kernel says
 * redis-check-rdb, to which that is a link. program_link is what modules.c knows it by.
 */
static char program_link[PATH_MAX], program_name[PATH_MAX];

static void name_program(void)
{
	const char *started_as = (const char *)getauxval(AT_EXECFN);
	bool more;
	size_t length = read_text("/proc/self/exe", program_link, PATH_MAX - 1, true, &more);

	program_link[length] = 0;
	/* For a script the kernel's word is the script; the program is its interpreter. */
	if (started_as && started_as[0] == '/' && strlen(started_as) < PATH_MAX &&
	    sys_same_file(started_as, "/proc/self/exe"))
		strcpy(program_name, started_as);
	else
		strcpy(program_name, program_link);
}

static void fill_header(struct spool_header *h, uint32_t image)
{
	char *base = (char *)h;
	size_t at = sizeof(*h);
	bool more;

	memcpy(h->magic, SPOOL_MAGIC, 8);
	h->version = SPOOL_VERSION;
	h->header_bytes = SPOOL_HEADER_BYTES;
	h->packet_bytes = SPOOL_PACKET_BYTES;
	h->features = 0;
	h->pid = (uint32_t)sys_getpid();
	h->parent_pid = (uint32_t)sys_getppid();
	h->clock = agent_use_tsc ? SPOOL_CLOCK_TSC : SPOOL_CLOCK_MONOTONIC;
	h->start_real_ns = clock_ns(CLOCK_REALTIME);
	h->start_mono_ns = clock_ns(CLOCK_MONOTONIC);
	h->start_ticks = agent_ticks();
	h->sampler = agent_config.sampler;
	h->interval_log2 = agent_config.interval_log2;
	h->image = image;
	h->seed = agent_config.seed;
	h->mode = agent_config.interval_log2 ? SPOOL_SAMPLED : SPOOL_EXACT;

	size_t note = strlen(agent_config.note);
	memcpy(base + at, agent_config.note, note);
	h->note_offset = (uint32_t)at;
	atomic_store(&h->note_length, (uint32_t)note);
	at += sizeof(agent_config.note); /* it may grow */
	name_program();
	h->exe_offset = (uint32_t)at;
	h->exe_length = (uint32_t)strlen(program_name);
	memcpy(base + at, program_name, h->exe_length);
	at += h->exe_length;
	h->command_offset = (uint32_t)at;
	h->command_length = (uint32_t)read_text("/proc/self/cmdline", base + at,
						SPOOL_HEADER_BYTES - at - 8192, false, &more);
	h->command_truncated = more;
}

/* The spool that the recorder made for us, if it is still waiting; else one of our own. */
static long open_file(uint32_t *image, bool *fresh, uint32_t pid)
{
	make_path(path, false, pid, 0);
	*fresh = false;
	*image = 0;
	long fd = sys_openat(AT_FDCWD, path, O_RDWR | O_CLOEXEC | O_NOFOLLOW, 0);
	if (!sys_failed(fd) && (!agent_config.target_pid || agent_config.target_pid == pid)) {
		struct spool_header *h = (void *)sys_mmap(
		    NULL, SPOOL_HEADER_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, (int)fd, 0);
		long size = sys_lseek((int)fd, 0, SEEK_END);
		if (!sys_failed((long)h) && size >= (long)SPOOL_HEADER_BYTES &&
		    !memcmp(h->magic, SPOOL_MAGIC, 8) && h->version == SPOOL_VERSION &&
		    h->packet_bytes == SPOOL_PACKET_BYTES) {
			uint32_t waiting = SPOOL_WAITING;
			if (atomic_compare_exchange_strong(&h->state, &waiting, SPOOL_RUNNING)) {
				spool_header = h;
				return fd;
			}
		}
		if (!sys_failed((long)h))
			sys_munmap(h, SPOOL_HEADER_BYTES);
	}
	if (!sys_failed(fd))
		sys_close((int)fd);
	*fresh = true;
	if (fd == -ENOENT) {
		fd = sys_openat(AT_FDCWD, path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
		if (fd != -EEXIST)
			return fd;
	}
	for (uint32_t k = 0; k < 10000; k++) {
		make_path(path, true, pid, k);
		*image = k + (agent_config.target_pid == pid);
		fd = sys_openat(AT_FDCWD, path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
		if (fd != -EEXIST)
			return fd;
	}
	return fd;
}

static bool open_spool(const char *parent, uint32_t parent_pid, uint64_t first_id,
		       uint64_t fork_ticks, uint32_t *reason, int *error)
{
	uint32_t image, pid = (uint32_t)sys_getpid();
	bool fresh;

	*reason = SPOOL_OFF_NO_SPACE;
	long fd = open_file(&image, &fresh, pid);
	if (sys_failed(fd)) {
		*error = (int)-fd;
		return false;
	}
	if (fresh) {
		*error = reserve((int)fd, 0, packet_offset(EXTEND_PACKETS));
		struct spool_header *h =
		    *error ? NULL
			   : (void *)sys_mmap(NULL, SPOOL_HEADER_BYTES, PROT_READ | PROT_WRITE,
					      MAP_SHARED, (int)fd, 0);
		if (!h || sys_failed((long)h)) {
			if (!*error)
				*error = ENOMEM;
			sys_close((int)fd);
			sys_unlinkat(AT_FDCWD, path, 0);
			return false;
		}
		atomic_store(&h->packets_reserved, EXTEND_PACKETS);
		atomic_store(&h->control_enabled, !agent_config.dormant);
		atomic_store(&h->control_interval_log2, agent_config.interval_log2);
		atomic_store(&h->control_overhead, agent_config.overhead);
		if (agent_config.max_spool)
			atomic_store(&h->control_max_packets,
				     (agent_config.max_spool - 1) / SPOOL_PACKET_BYTES + 1);
		spool_header = h;
	}
	if (sys_soft_limit(RLIMIT_AS) != RLIM_INFINITY)
		window_packets = WINDOW_PACKETS_LIMITED;
	uint8_t *window = map_window((int)fd, 0);
	sys_close((int)fd);
	if (!window) {
		*reason = SPOOL_OFF_NO_MEMORY;
		*error = ENOMEM;
		return false;
	}
	atomic_store(&windows[0], window);
	struct spool_header *h = spool_header;
	fill_header(h, image);
	h->first_sample_id = first_id;
	h->fork_ticks = fork_ticks;
	h->fork_parent_pid = parent_pid;
	if (parent) {
		size_t length = strlen(parent);
		h->parent_spool_offset = h->command_offset + h->command_length;
		h->parent_spool_length = (uint32_t)length;
		memcpy((char *)h + h->parent_spool_offset, parent, length);
	}
	atomic_store(&h->next_sample_id, first_id);
	atomic_store(&h->state, SPOOL_RUNNING);
	__atomic_store_n(&spool_awake, (const uint32_t *)&h->control_enabled, __ATOMIC_RELAXED);
	return true;
}

bool spool_open(uint32_t *reason, int *error)
{
	return open_spool(NULL, 0, 0, 0, reason, error);
}

bool spool_open_child(uint64_t fork_ticks, uint32_t *reason, int *error)
{
	static char parent[sizeof(path)];
	uint64_t id = atomic_load(&spool_header->next_sample_id);
	uint32_t parent_pid = spool_header->pid;

	memcpy(parent, path, sizeof(path));
	spool_forget();
	return open_spool(parent, parent_pid, id, fork_ticks ? fork_ticks : agent_ticks(), reason,
			  error);
}

/* ---- packets ---- */

static bool make_usable(uint64_t index)
{
	int error = extend(index);

	if (error)
		agent_off(error == EPERM    ? SPOOL_OFF_SANDBOX
			  : error == ENOMEM ? SPOOL_OFF_NO_MEMORY
					    : SPOOL_OFF_NO_SPACE,
			  error, "the spool could not be extended");
	return !error;
}

/* A packet that the recorder has given back: its disk blocks and its pages are there already. */
static struct spool_packet *claim_recycled(void)
{
	struct spool_header *h = spool_header;
	uint64_t tail = atomic_load_explicit(&h->recycled_tail, memory_order_relaxed);

	for (;;) {
		if (tail == atomic_load_explicit(&h->recycled_head, memory_order_acquire))
			return NULL;
		uint64_t index =
		    atomic_load_explicit(&h->recycled[tail % SPOOL_RECYCLED], memory_order_relaxed);
		if (!atomic_compare_exchange_weak(&h->recycled_tail, &tail, tail + 1))
			continue;
		if (index >= atomic_load(&h->packets_reserved))
			return NULL; /* the ring was not written by a recorder */
		return packet_at(index) || make_usable(index) ? packet_at(index) : NULL;
	}
}

/* NULL: agent_off, or the spool has reached its limit and nothing has been given back yet. */
static struct spool_packet *claim(void)
{
	struct spool_header *h = spool_header;
	struct spool_packet *p = claim_recycled();

	while (!p) {
		uint64_t next = atomic_load(&h->packets_claimed);
		uint64_t most = atomic_load_explicit(&h->control_max_packets, memory_order_relaxed);
		if (most && next >= most)
			return NULL;
		if (next >= atomic_load(&h->packets_reserved) || !packet_at(next)) {
			if (!make_usable(next))
				return NULL;
		} else if (atomic_compare_exchange_weak(&h->packets_claimed, &next, next + 1)) {
			p = packet_at(next);
		}
	}
	return p;
}

static void put_u(struct writer *w, uint64_t value)
{
	while (value >= 0x80) {
		*w->at++ = (uint8_t)value | 0x80;
		value >>= 7;
	}
	*w->at++ = (uint8_t)value;
}

static void put_s(struct writer *w, int64_t value)
{
	put_u(w, (uint64_t)value << 1 ^ (uint64_t)(value >> 63));
}

static void put_q(struct writer *w, uint64_t value)
{
	memcpy(w->at, &value, 8);
	w->at += 8;
}

static void put_time(struct writer *w, uint64_t ticks)
{
	put_s(w, (int64_t)(ticks - w->last_ticks));
	w->last_ticks = ticks;
}

static void put_id(struct writer *w, uint64_t id)
{
	put_s(w, (int64_t)(id - w->last_id));
	w->last_id = id;
}

static void put_thread(struct writer *w)
{
	size_t length = strnlen(w->name, sizeof(w->name));

	*w->at++ = SPOOL_THREAD;
	put_u(w, w->tid);
	put_u(w, length);
	memcpy(w->at, w->name, length);
	w->at += length;
}

static void put_lost(struct writer *w)
{
	*w->at++ = SPOOL_LOST;
	put_time(w, w->last_ticks);
	put_u(w, w->lost_samples);
	put_u(w, w->lost_frees);
	put_u(w, w->lost_events);
	w->lost_samples = w->lost_frees = w->lost_events = 0;
}

#define LABELS_UNKNOWN UINT64_MAX /* no version of a thread's */

/* A new packet has no labels in force, and no TYPE and LABEL records. */
static void forget_said(struct writer *w)
{
	w->label_count = 0;
	w->label_version = LABELS_UNKNOWN;
	if (w->types_said)
		memset(w->type_said, 0, sizeof(w->type_said));
	if (w->labels_said)
		memset(w->label_said, 0, sizeof(w->label_said));
	w->types_said = w->labels_said = false;
}

/* A record that finds no packet leaves the writer without one, so that what was lost is told at the
 * start of the next. */
static bool begin_packet(struct writer *w)
{
	struct spool_packet *p = claim();

	w->packet = p;
	w->at = w->end = NULL;
	if (!p)
		return false;
	w->last_ticks = w->clock_ticks = agent_ticks();
	p->mono_ns = clock_ns(CLOCK_MONOTONIC);
	p->ticks = w->last_ticks;
	p->writer = w->number;
	p->tid = w->tid;
	p->interval_log2 = w->interval_log2;
	atomic_store_explicit(&p->late_ticks, 0, memory_order_relaxed);
	atomic_store_explicit(&p->late_mono_ns, 0, memory_order_relaxed);
	p->pad0 = 0;
	p->sequence = 1 + atomic_fetch_add(&spool_header->claims, 1);
	w->last_id = spool_header->first_sample_id;
	w->last_address = 0;
	w->at = (uint8_t *)(p + 1);
	w->end = (uint8_t *)p + SPOOL_PACKET_BYTES;
	w->depth = 0;
	w->stack_known = w->ocaml_known = false;
	memset(w->cache, 0, sizeof(w->cache));
	forget_said(w);
	atomic_store_explicit(&p->used, 0, memory_order_relaxed);
	__atomic_store_n(&p->magic, SPOOL_PACKET_MAGIC, __ATOMIC_RELEASE);
	atomic_store_explicit(&spool_header->last_ticks, w->last_ticks, memory_order_relaxed);
	put_thread(w);
	if (w->lost_samples || w->lost_frees || w->lost_events)
		put_lost(w);
	spool_commit(w);
	return true;
}

/* Room for `bytes` more in the packet, or a new packet. */
static bool room(struct writer *w, size_t bytes)
{
	if (w->packet && (size_t)(w->end - w->at) >= bytes)
		return true;
	return begin_packet(w);
}

/* Set when a module's record found no room: all are written again as soon as there is some. */
static _Atomic bool module_missed;

COLD bool spool_make_room(struct writer *w, size_t bytes)
{
	int error = errno;
	bool good = room(w, bytes);

	if (good && UNLIKELY(atomic_load_explicit(&module_missed, memory_order_relaxed))) {
		atomic_store(&module_missed, false);
		if (!modules_each(agent_module_seen))
			atomic_store(&module_missed, true);
		good = room(w, bytes);
	}
	errno = error;
	return good;
}

void spool_drop_sample(struct writer *w)
{
	w->lost_samples++;
	atomic_fetch_add_explicit(&spool_header->dropped_samples, 1, memory_order_relaxed);
}

void spool_drop_free(struct writer *w)
{
	w->lost_frees++;
	atomic_fetch_add_explicit(&spool_header->dropped_frees, 1, memory_order_relaxed);
}

void spool_drop_event(struct writer *w)
{
	if (w)
		w->lost_events++;
	atomic_fetch_add_explicit(&spool_header->dropped_events, 1, memory_order_relaxed);
}

#define RECORD_BYTES 80u /* all fields of any record but its frames and texts, at their longest */

/* Spans may have ended meanwhile, which nobody has told or counted. Where the interval has changed
 * it was that, and not dormant. */
COLD void spool_tell_gap(struct writer *w)
{
	uint32_t interval = atomic_load(&spool_header->control_interval_log2);
	bool same = interval == w->control_interval;

	w->control_generation = atomic_load(&spool_header->control_generation);
	w->control_interval = interval;
	if (same && room(w, RECORD_BYTES)) {
		put_lost(w);
		spool_commit(w);
	}
}

COLD void spool_note_clock(struct writer *w)
{
	w->clock_ticks = agent_ticks();
	if (agent_sandboxed)
		return;
	uint64_t mono = clock_ns(CLOCK_MONOTONIC);
	atomic_store_explicit(&w->packet->late_mono_ns, mono, memory_order_relaxed);
	atomic_store_explicit(&w->packet->late_ticks, agent_ticks(), memory_order_relaxed);
	atomic_store_explicit(&spool_header->last_ticks, w->clock_ticks, memory_order_relaxed);
}

bool spool_sample(struct writer *w, uint64_t ticks, uint64_t id, uint64_t size, uint32_t hits,
		  uint32_t flags)
{
	const struct walk *walk = &w->walk;
	uint32_t interval_log2 = self.sampler.interval_log2;
	uint32_t common;

	if (!spool_stack_room(w, 2 * RECORD_BYTES) ||
	    !labels_ready(w, 2 * RECORD_BYTES + walk->depth * SPOOL_FRAME_BYTES)) {
		spool_drop_sample(w);
		return false;
	}
	common = spool_common(w);
	if (w->interval_log2 != interval_log2) {
		w->interval_log2 = interval_log2;
		*w->at++ = SPOOL_INTERVAL;
		*w->at++ = (uint8_t)interval_log2;
	}
	*w->at++ = SPOOL_SAMPLE;
	*w->at++ = (uint8_t)flags;
	put_time(w, ticks);
	put_id(w, id);
	put_u(w, size);
	put_u(w, hits);
	put_u(w, w->depth - common);
	put_u(w, walk->depth - common);
	for (uint32_t i = common; i < walk->depth; i++)
		w->at = spool_put_frame(w, w->at, walk->frames[i].address);
	w->depth = walk->depth;
	w->stack_known = true;
	w->ocaml_known = false;
	spool_check_clock(w, ticks);
	spool_commit(w);
	atomic_store_explicit(&spool_header->last_ticks, ticks, memory_order_relaxed);
	if (walk->truncated)
		atomic_fetch_add_explicit(&spool_header->truncated_stacks, 1, memory_order_relaxed);
	return true;
}

void spool_free(struct writer *w, uint64_t ticks, uint64_t id, uint32_t flags)
{
	if (!spool_room(w, RECORD_BYTES)) {
		spool_drop_free(w);
		return;
	}
	*w->at++ = SPOOL_FREE;
	*w->at++ = (uint8_t)flags;
	put_time(w, ticks);
	put_id(w, id);
	spool_commit(w);
}

static void note_truncated(const uint64_t *stack, uint32_t depth)
{
	if (depth && stack[0] & SPOOL_MARK_BIT)
		atomic_fetch_add_explicit(&spool_header->truncated_stacks, 1, memory_order_relaxed);
}

/* Root-most frames that the packet's current stack has, too. */
static uint32_t ocaml_common(const struct writer *w, const uint64_t *stack, uint32_t depth)
{
	uint32_t n = 0, most = w->ocaml_known ? w->ocaml_depth : 0;

	while (n < depth && n < most && stack[n] == w->ocaml_stack[n])
		n++;
	return n;
}

bool spool_ocaml_sample(struct writer *w, uint64_t ticks, uint64_t id, uint64_t size, uint64_t hits,
			uint32_t heap, const uint64_t *stack, uint32_t depth)
{
	size_t bytes = RECORD_BYTES + depth * SPOOL_FRAME_BYTES;
	uint32_t common;

	if (!spool_room(w, bytes) || !labels_ready(w, bytes)) {
		spool_drop_sample(w);
		return false;
	}
	common = ocaml_common(w, stack, depth);
	*w->at++ = SPOOL_SAMPLE;
	*w->at++ = (uint8_t)(heap << SPOOL_FLAG_HEAP_SHIFT);
	put_time(w, ticks);
	put_id(w, id);
	put_u(w, size);
	put_u(w, hits);
	put_u(w, w->depth - common);
	put_u(w, depth - common);
	for (uint32_t i = common; i < depth; i++)
		w->at = spool_put_frame(w, w->at, stack[i]);
	memcpy(w->ocaml_stack + common, stack + common, (depth - common) * sizeof(*stack));
	w->depth = w->ocaml_depth = depth;
	w->ocaml_known = true;
	w->stack_known = false;
	spool_check_clock(w, ticks);
	spool_commit(w);
	atomic_store_explicit(&spool_header->last_ticks, ticks, memory_order_relaxed);
	note_truncated(stack, depth);
	return true;
}

void spool_promote(struct writer *w, uint64_t ticks, uint64_t id)
{
	if (!spool_room(w, RECORD_BYTES))
		return;
	*w->at++ = SPOOL_PROMOTE;
	put_time(w, ticks);
	put_id(w, id);
	spool_commit(w);
}

void spool_heap_end(struct writer *w, uint64_t ticks)
{
	if (!spool_room(w, RECORD_BYTES))
		return;
	*w->at++ = SPOOL_HEAP_END;
	put_time(w, ticks);
	spool_commit(w);
}

void spool_allocator(struct writer *w, uint64_t ticks, uint32_t whose, const uint64_t *value,
		     uint32_t count)
{
	if (!spool_room(w, 2 * RECORD_BYTES))
		return;
	*w->at++ = SPOOL_ALLOCATOR;
	put_time(w, ticks);
	put_u(w, whose);
	put_u(w, count);
	for (uint32_t i = 0; i < count; i++)
		put_u(w, value[i]);
	spool_commit(w);
}

#define TEXT_MOST 512u /* bytes of a function's or a file's name */

static void put_text(struct writer *w, const char *text)
{
	size_t length = text ? strnlen(text, TEXT_MOST) : 0;

	put_u(w, length);
	memcpy(w->at, text, length);
	w->at += length;
}

void spool_place(struct writer *w, uint64_t ticks, uint64_t address,
		 const struct spool_place *place, uint32_t count)
{
	size_t bytes = RECORD_BYTES;

	for (uint32_t i = 0; i < count; i++)
		bytes += RECORD_BYTES + strnlen(place[i].function, TEXT_MOST) +
			 strnlen(place[i].file, TEXT_MOST);
	if (!spool_room(w, bytes))
		return;
	*w->at++ = SPOOL_PLACE;
	put_time(w, ticks);
	put_q(w, address);
	put_u(w, count);
	for (uint32_t i = 0; i < count; i++) {
		put_text(w, place[i].function);
		put_text(w, place[i].file);
		put_u(w, place[i].line);
		put_u(w, place[i].first);
		put_u(w, place[i].last);
	}
	spool_commit(w);
}

void spool_note(const char *text)
{
	struct spool_header *h = spool_header;

	agent_add_note(text, "", 0);
	memcpy((char *)h + h->note_offset, agent_config.note, sizeof(agent_config.note));
	atomic_store_explicit(&h->note_length, (uint32_t)strlen(agent_config.note),
			      memory_order_release);
}

static void put_module(const struct module *m, const char *folder, size_t before, const char *name)
{
	struct writer *w = self.writer;
	size_t length = strnlen(name, PATH_MAX - 1);
	size_t id_length = m->build_id_length <= 32 ? m->build_id_length : 0;

	if (!w || !room(w, RECORD_BYTES + before + length + id_length)) {
		atomic_store(&module_missed, true);
		return;
	}
	*w->at++ = SPOOL_MODULE;
	put_time(w, agent_ticks());
	put_q(w, m->start);
	put_q(w, m->end);
	put_q(w, m->bias);
	put_u(w, before + length);
	memcpy(w->at, folder, before);
	w->at += before;
	memcpy(w->at, name, length);
	w->at += length;
	put_u(w, id_length);
	memcpy(w->at, m->build_id, id_length);
	w->at += id_length;
	spool_commit(w);
}

/* A library found by a relative path: later nobody knows relative to what. Apart, because the
 * folder is large, and the program's stack may be small. */
static COLD void put_relative_module(const struct module *m, const char *name)
{
	char folder[PATH_MAX];
	size_t before = 0;

	if (!agent_sandboxed && sys_getcwd(folder, sizeof(folder) - 1) > 0) {
		before = strlen(folder);
		folder[before++] = '/';
	}
	put_module(m, folder, before, name);
}

/* Modules are met while a stack is walked: the walking thread's own writer takes the record. Its
 * packet may have to change for it, which loses nothing: the sample being made follows later. */
void agent_module_seen(const struct module *m)
{
	const char *name = strcmp(m->path, program_link) ? m->path : program_name;

	if (name[0] != '/' && strchr(name, '/'))
		put_relative_module(m, name);
	else
		put_module(m, "", 0, name);
}

void agent_module_gone(uint64_t start)
{
	struct writer *w = self.writer;

	if (!w || !room(w, RECORD_BYTES))
		return;
	*w->at++ = SPOOL_GONE;
	put_time(w, agent_ticks());
	put_q(w, start);
	spool_commit(w);
}

/* ---- writers ---- */

static void read_name(struct writer *w)
{
	memset(w->name, 0, sizeof(w->name));
	if (!agent_sandboxed)
		sys_prctl(PR_GET_NAME, (long)w->name, 0, 0);
	w->name[sizeof(w->name) - 1] = 0;
}

struct writer *spool_acquire(void)
{
	if (!agent_lock(&pool_lock))
		return NULL;
	struct writer *w = pool;
	if (w)
		pool = w->next;
	agent_unlock(&pool_lock);
	if (!w) {
		if (agent_sandboxed)
			return NULL;
		w = sys_memory(sizeof(*w));
		if (!w)
			return NULL;
		w->number = atomic_fetch_add(&writers, 1) + 1;
	}
	w->tid = self.tid;
	w->label_version = LABELS_UNKNOWN;
	w->interval_log2 = self.sampler.interval_log2;
	w->control_generation = atomic_load(&spool_header->control_generation);
	w->control_interval = atomic_load(&spool_header->control_interval_log2);
	walk_forget(&w->walk);
	w->stack_known = false;
	read_name(w);
	if (w->packet && room(w, RECORD_BYTES)) {
		put_thread(w);
		/* The packet's interval is that of its last user: say ours. */
		*w->at++ = SPOOL_INTERVAL;
		*w->at++ = (uint8_t)w->interval_log2;
		spool_commit(w);
	}
	return w;
}

/* A name given after the thread's first sample is recorded when the thread ends. */
static void last_name(struct writer *w)
{
	char before[sizeof(w->name)];

	memcpy(before, w->name, sizeof(before));
	read_name(w);
	if (memcmp(before, w->name, sizeof(before)) && w->packet && room(w, RECORD_BYTES)) {
		put_thread(w);
		spool_commit(w);
	}
}

void spool_release(struct writer *w)
{
	if (self.state != THREAD_EXITING)
		last_name(w);
	if (!agent_lock(&pool_lock))
		return;
	w->next = pool;
	pool = w;
	agent_unlock(&pool_lock);
}

/* ---- fork and exit ---- */

bool spool_fork_room(struct writer *w)
{
	return room(w, RECORD_BYTES);
}

uint64_t spool_fork(struct writer *w)
{
	uint64_t ticks = agent_ticks();

	*w->at++ = SPOOL_FORK;
	put_time(w, ticks);
	spool_commit(w);
	return ticks;
}

/* The child must not touch the parent's packets: drop every mapping of them. Writers of threads
 * that do not exist here are lost memory, as their stacks are. */
void spool_forget(void)
{
	pool = NULL;
	atomic_store(&pool_lock.held, 0);
	atomic_store(&extend_lock.held, 0);
	if (self.writer) {
		self.writer->packet = NULL;
		self.writer->at = self.writer->end = NULL;
		self.writer->lost_samples = self.writer->lost_frees = 0;
		self.writer->lost_events = 0;
		self.writer->stack_known = self.writer->ocaml_known = false;
		self.writer->ocaml_depth = 0;
	}
	for (uint32_t i = 0; i < WINDOWS; i++) {
		uint8_t *window = atomic_load(&windows[i]);
		if (window)
			sys_munmap(window, (size_t)window_packets * SPOOL_PACKET_BYTES);
		atomic_store(&windows[i], NULL);
	}
	__atomic_store_n(&spool_awake, &awake_before, __ATOMIC_RELAXED);
	if (spool_header)
		sys_munmap(spool_header, SPOOL_HEADER_BYTES);
	spool_header = NULL;
}

void spool_end(void)
{
	if (!spool_header)
		return;
	if (self.writer && !self.busy)
		last_name(self.writer);
	uint64_t mono = clock_ns(CLOCK_MONOTONIC);
	atomic_store(&spool_header->end_ticks, agent_ticks());
	atomic_store(&spool_header->end_mono_ns, mono);
}
