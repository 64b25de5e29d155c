/* SPDX-License-Identifier: Apache-2.0 */
/* Events of OCaml's runtime: see runtime_watch.h. */
#include "record/runtime_watch.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/array.h"
#include "base/system/clock.h"

#define MANY_TRACKS  16384u
#define MOST_TRACKS  131072u /* further events stay in the rings, where they may be overwritten */
#define LONGEST_MS   100u
#define SHORTEST_MS  2u
#define FILLED_PARTS 4 /* a ring should be filled to one of so many parts between two looks */

void runtime_watch_start(struct runtime_watch *w)
{
	*w = (struct runtime_watch){.fd = -1, .wait_ms = LONGEST_MS};
}

void runtime_watch_free(struct runtime_watch *w)
{
	if (w->map)
		munmap(w->map, w->rings.size);
	if (w->fd >= 0)
		close(w->fd);
	runtime_types_free(w->types);
	free(w->place);
	free(w->told);
	free(w->named);
	free(w->track);
	runtime_watch_start(w);
}

/* ---- the file ---- */

static bool make_tables(struct runtime_watch *w)
{
	size_t domains = w->rings.domains;

	w->types = runtime_types_new(w->rings.domains);
	w->place = calloc(domains, sizeof(*w->place));
	w->told = calloc(domains, sizeof(*w->told));
	w->named = calloc(domains, sizeof(*w->named));
	return w->types && w->place && w->told && w->named;
}

/* The file has no header until the runtime has started. */
static bool map_rings(struct runtime_watch *w)
{
	struct stat st;
	void *map;
	int error;

	if (fstat(w->fd, &st) || !S_ISREG(st.st_mode) || st.st_size <= 0)
		return false;
	map = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED, w->fd, 0);
	if (map == MAP_FAILED)
		return false;
	error = runtime_rings_open(&w->rings, map, (size_t)st.st_size);
	w->unknown = error == MAYFLY_E_VERSION;
	if (error || !make_tables(w)) {
		munmap(map, (size_t)st.st_size);
		return false;
	}
	w->map = map;
	close(w->fd);
	w->fd = -1;
	return true;
}

static bool find_rings(struct runtime_watch *w, const char *path)
{
	if (w->map)
		return true;
	if (w->unknown)
		return false;
	if (w->fd < 0)
		w->fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	return w->fd >= 0 && map_rings(w);
}

/* ---- events ---- */

static bool keep(struct runtime_watch *w, const struct runtime_track *track, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		if (!array_reserve(&w->track, &w->room, w->tracks, sizeof(*w->track)))
			return false;
		w->track[w->tracks++] = (struct watched_track){track[i], w->order++};
	}
	return true;
}

/* Returns the number of words read. */
static uint64_t read_ring(struct runtime_watch *w, uint32_t domain)
{
	struct runtime_place *p = &w->place[domain];
	struct runtime_track track[RUNTIME_TRACKS];
	uint64_t before = p->at, waiting = runtime_rings_waiting(&w->rings, domain, p);
	struct runtime_event e;
	bool kept = true;

	/* The program may write as fast as we read. */
	while (kept && p->at - before < waiting && w->tracks < MOST_TRACKS &&
	       runtime_rings_next(&w->rings, domain, p, &e)) {
		if (p->lost != w->told[domain]) {
			size_t count =
			    runtime_types_lost(w->types, domain, p->lost - w->told[domain], track);

			/* Lost before any was read: no time is known but that of the first. */
			for (size_t i = 0; i < count; i++)
				if (!track[i].mono_ns)
					track[i].mono_ns = e.mono_ns;
			kept = keep(w, track, count);
		}
		w->told[domain] = p->lost;
		kept &= keep(w, track, runtime_types_take(w->types, &w->rings, &e, track));
	}
	return p->at - before;
}

/* When the next look is due: before the fastest ring is full. */
static void choose_wait(struct runtime_watch *w, uint64_t passed_ns, uint64_t most_words)
{
	uint64_t wait_ms = LONGEST_MS;

	if (most_words)
		wait_ms = passed_ns / 1000000 * (w->rings.words / FILLED_PARTS) / most_words;
	w->wait_ms = wait_ms < SHORTEST_MS  ? SHORTEST_MS
		     : wait_ms > LONGEST_MS ? LONGEST_MS
					    : (unsigned int)wait_ms;
}

void runtime_watch_look(struct runtime_watch *w, const char *path)
{
	uint64_t now = now_ns(), most = 0;

	if (!find_rings(w, path))
		return;
	for (uint32_t i = 0; i < w->rings.domains; i++) {
		uint64_t words = read_ring(w, i);

		if (words > most)
			most = words;
	}
	choose_wait(w, w->looked_ns ? now - w->looked_ns : 0, most);
	w->looked_ns = now;
}

bool runtime_watch_is_full(const struct runtime_watch *w)
{
	return w->tracks >= MANY_TRACKS;
}

/* ---- handing over ---- */

static int compare_tracks(const void *a, const void *b)
{
	const struct watched_track *x = a, *y = b;

	if (x->track.mono_ns != y->track.mono_ns)
		return x->track.mono_ns < y->track.mono_ns ? -1 : 1;
	return (x->order > y->order) - (x->order < y->order);
}

static int name_domain(struct runtime_watch *w, uint32_t domain, struct spool_stream *to)
{
	char name[32];

	if (w->named[domain])
		return 0;
	w->named[domain] = true;
	snprintf(name, sizeof(name), "domain %u", domain);
	return spool_stream_name(to, RUNTIME_DOMAIN_TID + domain, name);
}

int runtime_watch_hand(struct runtime_watch *w, uint64_t start_mono_ns, struct spool_stream *to)
{
	int error = 0;

	if (w->tracks)
		qsort(w->track, w->tracks, sizeof(*w->track), compare_tracks);
	for (size_t i = 0; i < w->tracks && !error; i++) {
		const struct runtime_track *t = &w->track[i].track;

		/* This is of another program, which had this process before. */
		if (t->mono_ns < start_mono_ns)
			continue;
		error = name_domain(w, t->domain, to);
		if (!error)
			error = spool_stream_note(to, t->mono_ns, RUNTIME_DOMAIN_TID + t->domain,
						  t->kind, t->type, &t->value);
	}
	w->tracks = 0;
	return error;
}
