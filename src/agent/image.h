/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A loaded library as its dynamic section describes it. It must stay mapped meanwhile.
 *
 * Nothing here asks the loader: dlsym takes its lock, and where it finds nothing, it leaves a
 * message for the program's dlerror().
 */
#ifndef MAYFLY_IMAGE_H
#define MAYFLY_IMAGE_H

#include <elf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct image {
	uintptr_t bias, start, end; /* of all its segments */
	uintptr_t sealed,
	    sealed_end; /* the pages that become read-only when it is loaded; may be none */
	const Elf64_Sym *symbol;
	const char *text;
	const Elf64_Rela *rela[2];
	size_t relas[2], relative; /* the first of rela[0] name no symbol */
	const uint32_t *hash;	   /* DT_GNU_HASH */
};

/* bias, start and end are set; fills in the rest. False: this is no library as the loader makes
 * them (the kernel's vdso). */
bool image_read(struct image *o, const Elf64_Dyn *dynamic);

static inline bool image_has(const struct image *o, const void *address)
{
	return (uintptr_t)address >= o->start && (uintptr_t)address < o->end;
}

/* Does the library use a function of this name that another one defines? */
bool image_imports(const struct image *o, const char *name);

/* What the library says of a name that it defines; NULL: it defines none of this name, or has no table. */
const Elf64_Sym *image_symbol(const struct image *o, const char *name);

/* A function that the library defines; NULL: it defines none of this name, or has no table. */
void *image_find(const struct image *o, const char *name);

#endif
