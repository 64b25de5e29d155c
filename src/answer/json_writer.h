/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes one JSON document into a growing block of bytes, in order:
 *
 *	json_object(&j, NULL);			{
 *	json_text(&j, "name", "f");		  "name": "f",
 *	json_array(&j, "sizes");		  "sizes": [
 *	json_unsigned(&j, NULL, 3);		    3
 *	json_end(&j);				  ]
 *	json_end(&j);				}
 *
 * The key is NULL in an array and for the document itself. When memory runs out, `bytes.failed` is
 * set and the rest is ignored, so only the end needs a check.
 */
#ifndef MAYFLY_JSON_WRITER_H
#define MAYFLY_JSON_WRITER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"

/* The deepest nesting; what is deeper is null. */
#define JSON_LEVELS 4096u

struct json {
	struct bytes bytes;
	bool one_line;
	/* Keys for which this returns true have the value null, whatever is written for them. */
	bool (*is_null)(const char *key, uint32_t context);
	uint32_t null_context;

	/* The writer's own. */
	uint64_t arrays[JSON_LEVELS / 64]; /* a bit for each level: an array */
	unsigned int depth, hidden;	   /* levels that are open, and levels within a null */
	bool filled;			   /* the innermost level has a member */
};

void json_object(struct json *j, const char *key);
void json_array(struct json *j, const char *key);
/* Closes the innermost object or array. */
void json_end(struct json *j);

/* Bytes that are not UTF-8 become U+FFFD, in keys, too. */
void json_text(struct json *j, const char *key, const char *text);
void json_text_or_null(struct json *j, const char *key, const char *text); /* "" is null */
void json_integer(struct json *j, const char *key, int64_t value);
void json_unsigned(struct json *j, const char *key, uint64_t value); /* at most INT64_MAX */
void json_unsigned_or_null(struct json *j, const char *key, bool known, uint64_t value);
void json_real(struct json *j, const char *key, double value); /* null when it is not finite */
void json_bool(struct json *j, const char *key, bool value);
void json_null(struct json *j, const char *key);

/* An array of what `put`, a call for the number `i`, writes, while `more`, an expression of it, is true. */
#define JSON_LIST(j, key, i, more, put)                                                            \
	do {                                                                                       \
		json_array(j, key);                                                                \
		for (size_t i = 0; more; i++)                                                      \
			put;                                                                       \
		json_end(j);                                                                       \
	} while (0)
/* An array of objects: the statement after it writes the members of number `i`, and does not leave it. */
#define JSON_ROWS(j, key, i, more) JSON_ROWS_WHERE(j, key, i, more, true)
/* Those for which `has`, another expression of it, is true. */
#define JSON_ROWS_WHERE(j, key, i, more, has)                                                      \
	for (size_t i = (json_array(j, key), 0); (more) || (json_end(j), false); i++)              \
		for (bool i##_open = (has) && (json_object(j, NULL), true); i##_open;              \
		     i##_open = (json_end(j), false))

#endif
