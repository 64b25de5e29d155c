/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program full of stacks that are hard to walk; every allocation is a sample of the oracle.
 * Usage: walk_program part [plugin 1] [plugin 2]; see main for the parts.
 */
#include <alloca.h>
#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <functional>
#include <map>
#include <pthread.h>
#include <stdexcept>
#include <string>
#include <sys/mman.h>
#include <sys/time.h>
#include <thread>
#include <ucontext.h>
#include <unistd.h>
#include <vector>

#define NOINLINE __attribute__((noinline))

static volatile unsigned sink;

static NOINLINE void allocate(unsigned size)
{
	void *volatile block = malloc(size % 512 + 1);

	sink += size;
	free(block);
}

/* ---- frames: templates of many sizes, calling one another in a pseudo-random order ---- */

static unsigned random_state = 1;

static unsigned next_random()
{
	random_state = random_state * 1664525u + 1013904223u;
	return random_state >> 8;
}

static void descend(unsigned depth);

template <unsigned Size> static NOINLINE void plain_frame(unsigned depth)
{
	volatile char room[Size];

	room[Size / 2] = (char)depth;
	descend(depth);
	sink += (unsigned)room[Size / 2];
}

static NOINLINE void alloca_frame(unsigned depth)
{
	volatile char *room = (volatile char *)alloca(depth % 7 * 100 + 16);

	room[3] = (char)depth;
	descend(depth);
	sink += (unsigned)room[3];
}

static NOINLINE void aligned_frame(unsigned depth)
{
	alignas(128) volatile char room[256];

	room[3] = (char)depth;
	descend(depth);
	sink += (unsigned)room[3];
}

/* Needs both a base pointer and more alignment than the ABI has. */
static NOINLINE void aligned_alloca_frame(unsigned depth)
{
	alignas(64) volatile char room[64];
	volatile char *more = (volatile char *)alloca(depth % 5 * 64 + 32);

	room[3] = more[5] = (char)depth;
	descend(depth);
	sink += (unsigned)room[3] + (unsigned)more[5];
}

static NOINLINE void function_frame(unsigned depth)
{
	std::string text(depth % 60, 'x');
	std::function<void(unsigned)> f = [text](unsigned d) {
		sink += (unsigned)text.size();
		descend(d);
	};

	f(depth);
}

static NOINLINE void sort_frame(unsigned depth)
{
	unsigned values[4] = {depth, depth + 3, depth + 1, depth + 2};
	bool first = true;

	std::sort(values, values + 4, [&](unsigned a, unsigned b) {
		if (first) {
			first = false;
			descend(depth);
		}
		return a < b;
	});
	sink += values[0];
}

static unsigned qsort_depth;
static bool qsort_first;

static int compare(const void *a, const void *b)
{
	if (qsort_first) {
		qsort_first = false;
		descend(qsort_depth);
	}
	return *(const char *)a - *(const char *)b;
}

static NOINLINE void qsort_frame(unsigned depth)
{
	char values[6] = {3, 1, 2, 6, 5, 4};

	qsort_depth = depth;
	qsort_first = true;
	qsort(values, 6, 1, compare);
}

struct Failure : std::runtime_error {
	using std::runtime_error::runtime_error;
};

static NOINLINE void exception_frame(unsigned depth)
{
	std::vector<unsigned> owned(depth % 20 + 1);

	try {
		descend(depth);
		if (depth % 3 == 0)
			throw Failure("a text that is too long for the small string");
	} catch (const std::exception &e) {
		allocate((unsigned)strlen(e.what()));
	}
	sink += owned[0];
}

static NOINLINE void map_frame(unsigned depth)
{
	static std::map<std::string, unsigned> names;

	names["key number " + std::to_string(depth)]++;
	if (names.size() > 100)
		names.clear();
	descend(depth);
}

static void (*const kinds[])(unsigned) = {
    plain_frame<24>,	plain_frame<40>,   plain_frame<200>,	 plain_frame<1000>,
    plain_frame<33000>, plain_frame<5000>, alloca_frame,	 aligned_frame,
    function_frame,	sort_frame,	   exception_frame,	 map_frame,
    qsort_frame,	plain_frame<88>,   aligned_alloca_frame, plain_frame<300000>,
};

