/* SPDX-License-Identifier: Apache-2.0 */
/* What the kernel says of a process: see memory_watch.h. */
#include "record/memory_watch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/array.h"
#include "base/system/process_file.h"
#include "base/system/clock.h"

#define SECOND_NS   1000000000ll
#define SHORTEST_NS 5000000ll
/* Reading mappings may use this share of a CPU: 1/1000; more in the first seconds. */
#define COST_SHARE  1000
#define EARLY_SHARE 300
#define EARLY_PART                                                                                 \
	8 /* of the time passed, until it is looked at again, while that is not a second */
#define MANY_POINTS 16384u
#define MOST_POINTS 65536u
#define PEAK_GROWTH                                                                                \
	1.05 /* RSS above the largest seen by this factor: the mappings are read at once */

#define KINDS MAYFLY_MAPPING_KINDS

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
    [KIND_SIZE + MAYFLY_MAPPING_HEAP] = {"maps.heap.size", "bytes"},
    [KIND_SIZE + MAYFLY_MAPPING_ARENA] = {"maps.arenas.size", "bytes"},
    [KIND_SIZE + MAYFLY_MAPPING_ANONYMOUS] = {"maps.anonymous.size", "bytes"},
    [KIND_SIZE + MAYFLY_MAPPING_STACK] = {"maps.stacks.size", "bytes"},
    [KIND_SIZE + MAYFLY_MAPPING_DATA] = {"maps.data.size", "bytes"},
    [KIND_SIZE + MAYFLY_MAPPING_COPIES] = {"maps.copies.size", "bytes"},
    [KIND_SIZE + MAYFLY_MAPPING_FILE] = {"maps.files.size", "bytes"},
    [KIND_SIZE + MAYFLY_MAPPING_SHARED] = {"maps.shared.size", "bytes"},
    [KIND_SIZE + MAYFLY_MAPPING_OTHER] = {"maps.other.size", "bytes"},
    [KIND_SIZE + MAYFLY_MAPPING_OWN] = {"maps.mayfly.size", "bytes"},
    [KIND_RESIDENT + MAYFLY_MAPPING_HEAP] = {"maps.heap.resident", "bytes"},
    [KIND_RESIDENT + MAYFLY_MAPPING_ARENA] = {"maps.arenas.resident", "bytes"},
    [KIND_RESIDENT + MAYFLY_MAPPING_ANONYMOUS] = {"maps.anonymous.resident", "bytes"},
    [KIND_RESIDENT + MAYFLY_MAPPING_STACK] = {"maps.stacks.resident", "bytes"},
    [KIND_RESIDENT + MAYFLY_MAPPING_DATA] = {"maps.data.resident", "bytes"},
    [KIND_RESIDENT + MAYFLY_MAPPING_COPIES] = {"maps.copies.resident", "bytes"},
    [KIND_RESIDENT + MAYFLY_MAPPING_FILE] = {"maps.files.resident", "bytes"},
    [KIND_RESIDENT + MAYFLY_MAPPING_SHARED] = {"maps.shared.resident", "bytes"},
    [KIND_RESIDENT + MAYFLY_MAPPING_OTHER] = {"maps.other.resident", "bytes"},
    [KIND_RESIDENT + MAYFLY_MAPPING_OWN] = {"maps.mayfly.resident", "bytes"},
};

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
		uint32_t string = recording_name(tables, name);
		int64_t ns = p->mono_ns > start_mono_ns ? p->mono_ns - start_mono_ns : 0;

		error =
		    trace_writer_counter(to, ns, string, recording_name(tables, unit), p->value);
	}
	m->points = 0;
	return error;
}

void memory_watch_hand_rows(struct memory_watch *m, int64_t start_mono_ns, struct trace_writer *to)
{
	struct residency *rows[RESIDENCY_MOMENTS] = {
	    [RESIDENCY_PEAK] = &m->peak_rows, [RESIDENCY_END] = &m->last_rows};

	for (uint32_t i = 0; i < RESIDENCY_MOMENTS; i++) {
		int64_t ns = rows[i]->time_ns - start_mono_ns;

		rows[i]->time_ns = ns > 0 ? ns : 0;
		trace_writer_residency(to, i, rows[i]);
	}
}

