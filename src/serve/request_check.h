/* SPDX-License-Identifier: Apache-2.0 */
/* Whether a request may be answered: who sent it, and what it names. No input or output. */
#ifndef MAYFLY_REQUEST_CHECK_H
#define MAYFLY_REQUEST_CHECK_H

#include <stdbool.h>
#include <stdint.h>

#define TOKEN_TEXT 33 /* 32 hexadecimal digits */

/* What the headers of a request say. */
struct request_heads {
	uint16_t port; /* ours */
	unsigned int hosts;
	bool foreign; /* one of them shows that the request comes from elsewhere */
};

/* Looks at a header, for instance Host. */
void request_head(struct request_heads *heads, const char *name, const char *value);

/* After all headers: the request is one that our page, or a person, sent to us by our name. */
bool request_is_ours(const struct request_heads *heads);

/* The rest of "/TOKEN/rest", or NULL. The time does not depend on how much of the token is right. */
const char *request_after_token(const char *uri, const char *token);

#endif
