/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Programs that behave badly, one for each name in the table at the end: ugly NAME [ARG...].
 *
 * Each allocates in circumstances that are hard for a profiler and prints what a caller can see of
 * it. test_ugly.py compares that with what it prints when nobody watches. Built with -fno-builtin,
 * so that no allocation is optimised away.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

extern char **environ;

static const char *self;
static int argument_count;
static char **arguments; /* those behind the name */

static void fail(const char *what)
{
	fprintf(stderr, "ugly: %s: %s\n", what, strerror(errno));
	exit(99);
}

static void expect(bool condition, const char *what)
{
	if (!condition) {
		fprintf(stderr, "ugly: %s\n", what);
		exit(98);
	}
}

/* A small generator of its own, so that runs are equal. */
static uint32_t next_random(uint32_t *state)
{
	*state = *state * 1664525u + 1013904223u;
	return *state >> 8;
}

/* Allocates and frees `count` blocks with up to 64 live ones, and checks what is in them. Returns a
 * checksum. */
static uint32_t churn(unsigned count, uint32_t seed)
{
	unsigned char *block[64] = {NULL};
	size_t size[64] = {0};
	uint32_t state = seed, sum = 0;

	for (unsigned i = 0; i < count; i++) {
		unsigned slot = next_random(&state) % 64;
		size_t n = 1 + next_random(&state) % (next_random(&state) % 50 ? 300 : 40000);

		if (block[slot]) {
			expect(block[slot][0] == (unsigned char)slot &&
				   block[slot][size[slot] - 1] == (unsigned char)slot,
			       "a block has changed");
			sum = sum * 31 + (uint32_t)size[slot];
		}
		switch (next_random(&state) % 4) {
		case 0:
			free(block[slot]);
			block[slot] = calloc(1, n);
			break;
		case 1:
			block[slot] = realloc(block[slot], n);
			break;
		default:
			free(block[slot]);
			block[slot] = malloc(n);
		}
		if (!block[slot])
			fail("malloc");
		size[slot] = n;
		memset(block[slot], (int)slot, n);
	}
	for (unsigned slot = 0; slot < 64; slot++)
		free(block[slot]);
	return sum;
}

static atomic_bool stop;

static void *churn_until_stopped(void *seed)
{
	uint32_t n = (uint32_t)(uintptr_t)seed;

	while (!atomic_load(&stop)) {
		churn(200, n++);
		usleep(100);
	}
	return NULL;
}

static void wait_for(pid_t child, const char *what)
{
	int status;

	if (child < 0)
		fail(what);
	if (waitpid(child, &status, 0) != child)
		fail("waitpid");
	if (WIFEXITED(status))
		printf("%s: exit %d\n", what, WEXITSTATUS(status));
	else
		printf("%s: signal %d\n", what, WTERMSIG(status));
}

static void start(pthread_t *thread, void *(*function)(void *), uintptr_t argument)
{
	int error = pthread_create(thread, NULL, function, (void *)argument);

	if (error) {
		errno = error;
		fail("pthread_create");
	}
}

/* ---- processes ---- */

static int fork_threads(void)
{
	pthread_t thread[3];
	char *inherited = malloc(1000);

	for (unsigned i = 0; i < 3; i++)
		start(&thread[i], churn_until_stopped, i);
	strcpy(inherited, "from the parent");
	for (int i = 0; i < 24; i++) {
		fflush(stdout);
		pid_t child = fork();
		if (child == 0) {
			expect(strcmp(inherited, "from the parent") == 0, "inherited block");
			free(inherited);
			churn(500, 1000u + (unsigned)i);
			if (i % 3 == 0)
				_exit(i);
			if (i % 3 == 1)
				exit(i);
			execl("/bin/true", "true", (char *)NULL);
			_exit(97);
		}
		wait_for(child, "child");
	}
	atomic_store(&stop, true);
	for (unsigned i = 0; i < 3; i++)
		pthread_join(thread[i], NULL);
	free(inherited);
	return 0;
}

/* Children of children, each with live blocks of all its ancestors. */
static int fork_chain(void)
{
	void *kept[8];
	int depth = 0, status;

	for (;;) {
		for (int i = 0; i < 100; i++)
			free(malloc(100 + (size_t)i));
		kept[depth] = malloc(1000 * (size_t)(depth + 1));
		if (++depth == 6)
			break;
		fflush(stdout);
		pid_t child = fork();
		if (child < 0)
			fail("fork");
		if (child > 0) {
			waitpid(child, &status, 0);
			printf("depth %d: child left %d\n", depth, WEXITSTATUS(status));
			break;
		}
	}
	for (int i = 0; i < depth; i++)
		free(kept[i]);
	return depth;
}

static int vfork_exec(void)
{
	for (volatile int i = 0; i < 50; i++) {
		void *before = malloc(500);
		pid_t child = vfork();
		if (child == 0) {
			execl("/bin/true", "true", (char *)NULL);
			_exit(97);
		}
		free(before);
		wait_for(child, "vfork");
	}
	printf("%u\n", churn(1000, 1));
	return 0;
}

/* The child of a vfork runs in our memory: what it allocates is ours. */
static char *volatile from_child;

