/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs one command and measures it.
 *
 *	bench_spawn RESULT CPU[,CPU...] [NAME=VALUE...] -- COMMAND [ARG...]
 *
 * COMMAND gets this program's environment with the given changes and runs on the given CPUs. RESULT
 * is written when it has ended: one JSON object with CPU time, wall time, peak resident memory and
 * the exit status (128+N when signal N ended it).
 *
 * A program of its own, because a process's peak resident memory is never below that of the
 * process that forked it; this one is small, the driver is a Python interpreter.
 */
#include <errno.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static double seconds(struct timeval t)
{
	return (double)t.tv_sec + (double)t.tv_usec * 1e-6;
}

static void parse_cpus(const char *list, cpu_set_t *set)
{
	char *end;

	CPU_ZERO(set);
	do {
		unsigned long cpu = strtoul(list, &end, 10);

		if (cpu < CPU_SETSIZE)
			CPU_SET(cpu, set);
		list = end + 1;
	} while (*end == ',');
}

/* In the child: environment, CPUs, exec. */
static void become(char **argv, int command, const cpu_set_t *cpus)
{
	for (int i = 3; i < command - 1; i++)
		putenv(argv[i]);
	sched_setaffinity(0, sizeof(*cpus), cpus);
	execvp(argv[command], argv + command);
	fprintf(stderr, "%s: %s\n", argv[command], strerror(errno));
	_exit(errno == ENOENT ? 127 : 126);
}

int main(int argc, char **argv)
{
	int command = 3, status;
	struct rusage usage;
	cpu_set_t cpus;
	double start;
	FILE *result;
	pid_t child;

	while (command < argc && strcmp(argv[command], "--"))
		command++;
	if (++command >= argc) {
		fputs("usage: bench_spawn RESULT CPUS [NAME=VALUE...] -- COMMAND [ARG...]\n",
		      stderr);
		return 2;
	}
	parse_cpus(argv[2], &cpus);
	start = now();
	child = fork();
	if (!child)
		become(argv, command, &cpus);
	if (child < 0 || wait4(child, &status, 0, &usage) < 0) {
		perror("bench_spawn");
		return 1;
	}
	result = fopen(argv[1], "w");
	if (!result) {
		perror(argv[1]);
		return 1;
	}
	fprintf(result,
		"{\"user_s\": %.6f, \"system_s\": %.6f, \"wall_s\": %.6f, \"rss_bytes\": %lld, "
		"\"switched_out\": %ld, \"status\": %d}\n",
		seconds(usage.ru_utime), seconds(usage.ru_stime), now() - start,
		(long long)usage.ru_maxrss * 1024, usage.ru_nivcsw,
		WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status));
	return fclose(result) ? 1 : 0;
}
