/* SPDX-License-Identifier: Apache-2.0 */
/* A test program: CHECKs inside functions listed in main by RUN. Prints TAP. */
#ifndef MAYFLY_TEST_H
#define MAYFLY_TEST_H

#include <stdio.h>
#include <stdlib.h>

static int test_number, test_failures, test_bad;

#define CHECK(condition, ...)                                                                      \
	do {                                                                                       \
		if (!(condition)) {                                                                \
			if (test_bad++ < 20) {                                                     \
				printf("# %s:%d: %s is false", __FILE__, __LINE__, #condition);    \
				printf(" " __VA_ARGS__);                                           \
				printf("\n");                                                      \
			}                                                                          \
		}                                                                                  \
	} while (0)

#define RUN(function)                                                                              \
	do {                                                                                       \
		test_bad = 0;                                                                      \
		function();                                                                        \
		test_number++;                                                                     \
		test_failures += test_bad != 0;                                                    \
		printf("%sok %d - %s\n", test_bad ? "not " : "", test_number, #function);          \
		fflush(stdout);                                                                    \
	} while (0)

/* A test that cannot run here says why and counts as skipped. */
#define SKIP(name, why)                                                                            \
	do {                                                                                       \
		test_number++;                                                                     \
		printf("ok %d - %s # SKIP %s\n", test_number, name, why);                          \
	} while (0)

#define DONE()                                                                                     \
	do {                                                                                       \
		printf("1..%d\n", test_number);                                                    \
		return test_failures != 0;                                                         \
	} while (0)

#endif