static int vfork_allocates(void)
{
	for (volatile int i = 0; i < 200; i++) {
		char *mine = malloc(300);
		pid_t child = vfork();
		if (child == 0) {
			for (int k = 0; k < 20; k++)
				free(malloc(64 + (size_t)k));
			free(mine);
			from_child = malloc(2000);
			strcpy(from_child, "by the child");
			_exit(i % 5);
		}
		wait_for(child, from_child);
		free(from_child);
	}
	return 0;
}

static int spawn(void)
{
	pthread_t thread[2];

	for (unsigned i = 0; i < 2; i++)
		start(&thread[i], churn_until_stopped, 50 + i);
	for (int i = 0; i < 30; i++) {
		char *const command[] = {"sh", "-c", i % 2 ? "exit 3" : "echo spawned", NULL};
		pid_t child;

		fflush(stdout);
		int error = posix_spawn(&child, "/bin/sh", NULL, NULL, command, environ);

		errno = error;
		if (error)
			fail("posix_spawn");
		wait_for(child, "spawn");
	}
	fflush(stdout);
	expect(system("echo by system") == 0, "system");
	FILE *pipe = popen("echo by popen", "r");
	char line[100] = "";
	expect(pipe && fgets(line, sizeof(line), pipe), "popen");
	pclose(pipe);
	printf("%s", line);
	atomic_store(&stop, true);
	for (unsigned i = 0; i < 2; i++)
		pthread_join(thread[i], NULL);
	return 0;
}

static int exec_self(void)
{
	int left = argument_count > 0 ? atoi(arguments[0]) : 5;
	char text[20];

	printf("%d left: %u\n", left, churn(2000, (uint32_t)left));
	if (left == 0)
		return 5;
	snprintf(text, sizeof(text), "%d", left - 1);
	fflush(stdout);
	execl(self, self, "exec_self", text, (char *)NULL);
	fail("exec");
	return 1;
}

static void *exec_now(void *unused)
{
	(void)unused;
	churn(500, 3);
	fflush(stdout);
	execl(self, self, "churn", "100", (char *)NULL);
	fail("exec");
	return NULL;
}

/* exec by a thread while others allocate: they end without a word. */
static int exec_threads(void)
{
	pthread_t thread[4];

	for (unsigned i = 0; i < 3; i++)
		start(&thread[i], churn_until_stopped, 70 + i);
	start(&thread[3], exec_now, 0);
	pthread_join(thread[3], NULL);
	return 1;
}

/* ---- ways to end ---- */

static void at_exit(void)
{
	free(malloc(123));
	printf("at exit: %u\n", churn(100, 9));
	fflush(stdout);
}

static int end_return(void)
{
	atexit(at_exit);
	printf("%u\n", churn(1000, 2));
	return 3;
}

static int end_exit(void)
{
	atexit(at_exit);
	printf("%u\n", churn(1000, 2));
	exit(4);
}

static int end_quick(void)
{
	at_quick_exit(at_exit);
	printf("%u\n", churn(1000, 2));
	fflush(stdout);
	quick_exit(5);
}

static int end_now(void)
{
	atexit(at_exit);
	printf("%u\n", churn(1000, 2));
	fflush(stdout);
	_exit(6);
}

static int end_abort(void)
{
	struct rlimit none = {0, 0};

	setrlimit(RLIMIT_CORE, &none);
	printf("%u\n", churn(1000, 2));
	fflush(stdout);
	abort();
}

static int end_killed(void)
{
	pthread_t thread[2];

	for (unsigned i = 0; i < 2; i++)
		start(&thread[i], churn_until_stopped, i);
	printf("%u\n", churn(20000, 2));
	fflush(stdout);
	kill(getpid(), SIGKILL);
	pause();
	return 1;
}

static int end_terminated(void)
{
	printf("%u\n", churn(1000, 2));
	fflush(stdout);
	raise(SIGTERM);
	return 1;
}

static int end_crash(void)
{
	struct rlimit none = {0, 0};

	setrlimit(RLIMIT_CORE, &none);
	printf("%u\n", churn(1000, 2));
	fflush(stdout);
	*(volatile int *)8 = 1;
	return 1;
}

static void *exit_from_thread(void *unused)
{
	(void)unused;
	printf("%u\n", churn(1000, 2));
	exit(7);
}

static int end_thread_exits(void)
{
	pthread_t thread[2];

	start(&thread[0], churn_until_stopped, 4);
	start(&thread[1], exit_from_thread, 0);
	pthread_join(thread[0], NULL);
	return 1;
}

static void *outlive_main(void *unused)
{
	(void)unused;
	usleep(50000);
	printf("%u\n", churn(1000, 2));
	return NULL;
}

static int end_main_thread_first(void)
{
	pthread_t thread;

	start(&thread, outlive_main, 0);
	pthread_exit(NULL);
}

/* ---- signals ---- */

static atomic_uint handled;

static void allocate_in_handler(int number)
{
	void *block[8];
	int saved = errno;

	(void)number;
	for (unsigned i = 0; i < 8; i++)
		block[i] = malloc(40 + 1000 * i);
	for (unsigned i = 0; i < 8; i++)
		free(block[i]);
	atomic_fetch_add(&handled, 1);
	errno = saved;
}

