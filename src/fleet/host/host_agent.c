/* SPDX-License-Identifier: Apache-2.0 */
/* The agent of a host: see host_agent.h. */
#include "fleet/host/host_agent.h"

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/array.h"
#include "base/hash.h"
#include "base/interner.h"
#include "base/system/clock.h"
#include "fleet/host/host_pull.h"
#include "fleet/host/host_push.h"
#include "fleet/host/host_rights.h"
#include "fleet/host/host_steer.h"
#include "fleet/host/host_turns.h"
#include "fleet/host/notify.h"
#include "fleet/push/fleet_login.h"
#include "terminal/message.h"

#define TICK_NS 1000000000ll
/* Pushes of a tick, and those at the end, take no longer, but for the one that goes on. What was not pushed
 * is part of the next window, at the end that of the next agent. */
#define TICK_PUSHES_NS 500000000ll
#define LAST_PUSHES_NS 5000000000ll
#define SPOOLS_MOST    65536u
#define USERS_MOST     8192u /* spools of one user that is not the agent's */
#define NOBODY	       ((uid_t)-1)

struct host {
	struct host_config config;
	struct host_push push;
	struct host_pull *pull; /* or NULL */
	struct host_process **process;
	size_t count, room;
	bool cut;	 /* the latest round */
	bool more;	 /* the latest tick had not time for all that wait */
	bool full;	 /* there are too many spools, as a line has said */
	bool unreadable; /* a folder, as a line has said */
	int64_t next_tick_ns, next_round_ns, next_watchdog_ns, watchdog_ns;
	int64_t pushed_real_ns; /* the latest round */
	char status[160];	/* as systemd was told */
};

/* ---- signals ---- */

static volatile sig_atomic_t asked_to_end, asked_to_read;

static void on_signal(int number)
{
	if (number == SIGHUP)
		asked_to_read = 1;
	else
		asked_to_end = 1;
}

static void take_signals(void)
{
	struct sigaction action = {.sa_handler = on_signal}, ignore = {.sa_handler = SIG_IGN};

	sigaction(SIGTERM, &action, NULL);
	sigaction(SIGINT, &action, NULL);
	sigaction(SIGHUP, &action, NULL);
	sigaction(SIGPIPE, &ignore, NULL);
}

/* ---- the folders ---- */

static bool is_spool_name(const char *name)
{
	size_t length = strlen(name), ending = strlen(SPOOL_ENDING);

	return *name != '.' && length > ending && !strcmp(name + length - ending, SPOOL_ENDING);
}

static struct key key_of(const char *path, ino_t inode)
{
	return (struct key){{hash_string(path), inode}};
}

/* What is known of the folders. */
struct known {
	struct interner spools; /* by path and inode; their numbers are those of host.process */
	struct interner owners; /* by user */
	uint32_t *owned;	/* how many spools each of them has */
	size_t room;
};

/* NULL: out of memory. */
static uint32_t *owned_by(struct known *k, uid_t owner)
{
	bool new;
	uint32_t number = interner_add(&k->owners, (struct key){{owner}}, &new);

	if (number == INTERNER_NONE ||
	    !array_reserve_filled(&k->owned, &k->room, number, sizeof(*k->owned), 0))
		return NULL;
	return &k->owned[number];
}

static bool is_full(struct host *h, uid_t owner, uint32_t owned)
{
	bool all = h->count == SPOOLS_MOST,
	     full = all || (owner != getuid() && owned >= USERS_MOST);

	if (full && !h->full && all)
		cli_error("there are more than %u spools; the rest must wait", SPOOLS_MOST);
	else if (full && !h->full)
		cli_error("user %u has more than %u spools; the rest must wait",
			  (unsigned int)owner, USERS_MOST);
	h->full |= full;
	return full;
}

/* It is known from now on: a folder that changes while it is read may have it twice. */
static bool add_found(struct host *h, struct known *k, const char *path, ino_t inode)
{
	struct host_process *p;
	struct stat status;
	uint32_t *owned;
	bool new;

	if (lstat(path, &status))
		return true;
	owned = owned_by(k, status.st_uid);
	if (!owned)
		return false;
	if (is_full(h, status.st_uid, *owned))
		return true;
	++*owned;
	p = host_process_new(path, inode, status.st_uid);
	if (!p || !array_reserve(&h->process, &h->room, h->count, sizeof(*h->process))) {
		if (p)
			host_process_free(p);
		return false;
	}
	p->seen = true;
	h->process[h->count++] = p;
	return interner_add(&k->spools, key_of(path, inode), &new) != INTERNER_NONE;
}

static bool look_into(struct host *h, const char *folder, struct known *known)
{
	DIR *dir = opendir(folder);
	struct dirent *d;
	bool good = true;

	if (!dir) {
		if (!h->unreadable)
			cli_error("%s: %s", folder, strerror(errno));
		h->unreadable = true;
		return true;
	}
	while (good && (d = readdir(dir))) {
		uint32_t number;
		char *path;

		if (!is_spool_name(d->d_name))
			continue;
		if (asprintf(&path, "%s/%s", folder, d->d_name) < 0)
			break;
		number = interner_find(&known->spools, key_of(path, d->d_ino));
		if (number != INTERNER_NONE)
			h->process[number]->seen = true;
		else
			good = add_found(h, known, path, d->d_ino);
		free(path);
	}
	closedir(dir);
	return good;
}

