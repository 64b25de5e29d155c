/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Programs that map memory, load code and start processes, one for each name in the table at the
 * end: process_events NAME [ARG...].
 *
 * "event NAME FUNCTION FIELD=VALUE ..." on the output is an event that a recording must have, all
 * others say what a caller sees; addresses are printed with 0x. test_process_events.py compares
 * both with a recording and with a run that nobody watches.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MIB	 (1ul << 20)
#define NOINLINE __attribute__((noinline))

extern char **environ;

static const char *self;
static char **arguments; /* those behind the name */

static void say(const char *text, ...) __attribute__((format(printf, 1, 2)));

/* At once, also in the child of a vfork. */
static void say(const char *text, ...)
{
	char line[1024];
	va_list list;
	int length;

	va_start(list, text);
	length = vsnprintf(line, sizeof(line), text, list);
	va_end(list);
	if (write(STDOUT_FILENO, line, (size_t)length) != length)
		_exit(97);
}

static void expect(int condition, const char *what)
{
	if (!condition) {
		say("%s: %s\n", what, strerror(errno));
		_exit(98);
	}
}

static int finish(pid_t child)
{
	int status = -1;

	expect(waitpid(child, &status, 0) == child, "waitpid");
	return status;
}

/* ---- mappings ---- */

static NOINLINE void *map(size_t bytes, int protection, int flags, int fd)
{
	void *got = mmap(NULL, bytes, protection, flags, fd, 0);

	expect(got != MAP_FAILED, "mmap");
	return got;
}

static NOINLINE void unmap(void *address, size_t bytes)
{
	say("event munmap unmap address=%p bytes=%zu\n", address, bytes);
	expect(!munmap(address, bytes), "munmap");
}

static NOINLINE void map_and_unmap(void)
{
	void *small = map(MIB - 1, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1);
	char *large = map(MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1);

	say("event mmap map address=%p bytes=%lu access=rw-p\n", (void *)large, MIB);
	expect(!munmap(small, MIB - 1), "munmap");
	large[0] = 1;
	unmap(large, MIB);
	large = map(3 * MIB, PROT_NONE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1);
	say("event mmap map address=%p bytes=%lu access=---s\n", (void *)large, 3 * MIB);
	unmap(large, 3 * MIB);
}

static NOINLINE void map_file(void)
{
	int fd = open(self, O_RDONLY);
	void *file;

	expect(fd >= 0, "open");
	file = map(5 * MIB, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd);
	say("event mmap map address=%p bytes=%lu access=r-xp file\n", file, 5 * MIB);
	unmap(file, 5 * MIB);
	close(fd);
}

