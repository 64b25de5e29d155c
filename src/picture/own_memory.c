/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of mayfly's own agent: see own_memory.h. */
#include "picture/own_memory.h"

#include <string.h>

#include "format/spool_format.h"

#define AGENT_NAME   "libmayfly" /* how the names of its libraries begin */
#define SPOOL_NAME   ".spool"
#define WRITERS_MOST (1u << 20)

static bool ends_with(const char *text, const char *end)
{
	size_t length = strlen(text), tail = strlen(end);

	return length >= tail && !strcmp(text + length - tail, end);
}

/* Its variables. */
static bool claim_libraries(struct holder_list *l, const struct loaded_modules *m)
{
	for (size_t i = 0; i < m->count; i++) {
		const struct loaded_module *module = &m->module[i];

		for (size_t k = 0; k < module->symbols.parts; k++) {
			uint64_t start = module->bias + module->symbols.part[k].start;

			if (!strncmp(module->name, AGENT_NAME, strlen(AGENT_NAME)) &&
			    !holder_list_claim(l, start, start + module->symbols.part[k].bytes,
					       HEAP_NONE))
				return false;
		}
	}
	return true;
}

/* Each thread's registers, as they were at its latest sample. */
static bool claim_writers(struct holder_list *l, struct memory_source *s,
			  const struct spool_header *h)
{
	uint64_t writer = h->writers_where ? memory_source_word(s, h->writers_where) : 0;

	for (unsigned int i = 0; writer && i < WRITERS_MOST; i++) {
		if (!holder_list_claim(l, writer, writer + h->writer_bytes, HEAP_NONE))
			return false;
		writer = memory_source_word(s, writer + h->writer_older);
	}
	return true;
}

bool own_memory_claim(struct holder_list *l, struct memory_source *s,
		      const struct loaded_modules *m)
{
	bool good = claim_libraries(l, m);

	for (size_t i = 0; i < s->maps.count && good; i++) {
		const struct process_map *map = &s->maps.map[i];
		struct spool_header h;

		if (!map->shared || !ends_with(map->path, SPOOL_NAME))
			continue;
		good = holder_list_claim(l, map->start, map->end, HEAP_NONE);
		if (good && !map->offset && memory_source_read(s, map->start, &h, sizeof(h)) &&
		    !memcmp(h.magic, SPOOL_MAGIC, sizeof(h.magic)) && h.version == SPOOL_VERSION)
			good = claim_writers(l, s, &h);
	}
	return good;
}