static void descend(unsigned depth)
{
	allocate(depth);
	if (depth > 0)
		kinds[next_random() % (sizeof(kinds) / sizeof(kinds[0]))](depth - 1);
	allocate(depth + 100);
}

/*
 * Stacks that differ only in where a frame begins: what one of them takes more, the next one takes
 * less, so all inner frames lie at the same addresses, and the words that the other stack had
 * there are still in the unused room. Only the base pointers tell them apart.
 */
static NOINLINE void shifted_leaf(unsigned size)
{
	allocate(size);
	sink += size;
}

static NOINLINE void shifted_saver(unsigned size)
{
	volatile char *room = (volatile char *)alloca(size % 2 * 64 + 32);

	room[0] = 1;
	shifted_leaf(size);
	sink += (unsigned)room[0];
}

static NOINLINE void shifted_plain(unsigned size)
{
	volatile char room[48];

	room[0] = 1;
	shifted_saver(size);
	sink += (unsigned)room[0];
}

static NOINLINE void shifted_inner(unsigned room_size, unsigned size)
{
	volatile char *room = (volatile char *)alloca(room_size);

	room[0] = 1;
	switch (size % 3) {
	case 0:
		shifted_leaf(size);
		break;
	case 1:
		shifted_saver(size);
		break;
	default:
		shifted_plain(size);
	}
	sink += (unsigned)room[0];
}

static NOINLINE void shifted_outer(unsigned shift, unsigned size)
{
	volatile char *room = (volatile char *)alloca(shift + 16);

	room[0] = 1;
	switch (shift) {
	case 0:
		shifted_inner(1024, size);
		break;
	case 256:
		shifted_inner(768, size + 3);
		break;
	case 512:
		shifted_inner(512, size + 6);
		break;
	default:
		shifted_inner(256, size + 9);
	}
	sink += (unsigned)room[0];
}

static void frames()
{
	for (unsigned i = 0; i < 2500; i++)
		descend(next_random() % 40);
	for (unsigned i = 0; i < 20000; i++)
		shifted_outer(next_random() % 4 * 256, next_random() % 12);
}

/* ---- threads, with recursion deeper than what is kept ---- */

static NOINLINE void recurse(unsigned depth, unsigned step)
{
	volatile unsigned here = depth;

	if (depth % step == 0 || (step > 50 && depth < 20))
		allocate(depth);
	if (depth > 0)
		recurse(depth - 1, step);
	if (depth % step == 1)
		allocate(depth);
	sink += here;
}

static NOINLINE void recurse_other(unsigned depth, unsigned step)
{
	volatile unsigned here[3] = {depth};

	recurse(depth, step);
	sink += here[0];
}

static void deep_thread(unsigned number)
{
	for (unsigned i = 0; i < 4; i++) {
		recurse(3500 - number, 311);
		recurse_other(2020 + i * 7, 101);
		recurse(300, 7);
		recurse(2030 + number, 97);
	}
}

static void threads()
{
	for (unsigned round = 0; round < 3; round++) {
		std::vector<std::thread> all;

		for (unsigned i = 0; i < 4; i++)
			all.emplace_back(deep_thread, i);
		for (std::thread &t : all)
			t.join();
	}
	deep_thread(5);
}

/* ---- dlopen and dlclose of two objects at the same address ---- */

static void *allocate_for_plugin(unsigned depth)
{
	allocate(depth);
	return nullptr;
}

static int plugins(const char *const *paths)
{
	unsigned same = 0, wrong = 0;
	void *last = nullptr;

	for (unsigned i = 0; i < 400; i++) {
		void *handle = dlopen(paths[i % 2], RTLD_NOW);
		if (!handle) {
			fprintf(stderr, "%s\n", dlerror());
			return 1;
		}
		auto run = (void (*)(void *(*)(unsigned), unsigned))dlsym(handle, "plugin_run");
		auto number = (unsigned (*)())dlsym(handle, "plugin_number");

		same += (void *)run == last;
		last = (void *)run;
		wrong += number() != i % 2 + 1;
		for (unsigned depth = 0; depth < 30; depth++)
			run(allocate_for_plugin, depth);
		dlclose(handle);
	}
	printf("same=%u wrong=%u\n", same, wrong);
	return wrong != 0;
}

/* ---- coroutines ---- */

static const unsigned coroutine_count = 6;
static ucontext_t scheduler, coroutines[coroutine_count];