static void handle(int number, void (*handler)(int), int flags)
{
	struct sigaction action = {.sa_handler = handler, .sa_flags = flags};

	if (sigaction(number, &action, NULL))
		fail("sigaction");
}

/* A storm of signals whose handler allocates, over an allocator that allows it (bump_malloc.c). */
static int signal_storm(void)
{
	struct itimerval every = {{0, 1000}, {0, 1000}}, never = {{0, 0}, {0, 0}};
	uint32_t sum = 0;

	expect(dlsym(RTLD_DEFAULT, "bump_malloc_is_here") != NULL, "needs bump_malloc.so");
	handle(SIGALRM, allocate_in_handler, SA_RESTART);
	setitimer(ITIMER_REAL, &every, NULL);
	for (unsigned round = 0; round < 200000 && atomic_load(&handled) < 100; round++)
		sum += churn(200, 11);
	setitimer(ITIMER_REAL, &never, NULL);
	printf("handled enough: %d\n", atomic_load(&handled) >= 100);
	return sum == 0;
}

static void *storm_sender(void *target)
{
	while (!atomic_load(&stop)) {
		pthread_kill((pthread_t)target, SIGUSR1);
		usleep(50);
	}
	return NULL;
}

/* The same, as dense as another thread can send. */
static int signal_flood(void)
{
	pthread_t thread;

	expect(dlsym(RTLD_DEFAULT, "bump_malloc_is_here") != NULL, "needs bump_malloc.so");
	handle(SIGUSR1, allocate_in_handler, SA_RESTART | SA_NODEFER);
	start(&thread, storm_sender, (uintptr_t)pthread_self());
	for (unsigned round = 0; round < 200000 && atomic_load(&handled) < 1000; round++)
		churn(100, 12);
	atomic_store(&stop, true);
	pthread_join(thread, NULL);
	printf("handled enough: %d\n", atomic_load(&handled) >= 1000);
	return 0;
}

static void *wait_for_signals(void *count)
{
	sigset_t set;
	int number;

	sigemptyset(&set);
	sigaddset(&set, SIGUSR2);
	for (uintptr_t i = 0; i < (uintptr_t)count; i++) {
		sigwait(&set, &number);
		allocate_in_handler(number);
	}
	return NULL;
}

/* Signals taken by a thread that waits for them, as careful programs do. */
static int signal_wait(void)
{
	sigset_t set;
	pthread_t thread;

	sigemptyset(&set);
	sigaddset(&set, SIGUSR2);
	pthread_sigmask(SIG_BLOCK, &set, NULL);
	start(&thread, wait_for_signals, 200);
	while (atomic_load(&handled) < 200) {
		unsigned before = atomic_load(&handled);
		pthread_kill(thread, SIGUSR2);
		do {
			churn(20, before);
		} while (atomic_load(&handled) == before);
	}
	pthread_join(thread, NULL);
	printf("handled: %u\n", atomic_load(&handled));
	return 0;
}

/* A handler on a stack of its own, entered where malloc is not running. */
static int signal_stack(void)
{
	stack_t stack = {.ss_sp = malloc(65536), .ss_size = 65536};

	if (!stack.ss_sp || sigaltstack(&stack, NULL))
		fail("sigaltstack");
	handle(SIGUSR1, allocate_in_handler, SA_ONSTACK);
	handle(SIGUSR2, allocate_in_handler, 0);
	for (int i = 0; i < 1000; i++) {
		raise(i % 2 ? SIGUSR1 : SIGUSR2);
		free(malloc(10));
	}
	printf("handled: %u\n", atomic_load(&handled));
	return 0;
}

static ucontext_t after_fault;
static void *volatile fault_block;

static void recover(int number, siginfo_t *information, void *context)
{
	(void)number;
	(void)information;
	(void)context;
	fault_block = malloc(77);
	setcontext(&after_fault);
}

/* Leaves handlers of real faults by setcontext. */
static int signal_fault(void)
{
	struct sigaction action = {.sa_sigaction = recover, .sa_flags = SA_SIGINFO | SA_NODEFER};
	volatile int count = 0;

	sigaction(SIGSEGV, &action, NULL);
	getcontext(&after_fault);
	free(fault_block);
	fault_block = NULL;
	if (count < 200) {
		count = count + 1;
		*(volatile int *)16 = count;
	}
	printf("faults: %d\n", count);
	return 0;
}

/* ---- threads ---- */

static void *churn_some(void *seed)
{
	return (void *)(uintptr_t)churn(300, (uint32_t)(uintptr_t)seed);
}

static void *churn_little(void *seed)
{
	return (void *)(uintptr_t)churn(100, (uint32_t)(uintptr_t)seed);
}

/* Thousands of short lives, a few at a time. */
static int many_threads(void)
{
	uint32_t sum = 0;

	for (unsigned i = 0; i < 1500; i++) {
		pthread_t thread[2];
		void *result;

		for (unsigned k = 0; k < 2; k++)
			start(&thread[k], churn_little, (i * 2 + k) % 7);
		for (unsigned k = 0; k < 2; k++) {
			pthread_join(thread[k], &result);
			sum += (uint32_t)(uintptr_t)result;
		}
	}
	printf("%u\n", sum);
	return 0;
}

