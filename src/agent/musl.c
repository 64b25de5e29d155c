/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What glibc has and musl lacks, for libmayfly-musl.so, the agent for programs that musl loads.
 *
 * musl's dl_iterate_phdr takes the loader's lock, which dlopen holds while it may allocate. So the
 * agent keeps a table of its own, and reads the loader's list without the lock:
 *
 *	loader's list   program -> libmayfly-musl.so -> musl -> a.so -> b.so -> c.so
 *	objects[]       program    libmayfly-musl.so    musl    a.so  |
 *	                                                              known
 *
 * musl appends to its list and unloads nothing, except the tail that a failing dlopen has just
 * appended. So an object whose code is on a stack stays, and so do all before it. Only these are
 * entered: the objects that the program starts with, later ones when an address in them is first
 * asked for. What comes after them in the list is read through the kernel, as it may go meanwhile.
 */
#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/uio.h>

#include "agent/agent.h"
#include "agent/bypass.h"
#include "agent/cpu/cpu.h"
#include "agent/cpu/sys.h"
#include "agent/image.h"
#include "agent/musl_calls.h"
#include "agent/real.h"
#include "agent/unwind/walk.h"

#define OBJECTS_MOST 4096u
#define SPANS_MOST   (2 * OBJECTS_MOST)
#define HEADERS_MOST 32u
#define DYNAMIC_MOST 64u
#define PATIENCE     1000000u /* looks at a taken lock: some 50 ms */
#define STAT_BYTES   1024
#define STAT_STACK   26 /* fields of /proc/self/stat from the name to the start of the stack */
/* From the top of a stack to the frame of main, or of a thread's function: musl's own frames. */
#define ENTRY_FRAMES_MOST 320u

/* The names of the loader's record are its own: the program's is argv[0]. */
struct object {
	struct link_map map;
	const struct link_map *theirs;
	void *eh_frame;
};

/* Segments that follow one another without a hole: musl gives holes to malloc. */
struct span {
	uintptr_t start, end;
	struct object *object;
};

struct headers {
	const Elf64_Phdr *first;
	unsigned count;
	Elf64_Phdr copy[HEADERS_MOST];
};

static struct object objects[OBJECTS_MOST];
static struct span spans[SPANS_MOST];
static uint32_t known, taken; /* objects; places in spans[], under the lock */
static _Atomic uint32_t used; /* of spans[], for readers */
static _Atomic bool busy;
static uintptr_t main_thread;
static const struct object *musl;

HIDDEN void *__libc_stack_end;

extern const char *gnu_get_libc_version(void) __attribute__((weak));

/* ---- the loader's list ---- */

/* Memory that another thread may unmap meanwhile. */
static bool copy(void *to, const void *from, size_t bytes)
{
	struct iovec local = {to, bytes}, remote = {(void *)(uintptr_t)from, bytes};
	long got =
	    sys_call6(SYS_process_vm_readv, sys_getpid(), (long)&local, 1, (long)&remote, 1, 0);

	if (!sys_failed(got))
		return (size_t)got == bytes;
	/* In a container the call may be forbidden. */
	if (got == -EFAULT || !sys_readable((uintptr_t)from) ||
	    !sys_readable((uintptr_t)from + bytes - 8))
		return false;
	memcpy(to, from, bytes);
	return true;
}

static bool read_headers(const struct link_map *map, struct headers *h)
{
	Elf64_Ehdr elf;

	if (map->l_addr % CPU_PAGE_LEAST || !map->l_addr ||
	    !copy(&elf, (const void *)map->l_addr, sizeof(elf)) ||
	    memcmp(elf.e_ident, ELFMAG, SELFMAG) || elf.e_phentsize != sizeof(*h->first) ||
	    elf.e_phnum > HEADERS_MOST || elf.e_phoff > CPU_PAGE_LEAST - sizeof(h->copy) ||
	    !copy(h->copy, (const void *)(map->l_addr + elf.e_phoff),
		  elf.e_phnum * sizeof(*h->first)))
		return false;
	h->first = h->copy;
	h->count = elf.e_phnum;
	/* Is it what the loader has there? The memory may be another object's by now. */
	for (unsigned i = 0; i < h->count; i++)
		if (h->first[i].p_type == PT_DYNAMIC)
			return map->l_addr + h->first[i].p_vaddr == (uintptr_t)map->l_ld;
	return false;
}

static bool has_address(const struct link_map *map, const struct headers *h, uintptr_t address)
{
	for (unsigned i = 0; i < h->count; i++)
		if (h->first[i].p_type == PT_LOAD &&
		    address - map->l_addr - h->first[i].p_vaddr < h->first[i].p_memsz)
			return true;
	return false;
}

/* ---- the table ---- */

