/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names in an eventlog. See eventlog.h. These lists of the metadata are used:
 *
 *	enum gc_phase : uint16_t {
 *		"compact/main" = 0,
 *		"compact/recompact",		(the previous number plus 1)
 *		"several" = 7 ... 9,
 *	};
 *
 * and likewise gc_counter and alloc_bucket. The rest is the layout of the stream, which never
 * varies.
 */
#include "ocaml_events/eventlog.h"

#include <string.h>

static const char *const list_names[EVENTLOG_LISTS] = {"gc_phase", "gc_counter", "alloc_bucket"};

/* ---- OCaml 4.13 ---- */

static const char *const phases[] = {
    "compact/main",
    "compact/recompact",
    "explicit/gc_set",
    "explicit/gc_stat",
    "explicit/gc_minor",
    "explicit/gc_major",
    "explicit/gc_full_major",
    "explicit/gc_compact",
    "major",
    "major/roots",
    "major/sweep",
    "major/mark/roots",
    "major/mark/main",
    "major/mark/final",
    "major/mark",
    "major/mark/global_roots_slice",
    "major_roots/global",
    "major_roots/dynamic_global",
    "major_roots/local",
    "major_roots/C",
    "major_roots/finalised",
    "major_roots/memprof",
    "major_roots/hook",
    "major/check_and_compact",
    "minor",
    "minor/local_roots",
    "minor/ref_tables",
    "minor/copy",
    "minor/update_weak",
    "minor/finalized",
    "explicit/gc_major_slice",
};

static const char *const counters[] = {
    "alloc_jump",
    "force_minor/alloc_small",
    "force_minor/make_vect",
    "force_minor/set_minor_heap_size",
    "force_minor/weak",
    "force_minor/memprof",
    "major/mark/slice/remain",
    "major/mark/slice/fields",
    "major/mark/slice/pointers",
    "major/work/extra",
    "major/work/mark",
    "major/work/sweep",
    "minor/promoted",
    "request_major/alloc_shr",
    "request_major/adjust_gc_speed",
    "request_minor/realloc_ref_table",
    "request_minor/realloc_ephe_ref_table",
    "request_minor/realloc_custom_table",
};

/* Sizes of blocks in words; there is no bucket 0. */
static const char *const buckets[] = {
    NULL,	   "alloc 01",	  "alloc 02",	 "alloc 03",	"alloc 04",
    "alloc 05",	   "alloc 06",	  "alloc 07",	 "alloc 08",	"alloc 09",
    "alloc 10-19", "alloc 20-29", "alloc 30-39", "alloc 40-49", "alloc 50-59",
    "alloc 60-69", "alloc 70-79", "alloc 80-89", "alloc 90-99", "alloc large",
};

#define COUNT(list) (sizeof(list) / sizeof(*(list)))

static const struct {
	const char *const *name;
	uint32_t count;
} known[EVENTLOG_LISTS] = {
    {phases, COUNT(phases)}, {counters, COUNT(counters)}, {buckets, COUNT(buckets)}};

static void tell_known(enum eventlog_list list, eventlog_name *tell, void *context)
{
	for (uint32_t i = 0; i < known[list].count; i++)
		if (known[list].name[i])
			tell(context, list, i, i, known[list].name[i], strlen(known[list].name[i]));
}

/* ---- tokens of the metadata ---- */

enum token_kind { TOKEN_END, TOKEN_NAME, TOKEN_TEXT, TOKEN_NUMBER, TOKEN_DOTS, TOKEN_SIGN };

struct token {
	enum token_kind kind;
	const char *at; /* TEXT: inside the quotes */
	size_t length;
	int64_t number;
};

struct scanner {
	const char *at, *end;
	struct token token; /* the latest */
};

#define DIGITS	"0123456789"
#define LETTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_"

static size_t span(const struct scanner *s, const char *set)
{
	const char *p = s->at;

	while (p < s->end && *p && strchr(set, *p))
		p++;
	return (size_t)(p - s->at);
}

static bool begins(const struct scanner *s, const char *text)
{
	size_t length = strlen(text);

	return (size_t)(s->end - s->at) >= length && memcmp(s->at, text, length) == 0;
}

/* Skips to after the next `text`, or to the end. */
static void skip_behind(struct scanner *s, const char *text)
{
	const char *found = memmem(s->at, (size_t)(s->end - s->at), text, strlen(text));

	s->at = found ? found + strlen(text) : s->end;
}

static void skip_space(struct scanner *s)
{
	for (;;) {
		s->at += span(s, " \t\r\n");
		if (begins(s, "/*"))
			skip_behind(s, "*/");
		else if (begins(s, "//"))
			skip_behind(s, "\n");
		else
			return;
	}
}

/* Stops growing once the number is too large for any list. */
static int64_t number(const char *at, size_t length)
{
	unsigned int base = 10, digit;
	int64_t value = 0;

	if (length > 2 && at[0] == '0' && (at[1] | 0x20) == 'x') {
		base = 16;
		at += 2;
		length -= 2;
	} else if (length > 1 && at[0] == '0') {
		base = 8;
	}
	for (size_t i = 0; i < length && value < EVENTLOG_NUMBERS; i++) {
		if (at[i] >= '0' && at[i] <= '9')
			digit = (unsigned int)(at[i] - '0');
		else if ((at[i] | 0x20) >= 'a' && (at[i] | 0x20) <= 'f')
			digit = (unsigned int)((at[i] | 0x20) - 'a') + 10;
		else
			break; /* "u", "ull" */
		if (digit >= base)
			break;
		value = value * base + digit;
	}
	return value;
}

