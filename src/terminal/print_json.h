/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prints JSON:
 *
 *	struct json j = json_document();
 *	json_text(&j, "key", "value");
 *	return json_print(&j);
 */
#ifndef MAYFLY_PRINT_JSON_H
#define MAYFLY_PRINT_JSON_H

#include "answer/json_writer.h"

/* The schema of every document that commands print. It is raised when a key goes or changes its meaning; new
 * keys do not change it. */
#define JSON_SCHEMA 2

/* A document whose object is open. */
static inline struct json json_document(void)
{
	struct json j = {0};

	json_object(&j, NULL);
	json_unsigned(&j, "schema", JSON_SCHEMA);
	return j;
}

/* Closes the object, prints it and a newline, and releases it. Both return an exit status;
 * json_print() is the last thing that a command prints. */
int json_print(struct json *j);
int json_print_line(struct json *j);

#endif
