/* SPDX-License-Identifier: Apache-2.0 */
/* Where in the process an interpreter is: see library.h. */
#include "agent/interpreter/library.h"

#include <dlfcn.h>
#include <link.h>
#include <string.h>

#include "agent/real.h"
#include "agent/slots.h"

struct search {
	struct interpreter_library *in;
	bool (*is_wanted)(const struct image *image);
};

static int look_at_library(struct dl_phdr_info *info, size_t size, void *to)
{
	const struct search *s = to;

	(void)size;
	if (!slots_image(info, &s->in->image) || !s->is_wanted(&s->in->image))
		return 0;
	strncat(s->in->path, info->dlpi_name, sizeof(s->in->path) - 1);
	s->in->thread_block = info->dlpi_tls_data;
	return 1;
}

bool library_find(struct interpreter_library *in, bool (*is_wanted)(const struct image *image))
{
	int (*walk)(int (*)(struct dl_phdr_info *, size_t, void *), void *) = NULL;
	struct search s = {in, is_wanted};

	REAL_LOOK_UP(walk, dl_iterate_phdr);
	return walk && walk(look_at_library, &s);
}

bool library_keep(const struct interpreter_library *in)
{
	void *(*open)(const char *, int) = NULL;

	REAL_LOOK_UP(open, dlopen);
	return !*in->path || (open && open(in->path, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE));
}

/* One that was opened late may have been opened with RTLD_LOCAL, so that only it itself knows. */
bool library_look_up(const struct interpreter_library *in, const char *name, void *to)
{
	void *p = in->late ? image_find(&in->image, name) : dlsym(RTLD_DEFAULT, name);

	memcpy(to, &p, sizeof(p));
	return p;
}