static void scan_text(struct scanner *s, struct token *t)
{
	t->kind = TOKEN_TEXT;
	t->at = ++s->at;
	while (s->at < s->end && *s->at != '"' && *s->at != '\n')
		s->at += *s->at == '\\' && s->at + 1 < s->end ? 2 : 1;
	t->length = (size_t)(s->at - t->at);
	if (s->at < s->end)
		s->at++;
}

static const struct token *eventlog_names_next(struct scanner *s)
{
	struct token *t = &s->token;

	skip_space(s);
	*t = (struct token){.kind = TOKEN_SIGN, .at = s->at, .length = 1};
	if (s->at == s->end) {
		t->kind = TOKEN_END;
		t->length = 0;
		return t;
	}
	if (*s->at == '"') {
		scan_text(s, t);
		return t;
	}
	if (begins(s, "...")) {
		t->kind = TOKEN_DOTS;
		t->length = 3;
	} else if (span(s, DIGITS)) {
		t->kind = TOKEN_NUMBER;
		t->length = span(s, DIGITS LETTERS);
		t->number = number(s->at, t->length);
	} else if (span(s, LETTERS)) {
		t->kind = TOKEN_NAME;
		t->length = span(s, DIGITS LETTERS);
	}
	s->at += t->length;
	return t;
}

static bool is(const struct token *t, const char *text)
{
	return (t->kind == TOKEN_SIGN || t->kind == TOKEN_NAME) && t->length == strlen(text) &&
	       memcmp(t->at, text, t->length) == 0;
}

/* ---- lists of the metadata ---- */

/* A short range can cover many numbers, so the number of named ones is limited. */
#define NAMED_MAX (4u * EVENTLOG_NUMBERS)

struct names {
	struct scanner scanner;
	eventlog_name *tell;
	void *context;
	uint32_t named;
	bool found[EVENTLOG_LISTS];
};

static void tell_range(struct names *n, enum eventlog_list list, const struct token *label,
		       int64_t first, int64_t last)
{
	if (last >= EVENTLOG_NUMBERS)
		last = EVENTLOG_NUMBERS - 1;
	if (first < 0 || first > last || !label->length)
		return;
	n->named += (uint32_t)(last - first + 1);
	if (n->named > NAMED_MAX)
		return;
	n->found[list] = true;
	n->tell(n->context, list, (uint32_t)first, (uint32_t)last, label->at, label->length);
}

/* Reads from after "{" to "}". Anything that is not a list of labels ends it too. */
static void eventlog_names_read_labels(struct names *n, enum eventlog_list list)
{
	const struct token *t = eventlog_names_next(&n->scanner);
	int64_t first = 0, last;

	while (t->kind == TOKEN_TEXT || t->kind == TOKEN_NAME) {
		struct token label = *t;

		t = eventlog_names_next(&n->scanner);
		if (is(t, "=")) {
			first = eventlog_names_next(&n->scanner)->number;
			t = eventlog_names_next(&n->scanner);
		}
		last = first;
		if (t->kind == TOKEN_DOTS) {
			last = eventlog_names_next(&n->scanner)->number;
			t = eventlog_names_next(&n->scanner);
		}
		tell_range(n, list, &label, first, last);
		first = last + 1;
		if (!is(t, ","))
			return;
		t = eventlog_names_next(&n->scanner);
	}
}

/* Skips from after ":" to "{": "uint16_t", "integer { size = 16; }". */
static const struct token *skip_integer(struct scanner *s)
{
	const struct token *t = eventlog_names_next(s);
	bool described = is(t, "integer");

	while (!is(t, "{") && !is(t, ";") && t->kind != TOKEN_END)
		t = eventlog_names_next(s);
	if (!described || !is(t, "{"))
		return t;
	while (!is(t, "}") && t->kind != TOKEN_END)
		t = eventlog_names_next(s);
	return eventlog_names_next(s);
}

/* Reads after "enum": its name, the integer's type, "{". A name alone is a use of the list. */
static void read_enum(struct names *n)
{
	const struct token *t = eventlog_names_next(&n->scanner);
	int list = EVENTLOG_LISTS;

	for (int i = 0; i < EVENTLOG_LISTS; i++)
		if (is(t, list_names[i]))
			list = i;
	if (list == EVENTLOG_LISTS)
		return;
	t = eventlog_names_next(&n->scanner);
	if (is(t, ":"))
		t = skip_integer(&n->scanner);
	if (is(t, "{"))
		eventlog_names_read_labels(n, (enum eventlog_list)list);
}

void eventlog_names(const void *metadata, size_t size, eventlog_name *tell, void *context)
{
	struct names n = {.tell = tell, .context = context};

	n.scanner.at = size ? metadata : "";
	n.scanner.end = n.scanner.at + size;
	while (eventlog_names_next(&n.scanner)->kind != TOKEN_END)
		if (is(&n.scanner.token, "enum"))
			read_enum(&n);
	for (int i = 0; i < EVENTLOG_LISTS; i++)
		if (!n.found[i])
			tell_known((enum eventlog_list)i, tell, context);
}
