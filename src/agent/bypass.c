/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Code that would pass the hooks by: it binds to the allocator itself, not to the first malloc in
 * the program, which is ours.
 *
 *	dlopen(RTLD_DEEPBIND)	the library's malloc and free are libc's: its slots for them are led
 *				to the hooks, once it is loaded
 *	dlsym(handle, "free")	gives the hook where it would give the function underneath it
 *	mallocx, tc_new, ...	of the program's allocator: the slots of all libraries, and what dlsym
 *				gives, are led to entries.c
 *	malloc of the program	an executable that exports one is found before us: its functions, or
 *				the slots of its libraries for them, are led to the hooks
 *				(own_entries.h, own_malloc.h)
 *	dlmopen			a libc and a heap of its own: remarked
 *
 * Without mayfly all of these are the function underneath the hook, so the program gets what it
 * would have got. What leads anywhere else (another allocator) is left alone and remarked.
 *
 * dlopen must not return to us: the loader looks for the library on behalf of the caller's object.
 * So a library's slots are changed later: when this thread calls dlsym, which it must to find
 * anything in the library; or when the library is first found on a stack, for what its constructors
 * do. Both must stand that another thread is just loading or unloading a library:
 *
 *   - a slot is changed only if its value shows that the loader is done with it: the function
 *     underneath, or the library's own code that will look the function up at the first call;
 *   - a page is made writable, and read-only again, only if it is read-only, which the loader makes
 *     it when all its slots are done;
 *   - libraries stay mapped meanwhile: in dl_iterate_phdr, or as their code is on the stack.
 */
#include "agent/bypass.h"

#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <link.h>
#include <string.h>
#include <unistd.h>

#include "agent/agent.h"
#include "agent/cpu/cpu.h"
#include "agent/cpu/sys.h"
#include "agent/entries.h"
#include "agent/hooks.h"
#include "agent/image.h"
#include "agent/own_entries.h"
#include "agent/own_malloc.h"
#include "agent/real.h"
#include "agent/slots.h"
#include "agent/spool.h"

#define PATIENCE 200000u /* looks at a taken lock */

/* Named by the assembly of CPU_ANSWER_HOOK only. */
HIDDEN void *bypass_real_dlsym;
HIDDEN void *bypass_dlsym_first(void *handle, const char *name, const void *const *caller);

static bool entries;	     /* the allocator has functions of its own */
static bool own;	     /* the program has its own malloc, and its libraries call it */
static bool redirected;	     /* its functions lead to the hooks */
static _Atomic bool deep;    /* a library was opened with RTLD_DEEPBIND */
static __thread bool opened; /* by this thread, and not looked at since */
void (*bypass_opened)(void);
static _Atomic unsigned long long loaded, unloaded; /* libraries, at the last look */
static atomic_flag busy = ATOMIC_FLAG_INIT;

/* ---- remarks ---- */

static void remark(const char *text)
{
	if (atomic_load(&agent_state) == AGENT_ON && *agent_same_process)
		spool_note(text);
}

static void remark_other(void)
{
	static _Atomic bool done;

	if (!atomic_exchange(&done, true))
		remark("a library opened with RTLD_DEEPBIND uses another malloc than the program: "
		       "its blocks are not seen, and blocks that it frees may look leaked");
}

static void remark_unchanged(void)
{
	static _Atomic bool done;

	if (!atomic_exchange(&done, true))
		remark("a library calls the allocator past mayfly, as its memory could not be "
		       "changed: blocks that it frees may look leaked");
}

/* ---- changing a slot ---- */

/* What a slot would lead to that holds no function yet: the loader will look it up when it is first
 * called. */
enum unbound {
	UNBOUND_OURS,  /* the function underneath */
	UNBOUND_OTHER, /* perhaps that of another allocator */
	UNBOUND_WAIT,  /* not known now */
};

/* How to look at a library. */
struct view {
	bool hooks;	      /* it may call the functions underneath the hooks */
	bool deep;	      /* it may have been opened with RTLD_DEEPBIND */
	enum unbound unbound; /* of malloc and its relatives */
	enum unbound entry;   /* of the allocator's own functions */
};

