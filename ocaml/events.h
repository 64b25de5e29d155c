/* SPDX-License-Identifier: Apache-2.0 */
/* The primitives of mayfly.ml for events and labels, and where these go without an agent. */
#ifndef MAYFLY_EVENTS_H
#define MAYFLY_EVENTS_H

#include <caml/mlvalues.h>
#include <stdbool.h>

value mayfly_ocaml_active(value unit);
value mayfly_ocaml_span_begin(value name);
value mayfly_ocaml_span_end(value begun);
value mayfly_ocaml_instant(value name);
value mayfly_ocaml_counter(value unit, value name, value number);
value mayfly_ocaml_counter_float(value unit, value name, double number);
value mayfly_ocaml_counter_float_boxed(value unit, value name, value number);
value mayfly_ocaml_label_push(value key, value text);
value mayfly_ocaml_label_pop(value unit);

/* In primitives.c, or refusing.c: the calls of a session that writes a spool; NULL: there is none. */
struct mayfly_agent_calls;
const struct mayfly_agent_calls *events_session(void);

#endif
