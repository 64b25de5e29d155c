/* SPDX-License-Identifier: Apache-2.0 */
/* For CPUs on which no call is made in another process: see injection.h. */
#include "attach/injection.h"

#include <errno.h>

#include "attach/attach.h"

void (*attach_step)(unsigned int number);

const bool injection_works_here = false;
const char injection_sigreturn[] = "";
const size_t injection_sigreturn_size = 0;

int injection_stop(struct injection *i, pid_t pid, pid_t tid)
{
	(void)i, (void)pid, (void)tid;
	return ENOTSUP;
}

uint64_t injection_stack(const struct injection *i)
{
	(void)i;
	return 0;
}

int injection_call(struct injection *i, uint64_t function, void *data, size_t bytes,
		   uint64_t number)
{
	(void)i, (void)function, (void)data, (void)bytes, (void)number;
	return ENOTSUP;
}

void injection_release(struct injection *i)
{
	(void)i;
}
