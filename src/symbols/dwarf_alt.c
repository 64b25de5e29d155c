/* SPDX-License-Identifier: Apache-2.0 */
/* DWARF that several files share: see dwarf_alt.h. */
#include "symbols/dwarf_alt.h"

#include <elfutils/libdwelf.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>

Dwarf *dwarf_alt_open(Dwarf *dbg, struct elf_file *alt, const char *path,
		      const struct debug_files *files)
{
	const void *id = NULL;
	const char *name = NULL;
	ssize_t length = dwelf_dwarf_gnu_debugaltlink(dbg, &name, &id);
	char directory[PATH_MAX], candidate[PATH_MAX];

	if (length <= 0)
		return NULL;
	if (*name == '/') {
		snprintf(candidate, sizeof(candidate), "%s", name);
	} else {
		snprintf(directory, sizeof(directory), "%s", path);
		if ((size_t)snprintf(candidate, sizeof(candidate), "%s/%s", dirname(directory),
				     name) >= sizeof(candidate))
			return NULL;
	}
	if (!alt->elf && !elf_file_open_by_build_id(alt, &files->dirs, id, (size_t)length) &&
	    !elf_file_open_if(alt, candidate, id, (size_t)length) &&
	    !debug_server_open(files->server, alt, candidate, id, (size_t)length))
		return NULL;
	return dwarf_begin_elf(alt->elf, DWARF_C_READ, NULL);
}
