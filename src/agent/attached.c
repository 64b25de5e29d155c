/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The agent in a program that ran already: `mayfly attach` has loaded it, and calls mayfly_attach().
 *
 * The loader has put nothing in front of the program's functions, so the slots of all libraries are
 * led to the hooks, one store each, while the other threads run. A library that is loaded later is
 * looked at when the thread that opened it calls dlsym, allocates on the slow path, or opens or closes
 * a library again; until then its allocations are not seen. mayfly_detach() leads all slots back; the
 * agent stays where it is, as a thread may be in a hook, or the program may have kept its address.
 *
 * Nothing here asks the loader for names: dlsym would leave its message for the program's dlerror().
 * This takes the place of load.c, dlsym.c and bypass.c.
 */
#include "agent/attached.h"

#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <string.h>
#include <unistd.h>

#include "agent/agent.h"
#include "agent/bypass.h"
#include "agent/cpu/cpu.h"
#include "agent/cpu/sys.h"
#include "agent/environment.h"
#include "agent/exact.h"
#include "agent/fault.h"
#include "agent/hooks.h"
#include "agent/leave.h"
#include "agent/life.h"
#include "agent/interpreter/interpreter.h"
#include "agent/real.h"
#include "agent/sampled.h"
#include "agent/slots.h"
#include "agent/spool.h"
#include "format/attachment.h"

_Atomic bool real_ready; /* from mayfly_attach() on */
const bool real_is_musl = false;

/* ---- the functions of the program ---- */

struct search {
	const char *name;
	void *found;
	bool in_program; /* the executable itself defines it */
};

static bool is_own(const struct image *o)
{
	return image_has(o, is_own);
}

static int look_for_definition(struct dl_phdr_info *info, size_t size, void *to)
{
	struct search *search = to;
	struct image o;

	(void)size;
	if (!slots_image(info, &o) || is_own(&o))
		return 0;
	search->found = image_find(&o, search->name);
	search->in_program = !info->dlpi_name || !*info->dlpi_name;
	return search->found != NULL;
}

/* The first in the loader's list is the program's. If a function has two versions, finds the one that
 * programs are linked with today. It does so after the callback, as dl_iterate_phdr holds a lock of the
 * loader that dlopen takes after the one that dlvsym needs. */
static void *find_first(const char *name, bool *in_program)
{
	struct search search = {.name = name};

	dl_iterate_phdr(look_for_definition, &search);
	if (in_program)
		*in_program = search.in_program;
	return search.found && !strncmp(name, "posix_spawn", 11)
		   ? dlvsym(RTLD_DEFAULT, name, "GLIBC_2.15")
		   : search.found;
}

void *real_dlsym(void *handle, const char *name)
{
	static void *(*_Atomic real_one)(void *, const char *);
	void *(*function)(void *, const char *) = atomic_load(&real_one);

	if (handle == RTLD_NEXT)
		return find_first(name, NULL);
	if (!function) {
		void *found = find_first("dlsym", NULL);

		memcpy(&function, &found, sizeof(function));
		atomic_store(&real_one, function);
	}
	return function ? function(handle, name) : NULL;
}

/* ---- exact mode: slots lead past the countdown, which may be left from an earlier attachment ---- */

/* The program may have such a function from dlsym, and call it in a later recording that samples. */
#define WHOLE(name, parameters, arguments, bytes)                                                  \
	static void *whole_##name parameters                                                       \
	{                                                                                          \
		if (UNLIKELY(!agent_exact))                                                        \
			return sampled_##name arguments;                                           \
		sampler_stop(&self.sampler);                                                       \
		return exact_##name arguments;                                                     \
	}
WHOLE(malloc, (size_t size), (size), size)
WHOLE(memalign, (size_t alignment, size_t size), (alignment, size), size)
WHOLE(aligned_alloc, (size_t alignment, size_t size), (alignment, size), size)
WHOLE(valloc, (size_t size), (size), size)
WHOLE(pvalloc, (size_t size), (size), size)
WHOLE(realloc, (void *block, size_t size), (block, size), size)

static void *whole_calloc(size_t count, size_t size)
{
	size_t bytes;

	if (UNLIKELY(__builtin_mul_overflow(count, size, &bytes)))
		return real.calloc(count, size);
	if (UNLIKELY(!agent_exact))
		return sampled_calloc(count, size);
	sampler_stop(&self.sampler);
	return exact_calloc(count, size);
}

