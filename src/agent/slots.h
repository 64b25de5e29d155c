/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The words of a loaded library through which it calls or names functions of others: its slots, as its
 * relocations list them.
 *
 * Other threads may call through a slot while it is changed: that is one store. The loader may be just
 * filling it, so the caller looks at its value first.
 */
#ifndef MAYFLY_SLOTS_H
#define MAYFLY_SLOTS_H

#include <link.h>

#include "agent/image.h"

/* What dl_iterate_phdr tells of a library. False: see image_read(). */
bool slots_image(const struct dl_phdr_info *info, struct image *o);

/* The library or program that has this address; what the loader knows of it, or NULL. */
const struct link_map *slots_image_at(const void *address, struct image *o);

/* Calls each() for the slots of functions that the library does not define itself. type: of the
 * relocation (CPU_SLOT_IS_...). */
void slots_each(const struct image *o,
		void (*each)(const struct image *o, void **slot, const char *name, uint32_t type,
			     void *context),
		void *context);

/* The same, and also for those that it defines, but calls like any other (libc's own malloc). */
void slots_each_named(const struct image *o,
		      void (*each)(const struct image *o, void **slot, const char *name,
				   uint32_t type, void *context),
		      void *context);

enum slot_change {
	SLOT_CHANGED,	/* or it holds another value by now, and stays: the program's own */
	SLOT_NOT_YET,	/* the library is just being loaded */
	SLOT_UNCHANGED, /* its page could not be made writable */
};

/* A page that is read-only is writable meanwhile. */
enum slot_change slots_change(const struct image *o, void **slot, void *from, void *to);

#endif