static NOINLINE void map_wrong(void)
{
	void *got;
	int result;

	errno = 0;
	got = mmap(NULL, 2 * MIB, PROT_READ, MAP_PRIVATE, 999, 0);
	say("event mmap.failed map_wrong bytes=%lu access=r--p file error=%d\n", 2 * MIB, errno);
	say("result %d errno %d\n", got == MAP_FAILED, errno);
	errno = 0;
	got = mmap(NULL, 2 * MIB, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 1);
	say("event mmap.failed map_wrong bytes=%lu access=r--p error=%d\n", 2 * MIB, errno);
	say("result %d errno %d\n", got == MAP_FAILED, errno);
	errno = 0;
	got = mmap(NULL, 0, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	say("result %d errno %d\n", got == MAP_FAILED, errno);
	errno = 0;
	result = munmap((void *)1, 2 * MIB);
	say("result %d errno %d\n", result, errno);
	errno = 0;
	result = munmap((void *)4096, SIZE_MAX);
	say("result %d errno %d\n", result, errno);
	errno = 0;
	got = mremap((void *)4096, 2 * MIB, 4 * MIB, 0);
	say("event mremap.failed map_wrong bytes=%lu old_address=4096 old_bytes=%lu error=%d\n",
	    4 * MIB, 2 * MIB, errno);
	say("result %d errno %d\n", got == MAP_FAILED, errno);
	errno = 0;
	result = madvise((void *)4096, 2 * MIB, MADV_DONTNEED);
	say("event madvise map_wrong address=0x1000 bytes=%lu advice=DONTNEED error=%d\n", 2 * MIB,
	    errno);
	say("result %d errno %d\n", result, errno);
	errno = 0;
	result = madvise((void *)4096, 2 * MIB, 12345);
	say("event madvise map_wrong address=0x1000 bytes=%lu advice=unknown error=%d\n", 2 * MIB,
	    errno);
	say("result %d errno %d\n", result, errno);
}

static NOINLINE void remap(void)
{
	char *block = map(2 * MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1), *moved,
	     *fixed;

	say("event mmap map address=%p bytes=%lu access=rw-p\n", (void *)block, 2 * MIB);
	strcpy(block, "content");
	moved = mremap(block, 2 * MIB, 32 * MIB, MREMAP_MAYMOVE);
	expect(moved != MAP_FAILED, "mremap");
	say("event mremap remap address=%p bytes=%lu old_address=%p old_bytes=%lu\n", (void *)moved,
	    32 * MIB, (void *)block, 2 * MIB);
	/* To a place of its own choice: the fifth argument must come through. */
	fixed = map(4 * MIB, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1);
	say("event mmap map address=%p bytes=%lu access=---p\n", (void *)fixed, 4 * MIB);
	block = mremap(moved, 32 * MIB, 4 * MIB, MREMAP_MAYMOVE | MREMAP_FIXED, fixed);
	say("result %d %s\n", block == fixed, block);
	say("event mremap remap address=%p bytes=%lu old_address=%p old_bytes=%lu\n", (void *)block,
	    4 * MIB, (void *)moved, 32 * MIB);
	expect(!madvise(block, 4 * MIB, MADV_DONTNEED), "madvise");
	say("event madvise remap address=%p bytes=%lu advice=DONTNEED error=0\n", (void *)block,
	    4 * MIB);
	say("result %d\n", block[0]);
	unmap(block, 4 * MIB);
}

static NOINLINE void move_break(void)
{
	char *before = sbrk(0), *now;

	say("result %d\n", sbrk(1000) == before);
	say("result %d\n", sbrk(-1000) == before + 1000);
	say("result %d\n", sbrk(3 * (long)MIB) == before);
	now = sbrk(0);
	say("event brk move_break address=%p bytes=%lu error=0\n", (void *)now, 3 * MIB);
	say("result %ld\n", (long)(now - before));
	say("result %d\n", brk(before));
	say("event brk move_break address=%p bytes=-%lu error=0\n", (void *)before, 3 * MIB);
	errno = 0;
	say("result %d\n", sbrk(INTPTR_MAX) == (void *)-1);
	say("event brk move_break address=%p bytes=%ld error=%d\n", (void *)before, INTPTR_MAX,
	    errno);
	say("result %d\n", sbrk(0) == before);
}

static void mappings(void)
{
	map_and_unmap();
	map_file();
	map_wrong();
	remap();
	move_break();
	free(malloc(100));
	say("event malloc_trim mappings pad=12345 result=%d\n", malloc_trim(12345));
}

/* ---- code ---- */

static NOINLINE void libraries(void)
{
	void *outer = dlopen(arguments[0], RTLD_NOW), *inner, *program;
	void *(*outer_open)(const char *);
	int (*answer)(void);

	say("event dlopen libraries file=%s\n", arguments[0]);
	expect(outer != NULL, "outer");
	*(void **)&outer_open = dlsym(outer, "outer_open");
	inner = outer_open(arguments[1]);
	say("event dlopen outer_open file=%s\n", arguments[1]);
	expect(inner != NULL, "inner");
	*(void **)&answer = dlsym(inner, "inner_answer");
	say("result %d\n", answer());
	program = dlopen(NULL, RTLD_NOW);
	say("event dlopen libraries file=\n");
	say("result %d\n", program != NULL);
	/* Not from here. */
	say("result %d\n", dlopen(arguments[1], RTLD_NOW | RTLD_NOLOAD) == inner);
	say("event dlopen libraries file=%s\n", arguments[1]);
	say("result %d\n", dlopen("no such library", RTLD_NOW) == NULL);
	say("event dlopen libraries file=no such library\n");
	say("result %s\n", dlerror());
	for (int i = 0; i < 3; i++) {
		void *handle = i < 2 ? inner : outer;
		char *slash = strrchr(arguments[0], '/');

		say("result %d\n", dlclose(handle));
		if (i < 2)
			say("event dlclose libraries file=%.*s/inner/%s\n",
			    (int)(slash - arguments[0]), arguments[0], arguments[1]);
		else
			say("event dlclose libraries file=%s\n", arguments[0]);
	}
	say("result %d\n", dlopen(arguments[1], RTLD_NOW) == NULL);
	say("event dlopen libraries file=%s\n", arguments[1]);
	say("result %d\n", dlclose(program));
	say("event dlclose libraries file=\n");
}

/* ---- processes ---- */

static NOINLINE void fork_one(void)
{
	pid_t child = fork();

	if (!child)
		_exit(7);
	expect(child > 0, "fork");
	say("status %d\n", finish(child));
	say("event fork fork_one child=%d\n", (int)child);
}

static NOINLINE void vfork_one(const char *path)
{
	pid_t child = vfork();

	if (!child) {
		execl(path, "echo", "vforked", NULL);
		_exit(9);
	}
	expect(child > 0, "vfork");
	say("status %d\n", finish(child));
	say("event vfork vfork_one\n");
}

/* The memory is the parent's: what the child maps stays. */
static NOINLINE void vfork_that_maps(void)
{
	static void *volatile shared;
	pid_t child = vfork();

	if (!child) {
		shared = map(7 * MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1);
		_exit(0);
	}
	say("event vfork vfork_that_maps\n");
	say("event mmap map address=%p bytes=%lu access=rw-p\n", shared, 7 * MIB);
	say("status %d\n", finish(child));
	unmap(shared, 7 * MIB);
}

static NOINLINE void spawn_one(void)
{
	char *argv[] = {"echo", "spawned", NULL};
	pid_t child = 0;
	int status;

	expect(!posix_spawn(&child, "/bin/echo", NULL, NULL, argv, environ), "posix_spawn");
	say("status %d\n", finish(child));
	say("event spawn spawn_one child=%d path=/bin/echo\n", (int)child);
	expect(!posix_spawnp(NULL, "echo", NULL, NULL, argv, environ), "posix_spawnp");
	child = wait(&status);
	say("event spawn spawn_one child=%d path=echo\n", (int)child);
	say("status %d\n", status);
	child = 12345;
	errno = 0;
	say("result %d\n", posix_spawn(&child, "/nonexistent", NULL, NULL, argv, environ));
	say("errno %d child %d\n", errno, (int)child);
}

static NOINLINE void commands(void)
{
	char line[100] = "";
	FILE *pipe;

	say("status %d\n", system("echo system; exit 3"));
	pipe = popen("echo popen", "r");
	expect(pipe && fgets(line, sizeof(line), pipe), "popen");
	say("line %s", line);
	say("status %d\n", pclose(pipe));
}

static void *fork_many(void *unused)
{
	for (int i = 0; i < 20; i++) {
		pid_t child = fork();

		if (!child)
			_exit(i);
		expect(child > 0 && WEXITSTATUS(finish(child)) == i, "fork in a thread");
	}
	return unused;
}

static void threads_that_fork(void)
{
	pthread_t thread[4];

	for (int i = 0; i < 4; i++)
		expect(!pthread_create(&thread[i], NULL, fork_many, NULL), "thread");
	for (int i = 0; i < 4; i++)
		pthread_join(thread[i], NULL);
	say("events 80 fork fork_many\n");
}

static NOINLINE void exec_wrong(void)
{
	char *argv[] = {"x", NULL};
	/* Known to no compiler. */
	char *volatile nowhere = (char *)16;

	errno = 0;
	say("result %d\n", execv("/nonexistent", argv));
	say("event exec exec_wrong path=/nonexistent\n");
	say("errno %d\n", errno);
	say("event exec.failed exec_wrong error=%d\n", errno);
	errno = 0;
	say("result %d\n", execve(nowhere, argv, environ));
	say("event exec exec_wrong path=\n");
	say("errno %d\n", errno);
	say("event exec.failed exec_wrong error=%d\n", errno);
	errno = 0;
	say("result %d\n", execlp("no-such-program", "x", NULL));
	say("event exec exec_wrong path=no-such-program\n");
	say("errno %d\n", errno);
	say("event exec.failed exec_wrong error=%d\n", errno);
	errno = 0;
	say("result %d\n", fexecve(-1, argv, environ));
	say("errno %d\n", errno);
	say("event exec.failed exec_wrong error=%d\n", errno);
}

static void processes(void)
{
	fork_one();
	vfork_one("/bin/echo");
	vfork_one("/nonexistent");
	vfork_that_maps();
	spawn_one();
	commands();
	threads_that_fork();
	exec_wrong();
}

/* ---- where it is hard ---- */

static void handle(int number)
{
	int before = errno;
	void *block;

	(void)number;
	block = mmap(NULL, 2 * MIB, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (block == MAP_FAILED || munmap(block, 2 * MIB) || errno != before)
		_exit(96);
}

/* A handler maps while its thread is anywhere. */
static void in_signals(void)
{
	struct sigaction action = {.sa_handler = handle, .sa_flags = SA_RESTART};
	struct itimerval often = {{0, 200}, {0, 200}}, never = {{0, 0}, {0, 0}};
	unsigned long sum = 0;

	expect(!sigaction(SIGALRM, &action, NULL), "sigaction");
	expect(!setitimer(ITIMER_REAL, &often, NULL), "setitimer");
	for (unsigned int i = 0; i < 200000; i++) {
		void *block = malloc(i % 5000 + 1);

		expect(block != NULL, "malloc");
		sum += malloc_usable_size(block) >= i % 5000 + 1;
		if (i % 1000 == 0) {
			void *large =
			    map(MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1);
			expect(!munmap(large, MIB), "munmap");
		}
		free(block);
	}
	expect(!setitimer(ITIMER_REAL, &never, NULL), "setitimer");
	say("sum %lu\n", sum);
}

/* Only what the program itself calls is allowed. */
static void in_sandbox(void)
{
	static const unsigned int allowed[] = {SYS_mmap, SYS_munmap, SYS_mremap, SYS_madvise,
					       SYS_brk,	 SYS_write,  SYS_execve, SYS_exit_group};
	struct sock_filter filter[2 * sizeof(allowed) / sizeof(*allowed) + 2];
	struct sock_fprog program = {.filter = filter};
	char *argv[] = {"x", NULL};
	size_t n = 0;
	void *handle = dlopen(NULL, RTLD_NOW), *block;

	filter[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
						   offsetof(struct seccomp_data, nr));
	for (size_t i = 0; i < sizeof(allowed) / sizeof(*allowed); i++) {
		filter[n++] =
		    (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, allowed[i], 0, 1);
		filter[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	}
	filter[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS);
	program.len = (unsigned short)n;
	expect(!prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "prctl");
	expect(!prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program), "seccomp");
	block = map(2 * MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1);
	block = mremap(block, 2 * MIB, 8 * MIB, MREMAP_MAYMOVE);
	expect(block != MAP_FAILED, "mremap");
	say("result %d\n", madvise(block, 8 * MIB, MADV_DONTNEED));
	say("result %d\n", munmap(block, 8 * MIB));
	say("result %d\n", sbrk(2 * (long)MIB) != (void *)-1);
	say("result %d errno %d\n", execve("/nonexistent", argv, environ), errno);
	say("result %d\n", dlopen(NULL, RTLD_NOW) == handle);
	say("result %d\n", dlclose(handle));
	_exit(0);
}

static void without_descriptors(void)
{
	for (int fd = 0; fd < 1000; fd++)
		if (fd != STDOUT_FILENO)
			close(fd);
	mappings();
	fork_one();
}

static void become_another(void)
{
	say("event exec become_another path=/bin/echo\n");
	execl("/bin/echo", "echo", "another", NULL);
}

/* ---- what the recorder sees ---- */

static NOINLINE void *make_pool(size_t bytes)
{
	char *pool = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	expect(pool != MAP_FAILED, "mmap");
	memset(pool, 1, bytes);
	return pool;
}

static NOINLINE void *reserve(size_t bytes)
{
	void *range = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	expect(range != MAP_FAILED, "mmap");
	return range;
}

/* A pool has 40 MiB, of which 10 in the middle are given back and 6 are moved; 2 of 64 reserved ones are
 * made a pool in their place. */
/* The recorder looks at a program from time to time. */
static void pause_for_looks(void)
{
	const char *ms = getenv("PAUSE_MS");

	usleep((ms ? (useconds_t)atoi(ms) : 500) * 1000);
}

static void stay_mapped(void)
{
	char *pool = make_pool(40 * MIB), *range, *moved, *inside;

	expect(!munmap(pool + 10 * MIB, 10 * MIB), "munmap");
	moved = mremap(pool + 34 * MIB, 6 * MIB, 12 * MIB, MREMAP_MAYMOVE);
	expect(moved != MAP_FAILED, "mremap");
	range = reserve(64 * MIB);
	inside = mmap(range + 8 * MIB, 2 * MIB, PROT_READ | PROT_WRITE,
		      MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
	expect(inside == range + 8 * MIB, "mmap");
	expect(sbrk(5 * (long)MIB) != (void *)-1, "sbrk");
	pause_for_looks();
}

#define ZONE 64

static NOINLINE void map_at(char *address, size_t bytes)
{
	void *got = mmap(address, bytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);

	expect(got == address, "mmap");
}

static NOINLINE void map_here(char *address, size_t bytes)
{
	void *got = mmap(address, bytes, PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_FIXED, -1, 0);

	expect(got == address, "mmap");
}

/* One over another, in steps of a MiB. Who has what in the end? */
static void map_over(void)
{
	static const char *const names[] = {"nobody", "reserve", "map_at", "map_here"};
	char owner[ZONE], *zone = reserve(ZONE * MIB);
	unsigned int state = 12345, count[4] = {0};

	memset(owner, 1, sizeof(owner));
	for (int i = 0; i < 500; i++) {
		unsigned int at, length, what;

		state = state * 1664525u + 1013904223u;
		at = state >> 8 & 63;
		length = 1 + (state >> 16 & 7);
		what = state >> 24 & 3;
		if (at + length > ZONE)
			continue;
		if (what == 2)
			map_at(zone + at * MIB, length * MIB);
		else if (what == 3)
			map_here(zone + at * MIB, length * MIB);
		else
			expect(!munmap(zone + at * MIB, length * MIB), "munmap");
		memset(owner + at, what < 2 ? 0 : (int)what, length);
	}
	for (int i = 0; i < ZONE; i++)
		count[(int)owner[i]]++;
	for (int i = 1; i < 4; i++)
		if (count[i])
			say("owner %s %u\n", names[i], count[i]);
	pause_for_looks();
}

static uint64_t thread_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static pthread_barrier_t all_there;

static void *work(void *milliseconds)
{
	char name[16];

	snprintf(name, sizeof(name), "worker %d", (int)(intptr_t)milliseconds);
	pthread_setname_np(pthread_self(), name);
	pthread_barrier_wait(&all_there);
	while (thread_ns() < (uint64_t)(intptr_t)milliseconds * 1000000)
		;
	pause_for_looks();
	say("thread %ld %s %lu\n", (long)syscall(SYS_gettid), name, (unsigned long)thread_ns());
	return NULL;
}

static void threads(void)
{
	static const int milliseconds[] = {50, 100, 150};
	pthread_t thread[3];

	pthread_barrier_init(&all_there, NULL, 4);
	for (int i = 0; i < 3; i++)
		expect(!pthread_create(&thread[i], NULL, work, (void *)(intptr_t)milliseconds[i]),
		       "thread");
	pthread_barrier_wait(&all_there);
	for (int i = 0; i < 3; i++)
		pthread_join(thread[i], NULL);
	pause_for_looks();
	while (thread_ns() < 30000000)
		;
	say("thread %ld %s %lu\n", (long)syscall(SYS_gettid), "process_events",
	    (unsigned long)thread_ns());
}

/* ---- before anything else ---- */

static char early_result[200];

/* Before the constructors of all libraries. */
static void early(int argc, char **argv, char **envp)
{
	char *echo[] = {"echo", "early", NULL};
	void *block, *before;
	pid_t child, forked;
	int status = -1;

	if (argc != 2 || strcmp(argv[1], "early"))
		return;
	block = mmap(NULL, 2 * MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	block = mremap(block, 2 * MIB, 3 * MIB, MREMAP_MAYMOVE);
	before = sbrk(0);
	forked = fork();
	if (!forked)
		_exit(5);
	waitpid(forked, &status, 0);
	child = vfork();
	if (!child)
		_exit(6);
	waitpid(child, &status, 0);
	snprintf(early_result, sizeof(early_result), "%d %d %d %d %d %d %d %d\n",
		 madvise(block, 3 * MIB, MADV_DONTNEED), munmap(block, 3 * MIB), brk(before),
		 sbrk(2 * (long)MIB) == before, WEXITSTATUS(status),
		 posix_spawnp(&child, "echo", NULL, NULL, echo, envp),
		 dlopen(NULL, RTLD_NOW) != NULL, malloc_trim(0) >= 0);
	waitpid(child, &status, 0);
}

__attribute__((section(".preinit_array"), used)) static void (*early_entry)(int, char **,
									    char **) = early;

static void early_done(void)
{
	say("%s", early_result);
}

static const struct {
	const char *name;
	void (*run)(void);
} cases[] = {
    {"mappings", mappings},	 {"libraries", libraries}, {"processes", processes},
    {"signals", in_signals},	 {"sandbox", in_sandbox},  {"descriptors", without_descriptors},
    {"mapped", stay_mapped},	 {"over", map_over},	   {"threads", threads},
    {"another", become_another}, {"early", early_done},
};

int main(int argc, char **argv)
{
	self = argv[0];
	for (size_t i = 0; argc > 1 && i < sizeof(cases) / sizeof(*cases); i++) {
		if (!strcmp(argv[1], cases[i].name)) {
			arguments = argv + 2;
			cases[i].run();
			return 0;
		}
	}
	fprintf(stderr, "process_events: no such case\n");
	return 2;
}
