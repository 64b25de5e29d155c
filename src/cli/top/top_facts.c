/* SPDX-License-Identifier: Apache-2.0 */
/* top_facts.c: the answers go. */
#include "cli/top/top.h"

#include <stdlib.h>

void top_answers_free(struct top_facts *f)
{
	for (size_t c = 0; c < TOP_COLUMNS; c++)
		mayfly_result_free(f->of[c]);
	free(f->ranking.row);
}

void top_facts_free(struct top_facts *f)
{
	top_answers_free(f);
	*f = (struct top_facts){0};
}
