/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the program sees of us in its environment: nothing.
 *
 * `mayfly record` loads the agent into the program by LD_PRELOAD and MAYFLY. Unless children are
 * followed, the agent removes both from the environment as soon as it has read them, so the program
 * and all that it starts find the environment that they would have without us. They are put back
 * only for an exec in the recorded process itself (a wrapper script's exec, env, nice). In a vfork
 * child the process id differs from ours, so its exec passes untouched.
 */
#include "agent/environment.h"

#include <string.h>
#include <unistd.h>

#include "agent/agent.h"
#include "agent/cpu/sys.h"

#define SETTINGS "MAYFLY="

static char our_preload[ENVIRONMENT_BYTES];  /* "LD_PRELOAD=" and our libraries */
static char our_settings[ENVIRONMENT_BYTES]; /* "MAYFLY=..." */

static bool is_ours(const char *path, size_t length)
{
	const char *slash = memrchr(path, '/', length);
	size_t skip = slash ? (size_t)(slash + 1 - path) : 0;

	return length - skip > 9 && !memcmp(path + skip, "libmayfly", 9);
}

/* Splits "LD_PRELOAD=ours:theirs" in place into ours (copied) and theirs. True: nothing is left. */
static bool split_preload(char *entry)
{
	char *value = entry + sizeof(ENVIRONMENT_PRELOAD) - 1;
	char *rest = value;

	for (;;) {
		size_t length = strcspn(rest, ": ");
		if (length && !is_ours(rest, length))
			break;
		rest += length;
		if (!*rest)
			break;
		rest++;
	}
	size_t ours = (size_t)(rest - value);
	if (ours == 0 || ours >= sizeof(our_preload) - sizeof(ENVIRONMENT_PRELOAD))
		return false;
	memcpy(our_preload, entry, sizeof(ENVIRONMENT_PRELOAD) - 1 + ours);
	while (ours && (value[ours - 1] == ':' || value[ours - 1] == ' '))
		ours--;
	our_preload[sizeof(ENVIRONMENT_PRELOAD) - 1 + ours] = 0;
	memmove(value, rest, strlen(rest) + 1);
	return !*value;
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

/* In a sandbox the process id cannot be asked for. */
bool environment_goes_on(void)
{
	return !agent_sandboxed && our_settings[0] && our_preload[0] &&
	       (uint32_t)sys_getpid() == agent_config.target_pid;
}

char *const *environment_put_ours(char **larger, char *both, char *const *env, const char *theirs)
{
	size_t n = 0;

	strcpy(both, our_preload);
	if (theirs && *theirs) {
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
