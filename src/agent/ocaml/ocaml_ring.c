/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The recorder asks OCaml 5's runtime for its events by two variables of the environment. Unless
 * children are followed, these are removed after the runtime has read them: the program's children
 * must find the environment that they would have without us, and an OCaml program that starts when
 * the recorder's folder is gone would not run.
 */
#include "agent/ocaml/ocaml_ring.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/agent.h"

#define START  "OCAML_RUNTIME_EVENTS_START"
#define FOLDER "OCAML_RUNTIME_EVENTS_DIR"

bool ocaml_ring_is_read(void)
{
	return agent_config.runtime_events && getenv(START);
}

static bool is_variable(const char *entry, const char *name)
{
	size_t length = strlen(name);

	return !strncmp(entry, name, length) && entry[length] == '=';
}

/* In place, as in environment.c: nothing is allocated. The program has one thread. */
void ocaml_ring_hide(void)
{
	char **out = environ;

	if (!agent_config.runtime_events || agent_config.follow || !environ)
		return;
	for (char **in = environ; *in; in++)
		if (!is_variable(*in, START) && !is_variable(*in, FOLDER))
			*out++ = *in;
	*out = NULL;
}
