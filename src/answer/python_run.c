/* SPDX-License-Identifier: Apache-2.0 */
/* What a command line of Python runs: see python_run.h. */
#include "answer/python_run.h"

#include <ctype.h>
#include <string.h>

#include "answer/trace_names.h"

/* Where a runner's arguments name what it runs. MODULE:OBJECT counts in all of them. */
enum runner_finds {
	FINDS_OPTIONS, /* in options only */
	FINDS_LAST,    /* in the last argument, too */
	FINDS_ALL,     /* in each argument that is no option */
	FINDS_COMMAND, /* they are a command line of Python */
};

/* Programs and packages that run other people's code. */
static const struct runner {
	const char *name;
	enum runner_finds finds;
	const char *options[4]; /* each has the name of a module as its value */
} runners[] = {
    {"gunicorn", FINDS_LAST, {"--paste"}},
    {"uvicorn", FINDS_LAST, {NULL}},
    {"hypercorn", FINDS_LAST, {NULL}},
    {"daphne", FINDS_LAST, {NULL}},
    {"granian", FINDS_LAST, {NULL}},
    {"waitress", FINDS_LAST, {NULL}},
    {"waitress-serve", FINDS_LAST, {NULL}},
    {"uwsgi", FINDS_OPTIONS, {"-w", "--module", "--wsgi", "--wsgi-file"}},
    {"mod_wsgi-express", FINDS_LAST, {NULL}},
    {"celery", FINDS_OPTIONS, {"-A", "--app"}},
    {"flask", FINDS_OPTIONS, {"-A", "--app"}},
    {"django", FINDS_OPTIONS, {"--settings"}},
    {"django-admin", FINDS_OPTIONS, {"--settings"}},
    {"dramatiq", FINDS_ALL, {NULL}},
    {"arq", FINDS_ALL, {NULL}},
    {"pytest", FINDS_ALL, {"--pyargs"}},
    {"py.test", FINDS_ALL, {"--pyargs"}},
    {"unittest", FINDS_ALL, {NULL}},
    {"coverage", FINDS_COMMAND, {NULL}},
    {"cProfile", FINDS_COMMAND, {NULL}},
    {"profile", FINDS_COMMAND, {NULL}},
    {"pdb", FINDS_COMMAND, {NULL}},
    {"trace", FINDS_COMMAND, {NULL}},
    {"debugpy", FINDS_COMMAND, {NULL}},
    {"memray", FINDS_COMMAND, {NULL}},
    {"scalene", FINDS_COMMAND, {NULL}},
    {"opentelemetry-instrument", FINDS_COMMAND, {NULL}},
    {"ddtrace-run", FINDS_COMMAND, {NULL}},
    {NULL, FINDS_OPTIONS, {NULL}},
};

/* ---- names ---- */

/* The length of an identifier of Python at the beginning of the text. */
static size_t identifier(const char *text)
{
	size_t n = 0;

	while (isalnum((unsigned char)text[n]) || text[n] == '_' || (text[n] & 0x80))
		n++;
	return n && isdigit((unsigned char)*text) ? 0 : n;
}

/* "shop", "shop.web", "shop.web:app", "shop.web:make()": the length of the first part, or 0. */
static size_t module_package(const char *text, bool *has_object)
{
	size_t first = identifier(text);
	const char *at = text + first;

	*has_object = false;
	while (*at == '.' && identifier(at + 1))
		at += 1 + identifier(at + 1);
	if (*at == ':' && identifier(at + 1)) {
		*has_object = true;
		at += 1 + identifier(at + 1);
		at += strcspn(at, "(");
		return !*at || *at == '(' ? first : 0;
	}
	return *at ? 0 : first;
}

const char *python_library_part(const char *path)
{
	const char *found = strstr(path, "/lib/python3");

	if (!found)
		return NULL;
	found += strlen("/lib/python3");
	found += strspn(found, ".0123456789");
	if (*found == '/')
		return found + 1;
	return strncmp(found, "zip/", 4) == 0 ? found + 4 : NULL;
}

/* The part of a path behind the last folder of packages; NULL: there is none. */
static const char *packages_part(const char *path)
{
	static const char *const folders[] = {"/site-packages/", "/dist-packages/"};
	const char *part = NULL;

	for (size_t i = 0; i < 2; i++)
		for (const char *at = path; (at = strstr(at, folders[i]));) {
			at += strlen(folders[i]);
			if (at > part)
				part = at;
			at--; /* the slash may begin the next one */
		}
	return part ? part : python_library_part(path);
}

/* The name of the package that a path is in, or of the module that it is; length 0: of none. */
static struct run_package path_package(const char *path)
{
	const char *part = packages_part(path);
	size_t length = part ? strcspn(part, "/") : 0;

	/* "demo-1.0-py3.11.egg/demo/a.py" */
	if (length > 4 && part[length] && memcmp(part + length - 4, ".egg", 4) == 0) {
		part += length + 1;
		length = strcspn(part, "/");
	}
	/* "demo.py", "demo.cpython-311-x86_64-linux-gnu.so" */
	if (length && !part[length])
		length = strcspn(part, ".");
	return (struct run_package){part, length};
}

static void add(struct run_packages *run, const char *name, size_t length)
{
	if (length && run->count < RUN_PACKAGES)
		run->package[run->count++] = (struct run_package){name, length};
}

/* A path in a package, or the name of a module. */
static void add_argument(struct run_packages *run, const char *text, bool needs_object)
{
	struct run_package p = path_package(text);
	bool has_object;
	size_t length = module_package(text, &has_object);

	if (p.length)
		add(run, p.name, p.length);
	else if (has_object || !needs_object)
		add(run, text, length);
}

