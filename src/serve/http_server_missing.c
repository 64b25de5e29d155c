/* SPDX-License-Identifier: Apache-2.0 */
/* A build without libmicrohttpd serves nothing: what it starts says so. */
#include "serve/http_server.h"

#include <errno.h>
#include <stddef.h>

bool http_server_supported(void)
{
	return false;
}

int http_server_start(const struct http_server_settings *settings, struct http_server **out)
{
	(void)settings;
	*out = NULL;
	return ENOSYS;
}

void http_server_go(struct http_server *s)
{
	(void)s;
}

const struct http_place *http_server_place(const struct http_server *s)
{
	(void)s;
	return NULL;
}

bool http_server_stop(struct http_server *s, unsigned int milliseconds)
{
	(void)s;
	(void)milliseconds;
	return true;
}
