/* SPDX-License-Identifier: Apache-2.0 */
/* Processes to be fetched from: see pull_source.h. */
#include "fleet/pull/pull_source.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"

static void free_process(struct pull_process *p)
{
	free(p->service);
	free(p->program);
	free(p->spool);
}

bool pull_list_add(struct pull_list *list, const struct pull_process *process)
{
	struct pull_process copy = *process;

	copy.service = strdup(process->service);
	copy.program = strdup(process->program);
	copy.spool = strdup(process->spool);
	if (copy.service && copy.program && copy.spool &&
	    ARRAY_ADD(list->process, list->room, list->count, copy))
		return true;
	free_process(&copy);
	return false;
}

void pull_list_free(struct pull_list *list)
{
	for (size_t i = 0; i < list->count; i++)
		free_process(&list->process[i]);
	free(list->process);
	*list = (struct pull_list){0};
}
