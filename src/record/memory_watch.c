/* SPDX-License-Identifier: Apache-2.0 */
/* What the kernel says of a process: see memory_watch.h. */
#include "record/memory_watch.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "stream/clock.h"
#include "format/numbering.h"

#define SECOND_NS   1000000000ll
#define SHORTEST_NS 5000000ll
/* Reading mappings may use this share of a CPU: 1/1000; more in the first seconds. */
#define COST_SHARE  1000
#define FIRST_SHARE 50
#define EARLY_SHARE 300
#define EARLY_PART                                                                                 \
	8 /* of the time passed, until it is looked at again, while that is not a second */
#define MANY_POINTS 16384u
#define MOST_POINTS 65536u
#define ARENA_BYTES (64ull << 20) /* glibc's arenas but the first begin at multiples of this */
#define MOST_GUARD  (1ull << 20)
#define TEXT_BYTES  65536
#define PATH_BYTES  4200

/* Kinds of mappings. */
enum kind { HEAP, ARENA, ANONYMOUS, STACK, FILES, SHARED, OTHER, OWN, KINDS };

enum counter {
	RESIDENT,
	RESIDENT_PEAK,
	RESIDENT_ANONYMOUS,
	RESIDENT_FILES,
	RESIDENT_SHARED,
	SWAPPED,
	THREADS,
	MINOR_FAULTS,
	MAJOR_FAULTS,
	CPU_USER,
	CPU_SYSTEM,
	PROPORTIONAL,
	MAPS_COUNT,
	MAPS_RESIDENT,
	ARENA_COUNT,
	STACK_COUNT,
	KIND_SIZE,
	KIND_RESIDENT = KIND_SIZE + KINDS,
	COUNTERS = KIND_RESIDENT + KINDS,
};

_Static_assert(COUNTERS <= MEMORY_COUNTERS, "counters");

static const struct {
	const char *name, *unit;
} counters[COUNTERS] = {
    [RESIDENT] = {"process.resident", "bytes"},
    [RESIDENT_PEAK] = {"process.resident_peak", "bytes"},
    [RESIDENT_ANONYMOUS] = {"process.resident_anonymous", "bytes"},
    [RESIDENT_FILES] = {"process.resident_files", "bytes"},
    [RESIDENT_SHARED] = {"process.resident_shared", "bytes"},
    [SWAPPED] = {"process.swapped", "bytes"},
    [THREADS] = {"process.threads", ""},
    [MINOR_FAULTS] = {"process.minor_faults", ""},
    [MAJOR_FAULTS] = {"process.major_faults", ""},
    [CPU_USER] = {"process.cpu_user", "ns"},
    [CPU_SYSTEM] = {"process.cpu_system", "ns"},
    [PROPORTIONAL] = {"process.proportional", "bytes"},
    [MAPS_COUNT] = {"maps.count", ""},
    [MAPS_RESIDENT] = {"maps.resident", "bytes"},
    [ARENA_COUNT] = {"maps.arenas.count", ""},
    [STACK_COUNT] = {"maps.stacks.count", ""},
    [KIND_SIZE + HEAP] = {"maps.heap.size", "bytes"},
    [KIND_SIZE + ARENA] = {"maps.arenas.size", "bytes"},
    [KIND_SIZE + ANONYMOUS] = {"maps.anonymous.size", "bytes"},
    [KIND_SIZE + STACK] = {"maps.stacks.size", "bytes"},
    [KIND_SIZE + FILES] = {"maps.files.size", "bytes"},
    [KIND_SIZE + SHARED] = {"maps.shared.size", "bytes"},
    [KIND_SIZE + OTHER] = {"maps.other.size", "bytes"},
    [KIND_SIZE + OWN] = {"maps.mayfly.size", "bytes"},
    [KIND_RESIDENT + HEAP] = {"maps.heap.resident", "bytes"},
    [KIND_RESIDENT + ARENA] = {"maps.arenas.resident", "bytes"},
    [KIND_RESIDENT + ANONYMOUS] = {"maps.anonymous.resident", "bytes"},
    [KIND_RESIDENT + STACK] = {"maps.stacks.resident", "bytes"},
    [KIND_RESIDENT + FILES] = {"maps.files.resident", "bytes"},
    [KIND_RESIDENT + SHARED] = {"maps.shared.resident", "bytes"},
    [KIND_RESIDENT + OTHER] = {"maps.other.resident", "bytes"},
    [KIND_RESIDENT + OWN] = {"maps.mayfly.resident", "bytes"},
};

