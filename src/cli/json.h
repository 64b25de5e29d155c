/* SPDX-License-Identifier: Apache-2.0 */
/* JSON of the things that several commands print. Every function returns a new object or NULL when
 * out of memory, and takes NULL for a part as a failure of the whole, so that only the end of a
 * chain needs a check. */
#ifndef MAYFLY_JSON_H
#define MAYFLY_JSON_H

#include <jansson.h>
#include <mayfly/trace.h>

json_t *json_text(const char *text); /* bytes that are not UTF-8 become U+FFFD; "" stays "" */
json_t *json_text_or_null(const char *text);
json_t *json_unsigned(uint64_t value);
json_t *json_estimate(const struct mayfly_estimate *e);
json_t *json_summary(const struct mayfly_summary *s);
/* A list of places. */
json_t *json_places(const struct mayfly_place *place, size_t length);
/* stacks: how many distinct ones allocated. */
json_t *json_info(const struct mayfly_trace *trace, const struct mayfly_summary *s, size_t stacks);

/* Prints the object and a newline, and frees it. Returns an exit status. */
int json_print(json_t *object);
/* The same on one line. */
int json_print_line(json_t *object);

#endif