static void *whole_reallocarray(void *block, size_t count, size_t size)
{
	size_t bytes;

	if (UNLIKELY(__builtin_mul_overflow(count, size, &bytes))) {
		errno = ENOMEM;
		return NULL;
	}
	return whole_realloc(block, bytes);
}

static int whole_posix_memalign(void **out, size_t alignment, size_t size)
{
	if (UNLIKELY(!agent_exact))
		return sampled_posix_memalign(out, alignment, size);
	sampler_stop(&self.sampler);
	return exact_posix_memalign(out, alignment, size);
}

static void whole_free(void *block)
{
	if (LIKELY(agent_exact))
		exact_free(block);
	else
		sampled_free(block);
}

static void *whole_hook(const char *name)
{
	static const struct {
		const char *name;
		void *function;
	} hooks[] = {{"malloc", whole_malloc},
		     {"free", whole_free},
		     {"calloc", whole_calloc},
		     {"realloc", whole_realloc},
		     {"reallocarray", whole_reallocarray},
		     {"memalign", whole_memalign},
		     {"aligned_alloc", whole_aligned_alloc},
		     {"posix_memalign", whole_posix_memalign},
		     {"valloc", whole_valloc},
		     {"pvalloc", whole_pvalloc}};

	for (size_t i = 0; i < sizeof(hooks) / sizeof(*hooks); i++)
		if (!strcmp(hooks[i].name, name))
			return hooks[i].function;
	return NULL;
}

/* ---- the table of hooks ---- */

#define HOOKS_MOST 64u
#define PRELOADED  "libmayfly.so" /* beside this one */

struct redirection {
	const char *name;
	void *sampled, *exact; /* ours; exact may be NULL */
	void *underneath;
};

static struct redirection redirections[HOOKS_MOST];
static uint32_t redirection_count;
static struct image own;

static char preloaded_path[4096]; /* of the library that programs run by exec are to preload */

static int look_for_own(struct dl_phdr_info *info, size_t size, void *unused)
{
	const char *slash = info->dlpi_name ? strrchr(info->dlpi_name, '/') : NULL;
	size_t folder = slash ? (size_t)(slash + 1 - info->dlpi_name) : 0;

	(void)size, (void)unused;
	if (!slots_image(info, &own) || !is_own(&own))
		return 0;
	if (folder && folder + sizeof(PRELOADED) <= sizeof(preloaded_path)) {
		memcpy(preloaded_path, info->dlpi_name, folder);
		strcpy(preloaded_path + folder, PRELOADED);
	}
	return 1;
}

/* Every function that this library exports takes the place of one of the program's, if it has one of
 * that name. */
static bool make_table(void)
{
	static const char *const names[] = {"malloc",	     "free",
					    "calloc",	     "realloc",
					    "reallocarray",  "memalign",
					    "_Exit",	     "_exit",
					    "brk",	     "dlclose",
					    "dlmopen",	     "dlopen",
					    "dlsym",	     "execl",
					    "execle",	     "execlp",
					    "execv",	     "execve",
					    "execveat",	     "execvp",
					    "execvpe",	     "fexecve",
					    "fork",	     "lseek",
					    "lseek64",	     "madvise",
					    "mmap",	     "malloc_trim",
					    "aligned_alloc", "mmap64",
					    "mremap",	     "munmap",
					    "prctl",	     "posix_spawn",
					    "posix_spawnp",  "posix_memalign",
					    "pvalloc",	     "quick_exit",
					    "sbrk",	     "syscall",
					    "free_sized",    "valloc",
					    "vfork",	     "free_aligned_sized",
					    "_Fork",	     "clone",
					    "sigaction",     "signal",
					    "sigprocmask",   "pthread_sigmask",
					    "mprotect",	     "shmat",
					    "shmdt"};

	if (redirection_count)
		return true;
	if (!dl_iterate_phdr(look_for_own, NULL))
		return false;
	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		struct redirection *r = &redirections[redirection_count];

		*r = (struct redirection){names[i], image_find(&own, names[i]),
					  whole_hook(names[i]), find_first(names[i], NULL)};
		redirection_count += r->sampled && r->underneath;
	}
	return true;
}

static const struct redirection *find_redirection(const char *name)
{
	if (!image_find(&own, name))
		return NULL;
	for (uint32_t i = 0; i < redirection_count; i++)
		if (!strcmp(redirections[i].name, name))
			return &redirections[i];
	return NULL;
}

static void *hook_of(const struct redirection *r)
{
	return agent_exact && r->exact ? r->exact : r->sampled;
}

