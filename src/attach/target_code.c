/* SPDX-License-Identifier: Apache-2.0 */
/* Where the functions of a process are: see target_code.h. */
#include "attach/target_code.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Only what is loaded is of interest: nothing is searched for, or downloaded. */
static int find_no_debuginfo(Dwfl_Module *module, void **user, const char *name, Dwarf_Addr base,
			     const char *file, const char *link, GElf_Word crc, char **found)
{
	(void)module, (void)user, (void)name, (void)base, (void)file, (void)link, (void)crc,
	    (void)found;
	return -1;
}

static const Dwfl_Callbacks callbacks = {
    .find_elf = dwfl_linux_proc_find_elf,
    .find_debuginfo = find_no_debuginfo,
};

static const char *module_name(Dwfl_Module *module)
{
	const char *name = dwfl_module_info(module, NULL, NULL, NULL, NULL, NULL, NULL, NULL);

	return name ? name : "";
}

static int find_libc(Dwfl_Module *module, void **user, const char *name, Dwarf_Addr start, void *to)
{
	const char *slash = strrchr(name, '/');

	(void)user, (void)start;
	if (!slash || strcmp(slash + 1, "libc.so.6") != 0)
		return DWARF_CB_OK;
	*(Dwfl_Module **)to = module;
	return DWARF_CB_ABORT;
}

bool target_code_open_any(struct target_code *t, pid_t pid)
{
	*t = (struct target_code){.dwfl = dwfl_begin(&callbacks)};
	if (t->dwfl && !dwfl_linux_proc_report(t->dwfl, pid) &&
	    !dwfl_report_end(t->dwfl, NULL, NULL)) {
		dwfl_getmodules(t->dwfl, find_libc, &t->libc, 0);
		return true;
	}
	target_code_close(t);
	return false;
}

bool target_code_open(struct target_code *t, pid_t pid)
{
	if (target_code_open_any(t, pid) && t->libc)
		return true;
	target_code_close(t);
	return false;
}

void target_code_close(struct target_code *t)
{
	if (t->dwfl)
		dwfl_end(t->dwfl);
	*t = (struct target_code){0};
}

struct wanted {
	const char *path;
	Dwfl_Module *found;
};

static int find_path(Dwfl_Module *module, void **user, const char *name, Dwarf_Addr start, void *to)
{
	struct wanted *wanted = to;

	(void)user, (void)name, (void)start;
	if (strcmp(module_name(module), wanted->path) != 0)
		return DWARF_CB_OK;
	wanted->found = module;
	return DWARF_CB_ABORT;
}

Dwfl_Module *target_code_module(const struct target_code *t, const char *path)
{
	struct wanted wanted = {path, NULL};

	dwfl_getmodules(t->dwfl, find_path, &wanted, 0);
	return wanted.found;
}

uint64_t target_code_function(Dwfl_Module *module, const char *name)
{
	int count = dwfl_module_getsymtab(module);

	for (int i = 1; i < count; i++) {
		GElf_Sym symbol;
		GElf_Addr address;
		const char *found =
		    dwfl_module_getsym_info(module, i, &symbol, &address, NULL, NULL, NULL);

		if (found && symbol.st_shndx != SHN_UNDEF &&
		    GELF_ST_TYPE(symbol.st_info) == STT_FUNC && !strcmp(found, name))
			return address;
	}
	return 0;
}

Dwfl_Module *target_code_program(const struct target_code *t, pid_t pid)
{
	char link[64], path[PATH_MAX];
	ssize_t length;

	snprintf(link, sizeof(link), "/proc/%d/exe", (int)pid);
	length = readlink(link, path, sizeof(path) - 1);
	if (length < 0)
		return NULL;
	path[length] = 0;
	return target_code_module(t, path);
}

static bool defines(Elf *elf, Elf_Scn *section, const GElf_Shdr *header, const char *name)
{
	Elf_Data *data = elf_getdata(section, NULL);
	size_t count = data && header->sh_entsize ? data->d_size / header->sh_entsize : 0;

	for (size_t i = 1; i < count; i++) {
		GElf_Sym symbol;
		const char *found = gelf_getsym(data, (int)i, &symbol)
					? elf_strptr(elf, header->sh_link, symbol.st_name)
					: NULL;

		if (found && symbol.st_shndx != SHN_UNDEF && !strcmp(found, name))
			return true;
	}
	return false;
}

bool target_code_exports(Dwfl_Module *module, const char *name)
{
	GElf_Addr bias;
	Elf *elf = dwfl_module_getelf(module, &bias);
	Elf_Scn *section = NULL;

	while (elf && (section = elf_nextscn(elf, section))) {
		GElf_Shdr header;

		if (gelf_getshdr(section, &header) && header.sh_type == SHT_DYNSYM &&
		    defines(elf, section, &header, name))
			return true;
	}
	return false;
}

uint64_t target_code_bytes(Dwfl_Module *module, const void *bytes, size_t size)
{
	GElf_Addr bias;
	Elf *elf = dwfl_module_getelf(module, &bias);
	Elf_Scn *section = NULL;

	while (elf && (section = elf_nextscn(elf, section))) {
		GElf_Shdr header;
		Elf_Data *data = gelf_getshdr(section, &header) && header.sh_flags & SHF_EXECINSTR
				     ? elf_rawdata(section, NULL)
				     : NULL;
		const char *at =
		    data && data->d_buf ? memmem(data->d_buf, data->d_size, bytes, size) : NULL;

		if (at)
			return bias + header.sh_addr + (uint64_t)(at - (const char *)data->d_buf);
	}
	return 0;
}
