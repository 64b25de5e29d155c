/* SPDX-License-Identifier: Apache-2.0 */
/* The domains of OCaml 5 that the threads of a trace belong to. */
#ifndef MAYFLY_THREAD_DOMAINS_H
#define MAYFLY_THREAD_DOMAINS_H

#include "mayfly/trace.h"

/*
 * A trace of a Memtrace file with domains has a thread for each, called "domain N". In a recording
 * the agent's instants "domain" say to which domain a thread belongs. All other threads get 0, the
 * main domain.
 */
struct thread_domains {
	uint16_t *domain; /* of each thread, by its index; NULL: there is only one */
	size_t threads;
};

/* 0 or a negative enum mayfly_error. */
int thread_domains_find(struct thread_domains *d, const struct mayfly_trace *trace);
void thread_domains_free(struct thread_domains *d);

static inline uint16_t thread_domains_of(const struct thread_domains *d, uint32_t thread)
{
	return d->domain && thread < d->threads ? d->domain[thread] : 0;
}

#endif
