/* SPDX-License-Identifier: Apache-2.0 */
/* Which hints a trace gets: about code without a file, recorded and imported. */
#include <string.h>

#include "answer/hints.h"
#include "trace/write/recording.h"
#include "trace/write/writer.h"

#include "test.h"

struct look {
	const char *name;   /* of the frame's function; NULL: none */
	const char *module; /* NULL: none */
	uint32_t absent, memtrace_version;
};

static uint32_t text(struct recording *r, const char *s)
{
	return recording_string(r, s, strlen(s));
}

static void add_frame(struct recording *r, const struct look *l)
{
	struct recording_module module = {.path = text(r, l->module ? l->module : "")};
	uint32_t frame =
	    recording_frame(r, MAYFLY_FRAME_CODE,
			    l->module ? recording_module(r, &module) : RECORDING_NONE, 0x1000);

	if (l->name) {
		struct recording_location place = {.function = text(r, l->name)};

		r->frame[frame].first_location = recording_location(r, &place);
		r->frame[frame].locations = 1;
	}
	recording_node(r, 0, frame);
}

/* Whether a hint about a trace with one block, on a stack of this one frame, has the word. */
static bool hints_say(const struct look *l, const char *word)
{
	struct trace_writer_options options = {.mode = MAYFLY_EXACT};
	struct trace_buffer buffer = {0};
	struct recording *r = recording_new();
	struct trace_writer *w = trace_writer_new(&options, r, trace_buffer_sink, &buffer);
	struct trace_block block = {.size = 1000, .node = 1};
	struct mayfly_trace *trace;
	char hint[HINT_BYTES];
	uint64_t serial;
	bool found = false;
	int error;

	recording_thread(r, 1, text(r, ""));
	add_frame(r, l);
	r->info.interval_bytes = 1;
	r->info.absent = l->absent;
	r->info.memtrace_version = l->memtrace_version;
	error = trace_writer_alloc(w, 0, &block, &serial);
	error = error ? error : trace_writer_finish(w);
	error = error ? error : mayfly_trace_open(buffer.bytes, buffer.used, &trace);
	CHECK(!error, "%d", error);
	for (unsigned i = 0; !error && i < HINTS; i++)
		found |= strstr(hint_text(hint, sizeof(hint), trace, i), word) != NULL;
	if (!error)
		mayfly_trace_close(trace);
	free(buffer.bytes);
	trace_writer_free_all(w);
	recording_free(r);
	return found;
}

static void jit_without_names(void)
{
	CHECK(hints_say(&(struct look){0}, "JIT"));
	CHECK(hints_say(&(struct look){.module = "[jit]"}, "JIT"));
	CHECK(!hints_say(&(struct look){.module = "/bin/true"}, "JIT"));
}

static void jit_with_names(void)
{
	CHECK(!hints_say(&(struct look){.name = "compiled"}, "JIT"));
	CHECK(!hints_say(&(struct look){.name = "compiled", .module = "[jit]"}, "JIT"));
	CHECK(
	    !hints_say(&(struct look){.name = "Builtins_Call", .module = "/usr/bin/node"}, "JIT"));
}

/* Whatever a file lacks, no program can be recorded again. */
static void imports(void)
{
	for (uint32_t absent = 1; absent <= MAYFLY_ABSENT_ALLOCATIONS; absent *= 2)
		if (absent != MAYFLY_ABSENT_ERRORS) /* also of mayfly's older snapshots */
			CHECK(!hints_say(&(struct look){.absent = absent}, "JIT"), "%x", absent);
	CHECK(!hints_say(&(struct look){.memtrace_version = 2}, "JIT"));
}

/* An imported file's code can get names only where it has a build-id. */
static void names(void)
{
	const struct look recorded = {.module = "/opt/demo"};
	const struct look imported = {.module = "/opt/demo", .absent = MAYFLY_ABSENT_THREADS};

	CHECK(hints_say(&recorded, "symbolize"));
	CHECK(!hints_say(&imported, "symbolize"));
}

int main(void)
{
	RUN(jit_without_names);
	RUN(jit_with_names);
	RUN(imports);
	RUN(names);
	DONE();
}
