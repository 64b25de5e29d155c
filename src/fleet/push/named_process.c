/* SPDX-License-Identifier: Apache-2.0 */
/* What the user says of a trace's process: see named_process.h. */
#include "fleet/push/named_process.h"

#include <stdlib.h>
#include <string.h>

#include "answer/trace_names.h"
#include "question/option_row.h"

/* "key=value"; the row's value lasts as long as argv. */
bool named_process_take_label(const struct given *given, void *to)
{
	struct named_process *p = to;
	const char *equals = strchr(given->value, '=');
	char *key;

	if (!equals || equals == given->value)
		return error_say(given->error_line, "%s: '%s' is not KEY=VALUE", given->option,
				 given->value);
	if (p->labels == NAMED_LABELS_MOST)
		return error_say(given->error_line, "%s: at most %u labels", given->option,
				 NAMED_LABELS_MOST);
	key = strndup(given->value, (size_t)(equals - given->value));
	if (!key)
		return error_say(given->error_line, "out of memory");
	p->label[p->labels++] = (struct mayfly_label){key, equals + 1};
	return true;
}

const struct option_row named_process_rows[] = {
    {"service", .rare = true, .argument = "NAME", OPTION_TEXT(struct named_process, service),
     .help = "what the program is part of (default MAYFLY_SERVICE, else the program's name)"},
    {"host", .rare = true, .argument = "NAME", OPTION_TEXT(struct named_process, host),
     .help = "where it ran (push: default this machine)"},
    OPTION_END,
};

const struct mayfly_label named_surroundings[] = {
    {"pod", "POD_NAME"}, {"namespace", "POD_NAMESPACE"}, {"node", "NODE_NAME"}, {0}};

void named_process_surroundings(struct named_process *p)
{
	for (const struct mayfly_label *known = named_surroundings; known->key; known++) {
		const char *value = getenv(known->value);
		bool given = !value || p->labels == NAMED_LABELS_ROOM;

		for (size_t k = 0; !given && k < p->labels; k++)
			given = !strcmp(p->label[k].key, known->key);
		if (!given)
			p->label[p->labels++] = (struct mayfly_label){strdup(known->key), value};
	}
}

void named_process_free(struct named_process *p)
{
	for (size_t i = 0; i < p->labels; i++)
		free((char *)(size_t)p->label[i].key);
	p->labels = 0;
}

struct export_process named_process_of(const struct named_process *p,
				       const struct mayfly_info *info)
{
	const char *variable = getenv("MAYFLY_SERVICE");

	return (struct export_process){
	    .service = p->service	       ? p->service
		       : variable && *variable ? variable
					       : path_base(info->program),
	    .host = p->host,
	    .label = p->label,
	    .labels = p->labels,
	};
}
