/* SPDX-License-Identifier: Apache-2.0 */
/* http_post.h where mayfly is built without libcurl: nothing can be opened. */
#include <stdio.h>

#include "fleet/http/http_post.h"

struct http *http_open(size_t answer_most, char *why)
{
	(void)answer_most;
	snprintf(
	    why, HTTP_WHY,
	    "this build of mayfly has no libcurl; install libcurl4-openssl-dev and build again");
	return NULL;
}

void http_close(struct http *h)
{
	(void)h;
}

bool http_header(struct http *h, const char *name, const char *value, char *why)
{
	(void)h, (void)name, (void)value, (void)why;
	return false;
}

bool http_login(struct http *h, const char *user, const char *password, char *why)
{
	(void)h, (void)user, (void)password, (void)why;
	return false;
}

void http_patient(struct http *h)
{
	(void)h;
}

char *http_escape(struct http *h, const char *text)
{
	(void)h, (void)text;
	return NULL;
}

bool http_post(struct http *h, const struct http_request *request, struct http_answer *answer,
	       char *why)
{
	(void)h, (void)request, (void)answer, (void)why;
	return false;
}

void http_say(char *why, const char *before, const char *text)
{
	(void)why, (void)before, (void)text;
}
