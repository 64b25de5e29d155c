/* SPDX-License-Identifier: Apache-2.0 */
/* The variables of one object: see data_symbols.h. */
#include "symbols/data_symbols.h"

#include <gelf.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/search.h"

#define SYMBOLS_MOST (1u << 24)
#define PARTS_MOST   256u

static bool read_parts(struct data_symbols *d, const struct elf_file *f)
{
	GElf_Ehdr header;
	size_t count, capacity = 0;

	if (elf_getphdrnum(f->elf, &count) || !gelf_getehdr(f->elf, &header))
		return false;
	d->is_static_type = header.e_type == ET_EXEC;
	for (size_t i = 0; i < count && d->parts < PARTS_MOST; i++) {
		GElf_Phdr p;

		if (!gelf_getphdr(f->elf, (int)i, &p))
			continue;
		if (p.p_type == PT_TLS) {
			d->tls_bytes = p.p_memsz;
			d->tls_align = p.p_align;
		}
		if (p.p_type == PT_DYNAMIC)
			d->dynamic = p.p_vaddr;
		if (p.p_type != PT_LOAD)
			continue;
		if (!ARRAY_ADD(d->part, capacity, d->parts,
			       (struct data_part){.offset = p.p_offset,
						  .start = p.p_vaddr,
						  .file_bytes = p.p_filesz,
						  .bytes = p.p_memsz,
						  .writable = p.p_flags & PF_W}))
			return false;
	}
	return true;
}

static bool is_data(const GElf_Sym *s)
{
	int type = GELF_ST_TYPE(s->st_info);

	return (type == STT_OBJECT || type == STT_TLS) && s->st_size && s->st_shndx != SHN_UNDEF;
}

/* The table of this type. *any: there is one. False: out of memory. */
static bool read_table(struct data_symbols *d, const struct elf_file *f, uint32_t type,
		       struct demangle *names, bool *any)
{
	size_t capacity = d->count;
	Elf_Scn *section = NULL;
	GElf_Shdr header;

	*any = false;
	while ((section = elf_nextscn(f->elf, section))) {
		Elf_Data *data;
		GElf_Sym s;

		if (!gelf_getshdr(section, &header) || header.sh_type != type)
			continue;
		data = elf_getdata(section, NULL);
		for (int i = 0; data && gelf_getsym(data, i, &s); i++) {
			const char *name = elf_strptr(f->elf, header.sh_link, s.st_name);

			if (!is_data(&s) || !name || !*name || d->count >= SYMBOLS_MOST)
				continue;
			name = demangle_intern(names, name, strlen(name));
			if (!name ||
			    !array_reserve(&d->symbol, &capacity, d->count, sizeof(*d->symbol)))
				return false;
			*any = true;
			d->symbol[d->count++] = (struct data_symbol){
			    .start = s.st_value,
			    .size = s.st_size,
			    .name = name,
			    .thread_local_one = GELF_ST_TYPE(s.st_info) == STT_TLS};
		}
	}
	return true;
}

/* At one address the longer first, then the shorter name: "environ" before "__environ". */
static int compare_symbols(const void *a, const void *b)
{
	const struct data_symbol *x = a, *y = b;

	if (x->thread_local_one != y->thread_local_one)
		return x->thread_local_one - y->thread_local_one;
	if (x->start != y->start)
		return (x->start > y->start) - (x->start < y->start);
	if (x->size != y->size)
		return (x->size < y->size) - (x->size > y->size);
	if (strlen(x->name) != strlen(y->name))
		return (strlen(x->name) > strlen(y->name)) - (strlen(x->name) < strlen(y->name));
	return strcmp(x->name, y->name);
}

static bool read_symbols(struct data_symbols *d, const struct elf_file *f, const char *path,
			 const struct debug_files *files, struct demangle *names)
{
	struct elf_file debug = {0};
	bool good, any;

	good = read_table(d, f, SHT_SYMTAB, names, &any);
	d->has_table = any;
	if (good && !any) {
		if (debug_files_open(files, &debug, f, path))
			good = read_table(d, &debug, SHT_SYMTAB, names, &any);
		d->has_table = any;
		elf_file_close(&debug);
	}
	if (good && !any)
		good = read_table(d, f, SHT_DYNSYM, names, &any);
	return good;
}

bool data_symbols_read(struct data_symbols *d, const char *open_path, const char *path,
		       const struct debug_files *files, struct demangle *names)
{
	struct elf_file f;
	bool good;

	*d = (struct data_symbols){0};
	if (elf_file_open(&f, open_path) != ELF_FILE_OPEN)
		return false;
	d->build_id_length = f.build_id_length < sizeof(d->build_id) ? f.build_id_length : 0;
	if (d->build_id_length)
		memcpy(d->build_id, f.build_id, d->build_id_length);
	good = read_parts(d, &f) && read_symbols(d, &f, path, files, names);
	elf_file_close(&f);
	if (!good) {
		data_symbols_free(d);
		return false;
	}
	if (d->count)
		qsort(d->symbol, d->count, sizeof(*d->symbol), compare_symbols);
	while (d->thread_local_from < d->count && !d->symbol[d->thread_local_from].thread_local_one)
		d->thread_local_from++;
	return true;
}

void data_symbols_free(struct data_symbols *d)
{
	free(d->symbol);
	free(d->part);
	*d = (struct data_symbols){0};
}

const struct data_symbol *data_symbols_at(const struct data_symbols *d, uint64_t address)
{
	size_t low = FIRST_THAT(i, 0, d->thread_local_from, d->symbol[i].start > address);

	/* The longest of those at the last start. */
	while (low > 1 && d->symbol[low - 2].start == d->symbol[low - 1].start)
		low--;
	if (!low || address - d->symbol[low - 1].start >= d->symbol[low - 1].size)
		return NULL;
	return &d->symbol[low - 1];
}
