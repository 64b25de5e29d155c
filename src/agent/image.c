/* SPDX-License-Identifier: Apache-2.0 */
/* A loaded library as its dynamic section describes it: see image.h. */
#include "agent/image.h"

#include <string.h>

bool image_read(struct image *o, const Elf64_Dyn *d)
{
	for (; d->d_tag != DT_NULL; d++) {
		switch (d->d_tag) {
		case DT_SYMTAB:
			o->symbol = (const Elf64_Sym *)d->d_un.d_ptr;
			break;
		case DT_STRTAB:
			o->text = (const char *)d->d_un.d_ptr;
			break;
		case DT_GNU_HASH:
			o->hash = (const uint32_t *)d->d_un.d_ptr;
			break;
		case DT_RELA:
			o->rela[0] = (const Elf64_Rela *)d->d_un.d_ptr;
			break;
		case DT_RELASZ:
			o->relas[0] = d->d_un.d_val / sizeof(Elf64_Rela);
			break;
		case DT_RELACOUNT:
			o->relative = d->d_un.d_val;
			break;
		case DT_JMPREL:
			o->rela[1] = (const Elf64_Rela *)d->d_un.d_ptr;
			break;
		case DT_PLTRELSZ:
			o->relas[1] = d->d_un.d_val / sizeof(Elf64_Rela);
			break;
		}
	}
	/* The loader adds the bias to these; nobody does for the vdso. */
	return image_has(o, o->symbol) && image_has(o, o->text);
}

static uint32_t gnu_hash(const char *name)
{
	uint32_t hash = 5381;

	for (; *name; name++)
		hash = hash * 33 + (uint8_t)*name;
	return hash;
}

const Elf64_Sym *image_symbol(const struct image *o, const char *name)
{
	uint32_t hash = gnu_hash(name), buckets, first, at;
	const uint32_t *bucket, *chain;

	if (!o->hash || !o->hash[0])
		return NULL;
	buckets = o->hash[0];
	first = o->hash[1];
	bucket = o->hash + 4 + 2 * (size_t)o->hash[2];
	chain = bucket + buckets;
	for (at = bucket[hash % buckets]; at && at >= first; at++) {
		uint32_t there = chain[at - first];
		const Elf64_Sym *symbol = &o->symbol[at];

		if ((there | 1) == (hash | 1) && symbol->st_shndx != SHN_UNDEF &&
		    !strcmp(o->text + symbol->st_name, name))
			return symbol;
		if (there & 1)
			break;
	}
	return NULL;
}

void *image_find(const struct image *o, const char *name)
{
	const Elf64_Sym *symbol = image_symbol(o, name);

	return symbol ? (void *)(o->bias + symbol->st_value) : NULL;
}

/* The symbols that a library does not define come before those in its table. */
bool image_imports(const struct image *o, const char *name)
{
	for (uint32_t i = 1; o->hash && i < o->hash[1]; i++)
		if (o->symbol[i].st_shndx == SHN_UNDEF &&
		    !strcmp(o->text + o->symbol[i].st_name, name))
			return true;
	return false;
}