/* ---- the slots ---- */

static struct agent_lock slots_lock;
static bool unchanged;		/* a slot could not be changed */
static _Atomic bool unfinished; /* another thread was just loading a library */
static unsigned long long loaded, unloaded;
static __thread bool opened __attribute__((tls_model("initial-exec")));

/* The end of a block whose beginning is recorded must not pass the hooks: so the functions that end
 * blocks are led to the hooks first, in all libraries, before recording begins, and back when it has
 * ended. */
enum part { PART_FREE, PART_REALLOC, PART_OTHERS, PARTS };

static enum part part_of(const char *name)
{
	return !strncmp(name, "free", 4)      ? PART_FREE
	       : !strncmp(name, "realloc", 7) ? PART_REALLOC
					      : PART_OTHERS;
}

static void lead_to_hook(const struct image *o, void **slot, const char *name, uint32_t type,
			 void *part)
{
	const struct redirection *r = find_redirection(name);
	enum slot_change change;
	void *value;

	if (!r || part_of(name) != *(const enum part *)part)
		return;
	value = __atomic_load_n(slot, __ATOMIC_ACQUIRE);
	/* A slot that the loader binds at the first call leads to the library's own code until then. */
	if ((value == r->underneath ||
	     (CPU_SLOT_IS_LAZY(type) && image_has(o, value) && !image_find(o, name))) &&
	    (change = slots_change(o, slot, value, hook_of(r))) != SLOT_CHANGED) {
		unchanged |= change == SLOT_UNCHANGED;
		unfinished |= change == SLOT_NOT_YET;
	}
}

static void lead_back(const struct image *o, void **slot, const char *name, uint32_t type,
		      void *part)
{
	const struct redirection *r = find_redirection(name);
	void *value;

	(void)type;
	if (!r || part_of(name) != *(const enum part *)part)
		return;
	value = __atomic_load_n(slot, __ATOMIC_ACQUIRE);
	if (value == r->sampled || (r->exact && value == r->exact))
		slots_change(o, slot, value, r->underneath);
}

/* The loader keeps to its own functions. */
static bool is_exempt(const struct image *o)
{
	return is_own(o) || image_find(o, "__tls_get_addr");
}

struct look {
	enum part part;
	bool force; /* even if no library has come or gone since the last look */
};

static int lead_library_to_hooks(struct dl_phdr_info *info, size_t size, void *to)
{
	struct look *look = to;
	struct image o;

	(void)size;
	if (!look->force && info->dlpi_adds == loaded && info->dlpi_subs == unloaded)
		return 1;
	look->force = true;
	loaded = info->dlpi_adds;
	unloaded = info->dlpi_subs;
	if (slots_image(info, &o) && !is_exempt(&o))
		slots_each_named(&o, lead_to_hook, &look->part);
	return 0;
}

static int lead_library_back(struct dl_phdr_info *info, size_t size, void *part)
{
	struct image o;

	(void)size;
	if (slots_image(info, &o) && !is_exempt(&o))
		slots_each_named(&o, lead_back, part);
	return 0;
}

static void look_at_libraries(bool force)
{
	struct look look = {PART_FREE, force};
	int error = errno;

	if (!agent_lock(&slots_lock))
		return;
	while (!dl_iterate_phdr(lead_library_to_hooks, &look) && ++look.part < PARTS)
		;
	agent_unlock(&slots_lock);
	errno = error;
}

static void lead_ends_to_hooks(void)
{
	if (!agent_lock(&slots_lock))
		return;
	for (enum part part = PART_FREE; part <= PART_REALLOC; part++)
		dl_iterate_phdr(lead_library_to_hooks, &(struct look){part, true});
	agent_unlock(&slots_lock);
}

static void lead_parts_back(enum part from, enum part to)
{
	if (!agent_lock(&slots_lock))
		return;
	for (int part = (int)from; part >= (int)to; part--)
		dl_iterate_phdr(lead_library_back, &(enum part){(enum part)part});
	agent_unlock(&slots_lock);
}

/* ---- libraries that come later ---- */

void (*bypass_opened)(void);
HIDDEN void *attached_real_dlsym;
HIDDEN void *attached_dlsym_first(void *handle, const char *name);

bool bypass_start(void)
{
	return true;
}

void bypass_dlopen(int mode)
{
	(void)mode;
	if (opened && atomic_load(&agent_state) == AGENT_ON)
		look_at_libraries(false);
	opened = true;
}

