/* SPDX-License-Identifier: Apache-2.0 */
/* mayfly record: what the program finds in its environment, the agent and its settings. */
#include "record/session.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

#include "base/seccomp_filters.h"
#include "base/system/process_file.h"

/* Where the build was told to install; another build system may leave that open. */
#ifndef MAYFLY_PREFIX
#define MAYFLY_PREFIX "/usr/local"
#define MAYFLY_LIBDIR "lib"
#endif

/* The agent: beside mayfly, in the tree where it was built, or where it was installed. */
char *record_find_agent(const char *name)
{
	static const char *const places[] = {"",
					     "../agent/",
					     "../" MAYFLY_LIBDIR "/mayfly/",
					     "../lib/mayfly/",
					     MAYFLY_PREFIX "/" MAYFLY_LIBDIR "/mayfly/",
					     NULL};
	char self[PATH_MAX];
	ssize_t length = readlink("/proc/self/exe", self, sizeof(self) - 1);

	if (length > 0)
		self[length] = 0;
	else if (!realpath((const char *)getauxval(AT_EXECFN), self)) /* there is no /proc */
		return NULL;
	*(strrchr(self, '/') + 1) = 0;
	for (size_t i = 0; places[i]; i++) {
		char *path =
		    record_format("%s%s%s", *places[i] == '/' ? "" : self, places[i], name);
		char *real = path ? realpath(path, NULL) : NULL;

		free(path);
		if (real && !access(real, R_OK))
			return real;
		free(real);
	}
	return NULL;
}

static bool preload_brings_new(const char *list)
{
	bool brings = false;

	while (*list && !brings) {
		size_t length = strcspn(list, ": ");
		char *library = strndup(list, length);

		brings = library && program_library_brings_new(library);
		free(library);
		list += length + (list[length] != 0);
	}
	return brings;
}

/* Sets r->preload: the agent, then the libraries that the user preloads. An allocator that defines
 * operator new itself does not call malloc for it; in that case the agent's own operators are
 * preloaded, too. */
bool record_choose_preload(struct record *r)
{
	const char *user = getenv("LD_PRELOAD"), *colon;
	const bool glibc = !strcmp(r->program.agent, "libmayfly.so");
	char *agent = record_find_agent(r->program.agent), *cxx = NULL;

	/* Set and empty: the agent keeps it so for the program, by the colon that ends the value. */
	colon = user ? ":" : "";
	if (!user)
		user = "";
	if (!agent) {
		record_say(r, "%s is neither beside mayfly nor where it was installed",
			   r->program.agent);
		return false;
	}
	if (glibc && (r->program.brings_new || preload_brings_new(user)))
		cxx = record_find_agent("libmayfly-cxx.so");
	if (strpbrk(agent, ": ") || (cxx && strpbrk(cxx, ": "))) {
		record_say(r, "'%s' cannot be preloaded: its path has a space or a colon", agent);
		free(agent);
		free(cxx);
		return false;
	}
	r->preload =
	    record_format("%s%s%s%s%s", agent, cxx ? ":" : "", cxx ? cxx : "", colon, user);
	free(agent);
	free(cxx);
	return r->preload || record_no_memory(r);
}

/* A value of MAYFLY ends at a comma, and '%' escapes. NULL: out of memory. */
static char *escape(const char *text)
{
	char *escaped = malloc(3 * strlen(text) + 1), *to = escaped;

	if (!escaped)
		return NULL;
	for (; *text; text++) {
		if (*text == ',' || *text == '%')
			to += sprintf(to, "%%%02x", (unsigned char)*text);
		else
			*to++ = *text;
	}
	*to = 0;
	return escaped;
}

static uint64_t own_filters(void)
{
	char status[PROCESS_STATUS_BYTES];

	return process_file_status(getpid(), status, sizeof(status)) ? seccomp_filters(status)
								     : SECCOMP_FILTERS_UNSAID;
}

const char *const record_sampler_names[] = {"stratified", "poisson", NULL};

char *record_agent_settings(const struct record *r)
{
	char *path = *r->spool == '/' ? record_format("%s", r->spool)
				      : record_format("%s/%s", r->folder, r->spool);
	char *escaped = path ? escape(path) : NULL, *settings = NULL, overhead[64] = "",
	     ocaml[64] = "", maps[64] = "", handover[HANDOVER_KEY_DIGITS + 128] = "";

	if (r->overhead)
		snprintf(overhead, sizeof(overhead), ",overhead=%u.%02u", r->overhead / 100,
			 r->overhead % 100);
	if (r->ocaml_off)
		snprintf(ocaml, sizeof(ocaml), ",ocaml=off");
	else if (r->ocaml_rate > 0)
		snprintf(ocaml, sizeof(ocaml), ",ocaml=%.15g", r->ocaml_rate);
	else if (!r->interval_log2 && !r->snapshot_ns)
		snprintf(ocaml, sizeof(ocaml), ",ocaml=1");
	if (r->ocaml_frames)
		snprintf(ocaml + strlen(ocaml), sizeof(ocaml) - strlen(ocaml), ",ocaml_frames=%u",
			 r->ocaml_frames);
	if (r->map_events_off)
		snprintf(maps, sizeof(maps), ",map_events=off");
	else if (r->map_events)
		snprintf(maps, sizeof(maps), ",map_events=%" PRIu64, r->map_events);
	if (*r->handover.key)
		snprintf(handover, sizeof(handover),
			 ",handover=%s,filters=%" PRIu64 ",owner=%u,users=%" PRIu32,
			 r->handover.key, own_filters(), (unsigned int)geteuid(),
			 process_file_own_users());
	if (escaped)
		settings = record_format(
		    "output=%s,interval=%llu,sampler=%s,pid=%ld,follow=%d,max_spool=%" PRIu64
		    "%s%s%s%s%s%s%s%s",
		    escaped, 1ull << r->interval_log2, record_sampler_names[r->sampler],
		    (long)child_own_pid(&r->child), r->follow, r->max_spool,
		    r->exact ? ",exact=1" : "", overhead, ocaml, maps,
		    r->runtime_events_off ? "" : ",runtime_events=1",
		    r->last_heap ? ",last_heap=1" : "", handover, r->user_settings);
	free(escaped);
	free(path);
	return settings;
}
