/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Gives up rights as programs do it, and then allocates.
 *
 *	privileges blocks		100 blocks of 125,000 bytes, all kept; prints "done UID"
 *	privileges drop COMMAND ...	becomes user 65534 and then the command, as gosu and su-exec do
 *	privileges daemon COMMAND ...	the same without any descriptor but the first three
 *	privileges filter COMMAND ...	becomes the command behind a seccomp filter
 *	privileges worker		a child that becomes user 65534 has the blocks, as servers do it
 */
#include <grp.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define NOBODY 65534
#define BLOCKS 100
#define BYTES  125000

static void *kept[BLOCKS];

__attribute__((noinline)) static int blocks(void)
{
	for (int i = 0; i < BLOCKS; i++) {
		kept[i] = malloc(BYTES);
		if (!kept[i])
			return 1;
		memset(kept[i], 1, BYTES);
	}
	printf("done %d\n", (int)geteuid());
	fflush(stdout);
	return 0;
}

static void drop(void)
{
	if (setgroups(0, NULL) || setgid(NOBODY) || setuid(NOBODY))
		_exit(125);
}

static void filter(void)
{
	struct sock_filter allow = {BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW};
	struct sock_fprog program = {1, &allow};

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
	    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0))
		_exit(125);
}

static int worker(void)
{
	pid_t child = fork();
	int status = 1;

	if (!child) {
		drop();
		_exit(blocks());
	}
	waitpid(child, &status, 0);
	return status != 0;
}

int main(int argc, char **argv)
{
	const char *how = argc > 1 ? argv[1] : "";

	if (!strcmp(how, "blocks"))
		return blocks();
	if (!strcmp(how, "worker"))
		return worker();
	if (argc < 3)
		return 2;
	if (!strcmp(how, "filter"))
		filter();
	else
		drop();
	if (!strcmp(how, "daemon"))
		syscall(SYS_close_range, 3u, ~0u, 0u);
	execvp(argv[2], argv + 2);
	return 127;
}
