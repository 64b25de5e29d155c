/* SPDX-License-Identifier: Apache-2.0 */
/*
 * diff_align.c: which rows of two answers mean the same, even if the program was rebuilt.
 *
 *	place      -> site: routine (the parts of function and file that stay across builds), line
 *	routine    -> shift: by how many lines most of its lines have moved
 *	row        -> two numbers for its sequence of sites: with shifted lines, and without lines
 *
 * Rows with equal numbers with lines are pairs. Rows left over that differ only in lines are paired
 * too, the nearest first, unless the lines belong to a module that is the same in both traces.
 */
#include "query/diff.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "query/query.h"

struct site {
	uint32_t routine, line;
};

struct sites {
	const struct mayfly_result *result;
	struct site *site;
	size_t *first; /* [rows + 1]: the sites of row i are first[i] up to first[i + 1] */
	size_t sites;
	/* The number of each row: with lines, and without. */
	uint32_t *exact, *loose;
};

struct align {
	struct query_state s; /* for its memory and its error */
	struct interner texts, routines, paths, loose_paths;
	bool *same_build; /* for each routine: is its module the same in both traces? */
	size_t same_builds, same_build_room;
	struct interner unchanged; /* the names of such modules, as numbers of texts */
	int64_t *shift;		   /* for each routine, in lines */
	struct sites before, after;
	size_t *pair; /* row of `before` -> row of `after`, or SIZE_MAX */
	bool *taken;  /* of `after` */
};

/* ---- names ---- */

