/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes blocks to a Memtrace file while the program runs. Events are collected in packets of at
 * most 32 KiB; each packet is written when it is full or half a minute old. The only memory used is
 * that of Memtrace's codec, whose tables have fixed sizes.
 *
 * The file always consists of whole packets. When one cannot be written, the file ends before it.
 */
#include "library.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "agent/agent.h"
#include "convert/export/memtrace_write.h"

#define PLACES 255u /* of one frame: the most that the format can hold */

static struct memtrace_writer *writer; /* NULL: writing has failed */
static int file = -1;
static bool regular;
static uint64_t written; /* bytes of whole packets */
static pid_t pid;
static uint64_t start_ns;
static char problem_text[8192];

static int64_t now_us(void)
{
	return (int64_t)((agent_clock_ns(CLOCK_MONOTONIC) - start_ns) / 1000);
}

/* ---- the file ---- */

/* Going beyond the limit on a file's size would raise SIGXFSZ. */
static bool fits(size_t size)
{
	struct rlimit limit;

	return !regular || getrlimit(RLIMIT_FSIZE, &limit) || written + size <= limit.rlim_cur;
}

/* A sink of the writer's: errno, or 0. */
static int put_packet(void *context, const void *bytes, size_t size)
{
	const char *at = bytes;
	size_t left = size;

	(void)context;
	if (getpid() != pid) /* a child must not write to the parent's file */
		return ECHILD;
	if (!fits(size))
		return EFBIG;
	while (left) {
		ssize_t n = write(file, at, left);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0) {
			int error = n ? errno : ENOSPC;

			if (regular && ftruncate(file, (off_t)written))
				return error;
			return error;
		}
		at += n;
		left -= (size_t)n;
	}
	written += size;
	return 0;
}

/* Pipes are refused: when the reader has gone, a write would kill the program. */
static bool open_memtrace(const char *path, const char **problem)
{
	struct stat s;

	file = open(path, O_WRONLY | O_CREAT | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0600);
	if (file < 0 || fstat(file, &s)) {
		*problem = strerror(errno);
	} else if (!S_ISREG(s.st_mode) && !S_ISCHR(s.st_mode)) {
		*problem = "it is not a regular file";
	} else {
		regular = S_ISREG(s.st_mode);
		if (!regular || !ftruncate(file, 0))
			return true;
		*problem = strerror(errno);
	}
	if (file >= 0)
		close(file);
	file = -1;
	return false;
}

/* ---- places ---- */

static const char *known(const char *name)
{
	return name && *name ? name : "??";
}

static const struct memtrace_location *locate(void *context, int64_t code, size_t *count)
{
	static struct memprof_location place[PLACES];
	static struct memtrace_location location[PLACES];
	uint32_t n = memprof_places((uintptr_t)code << 1, place, PLACES);

	(void)context;
	for (uint32_t i = 0; i < n; i++) {
		const struct memprof_location *p = &place[n - 1 - i];

		location[i] = (struct memtrace_location){
		    .function = known(p->function),
		    .file = known(p->file),
		    .line = p->line > 0 ? (uint32_t)p->line : 0,
		    .start_char = p->first > 0 ? (uint32_t)p->first : 0,
		    .end_char = p->last > 0 ? (uint32_t)p->last : 0,
		};
	}
	*count = n;
	return location;
}

/* ---- blocks ---- */

static void fail_memtrace(int error)
{
	snprintf(problem_text, sizeof(problem_text), "%s",
		 strerror(error > 0		     ? error
			  : error == MAYFLY_E_MEMORY ? ENOMEM
						     : EINVAL));
	memtrace_writer_free(writer);
	writer = NULL;
}

static int64_t stack[TO_MEMTRACE_FRAMES];

/* The leaf-most frames, from the root. */
static size_t take_slots(const struct memprof_block *block)
{
	size_t given = memprof_frames(block->callstack), n = 0;
	size_t skip = block->skip < given ? block->skip : given, end = given;

	if (end - skip > TO_MEMTRACE_FRAMES)
		end = skip + TO_MEMTRACE_FRAMES;
	for (size_t i = end; i-- > skip;) {
		uintptr_t slot = memprof_slot(block->callstack, i);

		if (memprof_address(slot))
			stack[n++] = (int64_t)(slot >> 1);
	}
	return n;
}

static bool to_memtrace_allocated(const struct memprof_block *block, bool outside, intptr_t *kept)
{
	enum memtrace_source source = outside	     ? MEMTRACE_EXTERNAL
				      : block->major ? MEMTRACE_MAJOR
						     : MEMTRACE_MINOR;
	int64_t id;
	int error;

	if (!writer)
		return false;
	error = memtrace_writer_alloc(writer, now_us(), (int64_t)block->words, (int64_t)block->hits,
				      source, stack, take_slots(block), &id);
	if (error) {
		fail_memtrace(error);
		return false;
	}
	*kept = (intptr_t)id;
	return true;
}

static void to_memtrace_promoted(intptr_t kept)
{
	int error = writer ? memtrace_writer_promote(writer, now_us(), kept) : 0;

	if (error)
		fail_memtrace(error);
}

static void to_memtrace_collected(intptr_t kept)
{
	int error = writer ? memtrace_writer_collect(writer, now_us(), kept) : 0;

	if (error)
		fail_memtrace(error);
}

static bool to_memtrace_failed(void)
{
	return !writer;
}

/* ---- the session ---- */

static void let_go(void)
{
	memtrace_writer_free(writer);
	writer = NULL;
	if (file >= 0)
		close(file);
	file = -1;
}

static const char *to_memtrace_finish(void)
{
	int error = writer ? memtrace_writer_finish(writer) : 0;

	if (error)
		fail_memtrace(error);
	let_go();
	return problem_text[0] ? problem_text : NULL;
}

static const struct library_sink sink = {to_memtrace_allocated, to_memtrace_promoted,
					 to_memtrace_collected, to_memtrace_failed,
					 to_memtrace_finish,	let_go};

const struct library_sink *to_memtrace_open(const struct library_memtrace *how,
					    const char **problem)
{
	struct memtrace_info info = {
	    .sample_rate = how->rate,
	    .word_size = 8 * sizeof(memprof_value),
	    .executable = how->executable,
	    .host = how->host,
	    .runtime_parameters = how->parameters,
	    .context = how->context,
	    .pid = pid = getpid(),
	    .start_us = (int64_t)(agent_clock_ns(CLOCK_REALTIME) / 1000),
	};
	int error;

	problem_text[0] = 0;
	written = 0;
	start_ns = agent_clock_ns(CLOCK_MONOTONIC);
	if (!open_memtrace(how->path, problem))
		return NULL;
	error = memtrace_writer_new(&info, locate, NULL, put_packet, NULL, &writer);
	if (!error)
		return &sink;
	fail_memtrace(error);
	let_go();
	*problem = problem_text;
	return NULL;
}
