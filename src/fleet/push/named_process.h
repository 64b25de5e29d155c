/* SPDX-License-Identifier: Apache-2.0 */
/* What the user says of a trace's process: its service, its host, labels to ask by. */
#ifndef MAYFLY_NAMED_PROCESS_H
#define MAYFLY_NAMED_PROCESS_H

#include "convert/export/exporter.h"
#include "question/option_row.h"

#define NAMED_LABELS_MOST 32u			   /* that the user gives */
#define NAMED_LABELS_ROOM (NAMED_LABELS_MOST + 5u) /* with those of the surroundings */

struct named_process {
	const char *service, *host; /* NULL: not given */
	struct mayfly_label label[NAMED_LABELS_ROOM];
	size_t labels;
};

/* Options for the service and the host; "label" is a filter in commands that ask. */
extern const struct option_row named_process_rows[];
option_take named_process_take_label;

/* Labels that the environment of a process has, and the variables, as Kubernetes' manifests name them. Ends
 * with a key NULL. */
extern const struct mayfly_label named_surroundings[];
/* Adds what Kubernetes tells a container, when its manifest says so. */
void named_process_surroundings(struct named_process *p);
void named_process_free(struct named_process *p);

/* The service is the user's, else MAYFLY_SERVICE, else the program's name. It lasts as long as both. */
struct export_process named_process_of(const struct named_process *p,
				       const struct mayfly_info *info);

#endif
