/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The mapped file: see spool_file.h, and format/spool_format.h for its layout.
 *
 * The file is mapped in windows, the first large enough for most runs. Its disk blocks are reserved
 * before they are touched (a store into a hole of a full disk would be a SIGBUS), normally by the
 * recorder, which watches from outside; without one, by the thread that needs the next packet. No
 * descriptor stays open: the file is opened again for each extension.
 */
#include "agent/spool_file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/cpu/sys.h"
#include "agent/fields.h"
#include "agent/namespaces.h"
#include "agent/spool_request.h"

/* A window is 64 MiB, so that a program which has changed its root or its user, and cannot open the
 * file again, still has room for millions of samples. Where address space is limited: 4 MiB. */
#define WINDOW_PACKETS	       1024u
#define WINDOW_PACKETS_LIMITED 64u
#define WINDOWS		       4096u
#define EXTEND_PACKETS	       16u
#define RESIDENT_PACKETS       16u /* that stay in the process's memory when they are full */

static const uint32_t awake_before = 1;
const uint32_t *spool_awake = &awake_before;

static _Atomic(uint8_t *) windows[WINDOWS];
static uint32_t window_packets = WINDOW_PACKETS;
static char path[4096 + 64];
static struct stat opened;	     /* the file of that name then */
static struct spool_header *opening; /* mapped, not yet spool_header */
static _Atomic bool lost;
static struct agent_lock extend_lock; /* protects the file's size and the windows */

/* ---- the file ---- */

static size_t packet_offset(uint64_t index)
{
	return SPOOL_HEADER_BYTES + (size_t)index * SPOOL_PACKET_BYTES;
}

/* RLIMIT_FSIZE must be checked first: growing beyond it raises SIGXFSZ in the program. */
static int reserve_blocks(int fd, size_t from, size_t to)
{
	if (sys_soft_limit(RLIMIT_FSIZE) < to)
		return EFBIG;
	long result = sys_fallocate(fd, 0, (long)from, (long)(to - from));
	if (!sys_failed(result))
		return 0;
	if (result != -EOPNOTSUPP && result != -ENOSYS)
		return (int)-result;
	/* A filesystem without fallocate: append zeros. The recorder may do the same at this
	 * moment, and writing at a fixed place could overwrite a packet that is already in use. */
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

/* Maps a part of the file. A fault must not read ahead: the kernel would fill a hundred pages with
 * zeros, of which a short process uses two. */
static uint8_t *map_part(int fd, size_t offset, size_t bytes)
{
	long p = sys_mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, (long)offset);

	if (sys_failed(p))
		return NULL;
	sys_madvise((void *)p, bytes, MADV_RANDOM);
	return (uint8_t *)p;
}

static struct spool_header *map_header(int fd)
{
	opening = (struct spool_header *)map_part(fd, 0, SPOOL_HEADER_BYTES);
	return opening;
}

static uint8_t *map_window(int fd, uint32_t window)
{
	return map_part(fd, packet_offset((uint64_t)window * window_packets),
			(size_t)window_packets * SPOOL_PACKET_BYTES);
}

static long open_again_by_name(void)
{
	long fd = sys_openat(AT_FDCWD, path, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0);
	struct stat now;

	if (sys_failed(fd) || (!sys_failed(sys_fstat((int)fd, &now)) &&
			       now.st_ino == opened.st_ino && now.st_dev == opened.st_dev))
		return fd;
	sys_close((int)fd);
	return -ESTALE;
}

