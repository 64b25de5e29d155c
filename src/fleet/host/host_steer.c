/* SPDX-License-Identifier: Apache-2.0 */
/* Switches processes on and off: see host_steer.h. */
#include "fleet/host/host_steer.h"

#include <errno.h>
#include <string.h>

#include "fleet/host/host_rights.h"
#include "base/hash.h"
#include "record/spool_copy.h"

static bool has_turn(const struct host_process *p, const struct host_config *c, int64_t now_ns)
{
	int64_t age = now_ns > p->start_ns ? now_ns - p->start_ns : 0;
	uint64_t salt = hash_string(c->host) ^ hash_mix(hash_string(c->salt));

	return host_turn(p->rule, hash_mix(p->hash ^ salt), (uint64_t)(age / p->rule->for_ns));
}

static bool steer(struct host_process *p, bool on)
{
	ino_t inode;
	uid_t owner;
	int error, fd = host_rights_open(p->path, &owner, &inode, &error);

	if (fd >= 0)
		error = inode != p->inode
			    ? ENOENT
			    : spool_copy_steer(fd, on, on ? p->rule->interval_log2 : 0);
	host_rights_close(fd);
	if (error && error != ENOENT)
		host_process_error(p, strerror(error));
	return !error;
}

void host_steer(struct host_process *p, const struct host_config *c, int64_t now_ns, bool stop)
{
	bool turn = p->rule && !stop && has_turn(p, c, now_ns);

	if (!p->unpushed)
		p->share = host_process_share(p);
	p->urgent = turn && !p->on && p->share != host_process_share(p);
	if (p->urgent || (!turn && (!p->on || !p->ours)) ||
	    (turn && p->on && p->interval_log2 == p->rule->interval_log2) || !steer(p, turn))
		return;
	if (turn && !p->on && !p->unpushed)
		p->begin_ns = p->start_real_ns + (now_ns - p->start_ns);
	if (turn)
		p->interval_log2 = p->rule->interval_log2;
	p->on = turn;
	p->ours = true;
	p->unpushed = true;
}
