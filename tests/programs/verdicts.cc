// SPDX-License-Identifier: Apache-2.0
// Blocks that are held and lost in all the ways that leak checkers tell apart. Prints a line of JSON: for
// each block a name, the size that was asked for, which no other block has, and the verdict. Ends when its
// standard input does, with all frames still there, as a leak check at the end looks at stacks, too.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <malloc.h>
#include <memory>
#include <pthread.h>
#include <string>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>
#include <vector>

// In LeakSanitizer's library.
extern "C" int __lsan_do_recoverable_leak_check() __attribute__((weak));

#define APART __attribute__((noinline))

enum verdict { HELD, DIRECT, INDIRECT };

static struct {
	const char *name;
	size_t size;
	verdict is;
} said[100];
static size_t said_count;

APART static void say(const char *name, size_t size, verdict is)
{
	said[said_count++] = {name, size, is};
}

// Whole units of malloc, so that malloc_usable_size() is what was asked for. Two threads do so at once.
APART static void **get(const char *name, verdict is)
{
	static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
	static size_t size = 2008;
	void *block;

	pthread_mutex_lock(&mutex);
	block = malloc(size);
	memset(block, 0, size);
	say(name, size, is);
	size += 16;
	pthread_mutex_unlock(&mutex);
	return static_cast<void **>(block);
}

// Overwrites what earlier calls have left on the stack.
APART static void clean_stack()
{
	volatile char room[65536];

	memset(const_cast<char *>(room), 0, sizeof(room));
}

// ---- held by variables ----

void *g_start, *g_inside, *g_chain, *g_circle, *g_table[8];
void *volatile g_data = const_cast<void **>(&g_data);
thread_local void *t_start;

APART static void hold_in_variables()
{
	static void *volatile inner;
	void **first;

	g_start = get("in a variable", HELD);
	g_data = get("in a variable with a value from the start", HELD);
	inner = get("in a variable of a function", HELD);
	g_table[5] = get("in a table", HELD);
	g_inside = reinterpret_cast<char *>(get("by a pointer inside", HELD)) + 1000;
	g_chain = first = get("first of a chain", HELD);
	first[3] = get("second of a chain", HELD);
	static_cast<void **>(first[3])[7] = get("third of a chain", HELD);
	g_circle = first = get("first of a circle", HELD);
	first[0] = get("second of a circle", HELD);
	static_cast<void **>(first[0])[0] = first;
	t_start = get("in a thread-local variable of the first thread", HELD);
	if (!inner)
		abort();
}

char *g_large, *g_grown, *g_aligned;

APART static void hold_sizes()
{
	char *lost = static_cast<char *>(malloc(600 << 10));

	say("large", 300 << 10, HELD);
	g_large = static_cast<char *>(malloc(300 << 10));
	say("large and lost", 600 << 10, DIRECT);
	if (!lost || !g_large)
		abort();
	g_aligned = static_cast<char *>(memalign(4096, 1800));
	say("aligned", 1800, HELD);
	// The block moves, with the pointer in it.
	void **grown = static_cast<void **>(malloc(120));
	void *volatile between = malloc(120);
	grown[1] = get("by a block that realloc() has moved", HELD);
	say("moved by realloc()", 1832, HELD);
	g_grown = static_cast<char *>(realloc(grown, 1832));
	free(between);
}

// ---- held by C++ ----

namespace cxx
{
struct first_base {
	virtual ~first_base() = default;
	long a = 1;
};
struct second_base {
	virtual ~second_base() = default;
	long b = 2;
};
struct both : first_base, second_base {
	char room[1000 - 32] = "";
};
struct with_end {
	~with_end()
	{
		volatile char end = room[0];
		(void)end;
	}
	char room[56] = "";
};
struct shared {
	char room[1032] = "";
	long member = 3;
};
second_base *second;
with_end *array;
std::string text;
std::shared_ptr<long> member;
std::vector<char> vector;
with_end *empty;
} // namespace cxx

APART static void hold_in_cxx()
{
	cxx::second = new cxx::both;
	say("by its second base", sizeof(cxx::both), HELD);
	cxx::array = new cxx::with_end[18];
	say("an array behind its length", 18 * sizeof(cxx::with_end) + 8, HELD);
	cxx::empty = new cxx::with_end[0];
	say("an empty array behind its length", 8, HELD);
	cxx::text.reserve(1031);
	say("a string", 1032, HELD);
	cxx::member = std::shared_ptr<long>(nullptr);
	auto shared = std::make_shared<cxx::shared>();
	cxx::member = std::shared_ptr<long>(shared, &shared->member);
	say("by a shared pointer to a member", 16 + sizeof(cxx::shared), HELD);
	cxx::vector.reserve(1080);
	say("a vector", 1080, HELD);
}

// ---- held by the C library and by memory that is not malloc's ----

void *g_region;

static void **room_of(int flags, size_t bytes = 4096)
{
	void *room = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, flags | MAP_ANONYMOUS, -1, 0);

	if (room == MAP_FAILED)
		abort();
	return static_cast<void **>(room);
}

static void at_exit(int, void *)
{
}

