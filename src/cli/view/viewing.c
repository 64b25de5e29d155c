/* SPDX-License-Identifier: Apache-2.0 */
/* The server of a page and what it shows: see viewing.h. */
#include "cli/view/viewing.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/view/browser.h"
#include "cli/fleet/fleet_trace.h"
#include "terminal/message.h"
#include "cli/input/source_files.h"
#include "cli/view/viewer_page.h"
#include "convert/export/exporter.h"

/* How long the end waits for answers that are being made. */
#define PATIENCE_MS 200u

static const char no_page[] =
    "<!DOCTYPE html>\n"
    "<html lang=\"en\"><meta charset=\"utf-8\"><title>mayfly</title>\n"
    "<body><h1>The page was not built</h1>\n"
    "<p>This mayfly was built without the viewer's page. Install what it is made with "
    "(<code>scripts/setup viewer</code>) and build mayfly again; until then use "
    "<code>mayfly report</code>.</p></body></html>\n";

struct shown_trace {
	struct opened_trace opened;
	char *path;
	/* What it is compared with, where the page asked for that. */
	struct opened_trace base;
	char *base_path; /* NULL: none */
};

static bool say_not_started(int error, size_t port)
{
	if (error == EADDRINUSE)
		return cli_fail("port %zu is in use; choose another, or leave the option out",
				port);
	if (error == EACCES)
		return cli_fail("port %zu is for root only; choose one above 1023", port);
	return cli_fail("cannot serve the page: %s", strerror(error));
}

static void viewing_release(struct viewing *v)
{
	if (v->base_path)
		close_trace(&v->base);
}

bool viewing_open(const char *path, struct opened_trace *opened)
{
	char *asked = fleet_over_time(path);
	bool good = asked ? open_trace(asked, opened) : cli_fail("out of memory");

	free(asked);
	return good;
}

static void release_trace(void *context)
{
	struct shown_trace *shown = context;

	close_trace(&shown->opened);
	if (shown->base_path)
		close_trace(&shown->base);
	free(shown->path);
	free(shown->base_path);
	free(shown);
}

static bool show(struct viewing *v, struct shown_trace *shown, bool live)
{
	struct view view = {
	    .trace = shown->opened.trace,
	    .base = v->base_path ? v->base.trace : NULL,
	    .path = shown->path,
	    .base_path = v->base_path,
	    .file = shown->opened.file.data,
	    .file_size = shown->opened.file.size,
	    .exports = export_formats(),
	    .source = view_read_source,
	    .source_context = shown->opened.trace,
	};

	if (v->base_path) {
		view.base_file = v->base.file.data;
		view.base_file_size = v->base.file.size;
	}
	if (shown->base_path) {
		view.base = shown->base.trace;
		view.base_file = shown->base.file.data;
		view.base_file_size = shown->base.file.size;
		view.base_path = shown->base_path;
	}
	return server_show(v->server, &view, live, release_trace, shown);
}

/* Both are opened anew: requests that are being answered still use what is shown now. */
static bool compare_with(void *context, const char *base_path)
{
	struct viewing *v = context;
	struct shown_trace *shown = v->path ? calloc(1, sizeof(*shown)) : NULL;
	bool opened = shown && viewing_open(v->path, &shown->opened);
	bool both = opened && viewing_open(base_path, &shown->base);

	if (both) {
		shown->path = strdup(v->path);
		shown->base_path = strdup(base_path);
		if (shown->path && shown->base_path)
			return show(v, shown, false);
		close_trace(&shown->base);
	}
	if (opened)
		close_trace(&shown->opened);
	if (shown) {
		free(shown->path);
		free(shown->base_path);
	}
	free(shown);
	return false;
}

bool viewing_start(struct viewing *v, const struct viewing_settings *settings)
{
	struct server_settings server = {.port = (uint16_t)settings->port};
	int error;

	*v = (struct viewing){.no_browser = settings->no_browser};
	server.compare = compare_with;
	server.context = v;
	if (!server_supported())
		return cli_fail("this build of mayfly lacks libmicrohttpd, which serves the page; "
				"install libmicrohttpd-dev and build it again");
	if (settings->base && !viewing_open(settings->base, &v->base))
		return false;
	v->base_path = settings->base;
	if (!viewer_page(&server.page, &server.page_size)) {
		server.page = no_page;
		server.page_size = sizeof(no_page) - 1;
	}
	error = server_start(&server, &v->server);
	if (!error)
		return true;
	viewing_release(v);
	return say_not_started(error, settings->port);
}

bool viewing_show(struct viewing *v, const char *path, struct opened_trace *opened, bool live)
{
	struct shown_trace *shown = calloc(1, sizeof(*shown));
	char *copy = strdup(path);

	if (!shown || !copy) {
		close_trace(opened);
		free(shown);
		free(copy);
		return false;
	}
	shown->opened = *opened;
	shown->path = copy;
	*opened = (struct opened_trace){0};
	return show(v, shown, live);
}

/* The browser is on another machine, as far as is known. */
static void say_how_to_forward(const struct viewing *v, FILE *to, const char *prefix)
{
	unsigned int port = server_port(v->server);
	char host[256] = "HOST";

	if (gethostname(host, sizeof(host) - 1) != 0)
		strcpy(host, "HOST");
	fprintf(to,
		"%sfrom another machine: ssh -L %u:127.0.0.1:%u %s, then open that address there\n",
		prefix, port, port, host);
}

void viewing_announce(const struct viewing *v, FILE *to, const char *prefix, const char *what,
		      const char *note)
{
	bool here = browser_is_here();

	fprintf(to, "%s%s is at %s%s\n", prefix, what, server_url(v->server), note);
	if (browser_is_elsewhere() || (!here && !v->no_browser))
		say_how_to_forward(v, to, prefix);
	fflush(to);
	if (here && !v->no_browser)
		browser_open(server_url(v->server));
}

void viewing_signals(sigset_t *set)
{
	sigemptyset(set);
	sigaddset(set, SIGINT);
	sigaddset(set, SIGTERM);
	sigaddset(set, SIGHUP);
}

void viewing_end(struct viewing *v, int status)
{
	if (!server_stop(v->server, PATIENCE_MS)) {
		fflush(NULL);
		_exit(status);
	}
	viewing_release(v);
}
