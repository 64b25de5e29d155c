/* SPDX-License-Identifier: Apache-2.0 */
/* What a trace does not know because the file it was converted from does not have it (enum
 * mayfly_absent). No figure stands for it, least of all 0. */
#ifndef MAYFLY_ABSENT_H
#define MAYFLY_ABSENT_H

#include <mayfly/trace.h>

#include "answer/json_writer.h"

/* "the peak, threads" */
char *absent_text(char *buffer, size_t size, uint32_t absent);

/* Whether the value of a key of JSON is not known; for json.is_null. */
bool absent_key(const char *key, uint32_t absent);
/* The names of what is absent. */
void json_absent(struct json *j, const char *key, uint32_t absent);

#endif