void memory_watch_free(struct memory_watch *m)
{
	free(m->point);
	residency_free(&m->peak_rows);
	residency_free(&m->last_rows);
	module_cache_free(&m->modules);
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
	char text[PROCESS_STATUS_BYTES];
	double value;

	if (!process_file_status(pid, text, sizeof(text)) || !field(text, "\nVmRSS:", &value))
		return false;
	for (size_t i = 0; i < sizeof(lines) / sizeof(*lines); i++)
		if (field(text, lines[i].name, &value))
			memory_put(m, now, lines[i].counter, value * 1024);
	if (field(text, "\nThreads:", &value))
		memory_put(m, now, THREADS, value);
	return true;
}

/* Behind the name: minflt is the 8th field, then cminflt, majflt, cmajflt,
 * utime, stime. */
static void look_at_stat(struct memory_watch *m, pid_t pid, int64_t now)
{
	double tick = (double)SECOND_NS / (double)sysconf(_SC_CLK_TCK);
	unsigned long long minor, major, user, kernel;
	char text[2048];
	const char *at;

	if (!process_file_read(pid, "stat", text, sizeof(text)))
		return;
	at = process_file_behind_name(text);
	if (!at || sscanf(at, " %*c %*d %*d %*d %*d %*d %*u %llu %*u %llu %*u %llu %llu", &minor,
			  &major, &user, &kernel) != 4)
		return;
	memory_put(m, now, MINOR_FAULTS, (double)minor);
	memory_put(m, now, MAJOR_FAULTS, (double)major);
	memory_put(m, now, CPU_USER, (double)user * tick);
	memory_put(m, now, CPU_SYSTEM, (double)kernel * tick);
}

/* ---- mappings ---- */

/* The last reading, and the one with most resident: they may be the same. */
static void keep_rows(struct memory_watch *m, struct residency *rows, uint64_t resident)
{
	residency_free(&m->last_rows);
	if (m->peak_rows.rows && resident <= m->peak_bytes) {
		m->last_rows = *rows;
		return;
	}
	residency_free(&m->peak_rows);
	m->peak_rows = *rows;
	m->peak_bytes = resident;
}

static bool look_at_mappings(struct memory_watch *m, pid_t pid, const char *spool, int64_t now)
{
	const char *base = strrchr(spool, '/');
	struct smaps all;

	if (!smaps_read(&all, pid, base ? base + 1 : spool, &m->modules)) {
		residency_free(&all.rows);
		return false;
	}
	for (unsigned int i = 0; i < KINDS; i++) {
		memory_put(m, now, KIND_SIZE + i, (double)all.kind_size[i]);
		memory_put(m, now, KIND_RESIDENT + i, (double)all.kind_resident[i]);
	}
	memory_put(m, now, MAPS_COUNT, (double)all.count);
	memory_put(m, now, ARENA_COUNT, (double)all.kind_count[MAYFLY_MAPPING_ARENA]);
	memory_put(m, now, STACK_COUNT, (double)all.kind_count[MAYFLY_MAPPING_STACK]);
	memory_put(m, now, PROPORTIONAL, (double)all.proportional);
	memory_put(m, now, MAPS_RESIDENT, (double)all.resident);
	all.rows.time_ns = now;
	all.rows.resident = (uint64_t)m->last[RESIDENT];
	keep_rows(m, &all.rows, all.resident);
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
	int64_t least = cost * (passed < EARLY_PART * SECOND_NS ? EARLY_SHARE : COST_SHARE);

	if (wait < SHORTEST_NS)
		wait = SHORTEST_NS;
	return now + (wait > least ? wait : least);
}

/* RSS has grown beyond what was seen in mappings so far, and they can be read at the cost that the
 * first seconds have. */
static bool peak_is_new(const struct memory_watch *m, int64_t now)
{
	return m->last[RESIDENT] > PEAK_GROWTH * (double)m->peak_bytes &&
	       now - m->maps_read_ns >= m->maps_cost_ns * EARLY_SHARE;
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
	if (now >= m->maps_ns || peak_is_new(m, now)) {
		look_at_mappings(m, pid, spool, now);
		m->maps_read_ns = now;
		m->maps_cost_ns = thread_ns() - before;
		m->maps_ns = next_time(m, now, m->maps_cost_ns);
	} else if (now >= m->rollup_ns && now - m->begun_ns > SECOND_NS) {
		look_at_rollup(m, pid, now);
		m->rollup_ns = next_time(m, now, thread_ns() - before);
	}
}
