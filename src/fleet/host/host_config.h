/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The configuration of mayfly agent: lines KEY = VALUE, of three kinds of sections.
 *
 *	database = clickhouse://db.example/fleet
 *	folder = /run/mayfly
 *	listen = 9400
 *
 *	[labels]
 *	ring = canary
 *
 *	[rule]
 *	service = api*
 *	share = 1 %
 *	for = 10m
 *
 * doc/man/mayfly-agent.1.scd has all keys.
 */
#ifndef MAYFLY_HOST_CONFIG_H
#define MAYFLY_HOST_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "fleet/push/window_rows.h"

#define HOST_MATCHES_MOST 16u
#define HOST_LABELS_MOST  32u

/* What a process must be. */
struct host_match {
	const char *key, *glob; /* service, program, cgroup or label.KEY; a pattern of fnmatch() */
};

struct host_rule {
	size_t line;
	struct host_match match[HOST_MATCHES_MOST];
	size_t matches;
	double share; /* of the processes, above 0, at most 1 */
	int64_t for_ns;
	uint32_t interval_log2;
};

struct host_config {
	char *text; /* of the file; all texts below lie in it, or are constant */
	const char *database, *auth, *listen,
	    *token; /* or NULL; one of database and listen is given */
	const char *host, *salt;
	int64_t every_ns;
	uint64_t largest; /* bytes of a spool */
	bool remove;
	const char **folder;
	size_t folders, folder_room;
	struct mayfly_label label[HOST_LABELS_MOST];
	size_t labels;
	struct host_rule *rule;
	size_t rules, rule_room;
};

/* False after a line on stderr, "FILE:LINE: ..."; *c is empty then. */
bool host_config_read(struct host_config *c, const char *path);
void host_config_free(struct host_config *c);
/* What it says, on stdout. */
void host_config_print(const struct host_config *c);

#endif
