/* SPDX-License-Identifier: Apache-2.0 */
/* Functions of an allocator in the executable: see own_entries.h. */
#include "agent/own_entries.h"

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "agent/agent.h"
#include "agent/cpu/sys.h"
#include "agent/entries.h"
#include "agent/hooks.h"
#include "agent/redirect.h"

#define NAMES_MOST 256u

/* A function that is to be led to ours. */
struct wanted {
	const char *name;
	void *ours;
	size_t entry; /* of entries.h; SIZE_MAX: a hook */
	uintptr_t address;
	size_t size;
};

static struct wanted wanted[NAMES_MOST];
static uint32_t wanted_count;
static struct redirected list[NAMES_MOST];
static size_t count;

/* ---- the executable's file ---- */

struct file {
	const uint8_t *data;
	size_t size;
};

static bool open_file(struct file *f)
{
	long fd = sys_openat(AT_FDCWD, "/proc/self/exe", O_RDONLY | O_CLOEXEC, 0), at = -1;
	struct stat status;

	if (sys_failed(fd))
		return false;
	if (!sys_failed(sys_fstat((int)fd, &status)) && status.st_size > 0)
		at = sys_mmap(NULL, (size_t)status.st_size, PROT_READ, MAP_PRIVATE, (int)fd, 0);
	sys_close((int)fd);
	if (sys_failed(at))
		return false;
	*f = (struct file){(const uint8_t *)at, (size_t)status.st_size};
	return true;
}

/* NULL: it is not all in the file. */
static const void *part(const struct file *f, uint64_t offset, uint64_t bytes)
{
	return offset % 8 == 0 && offset <= f->size && bytes <= f->size - offset ? f->data + offset
										 : NULL;
}

static const Elf64_Shdr *find_symbols(const struct file *f, const Elf64_Shdr **sections)
{
	const Elf64_Ehdr *e = part(f, 0, sizeof(*e));

	if (!e || e->e_shentsize != sizeof(Elf64_Shdr))
		return NULL;
	*sections = part(f, e->e_shoff, (uint64_t)e->e_shnum * sizeof(Elf64_Shdr));
	for (uint32_t i = 0; *sections && i < e->e_shnum; i++)
		if ((*sections)[i].sh_type == SHT_SYMTAB && (*sections)[i].sh_link < e->e_shnum)
			return &(*sections)[i];
	return NULL;
}

/* ---- its functions ---- */

static void want(const char *name, void *ours, size_t entry)
{
	if (wanted_count < NAMES_MOST)
		wanted[wanted_count++] = (struct wanted){name, ours, entry, 0, 0};
}

/* How long the prefix of jemalloc's functions is; 0: the name has none. */
static size_t prefix_bytes(const char *name)
{
	return !strncmp(name, "je_", 3) ? 3 : !strncmp(name, "_rjem_", 6) ? 6 : 0;
}

static void want_all(bool own)
{
	static const char *const hooks[] = {"malloc",	      "free",	    "calloc",
					    "realloc",	      "memalign",   "aligned_alloc",
					    "posix_memalign", "valloc",	    "pvalloc",
					    "reallocarray",   "free_sized", "free_aligned_sized"};

	for (size_t i = 0; own && i < sizeof(hooks) / sizeof(*hooks); i++)
		want(hooks[i], hooks_find(hooks[i])->function, SIZE_MAX);
	for (size_t i = 0; entries_name(i); i++)
		if (own || prefix_bytes(entries_name(i)))
			want(entries_name(i), entries_function(i), i);
}

static bool may_be_wanted(const char *name, bool own)
{
	if (!own)
		return name[0] == 'j' || (name[0] == '_' && name[1] == 'r');
	if (name[0] == '_')
		return !strncmp(name, "_Zn", 3) || !strncmp(name, "_Zd", 3) || name[1] == 'r';
	return strchr("acdfjmprstvx", name[0]) != NULL;
}

/* Those allocators that have been tried, see tests/test_own_malloc.py. */
static bool is_sign(const char *name)
{
	return !strcmp(name, "tc_malloc") || !strcmp(name + prefix_bytes(name), "mallctl");
}

static void note(const char *name, const Elf64_Sym *symbol, uintptr_t bias)
{
	for (uint32_t i = 0; i < wanted_count; i++) {
		if (strcmp(wanted[i].name, name) != 0)
			continue;
		wanted[i].address = bias + symbol->st_value;
		wanted[i].size = symbol->st_size;
	}
}

/* True: there is an allocator that has been tried. */
static bool read_symbols(const struct file *f, uintptr_t bias, bool own)
{
	const Elf64_Shdr *sections, *symbols = find_symbols(f, &sections), *texts;
	const Elf64_Sym *symbol;
	const char *text;
	bool sign = false;

	if (!symbols)
		return false;
	texts = &sections[symbols->sh_link];
	symbol = part(f, symbols->sh_offset, symbols->sh_size);
	text = texts->sh_offset < f->size && texts->sh_size <= f->size - texts->sh_offset
		   ? (const char *)f->data + texts->sh_offset
		   : NULL;
	if (!symbol || !text || !texts->sh_size || text[texts->sh_size - 1])
		return false;
	for (uint64_t i = 0; i < symbols->sh_size / sizeof(*symbol); i++, symbol++) {
		if (ELF64_ST_TYPE(symbol->st_info) != STT_FUNC || symbol->st_shndx == SHN_UNDEF ||
		    symbol->st_name >= texts->sh_size ||
		    !may_be_wanted(text + symbol->st_name, own))
			continue;
		sign |= is_sign(text + symbol->st_name);
		note(text + symbol->st_name, symbol, bias);
	}
	return sign;
}

/* ---- leading them to ours ---- */

static struct redirected *find_entry(uintptr_t address)
{
	for (size_t i = 0; i < count; i++)
		if ((uintptr_t)list[i].entry == address)
			return &list[i];
	return NULL;
}

static bool make_list(const struct image *program)
{
	for (uint32_t i = 0; i < wanted_count; i++) {
		const struct wanted *w = &wanted[i];

		if (!w->address || find_entry(w->address))
			continue;
		if (!w->size || w->address < program->start || w->size > program->end - w->address)
			return false;
		list[count++] = (struct redirected){
		    .entry = (uint8_t *)w->address, .size = w->size, .ours = w->ours};
	}
	return count != 0;
}

/* Each function that others find in the executable must be among them. */
static bool is_complete(const struct image *program)
{
	for (uint32_t i = 0; i < wanted_count; i++) {
		void *exported =
		    wanted[i].entry == SIZE_MAX ? image_find(program, wanted[i].name) : NULL;

		if (exported && !find_entry((uintptr_t)exported))
			return false;
	}
	return true;
}

static void tell_entries(void)
{
	for (uint32_t i = 0; i < wanted_count; i++)
		if (wanted[i].address && wanted[i].entry != SIZE_MAX)
			entries_redirected(wanted[i].entry,
					   find_entry(wanted[i].address)->underneath);
}

bool own_entries_redirect(const struct image *program, bool own)
{
	struct file file;
	bool known;

	want_all(own);
	if (agent_sandboxed || !open_file(&file))
		return false;
	known = read_symbols(&file, program->bias, own);
	sys_munmap((void *)file.data, file.size);
	if (!known || !make_list(program) || (own && !is_complete(program)) ||
	    !redirect_functions(list, count)) {
		count = 0;
		return false;
	}
	tell_entries();
	return true;
}