static int wide_threads(void)
{
	pthread_t thread[64];
	uint32_t sum = 0;
	void *result;

	for (unsigned i = 0; i < 64; i++)
		start(&thread[i], churn_some, i);
	for (unsigned i = 0; i < 64; i++) {
		pthread_join(thread[i], &result);
		sum += (uint32_t)(uintptr_t)result;
	}
	printf("%u\n", sum);
	return 0;
}

static pthread_key_t key;
static atomic_uint destroyed;

/* Destructors that allocate and set the key again, as long as the library asks. */
static void destroy(void *value)
{
	free(value);
	churn(50, 5);
	atomic_fetch_add(&destroyed, 1);
	pthread_setspecific(key, malloc(99));
}

static void *with_key(void *unused)
{
	(void)unused;
	pthread_setspecific(key, malloc(200));
	return malloc(50);
}

static int thread_keys(void)
{
	pthread_key_create(&key, destroy);
	for (int i = 0; i < 200; i++) {
		pthread_t thread;
		void *result;

		start(&thread, with_key, 0);
		pthread_join(thread, &result);
		free(result);
	}
	printf("destroyed: %u\n", atomic_load(&destroyed));
	return 0;
}

static void *be_cancelled(void *unused)
{
	pthread_cleanup_push(free, malloc(500));
	for (;;) {
		churn(10, 1);
		pthread_testcancel();
	}
	pthread_cleanup_pop(1);
	return unused;
}

static int thread_cancel(void)
{
	for (int i = 0; i < 200; i++) {
		pthread_t thread;
		void *result;

		start(&thread, be_cancelled, 0);
		pthread_cancel(thread);
		pthread_join(thread, &result);
		expect(result == PTHREAD_CANCELED, "not cancelled");
	}
	printf("done\n");
	return 0;
}

#define MAIL 256
static _Atomic(void *) mail[MAIL];

/* Blocks go from thread to thread through a table; whoever takes one out frees it. */
static void *exchange(void *seed)
{
	uint32_t state = (uint32_t)(uintptr_t)seed;

	for (int i = 0; i < 10000; i++) {
		size_t size = 1 + next_random(&state) % 500;
		void *block = malloc(size);

		memset(block, 1, size);
		free(atomic_exchange(&mail[next_random(&state) % MAIL], block));
	}
	return NULL;
}

static int threads_exchange(void)
{
	pthread_t thread[8];

	for (unsigned i = 0; i < 8; i++)
		start(&thread[i], exchange, i);
	for (unsigned i = 0; i < 8; i++)
		pthread_join(thread[i], NULL);
	for (unsigned i = 0; i < MAIL; i++)
		free(atomic_load(&mail[i]));
	printf("done\n");
	return 0;
}

/* Gets its name after its first allocation, as threads named by others do. */
static void *renamed(void *number)
{
	free(malloc(100));
	pthread_setname_np(pthread_self(), "ugly second");
	return churn_some(number);
}

static int names(void)
{
	prctl(PR_SET_NAME, "ugly main");
	pthread_t thread;
	start(&thread, renamed, 1);
	pthread_join(thread, NULL);
	churn(1000, 3);
	char name[16];
	prctl(PR_GET_NAME, name);
	printf("%s\n", name);
	return 0;
}

/* ---- stacks ---- */

#define COROUTINES 8
static ucontext_t scheduler, coroutine[COROUTINES];
static unsigned turns;

__attribute__((noinline)) static uint32_t nest(int depth, uint32_t seed)
{
	uint32_t sum;

	if (depth == 0) {
		swapcontext(&coroutine[turns % COROUTINES], &scheduler);
		return churn(30, seed);
	}
	void *block = malloc((size_t)depth * 10);
	sum = nest(depth - 1, seed) + 1;
	free(block);
	return sum;
}

static void run_coroutine(int number)
{
	uint32_t sum = 0;

	for (int i = 0; i < 10; i++)
		sum += nest(5 + number, (uint32_t)number);
	printf("coroutine %d: %u\n", number, sum);
}

/* Coroutines whose stacks are blocks of malloc, freed and allocated again. */
static int coroutines(void)
{
	for (int generation = 0; generation < 20; generation++) {
		void *stack[COROUTINES];

		for (int i = 0; i < COROUTINES; i++) {
			stack[i] = malloc(131072);
			getcontext(&coroutine[i]);
			coroutine[i].uc_stack.ss_sp = stack[i];
			coroutine[i].uc_stack.ss_size = 131072;
			coroutine[i].uc_link = &scheduler;
			makecontext(&coroutine[i], (void (*)(void))run_coroutine, 1, i);
		}
		for (turns = 0; turns < COROUTINES * 11; turns++) {
			swapcontext(&scheduler, &coroutine[turns % COROUTINES]);
			free(malloc(turns + 1));
		}
		for (int i = 0; i < COROUTINES; i++)
			free(stack[i]);
	}
	return 0;
}

__attribute__((noinline)) static uint32_t descend(unsigned depth)
{
	uint32_t sum;

	if (depth == 0)
		return churn(20, 8);
	if (depth % 1000 == 0)
		free(malloc(depth));
	sum = descend(depth - 1);
	__asm__ volatile("" : "+r"(sum));
	return sum + 1;
}

