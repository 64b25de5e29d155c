/* SPDX-License-Identifier: Apache-2.0 */
/* A spool and its process: see host_process.h. */
#include "fleet/host/host_process.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "answer/trace_names.h"
#include "terminal/message.h"
#include "fleet/host/host_container.h"
#include "fleet/host/host_rights.h"
#include "fleet/push/named_process.h"
#include "base/system/process_file.h"
#include "record/spool_copy.h"

#define ENVIRON_MOST ((size_t)1 << 20)
#define CGROUP_MOST  8192

/* A spool that is just being made is looked at again soon, what is none seldom. */
#define EARLY_LOOKS   30
#define COMPLAIN_LOOK 10
#define SELDOM_NS     60000000000ll
#define YEAR_2200_NS  7258118400000000000ll

struct host_process *host_process_new(const char *path, ino_t inode, uid_t owner)
{
	struct host_process *p = calloc(1, sizeof(*p));

	if (!p)
		return NULL;
	p->watch.fd = -1;
	p->inode = inode;
	p->owner = owner;
	p->path = strdup(path);
	if (p->path)
		return p;
	free(p);
	return NULL;
}

void host_process_free(struct host_process *p)
{
	for (size_t i = 0; i < p->labels; i++)
		free((char *)(uintptr_t)p->label[i].value);
	process_watch_close(&p->watch);
	free(p->service);
	free(p->program);
	free(p->cgroup);
	free(p->path);
	free(p);
}

void host_process_error(struct host_process *p, const char *why)
{
	if (!p->complained)
		cli_error("%s: %s", p->path, why);
	p->complained = true;
}

bool host_process_recorded(const struct spool_header *h)
{
	return h->mode == SPOOL_EXACT ? atomic_load(&h->claims) != 0
				      : atomic_load(&h->next_sample_id) > h->first_sample_id;
}

/* ---- what /proc says ---- */

/* A whole file, with a zero at its end, or NULL. */
static char *read_whole(pid_t pid, const char *name, size_t most, size_t *size)
{
	int fd = pid ? process_file_open(pid, name) : -1;
	char *text = fd < 0 ? NULL : malloc(most + 1);
	ssize_t n = 1;

	*size = 0;
	while (text && n > 0 && *size < most) {
		n = read(fd, text + *size, most - *size);
		*size += n > 0 ? (size_t)n : 0;
	}
	if (fd >= 0)
		close(fd);
	if (text)
		text[*size] = 0;
	return text;
}

/* A copy; NULL: it is not there, or empty. */
static char *variable(const char *environment, size_t size, const char *name)
{
	size_t length = strlen(name);

	for (const char *at = environment; at && at < environment + size; at += strlen(at) + 1)
		if (!strncmp(at, name, length) && at[length] == '=')
			return at[length + 1] ? strdup(at + length + 1) : NULL;
	return NULL;
}

static void take_environment(struct host_process *p)
{
	size_t size;
	char *environment = read_whole(p->watch.pid, "environ", ENVIRON_MOST, &size);

	p->service = variable(environment, size, "MAYFLY_SERVICE");
	for (size_t i = 0; i < HOST_OWN_LABELS && named_surroundings[i].key; i++) {
		char *value = variable(environment, size, named_surroundings[i].value);

		if (value)
			p->label[p->labels++] =
			    (struct mayfly_label){named_surroundings[i].key, value};
	}
	free(environment);
	if (!p->service && p->watch.pid)
		p->service = strdup(path_base(p->program));
}

/* The path in "0::/path", or of the first controller. */
static void take_cgroup(struct host_process *p)
{
	size_t size;
	char *text = read_whole(p->watch.pid, "cgroup", CGROUP_MOST, &size);
	char *line = text ? strstr(text, "0::") : NULL;

	if (line && line != text && line[-1] != '\n')
		line = NULL;
	line = line ? line : text;
	if (line && strchr(line, '/')) {
		line = strchr(line, '/');
		p->cgroup = strndup(line, strcspn(line, "\n"));
	}
	free(text);
}

static void add_label(struct host_process *p, const char *key, const char *value)
{
	char *own = p->labels < HOST_OWN_LABELS ? strdup(value) : NULL;

	if (own)
		p->label[p->labels++] = (struct mayfly_label){key, own};
}

static void take_container(struct host_process *p)
{
	char container[HOST_CONTAINER_DIGITS + 1], pod[HOST_POD_BYTES + 1];

	if (p->cgroup && host_container_of(p->cgroup, container))
		add_label(p, "container", container);
	if (p->cgroup && host_pod_of(p->cgroup, pod))
		add_label(p, "pod_uid", pod);
}

/* ---- the spool ---- */