static void change_slot(const struct image *o, void **slot, const char *name, uint32_t type,
			void *how)
{
	const struct view *view = how;
	void *value, *ours, *underneath;
	const struct hook *hook = view->hooks ? hooks_find(name) : NULL;
	const struct entry *entry = hook || !entries ? NULL : entries_find(name);
	enum unbound unbound = hook ? view->unbound : view->entry;

	if (!hook && !entry)
		return;
	ours = hook ? hook->function : entry->function;
	underneath = hook ? hooks_underneath(hook) : entry->underneath;
	value = __atomic_load_n(slot, __ATOMIC_ACQUIRE);
	/* None, or the address in the file: the loader has not come to it yet. */
	if (value == ours || !value || (o->bias && (uintptr_t)value < o->end - o->start))
		return;
	bool lazy = CPU_SLOT_IS_LAZY(type) && image_has(o, value) && value != image_find(o, name);

	if (lazy ? unbound == UNBOUND_OURS : value == underneath) {
		if (slots_change(o, slot, value, ours) == SLOT_UNCHANGED)
			remark_unchanged();
	} else if (hook && view->deep &&
		   (lazy ? unbound == UNBOUND_OTHER : CPU_SLOT_IS_CONST(type))) {
		remark_other();
	}
}

/* ---- the libraries ---- */

static void *underneath_malloc(void)
{
	return hooks_underneath(hooks_find("malloc"));
}

/* Those that are meant to call the allocator itself: it, and we. A program's own malloc is called by
 * all but the loader, which keeps to its own functions. */
static bool is_exempt(const struct image *o)
{
	if (own)
		return image_has(o, remark) || image_find(o, "__tls_get_addr");
	return image_has(o, underneath_malloc()) || image_has(o, remark) ||
	       image_find(o, "_dl_find_object") || image_find(o, "malloc");
}

static struct view view_of(bool deep_library, enum unbound unbound)
{
	return (struct view){own || deep_library, deep_library,
			     deep_library ? unbound : UNBOUND_OURS,
			     deep_library ? UNBOUND_WAIT : UNBOUND_OURS};
}

static void change_slots(const struct image *o, struct view view)
{
	if (is_exempt(o))
		return;
	if (own)
		slots_each_named(o, change_slot, &view);
	else
		slots_each(o, change_slot, &view);
}

/* The last library before any was opened with RTLD_DEEPBIND: new ones come after it in the loader's
 * list. By its program headers. */
static const Elf64_Phdr *last_before;

struct look {
	bool force;	      /* even if no library has come or gone since the last look */
	enum unbound unbound; /* UNBOUND_OURS, unless there is another malloc */
	bool has_last;	      /* the list has last_before */
	bool new;	      /* from here on libraries may be new */
};

static int look_for_malloc(struct dl_phdr_info *info, size_t size, void *to)
{
	struct look *look = to;
	struct image o;

	(void)size;
	if (!look->force && info->dlpi_adds == loaded && info->dlpi_subs == unloaded)
		return 1;
	look->force = true;
	loaded = info->dlpi_adds;
	unloaded = info->dlpi_subs;
	look->has_last |= info->dlpi_phdr == last_before;
	if (slots_image(info, &o) && !image_has(&o, underneath_malloc()) &&
	    !image_has(&o, remark) && (!o.hash || image_find(&o, "malloc")))
		look->unbound = UNBOUND_OTHER;
	return 0;
}

static int look_for_slots(struct dl_phdr_info *info, size_t size, void *to)
{
	struct look *look = to;
	bool new = deep && (look->new || !look->has_last);
	struct image o;

	(void)size;
	look->new |= info->dlpi_phdr == last_before;
	if ((new || entries || own) && slots_image(info, &o))
		change_slots(&o, view_of(new, look->unbound));
	return 0;
}

static int remember_last(struct dl_phdr_info *info, size_t size, void *unused)
{
	(void)size, (void)unused;
	last_before = info->dlpi_phdr;
	return 0;
}

typedef int walk(int (*)(struct dl_phdr_info *, size_t, void *), void *);

/* The loader's, as a program's own may not list all. */
static walk *libraries_walk(void)
{
	static walk *found;

	if (!found)
		REAL_LOOK_UP(found, dl_iterate_phdr);
	return found;
}

/* False: its holder waits for the loader's lock, which this thread has, or was killed. */
static bool lock(void)
{
	for (unsigned i = 0; atomic_flag_test_and_set(&busy); i++) {
		if (i == PATIENCE)
			return false;
		cpu_relax();
		if (i % 64 == 63 && !agent_sandboxed)
			sys_sched_yield();
	}
	return true;
}

