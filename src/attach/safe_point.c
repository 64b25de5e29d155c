/* SPDX-License-Identifier: Apache-2.0 */
/* Whether a stopped thread may call the loader: see safe_point.h. */
#include "attach/safe_point.h"

#include <string.h>

#define FRAMES_MOST 2000u

/* The C library's functions that take its allocator's, its loader's or its fork's locks, or that of
 * exit handlers: beginnings of names. Static functions, which have no names here, are only called by
 * these. */
static const char *const unsafe[] = {
    "malloc",
    "calloc",
    "realloc",
    "free",
    "cfree",
    "memalign",
    "aligned_alloc",
    "posix_memalign",
    "valloc",
    "pvalloc",
    "mall",
    "reallocarray",
    "__libc_malloc",
    "__libc_free",
    "__libc_calloc",
    "__libc_realloc",
    "__libc_memalign",
    "dl",
    "_dl",
    "__libc_dl",
    "__tls",
    "fork",
    "_Fork",
    "__libc_fork",
    "vfork",
    "clone",
    "__clone",
    "posix_spawn",
    "exec",
    "exit",
    "_exit",
    "quick_exit",
    "on_exit",
    "atexit",
    "__cxa_",
    "__register_atfork",
    "__register_frame",
    "pthread_create",
    "pthread_exit",
    "pthread_atfork",
    "thrd_create",
    "sigreturn",
    "__restore_rt",
    "sbrk",
    "brk",
    "__sbrk",
    "arena",
    "mtrace",
    "obstack",
    "pthread_getattr",
};

/* Those of them that only begin alike, or are where a thread starts. */
static const char *const safe_after_all[] = {"clone3", "__clone3", "freeaddrinfo", "freelocale",
					     "freeifaddrs"};

static bool is_unsafe(const char *name)
{
	for (size_t i = 0; i < sizeof(safe_after_all) / sizeof(*safe_after_all); i++)
		if (!strcmp(name, safe_after_all[i]))
			return false;
	for (size_t i = 0; i < sizeof(unsafe) / sizeof(*unsafe); i++)
		if (!strncmp(name, unsafe[i], strlen(unsafe[i])))
			return true;
	return false;
}

/* Another allocator than the C library's, the loader, or an agent: no function of theirs is safe. */
static bool is_unsafe_module(const struct target_code *t, Dwfl_Module *module)
{
	return module != t->libc && (target_code_function(module, "malloc") ||
				     target_code_function(module, "__tls_get_addr"));
}

struct walk {
	const struct target_code *t;
	unsigned int frames;
	bool waits; /* at its leaf */
	bool
	    in_libc; /* all frames so far are of the C library, which the thread has entered there */
	bool unsafe;
};

static int take_frame(Dwfl_Frame *frame, void *to)
{
	struct walk *w = to;
	bool activation = false, leaf = !w->frames++;
	Dwfl_Module *module;
	const char *name;
	Dwarf_Addr pc;

	if (w->frames > FRAMES_MOST || !dwfl_frame_pc(frame, &pc, &activation)) {
		w->unsafe = true;
		return DWARF_CB_ABORT;
	}
	pc -= !activation;
	module = dwfl_addrmodule(w->t->dwfl, pc);
	/* A frame that was interrupted, not called from: there is a signal handler, and the C library's code
	 * that it returns to. OCaml marks functions of its own like that. */
	if (activation && !leaf && (!module || module == w->t->libc))
		w->unsafe = true;
	if (!module)
		w->in_libc = false;
	if (!module || w->unsafe)
		return w->unsafe ? DWARF_CB_ABORT : DWARF_CB_OK;
	if (module == w->t->libc) {
		name = dwfl_module_addrname(module, pc);
		/* What runs in the C library without a name may be anything, and hold any lock of its. */
		w->unsafe = name ? is_unsafe(name) : w->in_libc && !w->waits;
	} else {
		w->in_libc = false;
		w->unsafe = is_unsafe_module(w->t, module);
	}
	return w->unsafe ? DWARF_CB_ABORT : DWARF_CB_OK;
}

bool safe_point_begin(const struct target_code *t, pid_t pid)
{
	return !dwfl_linux_proc_attach(t->dwfl, pid, true);
}

bool safe_point_here(const struct target_code *t, pid_t tid, bool waits,
		     enum safe_point_demand demand)
{
	struct walk w = {.t = t, .waits = waits, .in_libc = true};
	int result = dwfl_getthread_frames(t->dwfl, tid, take_frame, &w);

	/* A thread that is just ending is in nothing but the C library. */
	if (w.unsafe || !w.frames || (w.in_libc && !waits))
		return false;
	return result == 0 || demand == SAFE_VISIBLE;
}