static void *descend_far(void *unused)
{
	(void)unused;
	for (int i = 0; i < 3; i++)
		printf("%u\n", descend(100000));
	printf("%u\n", descend(100));
	return NULL;
}

static int deep(void)
{
	pthread_attr_t attributes;
	pthread_t thread;

	pthread_attr_init(&attributes);
	pthread_attr_setstacksize(&attributes, 64u << 20);
	if (pthread_create(&thread, &attributes, descend_far, NULL))
		fail("pthread_create");
	pthread_join(thread, NULL);
	return 0;
}

__attribute__((noinline)) static uint32_t with_alloca(unsigned size, unsigned depth)
{
	volatile char *space = __builtin_alloca(size);
	uint32_t sum = 0;

	space[0] = 1;
	space[size - 1] = 2;
	void *block = malloc(size);
	if (depth > 0)
		sum = with_alloca(size % 7000 + depth, depth - 1);
	free(block);
	return sum + (uint32_t)space[0] + (uint32_t)space[size - 1];
}

static int with_alloca_frames(void)
{
	uint32_t sum = 0;

	for (unsigned i = 1; i < 200; i++)
		sum += with_alloca(i * 501, 20);
	printf("%u\n", sum);
	return 0;
}

__attribute__((noinline)) static uint32_t wide_frame(unsigned depth)
{
	volatile char space[50000];
	uint32_t sum;

	space[depth] = 1;
	void *block = malloc(33);
	sum = depth ? wide_frame(depth - 1) : 0;
	free(block);
	return sum + (uint32_t)space[depth];
}

/* Frames over 32 KiB and frames with a realigned stack. */
__attribute__((noinline, force_align_arg_pointer)) static uint32_t aligned_frame(unsigned depth)
{
	_Alignas(256) volatile char space[256];
	uint32_t sum;

	space[0] = 1;
	expect((uintptr_t)space % 256 == 0, "alignment");
	void *block = malloc(44);
	sum = depth ? aligned_frame(depth - 1) : wide_frame(10);
	free(block);
	return sum + (uint32_t)space[0];
}

static int odd_frames(void)
{
	uint32_t sum = 0;

	for (int i = 0; i < 100; i++)
		sum += aligned_frame(10);
	printf("%u\n", sum);
	return 0;
}

/* Machine code that has no unwind information, calling malloc: what a JIT compiler makes. */
static int jit(void)
{
	static const unsigned char code[] = {
	    0x53,		    /* push rbx */
	    0x48, 0x83, 0xec, 0x10, /* sub rsp, 16 */
	    0x48, 0x89, 0xf0,	    /* mov rax, rsi */
	    0xff, 0xd0,		    /* call rax */
	    0x48, 0x83, 0xc4, 0x10, /* add rsp, 16 */
	    0x5b,		    /* pop rbx */
	    0xc3,		    /* ret */
	};
	for (int i = 0; i < 50; i++) {
		void *page =
		    mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		memcpy(page, code, sizeof(code));
		mprotect(page, 4096, PROT_READ | PROT_EXEC);
		char *(*call)(size_t, void *(*)(size_t)) =
		    (char *(*)(size_t, void *(*)(size_t)))page;
		char *block = call(100, malloc);
		strcpy(block, "by generated code");
		if (i == 0)
			printf("%s\n", block);
		free(block);
		munmap(page, 4096);
	}
	return 0;
}

/* A stack limit changed at run time, then threads with the new one. */
static int stack_limit(void)
{
	struct rlimit limit;

	getrlimit(RLIMIT_STACK, &limit);
	limit.rlim_cur = 256 * 1024;
	if (setrlimit(RLIMIT_STACK, &limit))
		fail("setrlimit");
	printf("%u\n", churn(1000, 6));
	pthread_t thread;
	void *result;
	start(&thread, churn_some, 3);
	pthread_join(thread, &result);
	printf("%u\n", (uint32_t)(uintptr_t)result);
	return 0;
}

/* ---- limits and losses ---- */

static int just_churn(void)
{
	unsigned count = argument_count > 0 ? (unsigned)atoi(arguments[0]) : 1000;

	printf("%u\n", churn(count, 1));
	return 0;
}

/* Allocates until the address space ends, then goes on with what there is. */
static int limit_memory(void)
{
	struct rlimit limit = {200u << 20, 200u << 20};
	void *block[100] = {NULL};
	int count = 0;

	if (setrlimit(RLIMIT_AS, &limit))
		fail("setrlimit");
	errno = 0;
	while (count < 100 && (block[count] = malloc(10u << 20)))
		count++;
	printf("failed: %s, after a few: %d\n", strerror(errno), count > 3 && count < 25);
	while (count > 0)
		free(block[--count]);
	printf("%u\n", churn(20000, 4));
	return 0;
}

static void set_limit(int what, const char *text)
{
	rlim_t value = (rlim_t)strtoull(text, NULL, 0);
	struct rlimit limit = {value, value};

	if (setrlimit((__rlimit_resource_t)what, &limit))
		fail("setrlimit");
}

static int limit_file_size(void)
{
	set_limit(RLIMIT_FSIZE, arguments[0]);
	printf("%u\n", churn(100000, 4));
	return 0;
}

