/* SPDX-License-Identifier: Apache-2.0 */
/* Whether a request may be answered: who sent it, and what it names. No input or output. */
#ifndef MAYFLY_REQUEST_CHECK_H
#define MAYFLY_REQUEST_CHECK_H

#include <stdbool.h>
#include <stdint.h>

#define TOKEN_TEXT 33 /* 32 hexadecimal digits */

/* What a login is as a value of Authorization: "Bearer TOKEN", or Basic with the user mayfly and the token as
 * the password, which is what a URL can hold. */
#define LOGIN_LEAST 16u /* bytes of a token */
#define LOGIN_MOST  128u
struct request_login {
	char bearer[LOGIN_MOST + 8], basic[4 * (LOGIN_MOST + 8) / 3 + 12];
};
/* False: the token is too short or too long, or has bytes other than those of a word. */
bool request_login_make(struct request_login *login, const char *token);

/* What the headers of a request say. */
struct request_heads {
	bool any_name; /* we do not know by which names we are reached; otherwise: */
	bool v6;       /* at [::1], not 127.0.0.1 */
	uint16_t port; /* ours */
	const struct request_login *login; /* that is needed, or NULL */
	unsigned int hosts, logins;
	bool foreign; /* one of them shows that the request comes from elsewhere */
	bool wrong;   /* a login is not the right one */
};

/* Looks at a header, for instance Host. */
void request_head(struct request_heads *heads, const char *name, const char *value);

/* After all headers: the request is one that our page, a person or a program sent to us by our name. */
bool request_is_ours(const struct request_heads *heads);
/* It has the login, if one is needed. */
bool request_is_allowed(const struct request_heads *heads);

/* The rest of "/TOKEN/rest", or NULL. The time does not depend on how much of the token is right. */
const char *request_after_token(const char *uri, const char *token);

#endif