APART static void hold_elsewhere()
{
	void **region = room_of(MAP_PRIVATE), **shared = room_of(MAP_SHARED),
	     **fixed = room_of(MAP_PRIVATE), **unforked = room_of(MAP_PRIVATE);
	char *variable = reinterpret_cast<char *>(get("in the environment", HELD));

	g_region = region;
	region[77] = get("in a mapping", HELD);
	shared[77] = get("in a shared mapping", HELD);
	fixed[77] = get("in a mapping that was made read-only", DIRECT);
	mprotect(fixed, 4096, PROT_READ);
	unforked[77] = get("in a mapping that fork() does not copy", HELD);
	madvise(unforked, 4096, MADV_DONTFORK);
	memcpy(variable, "VERDICT=1", 10);
	putenv(variable);
	on_exit(at_exit, get("by a function to be called at the end", HELD));
}

static void hold_in_plugins(const char *folder)
{
	void *library[2];

	for (int i = 0; i < 2; i++) {
		std::string path = std::string(folder) +
				   (i ? "/verdicts_plugin_closed.so" : "/verdicts_plugin.so");
		library[i] = dlopen(path.c_str(), RTLD_NOW);
		if (!library[i])
			abort();
	}
	reinterpret_cast<void (*)(void *)>(dlsym(library[0], "plugin_hold"))(
	    get("in a library", HELD));
	reinterpret_cast<void (*)(void *)>(dlsym(library[1], "plugin_hold"))(
	    get("in a library that was closed", DIRECT));
	dlclose(library[1]);
}

// ---- threads ----

static pthread_barrier_t ready;
static int never[2]; // a pipe that nobody writes to
static pthread_key_t key[40], key_of_ended;

// In no memory: only a register has it while the thread waits.
APART static void wait_with_register()
{
	char byte;
	long result = 0;
	register void *block asm("r12") = get("in a register", HELD);

	pthread_barrier_wait(&ready);
	asm volatile("syscall"
		     : "+a"(result), "+r"(block)
		     : "D"((long)never[0]), "S"(&byte), "d"(1L)
		     : "rcx", "r11", "memory");
}

APART static void hold_by_thread(void *plugin)
{
	t_start = get("in a thread-local variable", HELD);
	reinterpret_cast<void (*)(void *)>(dlsym(plugin, "plugin_hold_locally"))(
	    get("in a thread-local variable of a library", HELD));
	pthread_setspecific(key[0], get("in the thread's own data", HELD));
	pthread_setspecific(key[39], get("in the thread's own data, second level", HELD));
}

static void *run(void *plugin)
{
	void *volatile on_stack = get("on the stack of a thread", HELD);

	hold_by_thread(plugin);
	clean_stack();
	wait_with_register();
	return on_stack;
}

static ucontext_t outside, coroutine;
char *coroutine_stack;

static void wait_inside()
{
	char byte;

	pthread_barrier_wait(&ready);
	(void)!read(never[0], &byte, 1);
}

// Its own stack is not the one that it runs on.
static void *run_on_other_stack(void *)
{
	void *volatile on_stack = get("on a stack that its thread has left", HELD);

	getcontext(&coroutine);
	// The loader, which looks a function up at its first call, saves some KB of registers there.
	coroutine.uc_stack.ss_sp = room_of(MAP_PRIVATE, 8192);
	coroutine.uc_stack.ss_size = 8192;
	makecontext(&coroutine, wait_inside, 0);
	swapcontext(&outside, &coroutine);
	return on_stack;
}

APART static void leave_on_stack()
{
	void *volatile block[8] = {get("on the stack of a thread that has ended", DIRECT)};

	if (!block[0])
		abort();
}

static void *end_at_once(void *)
{
	leave_on_stack();
	pthread_setspecific(key_of_ended,
			    get("in the own data of a thread that has ended", DIRECT));
	return nullptr;
}

static void begin(void *(*function)(void *), void *argument, bool join)
{
	pthread_t thread;

	if (pthread_create(&thread, nullptr, function, argument))
		abort();
	if (join)
		pthread_join(thread, nullptr);
}

// ---- a context that was left ----

static ucontext_t first_context, in_mapping, in_block;

static void leave_mapping()
{
	void *volatile block = get("on a stack of the program's own in a mapping", HELD);

	swapcontext(&in_mapping, &first_context);
	if (!block)
		abort();
}

static void leave_block()
{
	void *volatile block = get("on a stack of the program's own in a block", HELD);

	swapcontext(&in_block, &first_context);
	if (!block)
		abort();
}

static void enter(ucontext_t *context, void *stack, size_t size, void (*function)())
{
	getcontext(context);
	context->uc_stack.ss_sp = stack;
	context->uc_stack.ss_size = size;
	makecontext(context, function, 0);
	swapcontext(&first_context, context);
}

APART static void hold_in_contexts()
{
	enter(&in_mapping, room_of(MAP_PRIVATE, 65536), 65536, leave_mapping);
	coroutine_stack = static_cast<char *>(malloc(20 << 10));
	say("a stack of the program's own", 20 << 10, HELD);
	memset(coroutine_stack, 0, 20 << 10);
	enter(&in_block, coroutine_stack, 20 << 10, leave_block);
}

