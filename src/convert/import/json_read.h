/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading JSON from untrusted bytes, value by value, without a tree of them.
 *
 *	struct json_in j = json_begin(bytes, size);
 *	struct json_text key;
 *
 *	json_open(&j, '{');
 *	while (json_member(&j, &key))
 *		if (json_is(&key, "rows"))
 *			for (json_open(&j, '['); json_item(&j);)
 *				... json_take_number(&j, &value) ...
 *		else
 *			json_skip(&j);
 *	if (j.bad) ...
 *
 * Each member and item must be read or skipped. Damage sticks: loops end, and values are 0. Of what is
 * skipped only the brackets are checked.
 */
#ifndef MAYFLY_JSON_READ_H
#define MAYFLY_JSON_READ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct json_in {
	const char *at, *end;
	bool bad;
	bool first; /* nothing of the innermost open value has been read */
};

/* As it is in the file, without its quotes. */
struct json_text {
	const char *at;
	size_t length;
};

struct json_in json_begin(const void *data, size_t size);

/* Enters an object '{' or an array '['. */
void json_open(struct json_in *j, char bracket);
/* Whether there is one more; false leaves the object or array. */
bool json_member(struct json_in *j, struct json_text *key);
bool json_item(struct json_in *j);

void json_skip(struct json_in *j);
void json_take_text(struct json_in *j, struct json_text *text);
/* A number without its fraction, a truth as 0 or 1. One below 0 is 0, one beyond the type is bad. */
void json_take_number(struct json_in *j, uint64_t *value);

bool json_is(const struct json_text *text, const char *word);
/* Replaces the escapes: at most text->length bytes, of which the number is returned. */
size_t json_unescape(const struct json_text *text, char *to);

#endif