static void unlock(void)
{
	atomic_flag_clear(&busy);
}

static void look_at_libraries(void)
{
	struct look look = {.unbound = UNBOUND_OURS, .force = opened};
	walk *walk_libraries = libraries_walk();
	int error = errno;

	if (!walk_libraries || atomic_load(&agent_state) != AGENT_ON || !lock())
		return;
	opened = false;
	if (!walk_libraries(look_for_malloc, &look))
		walk_libraries(look_for_slots, &look);
	unlock();
	errno = error;
}

/* The code of this object is on this thread's stack. The sample path takes no lock of the loader,
 * so it is not known here whether another library defines a malloc. */
static void look_at_module(uint64_t start)
{
	struct image o;

	if (!slots_image_at((void *)start, &o) || !lock())
		return;
	if (o.bias == o.start)
		change_slots(&o, view_of(deep, UNBOUND_WAIT));
	unlock();
}

static void append(char *text, size_t size, const char *more)
{
	strncat(text, more, size - 1 - strlen(text));
}

static void remark_definer(const char *function, const char *definer, const char *consequence)
{
	char text[256] = "";

	append(text, sizeof(text), function);
	append(text, sizeof(text), " is that of ");
	append(text, sizeof(text), definer && *definer ? definer : "the program itself");
	append(text, sizeof(text), consequence);
	remark(text);
}

/* The first operator new in the loader's list is the program's. libstdc++'s calls malloc, and so do
 * ours for other allocators. One of the executable's own may do so, too, unless it is a copy of
 * libstdc++'s, which surely does. */
static int look_for_new(struct dl_phdr_info *info, size_t size, void *unused)
{
	bool program = !info->dlpi_name || !*info->dlpi_name;
	struct image o;

	(void)size, (void)unused;
	if (!slots_image(info, &o) || !image_find(&o, "_Znwm"))
		return 0;
	if (!image_imports(&o, "malloc") || (program && !image_find(&o, "_ZSt15get_new_handlerv")))
		remark_definer("operator new", info->dlpi_name,
			       ": blocks that it does not take from malloc are not seen");
	return 1;
}

/* The first in the loader's list is the executable. */
static int look_for_prefixed(struct dl_phdr_info *info, size_t size, void *unused)
{
	struct image o;

	(void)size, (void)unused;
	if (slots_image(info, &o) && !image_imports(&o, "mayfly_agent_allocator"))
		own_entries_redirect(&o, false);
	return 1;
}

/* Boehm's collector and D's map their memory themselves. */
static int look_for_collector(struct dl_phdr_info *info, size_t size, void *unused)
{
	static const char *const names[] = {"GC_malloc", "gc_malloc"};
	struct image o;

	(void)size, (void)unused;
	if (!slots_image(info, &o))
		return 0;
	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		if (!image_find(&o, names[i]))
			continue;
		remark_definer(names[i], info->dlpi_name,
			       ": blocks of this garbage collector are not seen");
		return 1;
	}
	return 0;
}

static int look_for_import(struct dl_phdr_info *info, size_t size, void *name)
{
	struct image o;

	(void)size;
	return slots_image(info, &o) && image_imports(&o, name);
}

/* Valgrind's tools that do so preload a library of their own beside the core's. A dlsym that fails
 * would leave its message for the program's dlerror. */
static bool valgrind_replaces_malloc(void)
{
	for (char **e = environ; e && *e; e++) {
		const char *at = strncmp(*e, "LD_PRELOAD=", 11) ? NULL : *e;

		while (at && (at = strstr(at, "/vgpreload_")))
			if (strncmp(at += 11, "core", 4))
				return true;
	}
	return false;
}

/* False for a program that never calls ours, but *other, a malloc of its own. The first malloc that
 * dlsym finds may also be the program's jump (PLT) to ours: then the symbol is undefined there. */
static bool hooks_are_called(const void **other)
{
	if (valgrind_replaces_malloc())
		return false;

	void *first = real_dlsym(RTLD_DEFAULT, "malloc");
	Dl_info here, there;
	ElfW(Sym) *symbol = NULL;

	if (!first || !dladdr((void *)hooks_are_called, &here) ||
	    !dladdr1(first, &there, (void **)&symbol, RTLD_DL_SYMENT))
		return true;
	*other = first;
	return there.dli_fbase == here.dli_fbase || !symbol || symbol->st_shndx == SHN_UNDEF;
}

