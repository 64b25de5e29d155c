/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two libraries: the outer one, whose RUNPATH is $ORIGIN/inner, opens the inner one by its bare
 * name. That is found only when the loader knows who asks.
 */
#include <dlfcn.h>
#include <stddef.h>

#ifdef INNER

int inner_answer(void);

int inner_answer(void)
{
	return 42;
}

#else

void *outer_open(const char *name);

void *outer_open(const char *name)
{
	void *handle = dlopen(name, RTLD_NOW);

	__asm__ volatile("" : "+r"(handle)); /* no jump instead of the call */
	return handle;
}

#endif