static int limit_files(void)
{
	set_limit(RLIMIT_NOFILE, arguments[0]);
	printf("%u\n", churn(50000, 4));
	printf("open: %d\n", open("/dev/null", O_RDONLY));
	return 0;
}

/* Closes all descriptors as daemons do, and expects to get the numbers that it then gets. */
static int close_all(void)
{
	churn(1000, 4);
	for (int fd = 0; fd < 1024; fd++)
		close(fd);
	churn(20000, 5);
	if (open(arguments[0], O_RDWR | O_CREAT | O_TRUNC, 0600) != 0)
		return 91;
	if (open("/dev/null", O_RDWR) != 1 || open("/dev/null", O_RDWR) != 2)
		return 92;
	churn(50000, 6);
	if (write(0, "mine alone\n", 11) != 11)
		return 93;
	pthread_t thread;
	start(&thread, churn_some, 3);
	pthread_join(thread, NULL);
	return 0;
}

static int close_range_all(void)
{
	churn(1000, 4);
	if (syscall(SYS_close_range, 3, ~0u, 0))
		fail("close_range");
	printf("open: %d\n", open("/dev/null", O_RDONLY));
	printf("%u\n", churn(50000, 6));
	return 0;
}

/* As programs do that show their state as their title. */
static int wipe_environment(void)
{
	char **first = environ;

	churn(100, 1);
	for (char **entry = first; *entry; entry++)
		memset(*entry, 'x', strlen(*entry));
	memset(arguments[-2], 'y', strlen(arguments[-2]));
	printf("%u\n", churn(1000, 1));
	static char *few[] = {"PATH=/bin", NULL};
	environ = few;
	printf("%u\n", churn(1000, 1));
	clearenv();
	printf("%d\n", getenv("PATH") == NULL);
	fflush(stdout);
	pid_t child = fork();
	if (child == 0) {
		churn(100, 3);
		execle("/bin/sh", "sh", "-c", "echo child", (char *)NULL, few);
		_exit(97);
	}
	wait_for(child, "child");
	setenv("LATER", "1", 1);
	printf("%s\n", getenv("LATER"));
	return 0;
}

static int change_directory(void)
{
	if (chdir(arguments[0]))
		fail("chdir");
	printf("%u\n", churn(20000, 1));
	return 0;
}

static int change_root(void)
{
	churn(100, 1);
	if (chroot(arguments[0]) || chdir("/"))
		fail("chroot");
	printf("%u\n", churn(100000, 1));
	pthread_t thread;
	void *result;
	start(&thread, churn_some, 3);
	pthread_join(thread, &result);
	printf("%u\n", (uint32_t)(uintptr_t)result);
	return 0;
}

static int drop_rights(void)
{
	churn(100, 1);
	if (setgid(65534) || setuid(65534))
		fail("setuid");
	prctl(PR_SET_DUMPABLE, 0);
	printf("%u\n", churn(100000, 1));
	return 0;
}

/* Goes on in the background after its parent has ended. */
static int daemonise(void)
{
	churn(100, 1);
	fflush(stdout);
	pid_t child = fork();
	if (child < 0)
		fail("fork");
	if (child > 0)
		return 0;
	setsid();
	if (fork() > 0)
		_exit(0);
	churn(1000, 2);
	usleep(300000);
	int fd = open(arguments[0], O_WRONLY | O_CREAT, 0600);
	if (write(fd, "daemon\n", 7) != 7)
		_exit(1);
	_exit(0);
}

/* A strict sandbox: any other system call kills. */
static void enter_sandbox(void)
{
#define ALLOW(number)                                                                              \
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (number), 0, 1),                                       \
	    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)
	struct sock_filter filter[] = {
	    BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
	    ALLOW(SYS_read),
	    ALLOW(SYS_write),
	    ALLOW(SYS_exit_group),
	    ALLOW(SYS_exit),
	    ALLOW(SYS_brk),
	    ALLOW(SYS_mmap),
	    ALLOW(SYS_munmap),
	    ALLOW(SYS_mremap),
	    ALLOW(SYS_mprotect),
	    ALLOW(SYS_madvise),
	    ALLOW(SYS_futex),
	    ALLOW(SYS_rt_sigreturn),
	    ALLOW(SYS_rt_sigprocmask),
	    ALLOW(SYS_set_robust_list),
	    ALLOW(SYS_rseq),
	    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
	};
	struct sock_fprog program = {sizeof(filter) / sizeof(filter[0]), filter};

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
		fail("no_new_privs");
	if (argument_count > 0 && strcmp(arguments[0], "syscall") == 0) {
		if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program))
			fail("seccomp");
	} else if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program)) {
		fail("prctl");
	}
}

static atomic_int sandbox_step;

static void *churn_in_sandbox(void *unused)
{
	(void)unused;
	while (atomic_load(&sandbox_step) == 0)
		;
	churn(20000, 7);
	atomic_store(&sandbox_step, 2);
	return NULL;
}