/* Those whose spool is no longer there are forgotten. */
static void drop_unseen(struct host *h)
{
	size_t kept = 0;

	for (size_t i = 0; i < h->count; i++) {
		struct host_process *p = h->process[i];

		if (p->seen) {
			h->process[kept++] = p;
			continue;
		}
		if (p->state == HOST_KNOWN)
			host_steer(p, &h->config, now_ns(), true);
		host_process_free(p);
	}
	h->count = kept;
}

static bool look_at_folders(struct host *h)
{
	struct known known = {0};
	bool good = true, new;

	for (size_t i = 0; good && i < h->count; i++) {
		struct key key = key_of(h->process[i]->path, h->process[i]->inode);
		uint32_t *owned = owned_by(&known, h->process[i]->owner);

		h->process[i]->seen = false;
		good = owned && interner_add(&known.spools, key, &new) != INTERNER_NONE;
		if (good)
			++*owned;
	}
	for (size_t i = 0; good && i < h->config.folders; i++)
		good = look_into(h, h->config.folder[i], &known);
	interner_free(&known.spools);
	interner_free(&known.owners);
	free(known.owned);
	if (good)
		drop_unseen(h);
	return good;
}

/* ---- processes ---- */

/* Removes the spool of a process that has ended and was pushed. */
static void remove_spool(struct host_process *p)
{
	ino_t inode;
	uid_t owner;
	int error, fd = host_rights_open(p->path, &owner, &inode, &error);

	if (fd >= 0 && inode == p->inode && unlink(p->path))
		host_process_error(p, strerror(errno));
	host_rights_close(fd);
}

/* Tells systemd that all is well. */
static void beat(struct host *h)
{
	int64_t now = now_ns();

	if (!h->watchdog_ns || now < h->next_watchdog_ns)
		return;
	notify("WATCHDOG=1");
	h->next_watchdog_ns = now + h->watchdog_ns;
}

static void push(struct host *h, struct host_process *p)
{
	beat(h);
	/* Without a database, one that has ended is done. */
	if (!h->config.database) {
		p->state = p->ended ? HOST_DONE : p->state;
		p->urgent = false;
		return;
	}
	host_push(&h->push, p, &h->config, now_ns());
	if (p->state == HOST_DONE && h->config.remove)
		remove_spool(p);
}

static void tick_one(struct host *h, struct host_process *p, int64_t now)
{
	if (p->state == HOST_FOUND) {
		host_process_look(p, now);
		if (p->state == HOST_KNOWN)
			host_process_take_rule(p, &h->config);
	}
	if (p->state != HOST_KNOWN)
		return;
	p->ended = p->ended || process_watch_ended(&p->watch);
	if (!p->ended)
		host_steer(p, &h->config, now, asked_to_end);
}

static bool is_waiting(const struct host_process *p)
{
	return p->state == HOST_KNOWN && (p->ended || p->urgent);
}

/* Those that have ended, or must be pushed before they are switched on. False: out of memory. */
static bool push_waiting(struct host *h, int64_t now)
{
	struct host_process **waiting = calloc(h->count + 1, sizeof(*waiting)), **turn;
	size_t count = 0;

	h->more = false;
	for (size_t i = 0; waiting && i < h->count; i++)
		if (is_waiting(h->process[i]))
			waiting[count++] = h->process[i];
	turn = waiting ? host_turns(waiting, count) : NULL;
	free(waiting);
	for (size_t i = 0; turn && i < count; i++) {
		if (h->push.away)
			break;
		h->more = now_ns() - now > TICK_PUSHES_NS;
		if (h->more)
			break;
		push(h, turn[i]);
		if (turn[i]->state == HOST_KNOWN && !is_waiting(turn[i]))
			host_steer(turn[i], &h->config, now, asked_to_end);
	}
	free(turn);
	return turn;
}

/* What is done each second, also in the middle of a round that takes longer. */
static void tick(struct host *h)
{
	int64_t now = now_ns();

	beat(h);
	if (now < h->next_tick_ns)
		return;
	h->next_tick_ns = now + TICK_NS;
	for (size_t i = 0; i < h->count; i++)
		tick_one(h, h->process[i], now);
	if (!push_waiting(h, now) ||
	    !host_pull_tell(h->pull, &h->config, h->process, h->count, &h->push))
		cli_error("out of memory");
}

