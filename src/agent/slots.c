/* SPDX-License-Identifier: Apache-2.0 */
/* The slots of a loaded library: see slots.h. */
#include "agent/slots.h"

#include <dlfcn.h>
#include <sys/auxv.h>
#include <sys/mman.h>

#include "agent/agent.h"
#include "agent/cpu/cpu.h"
#include "agent/cpu/sys.h"

extern __typeof(_dl_find_object) _dl_find_object __attribute__((weak));

typedef void each_slot(const struct image *o, void **slot, const char *name, uint32_t type,
		       void *context);

bool slots_image(const struct dl_phdr_info *info, struct image *o)
{
	const Elf64_Dyn *dynamic = NULL;

	*o = (struct image){.bias = info->dlpi_addr, .start = UINTPTR_MAX};
	for (size_t i = 0; i < info->dlpi_phnum; i++) {
		const Elf64_Phdr *h = &info->dlpi_phdr[i];
		uintptr_t start = info->dlpi_addr + h->p_vaddr;

		if (h->p_type == PT_DYNAMIC)
			dynamic = (const Elf64_Dyn *)start;
		if (h->p_type == PT_GNU_RELRO) {
			o->sealed = start & -getauxval(AT_PAGESZ);
			o->sealed_end = (start + h->p_memsz) & -getauxval(AT_PAGESZ);
		}
		if (h->p_type != PT_LOAD)
			continue;
		o->start = start < o->start ? start : o->start;
		o->end = start + h->p_memsz > o->end ? start + h->p_memsz : o->end;
	}
	return dynamic && image_read(o, dynamic);
}

const struct link_map *slots_image_at(const void *address, struct image *o)
{
	struct dl_find_object found;

	if (!_dl_find_object || _dl_find_object((void *)address, &found))
		return NULL;
	*o = (struct image){.bias = found.dlfo_link_map->l_addr,
			    .start = (uintptr_t)found.dlfo_map_start,
			    .end = (uintptr_t)found.dlfo_map_end};
	return image_read(o, found.dlfo_link_map->l_ld) ? found.dlfo_link_map : NULL;
}

static void each_of(const struct image *o, bool own, each_slot *each, void *context)
{
	for (int table = 0; table < 2; table++) {
		for (size_t i = table ? 0 : o->relative; i < o->relas[table]; i++) {
			const Elf64_Rela *rela = &o->rela[table][i];
			const Elf64_Sym *symbol = &o->symbol[ELF64_R_SYM(rela->r_info)];
			uint32_t type = (uint32_t)ELF64_R_TYPE(rela->r_info);
			void **slot = (void **)(o->bias + rela->r_offset);

			if ((CPU_SLOT_IS_CONST(type) || CPU_SLOT_IS_DATA(type)) &&
			    !rela->r_addend && (own || symbol->st_shndx == SHN_UNDEF) &&
			    (uintptr_t)slot % sizeof(*slot) == 0)
				each(o, slot, o->text + symbol->st_name, type, context);
		}
	}
}

void slots_each(const struct image *o, each_slot *each, void *context)
{
	each_of(o, false, each, context);
}

void slots_each_named(const struct image *o, each_slot *each, void *context)
{
	each_of(o, true, each, context);
}

static bool is_writable(const void *address)
{
	uint32_t word = 0;
	/* Adds 0 to the word at the address, and wakes nobody. */
	long result = sys_call6(SYS_futex, (long)&word, 5 | 128, 0, 0, (long)address, 1u << 28);

	return !sys_failed(result);
}

/* The loader would make the page read-only between a look at it and the store. */
static bool will_be_sealed(const struct image *o, const void *slot)
{
	return (uintptr_t)slot >= o->sealed && (uintptr_t)slot < o->sealed_end;
}

enum slot_change slots_change(const struct image *o, void **slot, void *from, void *to)
{
	uintptr_t size = getauxval(AT_PAGESZ), page = (uintptr_t)slot & -size;
	bool writable;

	if (agent_sandboxed)
		return SLOT_UNCHANGED;
	writable = is_writable(slot);
	if (writable && will_be_sealed(o, slot))
		return SLOT_NOT_YET;
	if (!writable && sys_failed(sys_mprotect((void *)page, size, PROT_READ | PROT_WRITE)))
		return SLOT_UNCHANGED;
	__atomic_compare_exchange_n(slot, &from, to, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
	if (!writable)
		sys_mprotect((void *)page, size, PROT_READ);
	return SLOT_CHANGED;
}