static int sandbox(void)
{
	static char buffer[4096];
	pthread_t thread;
	void *kept[100];

	setvbuf(stdout, buffer, _IOFBF, sizeof(buffer));
	start(&thread, churn_in_sandbox, 0);
	for (unsigned i = 0; i < 100; i++)
		kept[i] = malloc(1000 + i);
	enter_sandbox();
	atomic_store(&sandbox_step, 1);
	for (unsigned i = 0; i < 100; i++)
		free(kept[i]);
	printf("%u\n", churn(100000, 3));
	while (atomic_load(&sandbox_step) != 2)
		;
	printf("done\n");
	return 0;
}

/* ---- libraries ---- */

static int libraries(void)
{
	uint32_t sum = 0;

	for (int i = 0; i < 200; i++) {
		void *library = dlopen(arguments[i % 2], RTLD_NOW | RTLD_LOCAL);
		char *(*make)(size_t) = NULL;

		if (library)
			*(void **)&make = dlsym(library, "plugin_make");
		expect(make != NULL, "dlopen or dlsym");
		char *block[20];
		for (unsigned k = 0; k < 20; k++)
			block[k] = make(100 + k);
		sum = sum * 3 + (uint32_t)block[0][0];
		for (unsigned k = 0; k < 10; k++)
			free(block[k]);
		expect(dlclose(library) == 0, "dlclose");
		for (unsigned k = 10; k < 20; k++)
			free(block[k]);
	}
	printf("%u\n", sum);
	printf("%d\n", dlopen("/nonexistent.so", RTLD_NOW) == NULL && dlerror() != NULL);
	return 0;
}

static void *churn_libraries(void *unused)
{
	(void)unused;
	for (int i = 0; i < 300; i++) {
		void *library = dlopen(arguments[i % 2], RTLD_NOW | RTLD_LOCAL);
		char *(*make)(size_t);

		expect(library != NULL, "dlopen");
		*(void **)&make = dlsym(library, "plugin_make");
		free(make(50));
		dlclose(library);
	}
	return NULL;
}

static int libraries_threads(void)
{
	pthread_t thread[4];

	for (unsigned i = 0; i < 2; i++)
		start(&thread[i], churn_libraries, 0);
	for (unsigned i = 2; i < 4; i++)
		start(&thread[i], churn_until_stopped, i);
	for (unsigned i = 0; i < 2; i++)
		pthread_join(thread[i], NULL);
	atomic_store(&stop, true);
	for (unsigned i = 2; i < 4; i++)
		pthread_join(thread[i], NULL);
	printf("done\n");
	return 0;
}

/* ---- what the functions return ---- */

static void show(const char *what, const void *block)
{
	printf("%s: %s, errno %d\n", what, block ? "block" : "NULL", errno);
	errno = 0;
}

static int errors(void)
{
	volatile size_t huge = SIZE_MAX / 2 + 1, most = SIZE_MAX, three = 3, odd = 24;
	void *block = NULL, *kept;

	errno = 0;
	show("malloc(huge)", malloc(huge));
	show("malloc(PTRDIFF_MAX)", malloc(PTRDIFF_MAX));
	show("calloc overflow", calloc(most, 2));
	show("calloc overflow 2", calloc(huge / 2, 8));
	show("calloc huge", calloc(huge, 1));
	kept = malloc(100);
	memset(kept, 7, 100);
	void *volatile same = kept;
	show("realloc(huge)", realloc(kept, huge));
	kept = same;
	show("reallocarray overflow", reallocarray(kept, huge, 16));
	kept = same;
	printf("kept: %d\n", ((char *)kept)[99]);
	kept = reallocarray(kept, 100, 10);
	show("reallocarray", kept);
	printf("kept: %d\n", ((char *)kept)[99]);
	show("realloc(p, 0)", realloc(kept, 0));
	show("realloc(NULL, 0)", kept = realloc(NULL, 0));
	free(kept);
	show("malloc(0)", kept = malloc(0));
	free(kept);
	show("calloc(0, 8)", kept = calloc(0, 8));
	free(kept);
	show("aligned_alloc(24)", kept = aligned_alloc(odd, 100));
	free(kept);
	show("aligned_alloc(huge)", aligned_alloc(64, huge));
	show("memalign(3)", kept = memalign(three, 10));
	free(kept);
	show("memalign(huge alignment)", memalign(huge, 10));
	show("valloc(huge)", valloc(huge));
	show("pvalloc(most)", pvalloc(most));
	show("pvalloc(1)", kept = pvalloc(1));
	printf("page: %d, usable %d\n", (uintptr_t)kept % 4096 == 0,
	       malloc_usable_size(kept) >= 4096);
	free(kept);
	show("valloc(1)", kept = valloc(1));
	printf("page: %d\n", (uintptr_t)kept % 4096 == 0);
	free(kept);

	block = (void *)0x123;
	printf("posix_memalign(3): %d, ", posix_memalign(&block, 3, 100));
	printf("untouched %d, errno %d\n", block == (void *)0x123, errno);
	printf("posix_memalign(4): %d\n", posix_memalign(&block, 4, 100));
	printf("posix_memalign(0): %d\n", posix_memalign(&block, 0, 100));
	printf("posix_memalign(huge): %d, ", posix_memalign(&block, 64, huge));
	printf("untouched %d\n", block == (void *)0x123);
	errno = 0;
	printf("posix_memalign(4096): %d, ", posix_memalign(&block, 4096, 100));
	printf("aligned %d, errno %d\n", (uintptr_t)block % 4096 == 0, errno);
	errno = 77;
	free(block);
	printf("errno after free: %d\n", errno);
	free(NULL);
	kept = malloc(200);
	printf("errno after malloc: %d\n", errno);
	kept = realloc(kept, 100000);
	printf("errno after realloc: %d\n", errno);
	kept = realloc(kept, 10000000);
	free(kept);
	printf("errno after all: %d\n", errno);
	printf("usable of NULL: %zu\n", malloc_usable_size(NULL));
	return 0;
}