static void remark_own_malloc(const void *function)
{
	const struct link_map *definer;
	struct image o;

	if ((definer = slots_image_at(function, &o)))
		remark_definer("malloc", definer->l_name,
			       own ? ": only what its libraries allocate is seen, once they are "
				     "initialised; blocks that its own code frees look live"
				   : ": no block is seen");
}

static void leave_realloc_alone(void)
{
	void *first = real_dlsym(RTLD_DEFAULT, "realloc");
	struct image o;

	if (first && slots_image_at(first, &o) && !image_has(&o, remark))
		memcpy(&hooks_other_realloc, &first, sizeof(first));
}

/* Some programs report the blocks of their own malloc. */
static bool reports_blocks(walk *walk_libraries)
{
	return walk_libraries && walk_libraries(look_for_import, "mayfly_agent_allocator");
}

/* The executable's functions lead to the hooks, or the slots that lead to them are to. False: neither. */
static bool take_own_malloc(const void *other)
{
	if (!other)
		return false;
	own = libraries_walk() && own_malloc();
	if (own) {
		real_resolve();
		redirected = own_entries_redirect(own_malloc(), true);
	}
	if (redirected)
		real_take_own();
	else
		remark_own_malloc(other);
	return own;
}

bool bypass_start(void)
{
	walk *walk_libraries = libraries_walk();
	const void *other = NULL;

	if (!hooks_are_called(&other) && !reports_blocks(walk_libraries) &&
	    !take_own_malloc(other)) {
		leave_realloc_alone();
		return false;
	}
	if (!own && walk_libraries)
		walk_libraries(look_for_prefixed, NULL);
	real_resolve();
	own &= !redirected;
	if (walk_libraries && !redirected)
		walk_libraries(look_for_new, NULL);
	if (walk_libraries)
		walk_libraries(look_for_collector, NULL);
	entries = entries_find_all();
	if (entries || own) {
		spool_on_module = look_at_module;
		look_at_libraries();
	}
	return true;
}

void bypass_dlopen(int mode)
{
	walk *walk_libraries = libraries_walk();

	opened = true;
	if (!(mode & RTLD_DEEPBIND))
		return;
	/* Another thread's first one waits, or its library would be among those before. */
	if (deep || !lock())
		return;
	if (!deep && walk_libraries) {
		walk_libraries(remember_last, NULL);
		spool_on_module = look_at_module;
		deep = true;
	}
	unlock();
}

void bypass_dlmopen(void)
{
	static _Atomic bool done;

	if (!atomic_exchange(&done, true))
		remark("dlmopen loaded a library with an allocator of its own: its blocks are not "
		       "seen");
}

/* ---- dlsym ---- */

/* What dlsym answers; NULL: what the real one does. RTLD_DEFAULT and RTLD_NEXT depend on the caller;
 * where they find the function underneath malloc, they are meant to, as an allocator's do. */
void *bypass_dlsym_first(void *handle, const char *name, const void *const *caller)
{
	const struct entry *entry;
	const struct hook *hook;
	void *underneath;

	if (!bypass_real_dlsym)
		bypass_real_dlsym = real_dlsym(RTLD_NEXT, "dlsym");
	if (UNLIKELY(opened) && bypass_opened && atomic_load(&agent_state) == AGENT_ON)
		bypass_opened();
	if (UNLIKELY(deep || entries || own))
		look_at_libraries();
	else
		opened = false;
	hook = !name || handle == RTLD_DEFAULT ? NULL : hooks_find(name);
	if (hook && handle == RTLD_NEXT)
		return own_malloc_next(name, *caller);
	if (handle == RTLD_NEXT || !name || atomic_load(&agent_state) != AGENT_ON)
		return NULL;
	underneath = hook ? hooks_underneath(hook) : NULL;
	if (underneath && real_dlsym(handle, name) == underneath)
		return hook->function;
	entry = entries && !hook ? entries_find(name) : NULL;
	if (entry && real_dlsym(handle, name) == entry->underneath)
		return entry->function;
	return NULL;
}

CPU_ANSWER_HOOK("dlsym", "bypass_real_dlsym", "bypass_dlsym_first");