/* ---- files of a process ---- */

/* A file descriptor, or -1 with errno. */
static int process_file_open(pid_t pid, const char *name)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, name);
	return open(path, O_RDONLY | O_CLOEXEC);
}

bool process_file_read(pid_t pid, const char *name, char *text, size_t size)
{
	int fd = process_file_open(pid, name);
	ssize_t n;

	if (fd < 0)
		return false;
	n = read(fd, text, size - 1);
	close(fd);
	if (n <= 0)
		return false;
	text[n] = 0;
	return true;
}

/* ---- points ---- */

static void memory_put(struct memory_watch *m, int64_t now, unsigned int counter, double value)
{
	/* The sum of all mappings marks a moment at which they were read. */
	if (m->known[counter] && m->last[counter] == value && counter != MAPS_RESIDENT)
		return;
	if (m->points == MOST_POINTS ||
	    !array_reserve(&m->point, &m->room, m->points, sizeof(*m->point)))
		return;
	m->known[counter] = true;
	m->last[counter] = value;
	m->point[m->points++] = (struct memory_point){now, counter, value};
}

bool memory_watch_is_full(const struct memory_watch *m)
{
	return m->points >= MANY_POINTS;
}

int memory_watch_hand(struct memory_watch *m, int64_t start_mono_ns, struct recording *tables,
		      struct trace_writer *to)
{
	int error = 0;

	for (size_t i = 0; i < m->points && !error; i++) {
		const struct memory_point *p = &m->point[i];
		const char *name = counters[p->counter].name, *unit = counters[p->counter].unit;
		uint32_t name_string = recording_string(tables, name, strlen(name));
		uint32_t unit_string = recording_string(tables, unit, strlen(unit));
		int64_t ns = p->mono_ns > start_mono_ns ? p->mono_ns - start_mono_ns : 0;

		error = name_string == RECORDING_NONE || unit_string == RECORDING_NONE
			    ? MAYFLY_E_MEMORY
			    : trace_writer_counter(to, ns, name_string, unit_string, p->value);
	}
	m->points = 0;
	return error;
}

void memory_watch_free(struct memory_watch *m)
{
	free(m->point);
	*m = (struct memory_watch){0};
}

/* ---- files of /proc ---- */

/* "\nVmRSS:     1234 kB": the number. A process that has ended has none. */
static bool field(const char *text, const char *name, double *value)
{
	const char *at = strstr(text, name);

	if (!at)
		return false;
	*value = strtod(at + strlen(name), NULL);
	return true;
}

static bool look_at_status(struct memory_watch *m, pid_t pid, int64_t now)
{
	static const struct {
		const char *name;
		unsigned int counter;
	} lines[] = {{"\nVmRSS:", RESIDENT},
		     {"\nVmHWM:", RESIDENT_PEAK},
		     {"\nRssAnon:", RESIDENT_ANONYMOUS},
		     {"\nRssFile:", RESIDENT_FILES},
		     {"\nRssShmem:", RESIDENT_SHARED},
		     {"\nVmSwap:", SWAPPED}};
	char text[4096];
	double value;

	if (!process_file_read(pid, "status", text, sizeof(text)) ||
	    !field(text, "\nVmRSS:", &value))
		return false;
	for (size_t i = 0; i < sizeof(lines) / sizeof(*lines); i++)
		if (field(text, lines[i].name, &value))
			memory_put(m, now, lines[i].counter, value * 1024);
	if (field(text, "\nThreads:", &value))
		memory_put(m, now, THREADS, value);
	return true;
}

/* Behind the name, which may hold anything: minflt is the 8th field, then cminflt, majflt, cmajflt,
 * utime, stime. */
