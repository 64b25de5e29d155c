/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The primitives of mayfly.ml, for runtimes that have been tested: see primitives.h.
 */
#include "primitives.h"

#include <caml/alloc.h>
#include <caml/fail.h>
#include <caml/memory.h>
#include <caml/version.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "events.h"
#include "library.h"

#include "agent/ocaml/ocaml_blocks.h"

/* caml/memprof.h and caml/backtrace_prim.h show these to the runtime alone. */
extern value caml_memprof_start(value rate, value frames, value tracker);
extern value caml_memprof_stop(value unit);
#if OCAML_VERSION >= 50300
extern value caml_memprof_discard(value profile);
extern void caml_c_call(void) __attribute__((weak)); /* bytecode has none */
#if OCAML_VERSION >= 50300
extern value caml_ml_domain_id(value unit);
#endif
#endif
extern void *caml_debuginfo_extract(uintptr_t slot);
extern void *caml_debuginfo_next(void *debuginfo);
extern void caml_debuginfo_location(void *debuginfo, void *loc_info);

#if OCAML_VERSION >= 50300
/* What caml_memprof_start() returned; unit: no sampler of ours runs. */
static value profile = Val_unit;

static void keep_profile(value started)
{
	static bool registered;

	if (!registered)
		caml_register_generational_global_root(&profile);
	registered = true;
	caml_modify_generational_global_root(&profile, started);
}

/* Stopping a profile keeps its tables and callbacks until it is discarded. */
static value stop_sampler(value unit)
{
	value stopped;

	caml_memprof_stop(unit);
	stopped = profile;
	if (Is_block(stopped)) {
		keep_profile(Val_unit);
		caml_memprof_discard(stopped);
	}
	return Val_unit;
}
#else
static void keep_profile(value started)
{
	(void)started;
}

static value stop_sampler(value unit)
{
	return caml_memprof_stop(unit);
}
#endif

static void know_runtime(void)
{
	memprof_runtime = (struct memprof_runtime)
	{
		.start = caml_memprof_start, .stop = stop_sampler,
		.debuginfo = caml_debuginfo_extract, .debuginfo_next = caml_debuginfo_next,
		.debuginfo_location = caml_debuginfo_location,
#if OCAML_VERSION >= 50300
		.c_call = caml_c_call, .domain_id = caml_ml_domain_id,
#endif
	};
}

CAMLprim value mayfly_ocaml_objection(value unit)
{
	(void)unit;
	return caml_copy_string("");
}

CAMLprim value mayfly_ocaml_pid(value unit)
{
	(void)unit;
	return Val_long(getpid());
}

CAMLprim value mayfly_ocaml_hide(value name)
{
	unsetenv(String_val(name));
	return Val_unit;
}

CAMLprim value mayfly_ocaml_agent_rate(value unit)
{
	(void)unit;
	return caml_copy_double(engine_agent_rate());
}

CAMLprim value mayfly_ocaml_agent_frames(value unit)
{
	(void)unit;
	return Val_long(engine_agent_frames());
}

/* ---- sessions ---- */

static double session_rate;
static bool session_in_spool;

static value begin_session(const struct library_sink *sink, double rate, const char *problem)
{
	if (sink && !engine_begin(sink))
		problem = strerror(ENOMEM);
	session_rate = rate;
	return caml_copy_string(problem);
}

CAMLprim value mayfly_ocaml_open_memtrace(value path, value executable, value parameters,
					  value context, value rate)
{
	struct utsname names;
	const char *problem = "";
	struct library_memtrace how = {
	    .path = String_val(path),
	    .executable = String_val(executable),
	    .host = uname(&names) ? "" : names.nodename,
	    .parameters = String_val(parameters),
	    .context = String_val(context),
	    .rate = Double_val(rate),
	};

	const struct library_sink *sink;

	know_runtime();
	session_in_spool = false;
	sink = to_memtrace_open(&how, &problem);
	return begin_session(sink, how.rate, problem);
}

CAMLprim value mayfly_ocaml_open_spool(value output, value note, value rate, value most,
				       value dormant)
{
	const char *problem = "";
	struct library_spool how = {
	    .output = String_val(output),
	    .note = String_val(note),
	    .rate = Double_val(rate),
	    .max_bytes = (uint64_t)Long_val(most),
	    .dormant = Bool_val(dormant),
	};
	const struct library_sink *sink;

	know_runtime();
	session_in_spool = true;
	sink = to_spool_open(&how, &problem);
	return begin_session(sink, runtime_blocks.rate, problem);
}

CAMLprim value mayfly_ocaml_start(value frames)
{
	engine_stop_inherited();
	runtime_blocks.frames = (uint32_t)Long_val(frames);
	if (!memprof_prepare(session_rate, &engine_watcher))
		caml_raise_out_of_memory();
	keep_profile(
	    memprof_start(session_in_spool ? runtime_blocks_frames() : runtime_blocks.frames));
	return caml_copy_double(session_rate);
}

CAMLprim value mayfly_ocaml_stop(value unit)
{
	return engine_running() ? stop_sampler(unit) : Val_unit;
}

CAMLprim value mayfly_ocaml_end(value unit)
{
	const char *problem = engine_end();

	(void)unit;
	return caml_copy_string(problem ? problem : "");
}

CAMLprim value mayfly_ocaml_running(value unit)
{
	(void)unit;
	return Val_bool(engine_running());
}

/* ---- events ---- */

const struct mayfly_agent_calls *events_session(void)
{
	return engine_calls();
}

/* ---- memory outside the heaps ---- */

CAMLprim intnat mayfly_ocaml_gap(double rate)
{
	return engine_gap(rate);
}

CAMLprim value mayfly_ocaml_gap_boxed(value rate)
{
	return Val_long(engine_gap(Double_val(rate)));
}

CAMLprim value mayfly_ocaml_allocated(value bytes, value hits, value callstack)
{
	struct memprof_block block = {
	    .hits = (uint64_t)Long_val(hits),
	    .bytes = (uint64_t)Long_val(bytes),
	    .words = ((uint64_t)Long_val(bytes) + sizeof(value) - 1) / sizeof(value),
	    .source = MEMPROF_CUSTOM,
	    .callstack = callstack,
	    .skip = 1,
	};
	intptr_t kept;

	return Val_long(engine_allocated_outside(&block, &kept) ? kept : -1);
}

CAMLprim value mayfly_ocaml_freed(value kept)
{
	engine_freed_outside(Long_val(kept));
	return Val_unit;
}