static int sizes(void)
{
	for (size_t size = 0; size < 5000; size += 1 + size / 7) {
		char *block = malloc(size);
		char *zero = calloc(1, size);
		char *aligned = aligned_alloc(128, size);
		size_t usable = malloc_usable_size(block);

		expect(usable >= size && malloc_usable_size(zero) >= size, "usable size");
		for (size_t i = 0; i < size; i++)
			expect(zero[i] == 0, "calloc");
		expect((uintptr_t)aligned % 128 == 0 &&
			   (uintptr_t)block % (size < 16 ? 8 : 16) == 0,
		       "alignment");
		memset(block, 1, usable);
		printf("%zu: %zu %zu\n", size, usable, malloc_usable_size(zero));
		block = realloc(block, size * 3 + 1);
		expect(size == 0 || block[size - 1] == 1, "realloc");
		free(block);
		free(zero);
		free(aligned);
	}
	/* C23's, where the libc has them: the agent has them always. */
	void (*free_sized)(void *, size_t);
	void (*free_aligned_sized)(void *, size_t, size_t);
	*(void **)&free_sized = dlsym(RTLD_DEFAULT, "free_sized");
	*(void **)&free_aligned_sized = dlsym(RTLD_DEFAULT, "free_aligned_sized");
	for (int i = 0; i < 100; i++) {
		void *block = malloc(100), *aligned = aligned_alloc(64, 128);

		if (free_sized && free_aligned_sized) {
			free_sized(block, 100);
			free_aligned_sized(aligned, 64, 128);
		} else {
			free(block);
			free(aligned);
		}
	}
	return 0;
}

static int tuning(void)
{
	mallopt(M_MMAP_THRESHOLD, 10000);
	mallopt(M_PERTURB, 0x55);
	mallopt(M_ARENA_MAX, 1);
	unsigned char *block = malloc(200);
	printf("perturbed: %d\n", block[0] == 0xaa && block[199] == 0xaa);
	free(block);
	block = malloc(20000);
	printf("of its own: %d\n", mallinfo2().hblks > 0);
	free(block);
	printf("%u\n", churn(5000, 2));
	malloc_trim(0);
	return 0;
}

static int nothing(void)
{
	return 0;
}

static const struct {
	const char *name;
	int (*run)(void);
} cases[] = {
    {"fork_threads", fork_threads},
    {"fork_chain", fork_chain},
    {"vfork_exec", vfork_exec},
    {"vfork_allocates", vfork_allocates},
    {"spawn", spawn},
    {"exec_self", exec_self},
    {"exec_threads", exec_threads},
    {"end_return", end_return},
    {"end_exit", end_exit},
    {"end_quick", end_quick},
    {"end_now", end_now},
    {"end_abort", end_abort},
    {"end_killed", end_killed},
    {"end_terminated", end_terminated},
    {"end_crash", end_crash},
    {"end_thread_exits", end_thread_exits},
    {"end_main_thread_first", end_main_thread_first},
    {"signal_storm", signal_storm},
    {"signal_flood", signal_flood},
    {"signal_wait", signal_wait},
    {"signal_stack", signal_stack},
    {"signal_fault", signal_fault},
    {"many_threads", many_threads},
    {"wide_threads", wide_threads},
    {"thread_keys", thread_keys},
    {"thread_cancel", thread_cancel},
    {"threads_exchange", threads_exchange},
    {"names", names},
    {"coroutines", coroutines},
    {"deep", deep},
    {"alloca", with_alloca_frames},
    {"odd_frames", odd_frames},
    {"jit", jit},
    {"stack_limit", stack_limit},
    {"churn", just_churn},
    {"limit_memory", limit_memory},
    {"limit_file_size", limit_file_size},
    {"limit_files", limit_files},
    {"close_all", close_all},
    {"close_range", close_range_all},
    {"wipe_environment", wipe_environment},
    {"change_directory", change_directory},
    {"change_root", change_root},
    {"drop_rights", drop_rights},
    {"daemonise", daemonise},
    {"sandbox", sandbox},
    {"libraries", libraries},
    {"libraries_threads", libraries_threads},
    {"errors", errors},
    {"sizes", sizes},
    {"tuning", tuning},
    {"nothing", nothing},
};

int main(int argc, char **argv)
{
	self = "/proc/self/exe";
	arguments = argv + 2;
	argument_count = argc - 2;
	for (size_t i = 0; argc > 1 && i < sizeof(cases) / sizeof(cases[0]); i++)
		if (strcmp(argv[1], cases[i].name) == 0)
			return cases[i].run();
	fprintf(stderr, "usage: ugly CASE [ARG...]\n");
	return 2;
}