static void look_at_stat(struct memory_watch *m, pid_t pid, int64_t now)
{
	double tick = (double)SECOND_NS / (double)sysconf(_SC_CLK_TCK);
	unsigned long long minor, major, user, kernel;
	char text[2048];
	const char *at;

	if (!process_file_read(pid, "stat", text, sizeof(text)))
		return;
	at = strrchr(text, ')');
	if (!at || sscanf(at + 1, " %*c %*d %*d %*d %*d %*d %*u %llu %*u %llu %*u %llu %llu",
			  &minor, &major, &user, &kernel) != 4)
		return;
	memory_put(m, now, MINOR_FAULTS, (double)minor);
	memory_put(m, now, MAJOR_FAULTS, (double)major);
	memory_put(m, now, CPU_USER, (double)user * tick);
	memory_put(m, now, CPU_SYSTEM, (double)kernel * tick);
}

/* ---- mappings ---- */

struct memory_mapping {
	uint64_t start, end;
	char access[5];
	bool is_file; /* has a path */
	enum kind kind;
	uint64_t resident, proportional;
};

struct mappings {
	const char *spool; /* base name */
	struct memory_mapping before, now;
	bool any;
	uint64_t count, proportional, kinds[KINDS], size[KINDS], resident[KINDS];
};

static bool memory_begins(const char *text, const char *with)
{
	return !strncmp(text, with, strlen(with));
}

static enum kind kind_of_path(const struct mappings *m, const char *path, char sharing)
{
	static const char *const shared[] = {"/dev/shm/", "/memfd:", "/SYSV", "/dev/zero",
					     "[anon_shmem"};
	const char *base = strrchr(path, '/');

	for (size_t i = 0; i < sizeof(shared) / sizeof(*shared); i++)
		if (memory_begins(path, shared[i]))
			return SHARED;
	if (base)
		return memory_begins(base + 1, m->spool) ? OWN : FILES;
	if (!strcmp(path, "[heap]"))
		return HEAP;
	if (memory_begins(path, "[stack"))
		return STACK;
	if (!*path)
		return sharing == 's' ? SHARED : ANONYMOUS;
	return memory_begins(path, "[anon") ? ANONYMOUS : OTHER;
}

static bool is_anonymous(const struct memory_mapping *p, const char *access)
{
	return p->kind == ANONYMOUS && !p->is_file && !strcmp(p->access, access);
}

/* The kernel does not mark stacks of threads or arenas, but the C library has a layout for them: a
 * stack has a small inaccessible range below it; an arena begins at a multiple of its largest size,
 * and its unused part is inaccessible. */
static void refine(struct mappings *m, const struct memory_mapping *after)
{
	struct memory_mapping *p = &m->now;
	uint64_t end = p->start + ARENA_BYTES;

	if (!is_anonymous(p, "rw-p"))
		return;
	if (p->start % ARENA_BYTES == 0 &&
	    (p->end == end ||
	     (after && is_anonymous(after, "---p") && after->start == p->end && after->end >= end)))
		p->kind = ARENA;
	else if (is_anonymous(&m->before, "---p") && m->before.end == p->start &&
		 m->before.end - m->before.start <= MOST_GUARD)
		p->kind = STACK;
}

static void close_mapping(struct mappings *m, const struct memory_mapping *after)
{
	if (!m->any)
		return;
	refine(m, after);
	m->count++;
	m->kinds[m->now.kind]++;
	m->size[m->now.kind] += m->now.end - m->now.start;
	m->resident[m->now.kind] += m->now.resident;
	m->proportional += m->now.proportional;
	m->before = m->now;
}

static void take_line(struct mappings *m, const char *line)
{
	struct memory_mapping next = {0};
	int at = 0;

	if (!strncmp(line, "Rss:", 4)) {
		m->now.resident = strtoull(line + 4, NULL, 10) * 1024;
		return;
	}
	if (!strncmp(line, "Pss:", 4)) {
		m->now.proportional = strtoull(line + 4, NULL, 10) * 1024;
		return;
	}
	if (*line >= 'A' && *line <= 'Z')
		return;
	if (sscanf(line, "%lx-%lx %4s %*x %*x:%*x %*u %n", &next.start, &next.end, next.access,
		   &at) != 3 ||
	    !at)
		return;
	next.is_file = line[at] != 0;
	next.kind = kind_of_path(m, line + at, next.access[3]);
	close_mapping(m, &next);
	m->now = next;
	m->any = true;
}