/* A negative errno where the file's name is gone, or is another file's by now. */
static long open_again(void)
{
	long fd = open_again_by_name(), given;
	const char *slash = strrchr(path, '/');
	struct handover h = {
	    .pid = spool_header->pid, .device = opened.st_dev, .inode = opened.st_ino};

	if (!sys_failed(fd) || !spool_request_is_possible() || strlen(slash + 1) >= sizeof(h.name))
		return fd;
	strcpy(h.name, slash + 1);
	given = spool_request_send(&h);
	return sys_failed(given) ? fd : given;
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
	if (atomic_load(&agent_state) == AGENT_OFF) {
		agent_unlock(&extend_lock);
		return ECANCELED;
	}
	bool mapped = atomic_load(&windows[window]) != NULL;
	uint64_t reserved = atomic_load(&spool_header->packets_reserved);
	if (!mapped || index >= reserved) {
		if (agent_sandboxed) {
			error = EPERM;
		} else {
			long fd = open_again();
			if (sys_failed(fd)) {
				error = (int)-fd;
			} else {
				if (index >= reserved) {
					uint64_t to = index + EXTEND_PACKETS;
					error = reserve_blocks((int)fd, packet_offset(reserved),
							       packet_offset(to));
					if (error) { /* perhaps there is room for just one */
						to = index + 1;
						error =
						    reserve_blocks((int)fd, packet_offset(reserved),
								   packet_offset(to));
					}
					/* The recorder may have reserved more meanwhile. */
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
			n += put_decimal(out + n, pid);
			out[n++] = '.';
			n += put_decimal(out + n, k);
		}
		if (in[i] == AGENT_PID_MARK) {
			n += put_decimal(out + n, pid);
		} else {
			out[n++] = in[i];
		}
	}
	if (suffix && stem == length) {
		out[n++] = '.';
		n += put_decimal(out + n, pid);
		out[n++] = '.';
		n += put_decimal(out + n, k);
	}
	out[n] = 0;
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
 * program_name is the name that the program was started by: redis-server, for example, where the
 * kernel's link (program_link, the path in modules.c) says redis-check-rdb, the file behind it.
 */
static char program_link[PATH_MAX], program_name[PATH_MAX];

static void name_program(void)
{
	const char *started_as = (const char *)getauxval(AT_EXECFN);
	bool more;
	size_t length = read_text("/proc/self/exe", program_link, PATH_MAX - 1, true, &more);

	program_link[length] = 0;
	/* For a script AT_EXECFN is the script, but the program is its interpreter. A name in /proc, or in
	 * /dev/fd after fexecve, means another file to everybody else. */
	if (started_as && started_as[0] == '/' && strncmp(started_as, "/proc/", 6) &&
	    strncmp(started_as, "/dev/fd/", 8) && strlen(started_as) < PATH_MAX &&
	    sys_same_file(started_as, "/proc/self/exe"))
		strcpy(program_name, started_as);
	else
		strcpy(program_name, program_link);
}

const char *spool_file_program(const char *found)
{
	return strcmp(found, program_link) ? found : program_name;
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
	h->pid_namespace = namespace_of("/proc/self/ns/pid");
	/* Without a recorder, each look at the spool makes a trace of all of it. A line through clock
	 * pairs that come meanwhile would give other times to the same blocks. */
	if (!atomic_load(&h->recorder_pid) && !agent_config.target_pid)
		agent_use_tsc = false;
	h->clock = agent_use_tsc ? SPOOL_CLOCK_TSC : SPOOL_CLOCK_MONOTONIC;
	h->start_real_ns = agent_clock_ns(CLOCK_REALTIME);
	h->start_mono_ns = agent_clock_ns(CLOCK_MONOTONIC);
	h->start_ticks = agent_ticks();
	h->sampler = agent_config.sampler;
	h->interval_log2 = atomic_load(&h->control_interval_log2);
	if (h->interval_log2 > SPOOL_INTERVAL_MAX_LOG2)
		h->interval_log2 = SPOOL_INTERVAL_DEFAULT_LOG2;
	h->image = image;
	h->seed = agent_config.seed;
	h->mode = h->interval_log2 ? SPOOL_SAMPLED : SPOOL_EXACT;

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

/* True: *fd is the spool that the recorder made for us, and that is still waiting. Else it is closed. */
static bool take_waiting(long fd)
{
	struct spool_header *h = map_header((int)fd);
	long size = sys_lseek((int)fd, 0, SEEK_END);
	uint32_t waiting = SPOOL_WAITING;

	if (h && size >= (long)SPOOL_HEADER_BYTES && !memcmp(h->magic, SPOOL_MAGIC, 8) &&
	    h->version == SPOOL_VERSION && h->packet_bytes == SPOOL_PACKET_BYTES &&
	    atomic_compare_exchange_strong(&h->state, &waiting, SPOOL_RUNNING)) {
		spool_header = h;
		return true;
	}
	opening = NULL;
	if (h)
		sys_munmap(h, SPOOL_HEADER_BYTES);
	sys_close((int)fd);
	return false;
}

static long make_new(const char *name)
{
	return sys_openat(AT_FDCWD, name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
}

bool spool_file_has_limit(void)
{
	return sys_soft_limit(RLIMIT_FSIZE) < packet_offset(SPOOL_FIRST_PACKETS);
}

static long make_numbered(uint32_t *image, uint32_t pid)
{
	long fd = -EEXIST;

	for (uint32_t k = 0; fd == -EEXIST && k < 10000; k++) {
		make_path(path, true, pid, k);
		*image = k + (agent_config.target_pid == pid);
		fd = make_new(path);
	}
	return fd;
}

/* The recorder opens the one that it made for us, or makes one, in its folder, which may have another
 * name here, or none. */
static long ask_for_spool(uint32_t *image, bool *fresh, uint32_t pid)
{
	struct handover h = {.pid = pid};
	long fd = spool_request_send(&h);
	char *base;

	if (sys_failed(fd))
		return fd;
	make_path(path, false, pid, 0);
	base = strrchr(path, '/') + 1;
	if ((size_t)(base - path) + strlen(h.name) >= sizeof(path)) {
		sys_close((int)fd);
		return -ENAMETOOLONG;
	}
	*fresh = strcmp(base, h.name) != 0;
	if (!*fresh)
		return take_waiting(fd) ? fd : -EAGAIN;
	strcpy(base, h.name);
	*image = h.image + (agent_config.target_pid == pid);
	return fd;
}

/*
 * The spool that the recorder made for us, if it is still waiting; else one of our own. As long as there
 * is a recorder, the first spool of its recording is there: a process that does not find it sees other
 * files, and would make its own where nobody looks for it.
 */
static long open_or_make(uint32_t *image, bool *fresh, uint32_t pid)
{
	long fd, given;

	make_path(path, false, pid, 0);
	*image = 0;
	fd = sys_openat(AT_FDCWD, path, O_RDWR | O_CLOEXEC | O_NOFOLLOW, 0);
	if (!sys_failed(fd) && agent_config.target_pid && agent_config.target_pid != pid)
		sys_close((int)fd);
	else if (!sys_failed(fd) && take_waiting(fd))
		return fd;
	*fresh = true;
	if (sys_failed(fd) && spool_request_is_possible()) {
		given = ask_for_spool(image, fresh, pid);
		if (!sys_failed(given) || fd == -ENOENT)
			return given;
		*fresh = true;
	}
	if (fd == -ENOENT) {
		fd = make_new(path);
		if (fd != -EEXIST)
			return fd;
	}
	return make_numbered(image, pid);
}

static bool open_spool(const char *parent, uint32_t parent_pid, uint64_t first_id,
		       uint64_t fork_ticks, uint32_t *reason, int *error)
{
	uint32_t image, pid = (uint32_t)sys_getpid();
	bool fresh = false;

	*reason = SPOOL_OFF_NO_SPACE;
	atomic_store(&lost, false);
	long fd = open_or_make(&image, &fresh, pid);
	if (sys_failed(fd)) {
		*error = (int)-fd;
		return false;
	}
	if (fresh) {
		/* The recorder has done that for a spool that it gave. */
		long size = sys_lseek((int)fd, 0, SEEK_END);

		*error = size == (long)packet_offset(SPOOL_FIRST_PACKETS)
			     ? 0
			     : reserve_blocks((int)fd, 0, packet_offset(SPOOL_FIRST_PACKETS));
		struct spool_header *h = *error ? NULL : map_header((int)fd);
		if (!h) {
			if (!*error)
				*error = ENOMEM;
			sys_close((int)fd);
			sys_unlinkat(AT_FDCWD, path, 0);
			return false;
		}
		atomic_store(&h->packets_reserved, SPOOL_FIRST_PACKETS);
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
	sys_fstat((int)fd, &opened);
	sys_close((int)fd);
	if (!window) {
		*reason = SPOOL_OFF_NO_MEMORY;
		*error = ENOMEM;
		return false;
	}
	atomic_store(&windows[0], window);
	struct spool_header *h = spool_header;
	opening = NULL;
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

bool spool_file_open(uint32_t *reason, int *error)
{
	return open_spool(NULL, 0, 0, 0, reason, error);
}

bool spool_file_open_child(uint64_t fork_ticks, uint32_t *reason, int *error)
{
	static char parent[sizeof(path)];
	uint64_t id = atomic_load(&spool_header->next_sample_id);
	struct spool_header *of_parent = spool_header;
	uint32_t parent_pid = of_parent->pid;
	bool good;

	memcpy(parent, path, sizeof(path));
	spool_header = NULL;
	spool_file_forget();
	good = open_spool(parent, parent_pid, id, fork_ticks ? fork_ticks : agent_ticks(), reason,
			  error);
	opening = of_parent;
	if (!good)
		atomic_fetch_or(&of_parent->exited, SPOOL_CHILD_LOST);
	opening = NULL;
	sys_munmap(of_parent, SPOOL_HEADER_BYTES);
	return good;
}

static void put_memory_over(void *mapped, size_t bytes)
{
	sys_mmap(mapped, bytes, PROT_READ | PROT_WRITE,
		 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
}

void spool_file_leave(void)
{
	if (!agent_lock(&extend_lock))
		return;
	for (uint32_t i = 0; i < WINDOWS; i++) {
		uint8_t *window = atomic_exchange(&windows[i], NULL);

		if (window)
			put_memory_over(window, (size_t)window_packets * SPOOL_PACKET_BYTES);
	}
	if (spool_header)
		put_memory_over(spool_header, SPOOL_HEADER_BYTES);
	agent_unlock(&extend_lock);
}

bool spool_file_lost(uintptr_t address)
{
	size_t bytes = (size_t)window_packets * SPOOL_PACKET_BYTES;
	bool header = spool_header && address - (uintptr_t)spool_header < SPOOL_HEADER_BYTES;
	bool ours = header || (opening && address - (uintptr_t)opening < SPOOL_HEADER_BYTES);

	for (uint32_t i = 0; i < WINDOWS && !ours; i++) {
		uint8_t *window = atomic_load(&windows[i]);

		ours = window && address - (uintptr_t)window < bytes;
	}
	/* The windows stay ours: other threads are writing there. */
	for (uint32_t i = 0; i < WINDOWS && ours; i++)
		if (atomic_load(&windows[i]))
			put_memory_over(atomic_load(&windows[i]), bytes);
	if (ours && spool_header)
		put_memory_over(spool_header, SPOOL_HEADER_BYTES);
	if (ours && opening && opening != spool_header)
		put_memory_over(opening, SPOOL_HEADER_BYTES);
	if (ours)
		atomic_store(&lost, true);
	return ours;
}

bool spool_file_is_lost(void)
{
	return atomic_load(&lost);
}

bool spool_file_has_recorder(void)
{
	static char first[sizeof(path)];
	struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
	bool locked;

	make_path(first, false, spool_header->pid, 0);
	long fd = sys_openat(AT_FDCWD, first, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0);
	if (sys_failed(fd)) /* who has given up rights may not open it */
		return spool_request_is_heard();
	locked =
	    !sys_failed(sys_fcntl((int)fd, F_OFD_GETLK, (long)&lock)) && lock.l_type != F_UNLCK;
	sys_close((int)fd);
	return locked;
}

void spool_file_forget(void)
{
	atomic_store(&extend_lock.held, 0);
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

/* A packet that the recorder has given back: its disk blocks and its pages exist already. */
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
struct spool_packet *spool_file_claim(void)
{
	struct spool_header *h = spool_header;
	struct spool_packet *p = claim_recycled();

	while (!p) {
		/* The spool may have been left, and another one may be there. */
		if (h != spool_header || atomic_load(&agent_state) == AGENT_OFF)
			return NULL;
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
	/* The windows may be those of another spool by now, where the number means another packet. */
	return h == spool_header ? p : NULL;
}

void spool_file_full(struct spool_packet *p)
{
	if (agent_sandboxed)
		return;
	for (uint32_t i = 0; i < WINDOWS; i++) {
		uint8_t *window = atomic_load(&windows[i]);
		size_t offset = (size_t)((uint8_t *)p - window);

		if (!window)
			return;
		if (offset >= (size_t)window_packets * SPOOL_PACKET_BYTES)
			continue;
		if (i || offset >= RESIDENT_PACKETS * SPOOL_PACKET_BYTES)
			sys_madvise(p, SPOOL_PACKET_BYTES, MADV_DONTNEED);
		return;
	}
}
