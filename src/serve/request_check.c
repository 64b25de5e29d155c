/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who may ask. A web site that the user visits can make the browser send requests to 127.0.0.1:
 *
 *	by a link or a picture		Sec-Fetch-Site says cross-site or same-site
 *	by a script, a form		Origin names the site
 *	by a name of its own that
 *	it lets point to 127.0.0.1	Host has that name
 *
 * It does not know the token either; these checks are there in case that it learns it.
 */
#include "serve/request_check.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

/* "127.0.0.1:PORT" or "localhost:PORT". Browsers leave out the port 80. */
static bool is_our_name(const char *text, uint16_t port)
{
	static const char *const names[] = {"127.0.0.1", "localhost"};
	char expected[8];

	snprintf(expected, sizeof(expected), ":%u", port);
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		size_t length = strlen(names[i]);

		if (strncasecmp(text, names[i], length) == 0 &&
		    (strcmp(text + length, expected) == 0 || (port == 80 && !text[length])))
			return true;
	}
	return false;
}

static bool is_our_origin(const char *text, uint16_t port)
{
	static const char scheme[] = "http://";

	return strncmp(text, scheme, sizeof(scheme) - 1) == 0 &&
	       is_our_name(text + sizeof(scheme) - 1, port);
}

void request_head(struct request_heads *heads, const char *name, const char *value)
{
	if (!value)
		value = "";
	if (strcasecmp(name, "Host") == 0) {
		heads->hosts++;
		heads->foreign |= !is_our_name(value, heads->port);
	} else if (strcasecmp(name, "Origin") == 0) {
		heads->foreign |= !is_our_origin(value, heads->port);
	} else if (strcasecmp(name, "Sec-Fetch-Site") == 0) {
		/* "none": the user typed the address, or another program opened the browser. */
		heads->foreign |=
		    strcasecmp(value, "same-origin") != 0 && strcasecmp(value, "none") != 0;
	}
}

bool request_is_ours(const struct request_heads *heads)
{
	return heads->hosts == 1 && !heads->foreign;
}

const char *request_after_token(const char *uri, const char *token)
{
	unsigned int different = 0;
	size_t length = TOKEN_TEXT - 1;

	if (strnlen(uri, length + 2) < length + 2 || uri[0] != '/' || uri[length + 1] != '/')
		return NULL;
	for (size_t i = 0; i < length; i++)
		different |= (unsigned char)(uri[i + 1] ^ token[i]);
	return different ? NULL : uri + length + 2;
}
