/* SPDX-License-Identifier: Apache-2.0 */
/* What debug information declares: see debug_types.h. */
#include "picture/debug_types.h"

#include <stdlib.h>

#include "picture/debug_layouts.h"
#include "picture/debug_variables.h"

void debug_types_begin(struct debug_types *d, const struct loaded_modules *modules,
		       const struct holder_list *holders, const struct debug_files *files,
		       struct demangle *names)
{
	*d = (struct debug_types){.layouts = {.find = debug_variables_find,
					      .complete = debug_layouts_complete,
					      .context = d},
				  .modules = modules,
				  .holders = holders,
				  .files = files,
				  .names = names};
}

void debug_types_close(struct debug_types *d)
{
	for (size_t i = 0; i < d->module_count; i++) {
		struct debug_module *m = &d->module[i];

		dwarf_end(m->dwarf);
		dwarf_end(m->alt_dwarf);
		elf_file_close(&m->alt);
		elf_file_close(&m->debug);
		elf_file_close(&m->main);
	}
	free(d->module);
	interner_free(&d->keys);
	interner_free(&d->entries);
	interner_free(&d->defined);
	free(d->entry_layout);
	free(d->definition);
	free(d->layouts.variable);
	*d = (struct debug_types){
	    .layouts = {.layout = d->layouts.layout, .count = d->layouts.count}, .made = d->made};
}

void debug_types_free(struct debug_types *d)
{
	debug_types_close(d);
	for (size_t i = 0; i < d->layouts.count; i++)
		free(d->layouts.layout[i].slot);
	free(d->layouts.layout);
	free(d->made);
	*d = (struct debug_types){0};
}
