/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The primitives of mayfly.ml: in primitives.c for runtimes that have been tested, else in
 * refusing.c.
 */
#ifndef MAYFLY_PRIMITIVES_H
#define MAYFLY_PRIMITIVES_H

#include <caml/mlvalues.h>

/* Why this program cannot be traced; "": it can. */
value mayfly_ocaml_objection(value unit);
value mayfly_ocaml_pid(value unit);
/* Takes a variable out of the environment. */
value mayfly_ocaml_hide(value name);

/* The rate at which the agent samples (0: it does not; negative: there is no agent), and the number
 * of frames that it asks for. */
value mayfly_ocaml_agent_rate(value unit);
value mayfly_ocaml_agent_frames(value unit);

/* A session begins with one of these, which open its file. The result is the problem, or "". */
value mayfly_ocaml_open_memtrace(value path, value executable, value parameters, value context,
				 value rate);
value mayfly_ocaml_open_spool(value output, value note, value rate, value most, value dormant);
/* Returns the rate that is in force. Raises Failure when the runtime's sampler is in use. */
value mayfly_ocaml_start(value frames);
value mayfly_ocaml_running(value unit);
/* Raises Failure when the program has stopped the sampler. */
value mayfly_ocaml_stop(value unit);
/* Closes the file. The result says why it is not complete, or is "". */
value mayfly_ocaml_end(value unit);

/* Words to the next sample, that one included. */
intnat mayfly_ocaml_gap(double rate);
value mayfly_ocaml_gap_boxed(value rate);
/* A sampled block outside the heaps. The result is for mayfly_ocaml_freed(); negative: the block is
 * not followed. The callstack's leaf is a frame of mayfly.ml. */
value mayfly_ocaml_allocated(value bytes, value hits, value callstack);
value mayfly_ocaml_freed(value kept);

#endif