static char *read_program(int fd, const struct spool_header *h)
{
	char text[PATH_MAX] = "";
	size_t length = h->exe_length < sizeof(text) ? h->exe_length : 0;

	if (h->exe_offset < SPOOL_HEADER_BYTES && pread(fd, text, length, h->exe_offset) < 0)
		*text = 0;
	text[length] = 0;
	return strdup(text);
}

/* One of its four user ids. Root may name any process. */
static bool is_of_owner(const struct host_process *p)
{
	char text[PROCESS_STATUS_BYTES];
	const char *line;
	unsigned int id[4];
	bool is = !p->owner;

	if (!is && process_file_status(p->watch.pid, text, sizeof(text)) &&
	    (line = strstr(text, "\nUid:")) &&
	    sscanf(line, "\nUid: %u %u %u %u", &id[0], &id[1], &id[2], &id[3]) == 4)
		for (size_t i = 0; i < 4; i++)
			is |= id[i] == p->owner;
	return is;
}

static bool get_known(struct host_process *p, int fd, const struct spool_header *h)
{
	struct spool_entry entry = {.path = p->path, .pid = (pid_t)h->pid};

	p->program = read_program(fd, h);
	if (!p->program)
		return false;
	spool_glance_at(h, &entry.glance);
	p->hash = window_hash(window_hash(window_hash(h->pid, h->pid_namespace), h->image),
			      h->start_real_ns);
	p->hash = window_hash(p->hash, h->start_mono_ns);
	p->start_ns = (int64_t)h->start_mono_ns;
	p->start_real_ns = (int64_t)h->start_real_ns;
	p->on = atomic_load(&h->control_enabled) != 0;
	p->interval_log2 = atomic_load(&h->control_interval_log2);
	/* Nobody has steered it. */
	p->certain = p->on && !atomic_load(&h->control_generation);
	p->unpushed = p->on || host_process_recorded(h);
	host_rights_end(); /* what is known of the process only root may see */
	process_watch_begin(&p->watch, &entry);
	p->ended = !p->watch.pid;
	if (!p->ended && !is_of_owner(p)) {
		host_process_error(p, "its header names a process of another user; it is left out");
		p->state = HOST_DONE;
		return true;
	}
	take_environment(p);
	take_cgroup(p);
	take_container(p);
	p->state = HOST_KNOWN;
	return true;
}

/* Whether it is ours, now. What mayfly record reads is pushed by record --push. */
static bool is_ours(const struct spool_header *h)
{
	return atomic_load(&h->state) != SPOOL_WAITING && !atomic_load(&h->recorder_pid) &&
	       !atomic_load(&h->consumed_packets) && h->start_mono_ns <= INT64_MAX &&
	       h->start_real_ns < YEAR_2200_NS && h->pid <= INT_MAX && h->pid;
}

void host_process_look(struct host_process *p, int64_t now_ns)
{
	struct spool_header h;
	ino_t inode;
	int error, fd;

	if (now_ns < p->next_look_ns)
		return;
	fd = host_rights_open(p->path, &p->owner, &inode, &error);
	if (fd >= 0)
		error = spool_copy_header(fd, &h);
	if (fd >= 0 && !error && is_ours(&h) && inode == p->inode && !get_known(p, fd, &h))
		error = ENOMEM;
	host_rights_close(fd);
	p->looks++;
	if (p->looks > EARLY_LOOKS)
		p->next_look_ns = now_ns + SELDOM_NS;
	if (error == EINVAL && p->looks >= COMPLAIN_LOOK)
		host_process_error(p, "is no spool of this version of mayfly, or a link");
	else if (error == EPERM)
		host_process_error(p, "is another user's; run mayfly agent as root");
	else if (error && error != EINVAL && error != ENOENT)
		host_process_error(p, strerror(error));
}

/* ---- its rule ---- */

size_t host_process_labels(const struct host_process *p, const struct host_config *c,
			   struct mayfly_label label[HOST_LABELS_ROOM])
{
	size_t labels = c->labels;

	memcpy(label, c->label, labels * sizeof(*label));
	for (size_t i = 0; i < p->labels; i++) {
		bool given = false;

		for (size_t k = 0; k < c->labels; k++)
			given |= !strcmp(c->label[k].key, p->label[i].key);
		if (!given)
			label[labels++] = p->label[i];
	}
	return labels;
}

void host_process_take_rule(struct host_process *p, const struct host_config *c)
{
	struct mayfly_label label[HOST_LABELS_ROOM];
	struct host_facts facts = {.service = p->service ? p->service : path_base(p->program),
				   .program = p->program,
				   .cgroup = p->cgroup,
				   .label = label,
				   .labels = host_process_labels(p, c, label)};

	p->rule = p->certain ? NULL : host_rule_for(c, &facts);
	p->ours |= p->rule && p->on;
}

double host_process_share(const struct host_process *p)
{
	return p->rule ? p->rule->share : 1;
}
