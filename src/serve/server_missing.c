/* SPDX-License-Identifier: Apache-2.0 */
/* A build without libmicrohttpd serves nothing, so only the first of these functions is called. */
#include "serve/server.h"

#include <errno.h>

bool server_supported(void)
{
	return false;
}

int server_start(const struct server_settings *settings, struct server **out)
{
	(void)settings;
	*out = NULL;
	return ENOSYS;
}

const char *server_url(const struct server *s)
{
	(void)s;
	return "";
}

uint16_t server_port(const struct server *s)
{
	(void)s;
	return 0;
}

bool server_show(struct server *s, const struct view *view, bool live,
		 void (*release)(void *context), void *context)
{
	(void)s;
	(void)view;
	(void)live;
	release(context);
	return false;
}

void server_settle(struct server *s)
{
	(void)s;
}

bool server_stop(struct server *s, unsigned int milliseconds)
{
	(void)s;
	(void)milliseconds;
	return true;
}
