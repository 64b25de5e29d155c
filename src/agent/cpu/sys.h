/* SPDX-License-Identifier: Apache-2.0 */
/*
 * System calls without libc: they change neither errno nor the thread's cancellation, and take no
 * locks. Each returns the kernel's result, or -errno; sys_as_libc() makes it what libc returns.
 */
#ifndef MAYFLY_SYS_H
#define MAYFLY_SYS_H

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>

#include "agent/cpu/cpu.h"

static inline bool sys_failed(long result)
{
	return (unsigned long)result > -4096ul;
}

/* What a function of libc would return: -1, and the error in errno. */
static inline long sys_as_libc(long result)
{
	if (!sys_failed(result))
		return result;
	errno = (int)-result;
	return -1;
}

static inline long sys_mmap(void *address, size_t length, int protection, int flags, int fd,
			    int64_t offset)
{
	return sys_call6(SYS_mmap, (long)address, (long)length, protection, flags, fd, offset);
}

/* Zeroed memory of our own. NULL: there is none. */
static inline void *sys_memory(size_t bytes)
{
	long p = sys_mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	return sys_failed(p) ? NULL : (void *)p;
}

static inline long sys_munmap(void *address, size_t length)
{
	return sys_call3(SYS_munmap, (long)address, (long)length, 0);
}

static inline long sys_madvise(void *address, size_t length, int advice)
{
	return sys_call3(SYS_madvise, (long)address, (long)length, advice);
}

static inline long sys_mprotect(void *address, size_t length, int protection)
{
	return sys_call3(SYS_mprotect, (long)address, (long)length, protection);
}

static inline long sys_openat(int directory, const char *path, int flags, int mode)
{
	return sys_call4(SYS_openat, directory, (long)path, flags, mode);
}

static inline long sys_close(int fd)
{
	return sys_call3(SYS_close, fd, 0, 0);
}

static inline long sys_read(int fd, void *buffer, size_t length)
{
	return sys_call3(SYS_read, fd, (long)buffer, (long)length);
}

static inline long sys_write(int fd, const void *buffer, size_t length)
{
	return sys_call3(SYS_write, fd, (long)buffer, (long)length);
}

/* Copies memory of a process; what cannot be read is an error, where a load would be a fault. */
static inline long sys_read_process(int pid, void *to, uintptr_t from, size_t bytes)
{
	struct {
		void *at;
		size_t bytes;
	} local = {to, bytes}, remote = {(void *)from, bytes};

	return sys_call6(SYS_process_vm_readv, pid, (long)&local, 1, (long)&remote, 1, 0);
}

static inline long sys_fallocate(int fd, int mode, int64_t offset, int64_t length)
{
	return sys_call4(SYS_fallocate, fd, mode, offset, length);
}

static inline long sys_readlinkat(int directory, const char *path, char *buffer, size_t length)
{
	return sys_call4(SYS_readlinkat, directory, (long)path, (long)buffer, (long)length);
}

static inline long sys_fcntl(int fd, int command, long argument)
{
	return sys_call3(SYS_fcntl, fd, command, argument);
}

static inline long sys_lseek(int fd, int64_t offset, int whence)
{
	return sys_call3(SYS_lseek, fd, offset, whence);
}

static inline long sys_unlinkat(int directory, const char *path, int flags)
{
	return sys_call3(SYS_unlinkat, directory, (long)path, flags);
}

static inline long sys_fstat(int fd, struct stat *status)
{
	/* On 64-bit systems libc's struct is the kernel's. */
	return sys_call3(SYS_fstat, fd, (long)status, 0);
}

/* Do the paths lead to one file? */
static inline bool sys_same_file(const char *a, const char *b)
{
	struct stat x, y; /* on 64-bit systems libc's is the kernel's */

	return !sys_failed(sys_call4(SYS_newfstatat, AT_FDCWD, (long)a, (long)&x, 0)) &&
	       !sys_failed(sys_call4(SYS_newfstatat, AT_FDCWD, (long)b, (long)&y, 0)) &&
	       x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

static inline long sys_getcwd(char *buffer, size_t length)
{
	return sys_call3(SYS_getcwd, (long)buffer, (long)length, 0);
}

/* Sleeps, at most a second; a signal may end it earlier. */
static inline void sys_nap(long ns)
{
	struct timespec time = {.tv_nsec = ns};

	sys_call3(SYS_nanosleep, (long)&time, 0, 0);
}

static inline long sys_sched_yield(void)
{
	return sys_call3(SYS_sched_yield, 0, 0, 0);
}

static inline long sys_getrandom(void *buffer, size_t length, unsigned flags)
{
	return sys_call3(SYS_getrandom, (long)buffer, (long)length, flags);
}

static inline long sys_prctl(long option, long a, long b, long c)
{
	return sys_call4(SYS_prctl, option, a, b, c);
}

static inline long sys_getpid(void)
{
	return sys_call3(SYS_getpid, 0, 0, 0);
}

static inline long sys_getppid(void)
{
	return sys_call3(SYS_getppid, 0, 0, 0);
}

static inline long sys_gettid(void)
{
	return sys_call3(SYS_gettid, 0, 0, 0);
}

/* The soft limit of this process; RLIM_INFINITY, all ones, when it cannot be read. */
static inline uint64_t sys_soft_limit(int resource)
{
	uint64_t limit[2];

	if (sys_failed(sys_call4(SYS_prlimit64, 0, resource, 0, (long)limit)))
		return UINT64_MAX;
	return limit[0];
}

/* Can the 8 bytes at this address be read? A sigprocmask with an unknown `how` always fails, but
 * reads the new mask first: with EFAULT if it cannot. It needs no descriptor and no memory. Address
 * 0 would mean that there is no new mask. */
static inline bool sys_readable(uintptr_t address)
{
	return address && sys_call4(SYS_rt_sigprocmask, 0x7fff, (long)address, 0, 8) != -EFAULT;
}

#endif
