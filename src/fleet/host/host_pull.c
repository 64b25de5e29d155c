/* SPDX-License-Identifier: Apache-2.0 */
/* What the agent of a host serves: see host_pull.h. */
#include "fleet/host/host_pull.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

#include "answer/trace_names.h"
#include "base/system/clock.h"
#include "fleet/host/host_rights.h"
#include "fleet/pull/pull.h"
#include "terminal/message.h"

/* The agent tells what it knows each second, unless it waits for a database: at most as long as that may take. */
#define SILENT_NS 300000000000ll

struct host_pull {
	struct pull *pull;
	struct host_copies copies; /* the server's threads', one at a time */

	pthread_mutex_t lock; /* of what follows */
	struct pull_list list;
	struct pull_pushes pushes;
	uint64_t largest;
	int64_t told_ns; /* CLOCK_MONOTONIC; 0: never so far */
};

/* ---- what the agent knows ---- */

static bool add(struct pull_list *list, const struct host_process *p)
{
	const char *service = p->service ? p->service : path_base(p->program);
	const struct pull_process process = {.pid = p->watch.pid,
					     .service = (char *)(uintptr_t)service,
					     .program = p->program,
					     .spool = p->path,
					     .inode = p->inode,
					     .owner = p->owner};

	/* One that is dormant, and was from its start on, has nothing. */
	return p->state != HOST_KNOWN || p->ended || !(p->on || p->unpushed || p->live) ||
	       pull_list_add(list, &process);
}

bool host_pull_tell(struct host_pull *h, const struct host_config *c,
		    struct host_process *const *process, size_t count, const struct host_push *push)
{
	struct pull_list list = {0}, before;
	bool good = true;

	if (!h)
		return true;
	for (size_t i = 0; good && i < count; i++)
		good = add(&list, process[i]);
	pthread_mutex_lock(&h->lock);
	before = h->list;
	h->list = good ? list : before;
	h->pushes = (struct pull_pushes){.pushes = c->database != NULL,
					 .windows = push->windows,
					 .failures = push->failures,
					 .last_ns = push->last_ns};
	h->largest = c->largest;
	h->told_ns = now_ns();
	pthread_mutex_unlock(&h->lock);
	pull_list_free(good ? &before : &list);
	return good;
}

/* ---- what the server asks ---- */

static bool list_processes(void *context, struct pull_list *list)
{
	struct host_pull *h = context;
	bool good = true;

	pthread_mutex_lock(&h->lock);
	for (size_t i = 0; good && i < h->list.count; i++)
		good = pull_list_add(list, &h->list.process[i]);
	pthread_mutex_unlock(&h->lock);
	return good;
}

static int open_process(void *context, const struct pull_process *p, bool names,
			struct live_trace *trace)
{
	struct host_pull *h = context;
	ino_t inode;
	uid_t owner;
	int error, fd = host_rights_open(p->spool, &owner, &inode, &error);

	if (fd >= 0 && (inode != p->inode || owner != p->owner))
		error = ENOENT;
	if (!error)
		error = host_copy_open(&h->copies, owner, fd, h->largest, names, trace);
	host_rights_close(fd);
	return error;
}

static void tell_pushes(void *context, struct pull_pushes *pushes)
{
	struct host_pull *h = context;

	pthread_mutex_lock(&h->lock);
	*pushes = h->pushes;
	pthread_mutex_unlock(&h->lock);
}

static const char *health(void *context, bool ready)
{
	struct host_pull *h = context;
	int64_t told_ns;

	pthread_mutex_lock(&h->lock);
	told_ns = h->told_ns;
	pthread_mutex_unlock(&h->lock);
	if (!told_ns)
		return ready ? "the folders have not been looked at so far" : NULL;
	return now_ns() - told_ns > SILENT_NS
		   ? "the agent has not looked at its folders for 5 minutes"
		   : NULL;
}

/* ---- begin and end ---- */

struct host_pull *host_pull_start(const struct host_config *c, bool *good)
{
	struct host_pull *h = c->listen ? calloc(1, sizeof(*h)) : NULL;
	struct pull_source source = {.list = list_processes,
				     .open = open_process,
				     .pushes = tell_pushes,
				     .health = health,
				     .context = h};

	*good = h || !c->listen || cli_fail("out of memory");
	if (!h)
		return NULL;
	h->largest = c->largest;
	pthread_mutex_init(&h->lock, NULL);
	*good = pull_start(c->listen, c->token, &source, &h->pull);
	if (*good) {
		cli_error("profiles and metrics are at %s", pull_address(h->pull));
		return h;
	}
	host_pull_stop(h);
	return NULL;
}

void host_pull_stop(struct host_pull *h)
{
	/* An answer that is still being made goes on until this process ends. */
	if (!h || !pull_stop(h->pull))
		return;
	host_copies_end(&h->copies);
	pull_list_free(&h->list);
	pthread_mutex_destroy(&h->lock);
	free(h);
}