static NOINLINE void yield_deep(unsigned number, unsigned depth)
{
	volatile unsigned here = depth;

	allocate(depth);
	if (depth > 0)
		yield_deep(number, depth - 1);
	else
		swapcontext(&coroutines[number], &scheduler);
	allocate(depth + here);
}

static void coroutine(unsigned number)
{
	for (unsigned i = 0; i < 40; i++) {
		yield_deep(number, (number * 7 + i) % 50);
		descend(i % 6);
	}
}

static const size_t coroutine_stack = 8 << 20;

static void coroutine_round()
{
	void *stacks[coroutine_count];

	for (unsigned i = 0; i < coroutine_count; i++) {
		stacks[i] = mmap(nullptr, coroutine_stack, PROT_READ | PROT_WRITE,
				 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
		getcontext(&coroutines[i]);
		coroutines[i].uc_stack.ss_sp = stacks[i];
		coroutines[i].uc_stack.ss_size = coroutine_stack;
		coroutines[i].uc_link = &scheduler;
		makecontext(&coroutines[i], (void (*)())coroutine, 1, i);
	}
	for (unsigned turn = 0; turn < 41; turn++) {
		for (unsigned i = 0; i < coroutine_count; i++) {
			swapcontext(&scheduler, &coroutines[i]);
			allocate(turn);
		}
	}
	/* What the last walk read may be gone now. */
	for (unsigned i = 0; i < coroutine_count; i++) {
		munmap(stacks[i], coroutine_stack);
		recurse(20, 1);
	}
}

static void coroutines_of_all()
{
	coroutine_round();
	coroutine_round();
	std::thread(coroutine_round).join();
}

/* ---- signals ---- */

static void on_signal(int number)
{
	recurse((unsigned)number % 9 + 3, 1);
}

static NOINLINE void raise_deep(unsigned depth, int number)
{
	volatile unsigned here = depth;

	if (depth % 4 == 0)
		raise(number);
	if (depth > 0)
		raise_deep(depth - 1, number);
	allocate(depth);
	sink += here;
}

static void on_two_signals(int)
{
	raise_deep(5, SIGUSR2);
}

/* Interrupted at any instruction: prologues, epilogues, the procedure linkage table. */
static NOINLINE unsigned leaf(unsigned a)
{
	return a * 3 + 1;
}

static NOINLINE unsigned busy_work(unsigned depth)
{
	char text[32];

	if (depth == 0)
		return leaf((unsigned)strtoul("123", nullptr, 10));
	snprintf(text, sizeof(text), "%u", depth);
	return leaf(busy_work(depth - 1)) + (unsigned)strlen(text);
}

static volatile unsigned alarms;

static void on_alarm(int)
{
	alarms = alarms + 1;
	recurse(5, 1);
}

static void handle(int number, void (*handler)(int), bool alternate)
{
	struct sigaction action = {};

	action.sa_handler = handler;
	action.sa_flags = SA_RESTART | (alternate ? SA_ONSTACK : 0);
	sigaction(number, &action, nullptr);
}

static void set_alternate(void *memory, size_t size)
{
	stack_t stack = {};

	stack.ss_sp = memory;
	stack.ss_size = size;
	sigaltstack(&stack, nullptr);
}

static void signal_thread()
{
	const size_t size = 1 << 17;
	void *memory =
	    mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	char on_stack[1 << 17];

	for (unsigned i = 0; i < 40; i++) {
		/* Outside the stack, and then inside it. */
		if (i % 2)
			set_alternate(memory, size);
		else
			set_alternate(on_stack, sizeof(on_stack));
		raise_deep(30, SIGUSR1);
		raise_deep(20, SIGUSR2);
		raise_deep(10, SIGHUP);
	}
	stack_t off = {};
	off.ss_flags = SS_DISABLE;
	sigaltstack(&off, nullptr);
	munmap(memory, size);
	raise_deep(50, SIGUSR2);
}

static void signals()
{
	struct itimerval often = {{0, 200}, {0, 200}}, never = {};

	handle(SIGUSR1, on_signal, true);
	handle(SIGUSR2, on_signal, false);
	handle(SIGHUP, on_two_signals, true);
	signal_thread();
	std::thread(signal_thread).join();
	handle(SIGALRM, on_alarm, false);
	setitimer(ITIMER_REAL, &often, nullptr);
	while (alarms < 1500)
		sink += busy_work(alarms % 20);
	setitimer(ITIMER_REAL, &never, nullptr);
}

/* ---- code without any rules: the stack ends there ---- */

static void jit()
{
#ifdef __aarch64__
	/* sub sp, sp, #16; str x30, [sp]; mov x9, x0; mov w0, #5; blr x9; ldr x30, [sp];
	 * add sp, sp, #16; ret */
	static const uint32_t code[] = {0xd10043ff, 0xf90003fe, 0xaa0003e9, 0x528000a0,
					0xd63f0120, 0xf94003fe, 0x910043ff, 0xd65f03c0};
#else
	/* sub $8, %rsp; mov %rdi, %rax; mov $5, %edi; call *%rax; add $8, %rsp; ret */
	static const unsigned char code[] = "\x48\x83\xec\x08\x48\x89\xf8\xbf\x05\x00\x00"
					    "\x00\xff\xd0\x48\x83\xc4\x08\xc3";
#endif
	void *memory = mmap(nullptr, 4096, PROT_READ | PROT_WRITE | PROT_EXEC,
			    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	memcpy(memory, code, sizeof(code));
	__builtin___clear_cache((char *)memory, (char *)memory + 4096);
	for (unsigned i = 0; i < 1000; i++)
		((void (*)(void (*)(unsigned)))memory)(allocate);
}

/* Chains of functions written here, some with a frame record and some without, that call one another
 * or go through compiled code. Their rules are registered, so that backtrace() knows the truth; the
 * walk does not see them. */
extern "C" void __register_frame(void *);

struct jit_chain {
	unsigned char *code, *code_end;
	unsigned char *rules;
	uint64_t seed = 20261123, old_return = 0;
	void (*pause)(bool) = (void (*)(bool))dlsym(RTLD_DEFAULT, "oracle_pause");

	unsigned pick(unsigned below)
	{
		seed = seed * 6364136223846793005u + 1442695040888963407u;
		return (unsigned)(seed >> 40) % below;
	}
	void put(const void *bytes, size_t size)
	{
		memcpy(code, bytes, size);
		code += size;
	}
	template <typename T> void put_number(T number)
	{
		put(&number, sizeof(number));
	}
	void *function(const void *next, const void *argument, bool record);
	void put_constant(unsigned target, uint64_t value);
	void leave(unsigned locals, const unsigned char *a_return);
	void rules_of(const unsigned char *start, const unsigned char cie[24]);
};

/* .eh_frame of one function, in which only the rule at its call matters. */
void jit_chain::rules_of(const unsigned char *start, const unsigned char cie[24])
{
	unsigned char *first = rules;
	uint32_t fde[2];
	uint64_t range[2] = {(uint64_t)start, (uint64_t)(code - start)}, none = 0;

	memcpy(rules, cie, 24);
	rules += 24;
	fde[0] = 20;
	fde[1] = (uint32_t)(rules + 4 - first);
	memcpy(rules, fde, 8);
	memcpy(rules + 8, range, 16);
	memcpy(rules + 24, &none, 4);
	rules += 28;
	if (pause)
		pause(true);
	__register_frame(first);
	if (pause)
		pause(false);
}

#ifdef __aarch64__

/* A number of up to 14 bits in two bytes. */
static void put_uleb(unsigned char *at, unsigned number)
{
	at[0] = (unsigned char)((number & 127) | 128);
	at[1] = (unsigned char)(number >> 7);
}

/* movz, movk */
void jit_chain::put_constant(unsigned target, uint64_t value)
{
	for (unsigned k = 0; k < 4; k++)
		put_number<uint32_t>((k ? 0xf2800000 : 0xd2800000) | k << 21 | target |
				     (uint32_t)(value >> 16 * k & 65535) << 5);
}

void *jit_chain::function(const void *next, const void *argument, bool record)
{
	/* length, CIE, version 1, "", code 4, data -8, RA 30; CFA; RA; x29 */
	unsigned char cie[24] = {20, 0, 0, 0, 0, 0, 0, 0, 1, 0, 4, 0x78, 30, 12, 31, 0, 0, 0x9e};
	unsigned char *start = code;
	unsigned way = record ? pick(3) : 3, size = 16 * (pick(15) + 2);
	unsigned below = way == 0 ? 16 * pick(4) : 0, record_at = way == 0 ? below : size - 16;
	uint32_t imm7 = (size - 16) / 8 << 15, negative = (128 - size / 8) << 15;
	uint32_t set[4][3] = {
	    /* stp x29, x30, [sp, #-size]!; mov x29, sp; sub sp, sp, #below */
	    {0xa9807bfd | negative, 0x910003fd, 0xd10003ff | below << 10},
	    /* sub sp, sp, #size; stp x29, x30, [sp, #size-16]; add x29, sp, #size-16 */
	    {0xd10003ff | size << 10, 0xa9007bfd | imm7, 0x910003fd | (size - 16) << 10},
	    /* stp x1, x2, [sp, #-size]!; stp x29, x30, [sp, #size-16]; add x29, sp, #size-16 */
	    {0xa9800be1 | negative, 0xa9007bfd | imm7, 0x910003fd | (size - 16) << 10},
	    /* str x30, [sp, #-16]!; sub sp, sp, #size-16; nop */
	    {0xf81f0ffe, 0xd10003ff | (size - 16) << 10, 0xd503201f},
	};
	uint32_t leave[4][3] = {
	    /* mov sp, x29; ldp x29, x30, [sp], #size; ret */
	    {0x910003bf, 0xa8c07bfd | (size / 8) << 15, 0xd65f03c0},
	    /* ldp x29, x30, [sp, #size-16]; add sp, sp, #size; ret */
	    {0xa9407bfd | imm7, 0x910003ff | size << 10, 0xd65f03c0},
	    {0xa9407bfd | imm7, 0x910003ff | size << 10, 0xd65f03c0},
	    /* add sp, sp, #size-16; ldr x30, [sp], #16; ret */
	    {0x910003ff | (size - 16) << 10, 0xf84107fe, 0xd65f03c0},
	};

	put(set[way], sizeof(set[way]));
	/* movz x9, #n; str x9, [sp, #at], all but the record. Or a return address, as an earlier
	 * call left it. */
	for (unsigned at = 0; at < below + size; at += 8) {
		if (at >= record_at && at < record_at + 16)
			continue;
		if (at < below && pick(3) == 0)
			put_constant(9, old_return);
		else
			put_constant(9, pick(65536));
		put_number<uint32_t>(0xf90003e9 | at / 8 << 10);
	}
	put_constant(0, (uint64_t)argument);
	put_constant(16, (uint64_t)next);
	put_number<uint32_t>(0xd63f0200); /* blr x16 */
	old_return = (uint64_t)code;
	put(leave[way], sizeof(leave[way]));
	cie[14] = record ? 29 : 31;
	put_uleb(cie + 15, way == 1 || way == 2 ? 16 : size);
	put_uleb(cie + 18, way == 0 ? size / 8 - 1 : way == 3 ? 2 : 1);
	if (record) {
		cie[20] = 0x9d;
		put_uleb(cie + 21, way == 0 ? size / 8 : 2);
	}
	rules_of(start, cie);
	__builtin___clear_cache((char *)start, (char *)code);
	return start;
}

#else

/* In one of the ways in which compilers leave a frame. */
void jit_chain::leave(unsigned locals, const unsigned char *a_return)
{
	switch (pick(5)) {
	case 0: /* leave; ret */
		put("\xc9\xc3", 2);
		break;
	case 1: /* mov %rbp, %rsp; pop %rbp; ret */
		put("\x48\x8b\xe5\x5d\xc3", 5);
		break;
	case 2: /* cmp %rsp, %rsp; je on; int3; on: leave; ret */
		put("\x48\x39\xe4\x74\x01\xcc\xc9\xc3", 8);
		break;
	case 3: /* jmp on; back: leave; ret; on: jmp back */
		put("\xeb\x02\xc9\xc3\xeb\xfc", 6);
		break;
	case 4: /* mov $a_return, %rcx; mov (%rbp), %rbp; add $locals + 8, %rsp; jmp *%rcx */
		if (locals + 8 > 127) {
			put("\xc9\xc3", 2);
			break;
		}
		put("\x48\xb9", 2);
		put_number(a_return);
		put("\x48\x8b\x6d\x00\x49\x8b\xc0\x48\x83\xc4", 10);
		put_number<uint8_t>((uint8_t)(locals + 8));
		put("\xff\xe1", 2);
	}
}

void *jit_chain::function(const void *next, const void *argument, bool record)
{
	/* length, CIE, version 1, "", code 1, data -8, RA 16; CFA = rbp + 16 or rsp + n; RA, rbp */
	unsigned char with[] = {20,   0,  0, 0,	 0,    0, 0,	0, 1, 0, 1, 0x78,
				0x10, 12, 6, 16, 0x90, 1, 0x86, 2, 0, 0, 0, 0};
	unsigned char without[] = {20,	 0,  0, 0, 0, 0,    0, 0, 1, 0, 1, 0x78,
				   0x10, 12, 7, 0, 0, 0x90, 1, 0, 0, 0, 0, 0};
	unsigned char *a_return = code, *start = code + 1;
	unsigned locals = 8 * (2 * pick(30) + (record ? 2 : 3));

	put("\xc3", 1);
	if (record)
		put("\x55\x48\x89\xe5", 4); /* push %rbp; mov %rsp, %rbp */
	put("\x48\x81\xec", 3);		    /* sub $locals, %rsp */
	put_number<uint32_t>(locals);
	/* movl of a number, and of 0 above it; or of a return address, as an earlier call left it */
	for (unsigned at = 0; at < locals; at += 8) {
		uint64_t word = record && pick(6) == 0 ? old_return : pick(1u << 30);

		for (unsigned half = 0; half < 2; half++) {
			put("\xc7\x84\x24", 3);
			put_number<uint32_t>(at + 4 * half);
			put_number<uint32_t>((uint32_t)(word >> 32 * half));
		}
	}
	put("\x48\xbf", 2); /* mov $argument, %rdi; mov $next, %rax; call *%rax */
	put_number(argument);
	put("\x48\xb8", 2);
	put_number(next);
	put("\xff\xd0", 2);
	old_return = (uint64_t)code;
	if (record)
		leave(locals, a_return);
	else {
		put("\x48\x81\xc4", 3); /* add $locals, %rsp; ret */
		put_number<uint32_t>(locals);
		put("\xc3", 1);
	}
	without[15] = (unsigned char)((locals + 8) & 127) | 128;
	without[16] = (unsigned char)((locals + 8) >> 7);
	rules_of(start, record ? with : without);
	return start;
}

#endif

__attribute__((noinline, optimize("no-omit-frame-pointer"))) static void relay(void *function)
{
	((void (*)())function)();
	sink++;
}

static void allocate_five(void *)
{
	allocate(5);
}

static void jit_chains(bool all_records)
{
	const size_t size = 4u << 20;
	jit_chain chain;

	chain.code = (unsigned char *)mmap(nullptr, 2 * size, PROT_READ | PROT_WRITE | PROT_EXEC,
					   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	chain.rules = chain.code + size;
	for (unsigned i = 0; i < 200; i++) {
		void *next = (void *)allocate_five;
		unsigned depth = 1 + chain.pick(12);

		for (unsigned j = 0; j < depth; j++) {
			bool record = all_records || chain.pick(3);

			next = chain.pick(3) ? chain.function(next, nullptr, record)
					     : chain.function((void *)relay, next, record);
		}
		for (unsigned j = 0; j < 5; j++)
			relay(next);
	}
}

/* ---- inside a sandbox nothing may be asked of the kernel ---- */

static void sandbox()
{
	auto enter = (void (*)())dlsym(RTLD_DEFAULT, "oracle_enter_sandbox");

	recurse(50, 1);
	if (enter)
		enter();
	recurse(60, 1);
	coroutine_round();
	std::thread(deep_thread, 1).join();
}

int main(int argc, char **argv)
{
	std::string part = argc > 1 ? argv[1] : "";

	if (part == "frames")
		frames();
	else if (part == "threads")
		threads();
	else if (part == "plugins" && argc == 4)
		return plugins(argv + 2);
	else if (part == "coroutines")
		coroutines_of_all();
	else if (part == "signals")
		signals();
	else if (part == "jit")
		jit();
	else if (part == "jit-records" || part == "jit-mixed")
		jit_chains(part == "jit-records");
	else if (part == "sandbox")
		sandbox();
	else
		return 2;
	return 0;
}
