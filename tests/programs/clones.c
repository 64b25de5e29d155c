/* SPDX-License-Identifier: Apache-2.0 */
/*
 * clones HOW CHILDREN BLOCKS: makes children, one after the other, each of which allocates BLOCKS
 * blocks of 1,000 bytes in child_block() and ends. HOW is the way to make them, of which libc's
 * fork() knows nothing; "asm" passes the C library by, "shared" and "vfork" have their parent's
 * memory, "thread" also lives on beside it. The parent allocates 100 blocks in parent_block() before
 * each child.
 */
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define SITE	    __attribute__((noinline))
#define KEEP(block) __asm__ volatile("" : : "r"(block) : "memory")

static int blocks;
static char stack[1 << 18] __attribute__((aligned(16)));

SITE static void child_block(void)
{
	void *block = malloc(1000);

	KEEP(block);
	free(block);
}

SITE static void parent_block(void)
{
	void *block = malloc(1000);

	KEEP(block);
	free(block);
}

static int work(void *unused)
{
	(void)unused;
	for (int i = 0; i < blocks; i++)
		child_block();
	return 0;
}

/* No memory is copied or shared in a way that libc could notice. */
static long by_assembler(void)
{
#if defined(__x86_64__)
	long result;

	__asm__ volatile("xor %%r10d, %%r10d\n\txor %%r8d, %%r8d\n\tsyscall"
			 : "=a"(result)
			 : "a"(SYS_clone), "D"((long)SIGCHLD), "S"(0l), "d"(0l)
			 : "rcx", "r8", "r10", "r11", "memory");
	return result;
#else
	register long number __asm__("x8") = SYS_clone;
	register long a __asm__("x0") = SIGCHLD, b __asm__("x1") = 0, c __asm__("x2") = 0;
	register long d __asm__("x3") = 0, e __asm__("x4") = 0;

	__asm__ volatile("svc 0"
			 : "+r"(a)
			 : "r"(number), "r"(b), "r"(c), "r"(d), "r"(e)
			 : "memory");
	return a;
#endif
}

static long make_child(const char *how)
{
	struct clone_args args = {.exit_signal = SIGCHLD};
	int flags = !strcmp(how, "shared")   ? CLONE_VM | CLONE_VFORK
		    : !strcmp(how, "thread") ? CLONE_VM
					     : 0;

	if (!strcmp(how, "syscall"))
		return syscall(SYS_clone, (long)SIGCHLD, 0l, 0l, 0l, 0l);
	if (!strcmp(how, "clone3"))
		return syscall(SYS_clone3, &args, sizeof(args));
#ifdef SYS_fork
	if (!strcmp(how, "fork"))
		return syscall(SYS_fork);
#endif
	if (!strcmp(how, "_Fork"))
		return _Fork();
	if (!strcmp(how, "asm"))
		return by_assembler();
	return clone(work, stack + sizeof(stack), flags | SIGCHLD, NULL);
}

int main(int argc, char **argv)
{
	static volatile int children; /* vfork would not keep a register */
	int status;

	blocks = atoi(argv[argc - 1]);
	for (children = atoi(argv[argc - 2]); children; children--) {
		for (int k = 0; k < 100; k++)
			parent_block();
		/* Who calls vfork() must not return before the child has ended. */
		long child = strcmp(argv[1], "vfork") ? make_child(argv[1]) : vfork();
		if (child == 0) {
			work(NULL);
			_exit(0);
		}
		if (child < 0 || waitpid((pid_t)child, &status, 0) != child || status) {
			perror(argv[1]);
			return 1;
		}
	}
	/* What is no clone_args must come back as the kernel says. */
	if (syscall(SYS_clone3, (void *)8, sizeof(struct clone_args)) != -1)
		return 2;
	return syscall(SYS_clone3, NULL, 0l) != -1 ? 3 : 0;
}