/* Line after line; the kernel gives about a page at a time. */
static bool read_mappings(pid_t pid, struct mappings *m)
{
	static char text[TEXT_BYTES];
	int fd = process_file_open(pid, "smaps");
	size_t used = 0;
	ssize_t n;

	if (fd < 0)
		return false;
	while ((n = read(fd, text + used, sizeof(text) - 1 - used)) > 0) {
		char *line = text, *end;

		used += (size_t)n;
		text[used] = 0;
		while ((end = memchr(line, '\n', (size_t)(text + used - line)))) {
			*end = 0;
			take_line(m, line);
			line = end + 1;
		}
		used = (size_t)(text + used - line);
		if (used >= PATH_BYTES * 4) /* no line is so long */
			break;
		memmove(text, line, used);
	}
	close(fd);
	close_mapping(m, NULL);
	return n == 0 && m->count;
}

static bool look_at_mappings(struct memory_watch *m, pid_t pid, const char *spool, int64_t now)
{
	const char *base = strrchr(spool, '/');
	struct mappings all = {.spool = base ? base + 1 : spool};
	uint64_t resident = 0;

	if (!read_mappings(pid, &all))
		return false;
	for (unsigned int i = 0; i < KINDS; i++) {
		memory_put(m, now, KIND_SIZE + i, (double)all.size[i]);
		memory_put(m, now, KIND_RESIDENT + i, (double)all.resident[i]);
		resident += all.resident[i];
	}
	memory_put(m, now, MAPS_COUNT, (double)all.count);
	memory_put(m, now, ARENA_COUNT, (double)all.kinds[ARENA]);
	memory_put(m, now, STACK_COUNT, (double)all.kinds[STACK]);
	memory_put(m, now, PROPORTIONAL, (double)all.proportional);
	memory_put(m, now, MAPS_RESIDENT, (double)resident);
	return true;
}

static bool look_at_rollup(struct memory_watch *m, pid_t pid, int64_t now)
{
	char text[2048];
	double value;

	if (!process_file_read(pid, "smaps_rollup", text, sizeof(text)) ||
	    !field(text, "\nPss:", &value))
		return false;
	memory_put(m, now, PROPORTIONAL, value * 1024);
	return true;
}

/* ---- when ---- */

/* When to do it again: after a second, or as long as it costs its share of the time. Early, when
 * the program has just begun, sooner. */
static int64_t next_time(const struct memory_watch *m, int64_t now, int64_t cost)
{
	int64_t passed = now - m->begun_ns;
	int64_t wait = passed / EARLY_PART < SECOND_NS ? passed / EARLY_PART : SECOND_NS;
	int64_t least = cost * (passed < SECOND_NS		  ? FIRST_SHARE
				: passed < EARLY_PART * SECOND_NS ? EARLY_SHARE
								  : COST_SHARE);

	if (wait < SHORTEST_NS)
		wait = SHORTEST_NS;
	return now + (wait > least ? wait : least);
}

static int64_t thread_ns(void)
{
	return clock_ns(CLOCK_THREAD_CPUTIME_ID);
}

void memory_watch_look(struct memory_watch *m, pid_t pid, const char *spool)
{
	int64_t now = clock_ns(CLOCK_MONOTONIC), before;

	if (!m->begun) {
		m->begun = true;
		m->begun_ns = m->next_ns = m->maps_ns = m->rollup_ns = now;
	}
	if (now < m->next_ns)
		return;
	m->next_ns = next_time(m, now, 0);
	if (!look_at_status(m, pid, now))
		return;
	look_at_stat(m, pid, now);
	before = thread_ns();
	if (now >= m->maps_ns) {
		look_at_mappings(m, pid, spool, now);
		m->maps_ns = next_time(m, now, thread_ns() - before);
	} else if (now >= m->rollup_ns && now - m->begun_ns > SECOND_NS) {
		look_at_rollup(m, pid, now);
		m->rollup_ns = next_time(m, now, thread_ns() - before);
	}
}
