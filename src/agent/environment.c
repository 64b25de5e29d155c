/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the program sees of us in its environment: nothing.
 *
 * `mayfly record` loads the agent into the program by LD_PRELOAD and MAYFLY. Unless children are
 * followed, the agent removes both from the environment as soon as it has read them, so the program
 * and all that it starts find the environment that they would have without us. They are put back
 * only for an exec in the recorded process itself (a wrapper script's exec, env, nice). In a vfork
 * child the process id differs from ours, so its exec passes untouched. `mayfly attach` puts nothing
 * into the environment of the program: only its exec, and those of followed children, bring both.
 */
#include "agent/environment.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "agent/agent.h"
#include "agent/cpu/sys.h"
#include "agent/exec_file.h"

#define SETTINGS "MAYFLY="

static char our_preload[ENVIRONMENT_BYTES];  /* "LD_PRELOAD=" and our libraries */
static char our_settings[ENVIRONMENT_BYTES]; /* "MAYFLY=..." */

static bool is_ours(const char *path, size_t length)
{
	const char *slash = memrchr(path, '/', length);
	size_t skip = slash ? (size_t)(slash + 1 - path) : 0;

	return length - skip > 9 && !memcmp(path + skip, "libmayfly", 9);
}

/* The part of an entry LD_PRELOAD=... that follows our libraries. */
static const char *skip_ours(const char *entry)
{
	const char *at = entry + sizeof(ENVIRONMENT_PRELOAD) - 1;
	size_t length;

	while ((length = strcspn(at, ": ")) && is_ours(at, length)) {
		at += length;
		if (!*at)
			break;
		at++;
	}
	return at;
}

static bool environment_has_ours(const char *entry)
{
	return skip_ours(entry) != entry + sizeof(ENVIRONMENT_PRELOAD) - 1;
}

static bool environment_ours_is_there(const char *entry)
{
	const char *at = entry + sizeof(ENVIRONMENT_PRELOAD) - 1;
	size_t length = strcspn(at, ": ");
	char path[4096];

	if (agent_sandboxed || length >= sizeof(path))
		return true;
	memcpy(path, at, length);
	path[length] = 0;
	return !sys_failed(sys_call3(SYS_faccessat, AT_FDCWD, (long)path, R_OK));
}

char *const *environment_drop_ours(char **copy, char *text, char *const *env)
{
	size_t n = 0;

	for (; *env; env++) {
		if (!strncmp(*env, ENVIRONMENT_PRELOAD, sizeof(ENVIRONMENT_PRELOAD) - 1)) {
			const char *rest = skip_ours(*env);

			/* "ours:" says that the program's own is set and empty. */
			if (!*rest && rest[-1] != ':')
				continue;
			strcpy(text, ENVIRONMENT_PRELOAD);
			strcat(text, rest);
			copy[n++] = text;
		} else {
			copy[n++] = *env;
		}
	}
	copy[n] = NULL;
	return copy;
}

/* Copies ours of "LD_PRELOAD=ours:theirs". Returns its bytes, with what follows it; 0: there is none. */
static size_t copy_preload(const char *entry)
{
	const char *value = entry + sizeof(ENVIRONMENT_PRELOAD) - 1, *rest = value;

	for (;;) {
		size_t length = strcspn(rest, ": ");
		if (length && !is_ours(rest, length))
			break;
		rest += length;
		if (!*rest)
			break;
		rest++;
	}
	size_t all = (size_t)(rest - value), ours = all;
	if (ours == 0 || ours >= sizeof(our_preload) - sizeof(ENVIRONMENT_PRELOAD))
		return 0;
	memcpy(our_preload, entry, sizeof(ENVIRONMENT_PRELOAD) - 1 + ours);
	while (ours && (value[ours - 1] == ':' || value[ours - 1] == ' '))
		ours--;
	our_preload[sizeof(ENVIRONMENT_PRELOAD) - 1 + ours] = 0;
	return all;
}

/* Splits "LD_PRELOAD=ours:theirs" in place into ours (copied) and theirs. True: nothing is left. */
static bool split_preload(char *entry)
{
	char *value = entry + sizeof(ENVIRONMENT_PRELOAD) - 1;
	size_t ours = copy_preload(entry);
	/* "ours:" says that the program's own is set and empty. */
	bool set = ours && value[ours - 1] == ':';

	if (!ours)
		return false;
	memmove(value, value + ours, strlen(value + ours) + 1);
	return !*value && !set;
}

/* What is left of the value of LD_PRELOAD without ours; NULL: nothing. */
const char *environment_theirs(const char *value)
{
	const char *rest = value ? skip_ours(value - (sizeof(ENVIRONMENT_PRELOAD) - 1)) : NULL;

	return rest && (*rest || rest == value || rest[-1] == ':') ? rest : NULL;
}

bool environment_is_whole(char *const *env)
{
	bool preload = false, settings = false;

	for (; env && *env; env++) {
		preload |= !strncmp(*env, ENVIRONMENT_PRELOAD, sizeof(ENVIRONMENT_PRELOAD) - 1) &&
			   environment_has_ours(*env);
		settings |= !strncmp(*env, SETTINGS, sizeof(SETTINGS) - 1);
	}
	return preload && settings;
}

void environment_keep(void)
{
	for (char **e = environ; *e; e++) {
		if (!strncmp(*e, SETTINGS, sizeof(SETTINGS) - 1) &&
		    strlen(*e) < sizeof(our_settings))
			strcpy(our_settings, *e);
		else if (!strncmp(*e, ENVIRONMENT_PRELOAD, sizeof(ENVIRONMENT_PRELOAD) - 1))
			copy_preload(*e);
	}
}

void environment_hide(void)
{
	char **out = environ;

	for (char **in = environ; *in; in++) {
		if (!strncmp(*in, SETTINGS, sizeof(SETTINGS) - 1) &&
		    strlen(*in) < sizeof(our_settings))
			memcpy(our_settings, *in, strlen(*in) + 1);
		else if (strncmp(*in, ENVIRONMENT_PRELOAD, sizeof(ENVIRONMENT_PRELOAD) - 1) ||
			 !split_preload(*in))
			*out++ = *in;
	}
	*out = NULL;
}

void environment_bring(const char *library, const char *settings)
{
	environment_bring_nothing();
	if (strlen(settings) >= sizeof(our_settings) - sizeof(SETTINGS) ||
	    strlen(library) >= sizeof(our_preload) - sizeof(ENVIRONMENT_PRELOAD) ||
	    strpbrk(library, ": ") ||
	    sys_failed(sys_call3(SYS_faccessat, AT_FDCWD, (long)library, F_OK)))
		return;
	strcpy(our_preload, ENVIRONMENT_PRELOAD);
	strcat(our_preload, library);
	/* The first byte last: another thread may be about to exec. */
	strcpy(our_settings + 1, &SETTINGS[1]);
	strcat(our_settings + 1, settings);
	atomic_signal_fence(memory_order_release);
	our_settings[0] = SETTINGS[0];
}

void environment_bring_nothing(void)
{
	our_settings[0] = 0;
}

/* chroot may have led the process away from our libraries, and it may run as a user who may not read them:
 * ld.so would complain. */
static bool has_ours(void)
{
	return !agent_sandboxed && our_settings[0] && our_preload[0] &&
	       environment_ours_is_there(our_preload);
}

/* In a sandbox the process id cannot be asked for. */
bool environment_goes_on(void)
{
	return has_ours() &&
	       (agent_config.follow || (uint32_t)sys_getpid() == agent_config.target_pid);
}

bool environment_follows(void)
{
	return has_ours() && agent_config.follow;
}

char *const *environment_put_ours(char **larger, char *both, char *const *env, const char *theirs)
{
	size_t n = 0;

	strcpy(both, our_preload);
	if (theirs) {
		strcat(both, ":");
		strcat(both, theirs);
	}
	larger[n++] = both;
	for (; env && *env; env++) {
		if (strncmp(*env, ENVIRONMENT_PRELOAD, sizeof(ENVIRONMENT_PRELOAD) - 1) &&
		    strncmp(*env, SETTINGS, sizeof(SETTINGS) - 1))
			larger[n++] = *env;
	}
	larger[n++] = our_settings;
	larger[n] = NULL;
	return larger;
}

size_t environment_unfit(char *const *env, const char *name, bool search, size_t *text)
{
	size_t entries = 0;
	bool drop = false;

	for (; env && env[entries]; entries++) {
		if (strncmp(env[entries], ENVIRONMENT_PRELOAD, sizeof(ENVIRONMENT_PRELOAD) - 1) ||
		    !environment_has_ours(env[entries]))
			continue;
		drop = !environment_ours_is_there(env[entries]) || !exec_file_fits(name, search);
		*text = strlen(env[entries]) + 1;
	}
	return drop && entries < ENVIRONMENT_MOST ? entries + 1 : 0;
}
