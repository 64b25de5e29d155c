/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ends of libc in a page, which has neither files nor standard error. libc's functions that
 * format numbers can report on standard error; with these the reader needs nothing of WASI.
 */
#ifdef __wasm__
#include <assert.h>
#include <stdlib.h>
#include <sys/uio.h>
#include <unistd.h>

void abort(void)
{
	__builtin_trap();
}

void __assert_fail(const char *condition, const char *file, int line, const char *function)
{
	(void)condition;
	(void)file;
	(void)line;
	(void)function;
	__builtin_trap();
}

ssize_t writev(int fd, const struct iovec *parts, int count)
{
	(void)fd;
	(void)parts;
	(void)count;
	return -1;
}

int close(int fd)
{
	(void)fd;
	return -1;
}

/* A macro, too. */
off_t(lseek)(int fd, off_t offset, int from)
{
	(void)fd;
	(void)from;
	(void)offset;
	return -1;
}

/* libc's own name of it. */
off_t __lseek(int fd, off_t offset, int from);
off_t __lseek(int fd, off_t offset, int from)
{
	return (lseek)(fd, offset, from);
}
#endif
