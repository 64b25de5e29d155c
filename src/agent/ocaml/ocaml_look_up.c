/* SPDX-License-Identifier: Apache-2.0 */
/* Functions of the runtime: see ocaml_look_up.h. */
#include "agent/ocaml/ocaml_look_up.h"

#include <dlfcn.h>
#include <string.h>

static const struct image *only;

void ocaml_look_in(const struct image *image)
{
	only = image;
}

void *ocaml_look_up(const char *name, void *to)
{
	void *p = only ? image_find(only, name) : dlsym(RTLD_DEFAULT, name);

	if (to)
		memcpy(to, &p, sizeof(p));
	return p;
}
