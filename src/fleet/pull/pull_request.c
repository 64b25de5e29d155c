/* SPDX-License-Identifier: Apache-2.0 */
/* Reads what is asked for: see pull_request.h. */
#include "fleet/pull/pull_request.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/percent.h"

static const struct {
	const char *path;
	enum pull_what what;
} paths[] = {
    {"/", PULL_INDEX},
    {"/debug/pprof/heap", PULL_HEAP},
    {"/debug/pprof/allocs", PULL_ALLOCS},
    {"/metrics", PULL_METRICS},
    {"/targets", PULL_TARGETS},
    {"/healthz", PULL_HEALTH},
    {"/readyz", PULL_READY},
};

static bool read_number(const char *text, long most, long *number)
{
	size_t digits = strspn(text, "0123456789");

	*number = strtol(text, NULL, 10);
	return digits && !text[digits] && *number <= most;
}

/* One "key=value", decoded. */
static const char *take(struct pull_request *r, const char *key, const char *value)
{
	long number;

	if (!strcmp(key, "seconds")) {
		if (!read_number(value, PULL_SECONDS_MOST, &number))
			return "seconds: this is no number from 0 to 600";
		r->seconds = number;
	} else if (!strcmp(key, "pid")) {
		if (!read_number(value, INT_MAX, &number) || !number)
			return "pid: this is no number of a process";
		r->pid = (pid_t)number;
	} else if (!strcmp(key, "service")) {
		if (!*value || strlen(value) >= sizeof(r->service))
			return "service: this is empty or too long";
		strcpy(r->service, value);
	} else if (strcmp(key, "debug") != 0 || strcmp(value, "0") != 0) {
		return "there are seconds=N, pid=N and service=NAME, and nothing else";
	}
	return NULL;
}

/* What is behind the "?". */
static const char *read_parameters(struct pull_request *r, char *text)
{
	const char *why = NULL;

	while (!why && text) {
		char *value = strsep(&text, "&"), *key = strsep(&value, "=");

		if (!*key)
			continue;
		if (!value || !percent_decode(key) || !percent_decode(value))
			why = "this is not KEY=VALUE";
		else
			why = take(r, key, value);
	}
	return why;
}

void pull_request_read(struct pull_request *r, const char *uri)
{
	size_t length = strcspn(uri, "?");
	char *rest;

	*r = (struct pull_request){0};
	for (size_t i = 0; i < sizeof(paths) / sizeof(*paths); i++)
		if (strlen(paths[i].path) == length && !strncmp(uri, paths[i].path, length))
			r->what = paths[i].what;
	if ((r->what != PULL_HEAP && r->what != PULL_ALLOCS) || !uri[length])
		return;
	rest = strdup(uri + length + 1);
	r->why = rest ? read_parameters(r, rest) : "out of memory";
	free(rest);
}
