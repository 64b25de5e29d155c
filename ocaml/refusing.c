/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The primitives of mayfly.ml where programs cannot be traced: bytecode, runtimes that have not
 * been tested, other CPUs. They give the reason, and do nothing.
 */
#include "primitives.h"

#include <caml/alloc.h>
#include <caml/version.h>

#include "events.h"

#ifndef __x86_64__
#define OBJECTION "this CPU is not supported"
#else
#define OBJECTION                                                                                  \
	"the runtime is that of OCaml " OCAML_VERSION_STRING ", and not 4.13, 4.14, 5.3 or later"
#endif

#define TEXT(name, text)                                                                           \
	CAMLprim value name(value unit)                                                            \
	{                                                                                          \
		(void)unit;                                                                        \
		return caml_copy_string(text);                                                     \
	}
#define NOTHING(name)                                                                              \
	CAMLprim value name(value ignored)                                                         \
	{                                                                                          \
		(void)ignored;                                                                     \
		return Val_unit; /* and 0, and false */                                            \
	}
#define REFUSAL(name)                                                                              \
	CAMLprim value name(value a, value b, value c, value d, value e)                           \
	{                                                                                          \
		(void)a, (void)b, (void)c, (void)d, (void)e;                                       \
		return caml_copy_string(OBJECTION);                                                \
	}

TEXT(mayfly_ocaml_objection, OBJECTION)
TEXT(mayfly_ocaml_end, "")
REFUSAL(mayfly_ocaml_open_memtrace)
REFUSAL(mayfly_ocaml_open_spool)
NOTHING(mayfly_ocaml_pid)
NOTHING(mayfly_ocaml_agent_frames)
NOTHING(mayfly_ocaml_hide)
NOTHING(mayfly_ocaml_stop)
NOTHING(mayfly_ocaml_running)
NOTHING(mayfly_ocaml_freed)

CAMLprim value mayfly_ocaml_agent_rate(value unit)
{
	(void)unit;
	return caml_copy_double(-1);
}

const struct mayfly_agent_calls *events_session(void)
{
	return NULL;
}

CAMLprim value mayfly_ocaml_start(value frames)
{
	(void)frames;
	return caml_copy_double(0);
}

CAMLprim intnat mayfly_ocaml_gap(double rate)
{
	(void)rate;
	return Max_long;
}

CAMLprim value mayfly_ocaml_gap_boxed(value rate)
{
	(void)rate;
	return Val_long(Max_long);
}

CAMLprim value mayfly_ocaml_allocated(value bytes, value hits, value callstack)
{
	(void)bytes, (void)hits, (void)callstack;
	return Val_long(-1);
}
