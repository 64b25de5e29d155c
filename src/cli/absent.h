/* SPDX-License-Identifier: Apache-2.0 */
/* What a trace does not know because the file it was converted from does not have it (enum
 * mayfly_absent): how commands say so. No figure stands for it, least of all 0. */
#ifndef MAYFLY_CLI_ABSENT_H
#define MAYFLY_CLI_ABSENT_H

#include <jansson.h>

#include "cli/output.h"
#include "cli/question.h"

/* "the peak, threads" */
char *absent_text(char *buffer, size_t size, uint32_t absent);

/* A line in a list of facts, when anything is absent. */
void print_absent(const struct output *o, const struct mayfly_info *info);

/* Whether the question needs what is absent: then a line on stderr has said so. */
bool absent_said(const char *path, const struct mayfly_trace *trace, const struct question *q);

/* Turns what is absent into null, in all objects below; returns the object. NULL is allowed. */
json_t *json_drop_absent(json_t *object, uint32_t absent);
/* The names of what is absent. */
json_t *json_absent(uint32_t absent);

#endif