static const char *base_of(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

/* The length of the part of a function's name that survives a rebuild: compilers number clones, and
 * Rust appends a hash to names. */
static size_t stable_length(const char *name)
{
	static const char *const clone[] = {" [clone ", ".isra.",     ".constprop.", ".part.",
					    ".cold",	".lto_priv.", ".llvm."};
	size_t length = strlen(name);

	for (size_t i = 0; i < sizeof(clone) / sizeof(*clone); i++) {
		const char *at = strstr(name, clone[i]);

		if (at && at > name && (size_t)(at - name) < length)
			length = (size_t)(at - name);
	}
	if (length > 19 && memcmp(name + length - 19, "::h", 3) == 0 &&
	    strspn(name + length - 16, "0123456789abcdef") >= 16)
		length -= 19;
	return length;
}

static uint32_t number_of(struct align *a, struct interner *n, uint64_t w0, uint64_t w1,
			  uint64_t w2)
{
	bool fresh;
	uint32_t number = interner_add(n, (struct key){{w0, w1, w2, 0}}, &fresh);

	if (number == NONE)
		query_fail(&a->s, MAYFLY_E_MEMORY);
	return number;
}

/* Texts are identified by two hashes of 64 bits. */
static struct key text_key(const char *text, size_t length)
{
	uint64_t first = 0x9ae16a3b2f90404fu ^ length, second = 0xc949d7c7509e6557u + length;

	for (size_t i = 0; i < length; i++) {
		first = (first ^ (unsigned char)text[i]) * 0x100000001b3u;
		second = hash_mix(second + (unsigned char)text[i]);
	}
	return (struct key){{hash_mix(first), second, 0, 0}};
}

static uint32_t text_number(struct align *a, const char *text, size_t length)
{
	struct key key = text_key(text, length);

	return number_of(a, &a->texts, key.word[0], key.word[1], 0);
}

struct key diff_function_key(const struct mayfly_place *p)
{
	const char *module = base_of(p->module);
	struct key key;

	if (p->kind == MAYFLY_FRAME_CODE && *p->function)
		return text_key(p->function, stable_length(p->function));
	key = text_key(module, strlen(module));
	key.word[2] = p->kind + 1;
	key.word[3] = p->address;
	return key;
}

static bool is_unchanged(const struct align *a, const char *module)
{
	struct interner *n = (struct interner *)&a->unchanged;
	const char *name = base_of(module);
	struct key key = text_key(name, strlen(name));

	if (n->count == 0 || !*name)
		return false;
	for (size_t i = 0; i < n->count; i++)
		if (memcmp(&n->key[i], &key, sizeof(key)) == 0)
			return true;
	return false;
}

/* Modules with the same name and the same build-id in both traces. */
static void find_unchanged(struct align *a, const struct mayfly_trace *before,
			   const struct mayfly_trace *after)
{
	size_t modules = mayfly_trace_info(after)->modules;

	for (size_t i = 0; i < mayfly_trace_info(before)->modules; i++) {
		const struct mayfly_module *m = mayfly_trace_module(before, i);
		const char *name = base_of(m->path);

		for (size_t k = 0; m->build_id_length && k < modules; k++) {
			const struct mayfly_module *o = mayfly_trace_module(after, k);
			struct key key = text_key(name, strlen(name));

			if (o->build_id_length == m->build_id_length &&
			    memcmp(o->build_id, m->build_id, m->build_id_length) == 0 &&
			    strcmp(base_of(o->path), name) == 0)
				number_of(a, &a->unchanged, key.word[0], key.word[1], 0);
		}
	}
}

/* ---- sites ---- */

static void note_build(struct align *a, uint32_t routine, const char *module)
{
	if (a->s.error || routine < a->same_builds)
		return;
	if (!array_reserve(&a->same_build, &a->same_build_room, routine, sizeof(*a->same_build))) {
		query_fail(&a->s, MAYFLY_E_MEMORY);
		return;
	}
	a->same_builds = routine + 1;
	a->same_build[routine] = is_unchanged(a, module);
}

/* An address without a name stays the same only in the same build. */
static struct site site_of(struct align *a, const struct mayfly_place *p)
{
	const char *module = base_of(p->module), *file = base_of(p->file);
	uint32_t function, place;
	struct site s = {.line = p->line};

	if (*p->function) {
		function = text_number(a, p->function, stable_length(p->function));
		place = text_number(a, file, strlen(file));
		s.routine = number_of(a, &a->routines, 0, function, place);
	} else {
		place = text_number(a, module, strlen(module));
		s.routine = number_of(a, &a->routines, p->kind + 1, place, p->address);
	}
	note_build(a, s.routine, p->module);
	return s;
}

static struct mayfly_place place_of_row(const struct mayfly_row *row)
{
	if (!*row->function && row->stack_length > 0)
		return row->stack[0];
	return (struct mayfly_place){
	    .function = row->function,
	    .file = row->file,
	    .module = row->module,
	    .line = row->line,
	};
}

static bool make_sites(struct align *a, struct sites *s, const struct mayfly_result *result,
		       bool stacks)
{
	size_t places = 0;

	s->result = result;
	for (size_t i = 0; i < result->rows; i++)
		places += stacks ? result->row[i].stack_length : 1;
	s->site = query_scratch(&a->s, places, sizeof(*s->site));
	s->first = query_scratch(&a->s, result->rows + 1, sizeof(*s->first));
	s->exact = query_scratch(&a->s, result->rows, sizeof(*s->exact));
	s->loose = query_scratch(&a->s, result->rows, sizeof(*s->loose));
	if (a->s.error)
		return false;
	for (size_t i = 0; i < result->rows; i++) {
		const struct mayfly_row *row = &result->row[i];
		struct mayfly_place own = place_of_row(row);

		s->first[i] = s->sites;
		for (size_t k = 0; k < (stacks ? row->stack_length : 1); k++)
			s->site[s->sites++] = site_of(a, stacks ? &row->stack[k] : &own);
	}
	s->first[result->rows] = s->sites;
	return !a->s.error;
}

/* ---- how far routines have moved ---- */

static int compare_sites(const void *x, const void *y)
{
	const struct site *a = x, *b = y;

	if (a->routine != b->routine)
		return a->routine < b->routine ? -1 : 1;
	return a->line < b->line ? -1 : a->line > b->line;
}

/* The sites of all rows with a line, each once, sorted. */
static struct site *distinct_sites(struct align *a, const struct sites *s, size_t *count)
{
	struct site *d = query_scratch(&a->s, s->sites, sizeof(*d));
	size_t lines = 0;

	*count = 0;
	for (size_t i = 0; d && i < s->sites; i++)
		if (s->site[i].line)
			d[lines++] = s->site[i];
	if (d)
		qsort(d, lines, sizeof(*d), compare_sites);
	for (size_t i = 0; i < lines; i++)
		if (*count == 0 || compare_sites(&d[*count - 1], &d[i]) != 0)
			d[(*count)++] = d[i];
	return d;
}

static size_t of_routine(const struct site *s, size_t count, size_t from)
{
	size_t n = 0;

	while (from + n < count && s[from + n].routine == s[from].routine)
		n++;
	return n;
}

/* The number of lines of a that are lines of b after the shift. */
static size_t hits(const struct site *a, size_t na, const struct site *b, size_t nb, int64_t shift)
{
	size_t k = 0, count = 0;

	for (size_t i = 0; i < na; i++) {
		while (k < nb && b[k].line < a[i].line + shift)
			k++;
		count += k < nb && b[k].line == a[i].line + shift;
	}
	return count;
}

#define MOST_LINES 40 /* routines with more lines are taken as not shifted */

/* The shift with the most common lines; if several have as many, the smallest. */
static int64_t best_shift(const struct site *a, size_t na, const struct site *b, size_t nb)
{
	size_t most = hits(a, na, b, nb, 0);
	int64_t best = 0;

	if (na > MOST_LINES || nb > MOST_LINES)
		return 0;
	for (size_t i = 0; i < na; i++) {
		for (size_t k = 0; k < nb; k++) {
			int64_t shift = (int64_t)b[k].line - a[i].line;
			size_t count = hits(a, na, b, nb, shift);

			if (count > most || (count == most && llabs(shift) < llabs(best))) {
				most = count;
				best = shift;
			}
		}
	}
	return best;
}

static bool find_shifts(struct align *a)
{
	size_t na, nb, i = 0, k = 0;
	struct site *before = distinct_sites(a, &a->before, &na);
	struct site *after = distinct_sites(a, &a->after, &nb);

	a->shift = query_scratch(&a->s, a->routines.count, sizeof(*a->shift));
	while (!a->s.error && i < na && k < nb) {
		size_t ni = of_routine(before, na, i), nk = of_routine(after, nb, k);
		uint32_t routine = before[i].routine;

		if (routine == after[k].routine && !a->same_build[routine])
			a->shift[routine] = best_shift(&before[i], ni, &after[k], nk);
		if (routine <= after[k].routine)
			i += ni;
		if (routine >= after[k].routine)
			k += nk;
	}
	return !a->s.error;
}

/* ---- pairs ---- */

/* A row's number identifies its path of sites, as a node's number in a tree does. */
static void number_rows(struct align *a, struct sites *s, bool shifted)
{
	for (size_t i = 0; i < s->result->rows; i++) {
		uint32_t exact = 0, loose = 0;

		for (size_t k = s->first[i]; k < s->first[i + 1]; k++) {
			const struct site *p = &s->site[k];
			int64_t line = p->line;

			if (line && shifted)
				line += a->shift[p->routine];
			exact = number_of(a, &a->paths, exact, p->routine, (uint64_t)line) + 1;
			loose = number_of(a, &a->loose_paths, loose, p->routine, 0) + 1;
		}
		s->exact[i] = exact;
		s->loose[i] = loose;
	}
}

/* Rows without a pair, by number: first[number], and next[] of each row, ascending; or SIZE_MAX. */
struct by_number {
	size_t *first, *next;
};

static bool list_rows(struct align *a, struct by_number *l, const uint32_t *number, size_t numbers,
		      size_t rows, bool after)
{
	l->first = query_scratch(&a->s, numbers, sizeof(*l->first));
	l->next = query_scratch(&a->s, rows, sizeof(*l->next));
	if (a->s.error)
		return false;
	memset(l->first, 0xff, numbers * sizeof(*l->first));
	for (size_t i = rows; i-- > 0;) {
		if (after ? a->taken[i] : a->pair[i] != SIZE_MAX)
			continue;
		l->next[i] = l->first[number[i]];
		l->first[number[i]] = i;
	}
	return true;
}

static size_t list_length(const struct by_number *l, uint32_t number)
{
	size_t count = 0;

	for (size_t i = l->first[number]; i != SIZE_MAX; i = l->next[i])
		count++;
	return count;
}

struct candidate {
	uint64_t distance;
	size_t before, after;
};

static int compare_candidates(const void *x, const void *y)
{
	const struct candidate *a = x, *b = y;

	if (a->distance != b->distance)
		return a->distance < b->distance ? -1 : 1;
	if (a->before != b->before)
		return a->before < b->before ? -1 : 1;
	return a->after < b->after ? -1 : a->after > b->after;
}

#define TOO_FAR UINT64_MAX

/* The distance in lines between two rows with the same routines. */
static uint64_t distance(const struct align *a, size_t before, size_t after)
{
	const struct site *x = &a->before.site[a->before.first[before]];
	const struct site *y = &a->after.site[a->after.first[after]];
	size_t count = a->before.first[before + 1] - a->before.first[before];
	uint64_t sum = 0;

	for (size_t i = 0; i < count; i++) {
		int64_t moved = (int64_t)y[i].line - x[i].line - a->shift[x[i].routine];

		if (moved && a->same_build[x[i].routine])
			return TOO_FAR;
		sum += (uint64_t)llabs(moved);
	}
	return sum;
}

static void diff_align_join(struct align *a, size_t before, size_t after)
{
	a->pair[before] = after;
	a->taken[after] = true;
}

#define MOST_CANDIDATES 250000 /* groups with more possible pairs are skipped */

static bool join_nearest(struct align *a, const struct by_number *b, const struct by_number *f,
			 uint32_t number)
{
	size_t nb = list_length(b, number), nf = list_length(f, number), count = 0;
	struct candidate *c;

	if (!nb || !nf || nb > MOST_CANDIDATES / nf)
		return true;
	c = query_zeroed(&a->s, nb * nf, sizeof(*c));
	if (!c)
		return false;
	for (size_t i = b->first[number]; i != SIZE_MAX; i = b->next[i]) {
		for (size_t k = f->first[number]; k != SIZE_MAX; k = f->next[k]) {
			uint64_t d = distance(a, i, k);

			if (d != TOO_FAR)
				c[count++] = (struct candidate){d, i, k};
		}
	}
	qsort(c, count, sizeof(*c), compare_candidates);
	for (size_t i = 0; i < count; i++)
		if (a->pair[c[i].before] == SIZE_MAX && !a->taken[c[i].after])
			diff_align_join(a, c[i].before, c[i].after);
	free(c);
	return true;
}

static size_t count_numbers(const uint32_t *number, size_t rows, size_t most)
{
	for (size_t i = 0; i < rows; i++)
		if (most <= number[i])
			most = (size_t)number[i] + 1;
	return most;
}

/* Pairs of rows with equal numbers: in order, or the nearest first. */
static bool join_equal(struct align *a, const uint32_t *before, const uint32_t *after, bool nearest)
{
	size_t rows = a->before.result->rows, rows_after = a->after.result->rows;
	size_t numbers = count_numbers(after, rows_after, count_numbers(before, rows, 0));
	struct by_number b, f;

	if (!list_rows(a, &b, before, numbers, rows, false) ||
	    !list_rows(a, &f, after, numbers, rows_after, true))
		return false;
	for (uint32_t n = 0; nearest && n < numbers; n++)
		if (!join_nearest(a, &b, &f, n))
			return false;
	for (size_t i = 0; !nearest && i < rows; i++) {
		size_t k = a->pair[i] == SIZE_MAX ? f.first[before[i]] : SIZE_MAX;

		if (k == SIZE_MAX)
			continue;
		f.first[before[i]] = f.next[k];
		diff_align_join(a, i, k);
	}
	return true;
}

/* ---- rows that do not stand for code ---- */

static uint32_t plain_number(struct align *a, const struct mayfly_trace *trace,
			     const struct mayfly_row *row, enum mayfly_by by)
{
	const struct mayfly_thread *thread;
	const char *text = by == MAYFLY_BY_LABEL ? row->function : base_of(row->module);

	if (by == MAYFLY_BY_THREAD) {
		thread = mayfly_trace_thread(trace, row->thread);
		text = thread ? thread->name : "";
	}
	if (by == MAYFLY_BY_THREAD || by == MAYFLY_BY_MODULE || by == MAYFLY_BY_LABEL)
		return text_number(a, text, strlen(text));
	return number_of(a, &a->paths, (uint64_t)row->low, (uint64_t)row->high, 1);
}

static void number_plain(struct align *a, struct sites *s, const struct mayfly_trace *trace,
			 enum mayfly_by by)
{
	for (size_t i = 0; i < s->result->rows; i++)
		s->exact[i] = plain_number(a, trace, &s->result->row[i], by);
}

/* Pairs by function: a function without a pair may have moved to another file. */
static void number_functions(struct align *a, struct sites *s)
{
	for (size_t i = 0; i < s->result->rows; i++) {
		const char *f = s->result->row[i].function;

		s->loose[i] = *f ? text_number(a, f, stable_length(f))
				 : a->texts.count + s->site[s->first[i]].routine;
	}
}

/* ---- the result ---- */

static bool join_rows(struct align *a, const struct mayfly_trace *before,
		      const struct mayfly_trace *after, enum mayfly_by by)
{
	bool code = by == MAYFLY_BY_FUNCTION || by == MAYFLY_BY_LINE || by == MAYFLY_BY_STACK;

	if (!find_shifts(a))
		return false;
	if (code) {
		number_rows(a, &a->before, true);
		number_rows(a, &a->after, false);
	} else {
		number_plain(a, &a->before, before, by);
		number_plain(a, &a->after, after, by);
	}
	if (a->s.error || !join_equal(a, a->before.exact, a->after.exact, false))
		return false;
	if (by == MAYFLY_BY_FUNCTION) {
		number_functions(a, &a->before);
		number_functions(a, &a->after);
	}
	return !a->s.error &&
	       (!code || join_equal(a, a->before.loose, a->after.loose, by != MAYFLY_BY_FUNCTION));
}

size_t *diff_align(const struct mayfly_trace *before_trace, const struct mayfly_result *before,
		   const struct mayfly_trace *after_trace, const struct mayfly_result *after,
		   enum mayfly_by by)
{
	struct align a = {.s = {0}};
	bool stacks = by == MAYFLY_BY_STACK;

	a.pair = query_zeroed(&a.s, before->rows, sizeof(*a.pair));
	a.taken = query_scratch(&a.s, after->rows, sizeof(*a.taken));
	for (size_t i = 0; a.pair && i < before->rows; i++)
		a.pair[i] = SIZE_MAX;
	find_unchanged(&a, before_trace, after_trace);
	if (!a.s.error && make_sites(&a, &a.before, before, stacks) &&
	    make_sites(&a, &a.after, after, stacks))
		join_rows(&a, before_trace, after_trace, by);
	interner_free(&a.texts);
	interner_free(&a.routines);
	interner_free(&a.paths);
	interner_free(&a.loose_paths);
	interner_free(&a.unchanged);
	free(a.same_build);
	query_end(&a.s);
	if (a.s.error) {
		free(a.pair);
		return NULL;
	}
	return a.pair;
}