// ---- lost ----

struct __attribute__((packed)) unaligned {
	int before;
	void *block;
};
unaligned g_unaligned;
uintptr_t g_hidden;
char *g_end;

APART static void lose()
{
	void **first = get("forgotten", DIRECT), **second;

	first = get("first of a lost chain", DIRECT);
	first[3] = get("second of a lost chain", INDIRECT);
	static_cast<void **>(first[3])[7] = get("third of a lost chain", INDIRECT);
	first = get("a lost block with a pointer inside", DIRECT);
	first[1] = reinterpret_cast<char *>(get("pointed into by a lost block", INDIRECT)) + 500;
	first = get("a lost block that points to a held one", DIRECT);
	first[0] = g_start;
	first = get("a lost block that points to itself", DIRECT);
	first[1] = first + 1;
	first = get("first of a lost circle", DIRECT);
	second = get("second of a lost circle", INDIRECT);
	first[0] = second;
	second[0] = first;
	first = get("a circle's tail begins here", DIRECT);
	second = get("a circle with a tail", INDIRECT);
	first[0] = second;
	second[1] = second;
}

APART static void lose_from_sight()
{
	// One past the end is another block's place.
	g_end = reinterpret_cast<char *>(get("pointed past its end", DIRECT)) +
		said[said_count - 1].size;
	g_hidden = ~reinterpret_cast<uintptr_t>(get("hidden", DIRECT));
	g_unaligned.block = get("by an unaligned pointer", DIRECT);
	// Behind the end of what realloc() has left.
	void **shrunk = static_cast<void **>(malloc(4072));
	memset(shrunk, 0, 4072);
	shrunk[400] = get("by what realloc() has cut off", DIRECT);
	g_table[1] = realloc(shrunk, 1864);
	say("cut by realloc()", 1864, HELD);
}

// A function for each size, so that checkers tell their blocks apart.
template <size_t size> APART static void free_with_pointer(const char *name)
{
	void **block = static_cast<void **>(malloc(size));
	void *volatile behind = malloc(3000);

	memset(block, 0, size);
	block[size / 16] = get(name, DIRECT);
	free(block);
	free(behind);
}

APART static void lose_by_free()
{
	free_with_pointer<1016>("by a block in the thread's cache");
	free_with_pointer<5000>("by a free block");
	free_with_pointer<700 << 10>("by a block that was unmapped");
	void **region = room_of(MAP_PRIVATE);
	region[9] = get("in a mapping that was unmapped", DIRECT);
	munmap(region, 4096);
}

APART static void lose_in_kernel()
{
	int poll = epoll_create1(0), ends[2];
	epoll_event event = {};
	void *block;

	if (pipe(ends))
		abort();
	event.data.ptr = get("known to the kernel alone, by epoll", DIRECT);
	epoll_ctl(poll, EPOLL_CTL_ADD, ends[0], &event);
	event = {};
	block = get("in a pipe", DIRECT);
	(void)!write(ends[1], &block, sizeof(block));
}

APART static void lose_on_stack()
{
	void *volatile block[16];

	for (auto &one : block)
		one = nullptr;
	block[3] = get("below the stack pointer", DIRECT);
}

// ---- all of it ----

// Far below the frames that stay.
APART static void do_all(const char *folder)
{
	volatile char room[40000] = "";
	void *plugin;

	hold_in_variables();
	hold_sizes();
	hold_in_cxx();
	hold_elsewhere();
	hold_in_plugins(folder);
	hold_in_contexts();
	lose();
	lose_from_sight();
	lose_by_free();
	lose_in_kernel();
	plugin = dlopen((std::string(folder) + "/verdicts_plugin.so").c_str(), RTLD_NOW);
	pthread_barrier_init(&ready, nullptr, 3);
	if (pipe(never))
		abort();
	for (auto &one : key)
		pthread_key_create(&one, nullptr);
	pthread_key_create(&key_of_ended, nullptr);
	begin(run, plugin, false);
	begin(run_on_other_stack, nullptr, false);
	pthread_barrier_wait(&ready);
	begin(end_at_once, nullptr, true);
	lose_on_stack();
	if (room[0])
		abort();
}

static void print_all()
{
	static const char *const word[] = {"held", "direct", "indirect"};

	printf("[");
	for (size_t i = 0; i < said_count; i++)
		printf("%s[\"%s\", %zu, \"%s\"]", i ? ", " : "", said[i].name, said[i].size,
		       word[said[i].is]);
	printf("]\n");
	fflush(stdout);
}

APART static void wait_and_check()
{
	static char rest;

	while (read(0, &rest, 1) > 0)
		;
	if (__lsan_do_recoverable_leak_check)
		__lsan_do_recoverable_leak_check();
	_exit(0);
}

int main(int, char **argument)
{
	static char output[16384];
	void *volatile on_stack = get("on the first stack", HELD);

	setvbuf(stdout, output, _IOFBF, sizeof(output));
	do_all(argument[1]);
	lose_on_stack();
	print_all();
	wait_and_check();
	return on_stack == nullptr;
}