static void enter_segments(struct object *o, const struct headers *h)
{
	struct span *last = NULL;

	for (unsigned i = 0; i < h->count; i++) {
		const Elf64_Phdr *segment = &h->first[i];
		uintptr_t start = (o->map.l_addr + segment->p_vaddr) & -CPU_PAGE_LEAST;
		uintptr_t end = o->map.l_addr + segment->p_vaddr + segment->p_memsz;

		if (segment->p_type == PT_GNU_EH_FRAME)
			o->eh_frame = (void *)(o->map.l_addr + segment->p_vaddr);
		if (segment->p_type != PT_LOAD)
			continue;
		end = (end + CPU_PAGE_LEAST - 1) & -CPU_PAGE_LEAST;
		if (last && start <= last->end) {
			last->end = end;
		} else if (taken < SPANS_MOST) {
			last = &spans[taken++];
			*last = (struct span){start, end, o};
		}
	}
}

/* An object without readable headers keeps its place in objects[], and has no span. */
static void enter_object(const struct link_map *theirs, const struct headers *h)
{
	struct object *o = &objects[known];

	o->map = (struct link_map){.l_addr = theirs->l_addr, .l_ld = theirs->l_ld};
	o->theirs = theirs;
	if (known == 0)
		o->map.l_name = (char *)"";
	else
		o->map.l_name =
		    theirs->l_name && *theirs->l_name ? theirs->l_name : (char *)"linux-vdso.so.1";
	if (h)
		enter_segments(o, h);
	known++;
}

static const struct link_map *next_of(const struct link_map *map)
{
	return __atomic_load_n(&map->l_next, __ATOMIC_ACQUIRE);
}

/* Enters all from `map` on, up to `last`, or to the end of the list. */
static void enter_all(const struct link_map *map, const struct link_map *last)
{
	struct headers h;

	while (map && known < OBJECTS_MOST) {
		enter_object(map, read_headers(map, &h) ? &h : NULL);
		map = map == last ? NULL : next_of(map);
	}
	atomic_store_explicit(&used, taken, memory_order_release);
}

static bool lock(void)
{
	for (unsigned i = 0; atomic_exchange_explicit(&busy, true, memory_order_acquire); i++) {
		if (i == PATIENCE)
			return false;
		cpu_relax();
	}
	return true;
}

static void unlock(void)
{
	atomic_store(&busy, false);
}

/* The object after those in the table that has code or data at the address. */
static const struct link_map *find_later(uintptr_t address)
{
	const struct link_map *map = next_of(objects[known - 1].theirs);
	struct link_map there;
	struct headers h;

	for (unsigned i = 0; map && i < OBJECTS_MOST && copy(&there, map, sizeof(there)); i++) {
		if (read_headers(&there, &h) && has_address(&there, &h, address))
			return map;
		map = there.l_next;
	}
	return NULL;
}

/* True: the table has changed. In a sandbox nothing can be read safely. */
static bool enter_later(uintptr_t address)
{
	const struct link_map *last;
	uint32_t before = atomic_load(&used);

	if (!known || known == OBJECTS_MOST || agent_sandboxed ||
	    !next_of(objects[known - 1].theirs) || !lock())
		return false;
	last = find_later(address);
	if (last)
		enter_all(next_of(objects[known - 1].theirs), last);
	unlock();
	return atomic_load(&used) != before;
}

static const struct span *find_span(uintptr_t address)
{
	uint32_t n = atomic_load_explicit(&used, memory_order_acquire);

	for (uint32_t i = 0; i < n; i++)
		if (address >= spans[i].start && address < spans[i].end)
			return &spans[i];
	return NULL;
}

static void start(void);

/* As glibc's, without a lock. The first call is made as the agent starts. */
HIDDEN int _dl_find_object(void *address, struct dl_find_object *found)
{
	const struct span *span = find_span((uintptr_t)address);

	if (UNLIKELY(!known)) {
		start();
		span = find_span((uintptr_t)address);
	}
	if (!span && enter_later((uintptr_t)address))
		span = find_span((uintptr_t)address);
	if (!span)
		return -1;
	*found = (struct dl_find_object){
	    .dlfo_map_start = (void *)span->start,
	    .dlfo_map_end = (void *)span->end,
	    .dlfo_link_map = &span->object->map,
	    .dlfo_eh_frame = span->object->eh_frame,
	};
	return 0;
}

/* ---- where stacks end ---- */

/* musl calls main, and a thread's function, by a pointer and near the top of the stack. Its
 * functions that call the program back are known to musl_find_caller(). */
static bool is_entry(const struct walk_start *at)
{
	uintptr_t top = (uintptr_t)__libc_stack_end;
	pthread_attr_t attributes;
	void *lowest;
	size_t size;

	if (!cpu_called_by_pointer(at->pc))
		return false;
	if (top - at->sp <= ENTRY_FRAMES_MOST)
		return true;
	/* For the main thread musl would look for the end with system calls. */
	if (cpu_thread_pointer() == main_thread ||
	    pthread_getattr_np(pthread_self(), &attributes) ||
	    pthread_attr_getstack(&attributes, &lowest, &size))
		return false;
	return (uintptr_t)lowest + size - at->sp <= ENTRY_FRAMES_MOST;
}