bool python_is_run(const struct run_packages *run, const char *path)
{
	struct run_package p = {NULL, 0};

	if (run->count)
		p = path_package(path);
	for (size_t i = 0; p.length && i < run->count; i++)
		if (run->package[i].length == p.length &&
		    memcmp(run->package[i].name, p.name, p.length) == 0)
			return true;
	return false;
}

/* ---- command lines ---- */

/* What is left of one. */
struct words {
	const char *const *word;
	size_t count;
};

static void find_nested(struct run_packages *run, struct words w);

static const struct runner *find_runner(const char *name, size_t length)
{
	for (const struct runner *r = runners; r->name; r++)
		if (strlen(r->name) == length && memcmp(r->name, name, length) == 0)
			return r;
	return NULL;
}

/* The value of one of the runner's options: "-A shop", "-Ashop", "--app=shop"; NULL: it is none of them. */
static const char *option_value(const struct runner *r, struct words w, size_t i)
{
	for (size_t k = 0; k < 4 && r->options[k]; k++) {
		const char *name = r->options[k], *rest = w.word[i] + strlen(name);

		if (strncmp(w.word[i], name, strlen(name)) != 0)
			continue;
		if (!*rest)
			return i + 1 < w.count ? w.word[i + 1] : NULL;
		if (*rest == '=' || name[1] != '-')
			return rest + (*rest == '=');
	}
	return NULL;
}

static void find_application(struct run_packages *run, const struct runner *r, struct words w)
{
	for (size_t i = 0; i < w.count; i++) {
		const char *value = option_value(r, w, i);
		bool may_name =
		    r->finds == FINDS_ALL || (r->finds == FINDS_LAST && i + 1 == w.count);

		if (value)
			add_argument(run, value, false);
		else if (*w.word[i] != '-')
			add_argument(run, w.word[i], !may_name);
	}
}

/* A module, or a program by its name. */
static void found_module(struct run_packages *run, const char *name, size_t length, struct words w)
{
	const struct runner *r = find_runner(name, length);

	if (!r)
		add(run, name, length);
	else if (r->finds == FINDS_COMMAND)
		find_nested(run, w);
	else
		find_application(run, r, w);
}

/* entry: the module whose function the script calls; "" where that is not known: then the name of a script
 * in a folder for programs is that of its package. */
static void found_script(struct run_packages *run, const char *path, const char *entry,
			 struct words w)
{
	const char *name = path_base(path);
	struct run_package p = path_package(path);
	bool has_object;

	if (find_runner(name, strlen(name)))
		found_module(run, name, strlen(name), w);
	else if (*entry)
		found_module(run, entry, module_package(entry, &has_object), w);
	else if (p.length)
		found_module(run, p.name, p.length, w);
	else if (name - path >= 4 && memcmp(name - 4, "bin/", 4) == 0)
		add(run, name, module_package(name, &has_object));
}

/* The command line that a runner was given, behind its own words: "coverage run -m shop". */
static void find_nested(struct run_packages *run, struct words w)
{
	bool has_object;

	for (; w.count; w.word++, w.count--) {
		struct words rest = {w.word + 1, w.count - 1};

		if (strcmp(w.word[0], "-m") == 0 && rest.count) {
			const char *name = rest.word[0];

			found_module(run, name, module_package(name, &has_object),
				     (struct words){rest.word + 1, rest.count - 1});
			return;
		}
		if (*w.word[0] != '-' && (strchr(w.word[0], '/') || strstr(w.word[0], ".py"))) {
			found_script(run, w.word[0], "", rest);
			return;
		}
	}
}

/* What one word of options of the interpreter asks for: "-u", "-X dev", "-Xdev", "-Im shop". */
struct asked {
	char what;	   /* 'm', 'c', or 'X' or another that has a value; 0: nothing of these */
	const char *value; /* in the same word; "": it is the next one */
};

static struct asked read_option(const char *word)
{
	const char *at = word + 1;

	if (*at == '-')
		return (struct asked){strcmp(word, "--check-hash-based-pycs") == 0 ? 'X' : 0, ""};
	while (*at && !strchr("mcXW", *at))
		at++;
	return (struct asked){*at, *at ? at + 1 : at};
}

/* The words behind the interpreter's name. */
static void find_command(struct run_packages *run, struct words w, const char *entry)
{
	bool has_object;

	while (w.count && *w.word[0] == '-' && w.word[0][1]) {
		struct asked asked = read_option(w.word[0]);
		size_t words = asked.what && !*asked.value ? 2 : 1;

		run->has_text |= asked.what == 'c';
		if (run->has_text || words > w.count)
			return;
		if (words == 2)
			asked.value = w.word[1];
		w.word += words;
		w.count -= words;
		if (asked.what == 'm') {
			found_module(run, asked.value, module_package(asked.value, &has_object), w);
			return;
		}
	}
	if (w.count)
		found_script(run, w.word[0], entry, (struct words){w.word + 1, w.count - 1});
}

void python_find_run(struct run_packages *run, const struct mayfly_info *info)
{
	struct words w = {info->command, info->command_count};
	const char *name;

	*run = (struct run_packages){.count = 0};
	if (!w.count)
		return;
	name = path_base(w.word[0]);
	w.word++;
	w.count--;
	/* uwsgi and others are programs of their own. */
	if (find_runner(name, strlen(name)))
		found_module(run, name, strlen(name), w);
	else
		find_command(run, w, info->entry);
}