void bypass_dlmopen(void)
{
}

/* What dlsym answers; NULL: what the real one does. */
void *attached_dlsym_first(void *handle, const char *name)
{
	const struct redirection *r;

	if (!attached_real_dlsym)
		attached_real_dlsym = find_first("dlsym", NULL);
	if (atomic_load(&agent_state) != AGENT_ON)
		return NULL;
	if (opened && bypass_opened)
		bypass_opened();
	if (opened || atomic_load(&unfinished)) {
		bool force = atomic_exchange(&unfinished, false);

		opened = false;
		look_at_libraries(force);
	}
	r = handle == RTLD_NEXT || !name ? NULL : find_redirection(name);
	return r && real_dlsym(handle, name) == r->underneath ? hook_of(r) : NULL;
}

CPU_ANSWER_HOOK("dlsym", "attached_real_dlsym", "attached_dlsym_first");

/* ---- the calls of `mayfly attach` ---- */

void (*attached_begun)(void);
void (*attached_ends)(void);

static bool installed; /* something of a recording is in place: undo() takes it back */

/* After a recording that goes on, and after one that has ended by itself (its spool is gone, the disk is
 * full): then all that was put in the program's way still stands there, and only forwards. */
static void undo(void)
{
	environment_bring_nothing();
	lead_parts_back(PART_OTHERS, PART_OTHERS);
	attached_ends();
	life_detach();
	interpreter_stop();
	lead_parts_back(PART_REALLOC, PART_FREE);
	spool_leave();
	fault_leave();
	installed = false;
}

/* Whether the settings of the new recording say that the recorder of the present one has died: instead=PID. */
static bool gives_way(const char *settings)
{
	static const char key[] = ",instead=";
	const char *at = strstr(settings, key);
	uint32_t recorder = 0;

	if (!at)
		return false;
	for (at += sizeof(key) - 1; *at >= '0' && *at <= '9'; at++)
		recorder = recorder * 10 + (uint32_t)(*at - '0');
	return recorder == atomic_load(&spool_header->recorder_pid);
}

static void forget_locks(void)
{
	atomic_store(&slots_lock.held, 0);
	interpreter_forked();
}

static void watch(void)
{
	static bool watching;

	if (watching)
		return;
	life_forget_locks = forget_locks;
	life_watch();
	leave_watch();
	watching = true;
}

static long attach(struct attachment_call *call)
{
	const char *settings = call->settings;
	enum attachment result;
	bool in_program;
	int error;

	if (atomic_load(&agent_state) == AGENT_ON && !gives_way(settings))
		return ATTACHMENT_THERE;
	if (agent_same_process && !*agent_same_process)
		return ATTACHMENT_FORK;
	if (!find_first("malloc", &in_program) || in_program || !make_table())
		return ATTACHMENT_OWN_MALLOC;
	if (installed)
		undo();
	real_resolve();
	atomic_store(&real_ready, true);
	installed = true;
	if (fault_guard())
		call->result = ATTACHMENT_GUARDED;
	result = life_attach(settings, lead_ends_to_hooks, &error);
	if (result) {
		undo();
		return (long)result | (long)error << ATTACHMENT_ERROR_SHIFT;
	}
	environment_bring(preloaded_path, settings);
	watch();
	interpreter_start();
	attached_begun();
	/* A thread that was just being led to the function underneath, at its first call, may have
	 * undone this by the second look. */
	look_at_libraries(true);
	sys_sched_yield();
	look_at_libraries(true);
	if (unchanged)
		spool_note("a library's memory could not be changed: its allocations are not seen");
	return ATTACHMENT_DONE;
}

static long detach(struct attachment_call *call)
{
	if (!installed)
		return ATTACHMENT_THERE;
	if (fault_guard())
		call->result = ATTACHMENT_GUARDED;
	undo();
	return ATTACHMENT_DONE;
}

EXPORT void mayfly_attach(struct attachment_call *call);
EXPORT void mayfly_detach(struct attachment_call *call);

EXPORT void mayfly_attach(struct attachment_call *call)
{
	int error = errno;

	self.busy = BUSY_AGENT;
	call->result = attach(call);
	self.busy = BUSY_NOT;
	errno = error;
}

EXPORT void mayfly_detach(struct attachment_call *call)
{
	int error = errno;

	self.busy = BUSY_AGENT;
	call->result = detach(call);
	self.busy = BUSY_NOT;
	errno = error;
}