static enum walk_outside outside_musl(struct walk_start *at, uintptr_t high)
{
	const struct span *span = find_span(at->pc - 1);

	if (!span || span->object != musl || at->pc + CPU_CODE_BYTES > span->end)
		return WALK_OUTSIDE_UNKNOWN;
	if (!memcmp((const void *)at->pc, CPU_SIGRETURN_CODE, CPU_CODE_BYTES))
		return WALK_OUTSIDE_SIGNAL;
	if (musl_find_caller(at->sp, high, at))
		return WALK_OUTSIDE_CALL;
	return is_entry(at) ? WALK_OUTSIDE_NOTHING : WALK_OUTSIDE_UNKNOWN;
}

/* The stack pointer that the kernel gave the program. */
static void *start_of_stack(void)
{
	char text[STAT_BYTES], *at;
	uintptr_t start = 0;
	long fd = sys_openat(AT_FDCWD, "/proc/self/stat", O_RDONLY | O_CLOEXEC, 0), got;

	if (sys_failed(fd))
		return NULL;
	got = sys_read((int)fd, text, sizeof(text) - 1);
	sys_close((int)fd);
	text[sys_failed(got) ? 0 : got] = 0;
	at = strrchr(text, ')'); /* of the name, which may have any character */
	for (int field = 0; at && field < STAT_STACK; field++)
		at = strchr(at + 1, ' ');
	for (at = at ? at + 1 : text + strlen(text); *at >= '0' && *at <= '9'; at++)
		start = start * 10 + (uintptr_t)(*at - '0');
	return (void *)start;
}

/* ---- the start ---- */

/* The objects that the program starts with. */
static void start(void)
{
	static _Atomic bool started;
	void *open = dlsym(RTLD_NEXT, "dlopen"), *(*open_object)(const char *, int);
	struct headers program = {
	    (const Elf64_Phdr *)getauxval(AT_PHDR), (unsigned)getauxval(AT_PHNUM), {{0}}};
	const struct link_map *first;
	const struct span *in_musl;

	/* glibc's loader would load this library, too: the agent does not start there. */
	if (gnu_get_libc_version || atomic_exchange(&started, true))
		return;
	memcpy(&open_object, &open, sizeof(open));
	first = open ? open_object(NULL, RTLD_NOW) : NULL; /* without the loader's lock */
	if (!first || !program.first)
		return;
	__libc_stack_end = start_of_stack();
	main_thread = cpu_thread_pointer();
	enter_object(first, &program);
	enter_all(next_of(first), NULL);
	in_musl = find_span((uintptr_t)open);
	musl = in_musl ? in_musl->object : NULL;
	walk_without_rule = outside_musl;
}

static void after_fork(void)
{
	unlock();
}

/* ---- looking functions up ---- */

_Atomic bool real_ready = true;
const bool real_is_musl = true;

void *real_dlsym(void *handle, const char *name)
{
	void *found;

	if (handle == RTLD_NEXT && !strcmp(name, "dlopen"))
		return (void *)musl_dlopen;
	found = dlsym(handle, name);
	if (!found)
		dlerror(); /* not for the program: musl lacks some functions */
	return found;
}

/* ---- what passes the hooks by ---- */

/* The program's own symbols; musl leaves the addresses as they are in the file. */
static bool read_program(struct image *image)
{
	const Elf64_Dyn *from = objects[0].map.l_ld;
	Elf64_Dyn dynamic[DYNAMIC_MOST];
	size_t n = 0;

	if (!known || !taken || !from)
		return false;
	*image = (struct image){.bias = objects[0].map.l_addr, .start = spans[0].start};
	for (uint32_t i = 0; i < taken && spans[i].object == &objects[0]; i++)
		image->end = spans[i].end;
	for (; from->d_tag != DT_NULL && n < DYNAMIC_MOST - 1; from++) {
		dynamic[n] = *from;
		switch (from->d_tag) {
		case DT_SYMTAB:
		case DT_STRTAB:
		case DT_GNU_HASH:
			dynamic[n].d_un.d_ptr += image->bias;
			break;
		}
		n++;
	}
	dynamic[n].d_tag = DT_NULL;
	return image_read(image, dynamic);
}

bool bypass_start(void)
{
	struct image program;

	real_resolve();
	pthread_atfork(NULL, NULL, after_fork);
	return !read_program(&program) || !image_find(&program, "malloc") ||
	       image_imports(&program, "mayfly_agent_allocator");
}

/* musl has one namespace, and no RTLD_DEEPBIND. */
void bypass_dlopen(int mode)
{
	(void)mode;
}

void bypass_dlmopen(void)
{
}