static void say_status(struct host *h)
{
	size_t known = 0, on = 0;
	char at[16] = "none so far", status[sizeof(h->status)];
	time_t pushed = (time_t)(h->pushed_real_ns / 1000000000);
	struct tm tm;

	for (size_t i = 0; i < h->count; i++) {
		bool running = h->process[i]->state == HOST_KNOWN && !h->process[i]->ended;

		known += running;
		on += running && h->process[i]->on;
	}
	if (h->pushed_real_ns && localtime_r(&pushed, &tm))
		strftime(at, sizeof(at), "%H:%M:%S", &tm);
	snprintf(status, sizeof(status),
		 "%zu processes, of which %zu are recorded now; latest push: %s%s", known, on, at,
		 h->push.away ? "; the database is away" : "");
	if (strcmp(status, h->status) != 0)
		notify("STATUS=%s", status);
	strcpy(h->status, status);
}

/* Ends early when the database does not answer: the others would wait for it in vain, too; and when its time is
 * over, but for the processes of one user. The next round begins with those that were left out. */
static void push_all(struct host *h, int64_t most_ns, uid_t but)
{
	struct host_process **turn = host_turns(h->process, h->count);
	int64_t begun = now_ns();

	h->push.away = h->cut = false;
	for (size_t i = 0; turn && i < h->count && !h->push.away; i++) {
		struct host_process *p = turn[i];

		h->cut |= now_ns() - begun > most_ns;
		if (p->state != HOST_KNOWN || (h->cut && p->owner != but))
			continue;
		/* Not after an exec. */
		p->ended = p->ended || !process_watch_writes(&p->watch, p->path);
		push(h, p);
		tick(h);
	}
	if (!turn)
		cli_error("out of memory");
	free(turn);
	if (!h->push.away && h->config.database)
		h->pushed_real_ns = clock_ns(CLOCK_REALTIME);
}

/* ---- the configuration ---- */

/* With the database of the configuration. */
static bool connect_to(const struct host_config *c, bool verbose, struct host_push *push)
{
	struct fleet_login login = {.auth = c->auth};

	*push = (struct host_push){.said = {.quiet = !verbose}};
	if (!c->database)
		return true;
	push->to.c = fleet_connect(c->database, &login);
	if (push->to.c)
		push->to.url = push->to.c->url;
	return push->to.c != NULL;
}

static void read_again(struct host *h, const struct host_agent *a)
{
	struct host_config config;
	struct host_push push;

	notify("RELOADING=1\nMONOTONIC_USEC=%lld", (long long)(now_ns() / 1000));
	if (host_config_read(&config, a->config)) {
		if (connect_to(&config, a->verbose, &push)) {
			host_copies_end(&h->push.copies);
			clickhouse_close(h->push.to.c);
			push.windows = h->push.windows;
			push.failures = h->push.failures;
			push.last_ns = h->push.last_ns;
			host_config_free(&h->config);
			h->config = config;
			h->push = push;
			h->unreadable = false;
			h->next_round_ns = now_ns() + h->config.every_ns;
			for (size_t i = 0; i < h->count; i++)
				if (h->process[i]->state == HOST_KNOWN)
					host_process_take_rule(h->process[i], &h->config);
		} else {
			host_config_free(&config);
			cli_error("%s: the configuration of before goes on", a->config);
		}
	} else {
		cli_error("%s: the configuration of before goes on", a->config);
	}
	h->next_tick_ns = 0;
}

/* ---- the command ---- */

static bool work(struct host *h, const struct host_agent *a)
{
	bool again = true;

	h->next_round_ns = now_ns() + h->config.every_ns;
	while (!asked_to_end) {
		if (asked_to_read) {
			asked_to_read = 0;
			again = true;
			read_again(h, a);
		}
		if (!look_at_folders(h))
			return cli_fail("out of memory");
		tick(h);
		if (again)
			notify("READY=1"); /* and its rules are in force */
		again = false;
		if (now_ns() >= h->next_round_ns) {
			push_all(h, h->config.every_ns, NOBODY);
			h->next_round_ns = now_ns() + (h->cut ? 0 : h->config.every_ns);
		}
		say_status(h);
		if (h->more || h->cut)
			h->next_tick_ns = 0;
		else if (!asked_to_end && !asked_to_read)
			clock_wait(h->next_tick_ns - now_ns());
	}
	notify("STOPPING=1");
	h->next_tick_ns = 0;
	tick(h); /* switches off */
	push_all(h, LAST_PUSHES_NS, getuid());
	return !h->push.away;
}

/* A descriptor for each process. */
static void raise_limit(void)
{
	struct rlimit limit;

	if (!getrlimit(RLIMIT_NOFILE, &limit)) {
		limit.rlim_cur = limit.rlim_max;
		setrlimit(RLIMIT_NOFILE, &limit);
	}
}

bool host_agent_run(const struct host_agent *a, struct host_config *config)
{
	struct host h = {.config = *config, .watchdog_ns = notify_watchdog_ns()};
	bool good;

	take_signals();
	raise_limit();
	host_rights_begin();
	good = connect_to(&h.config, a->verbose, &h.push);
	if (good)
		h.pull = host_pull_start(&h.config, &good);
	good = good && work(&h, a);
	host_pull_stop(h.pull);
	for (size_t i = 0; i < h.count; i++)
		host_process_free(h.process[i]);
	free(h.process);
	host_copies_end(&h.push.copies);
	clickhouse_close(h.push.to.c);
	*config = h.config;
	return good;
}
