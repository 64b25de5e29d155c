/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who may ask. A web site that the user visits can make the browser send requests to 127.0.0.1:
 *
 *	by a link or a picture		Sec-Fetch-Site says cross-site or same-site
 *	by a script, a form		Origin names the site
 *	by a name of its own that
 *	it lets point to 127.0.0.1	Host has that name
 *
 * It does not know the token either; these checks are there in case that it learns it. A server that other
 * machines reach has names that it does not know, so there a login has to be given, which no site can.
 */
#include "serve/request_check.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

/* "127.0.0.1:PORT" or "localhost:PORT", or "[::1]:PORT". Browsers leave out the port 80. */
static bool is_our_name(const struct request_heads *heads, const char *text)
{
	const char *const names[] = {heads->v6 ? "[::1]" : "127.0.0.1", "localhost"};
	char expected[8];

	snprintf(expected, sizeof(expected), ":%u", heads->port);
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		size_t length = strlen(names[i]);

		if (strncasecmp(text, names[i], length) == 0 &&
		    (strcmp(text + length, expected) == 0 || (heads->port == 80 && !text[length])))
			return true;
	}
	return false;
}

static bool is_our_origin(const struct request_heads *heads, const char *text)
{
	static const char scheme[] = "http://";

	return !heads->any_name && strncmp(text, scheme, sizeof(scheme) - 1) == 0 &&
	       is_our_name(heads, text + sizeof(scheme) - 1);
}

/* The time does not depend on how much of it is right. */
static bool is_same(const char *text, const char *right)
{
	unsigned int different = 0;

	if (strlen(text) != strlen(right))
		return false;
	for (size_t i = 0; right[i]; i++)
		different |= (unsigned char)(text[i] ^ right[i]);
	return !different;
}

void request_head(struct request_heads *heads, const char *name, const char *value)
{
	if (!value)
		value = "";
	if (strcasecmp(name, "Host") == 0) {
		heads->hosts++;
		heads->foreign |= !heads->any_name && !is_our_name(heads, value);
	} else if (strcasecmp(name, "Origin") == 0) {
		heads->foreign |= !is_our_origin(heads, value);
	} else if (strcasecmp(name, "Sec-Fetch-Site") == 0) {
		/* "none": the user typed the address, or another program opened the browser. */
		heads->foreign |=
		    strcasecmp(value, "same-origin") != 0 && strcasecmp(value, "none") != 0;
	} else if (strcasecmp(name, "Authorization") == 0 && heads->login) {
		heads->logins++;
		heads->wrong |=
		    !is_same(value, heads->login->bearer) && !is_same(value, heads->login->basic);
	}
}

bool request_is_ours(const struct request_heads *heads)
{
	return heads->hosts == 1 && !heads->foreign;
}

bool request_is_allowed(const struct request_heads *heads)
{
	return !heads->login || (heads->logins == 1 && !heads->wrong);
}

/* ---- logins ---- */

static void put_base64(char *to, const char *text)
{
	static const char digits[] =
	    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	size_t length = strlen(text);

	for (size_t i = 0; i < length; i += 3) {
		uint32_t bits = 0;

		for (size_t k = i; k < i + 3; k++)
			bits = bits << 8 | (k < length ? (unsigned char)text[k] : 0u);
		for (size_t k = 0; k < 4; k++)
			*to++ = i + k > length ? '=' : digits[bits >> (18 - 6 * k) & 63];
	}
	*to = 0;
}

bool request_login_make(struct request_login *login, const char *token)
{
	size_t length = strlen(token);
	char both[LOGIN_MOST + 8];

	if (length < LOGIN_LEAST || length >= LOGIN_MOST)
		return false;
	for (size_t i = 0; i < length; i++)
		if (token[i] <= ' ' || token[i] > '~')
			return false;
	snprintf(login->bearer, sizeof(login->bearer), "Bearer %s", token);
	snprintf(both, sizeof(both), "mayfly:%s", token);
	strcpy(login->basic, "Basic ");
	put_base64(login->basic + strlen(login->basic), both);
	return true;
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
