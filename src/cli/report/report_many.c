/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Many traces in one report: a table of the processes, and the sums. Each trace is open only while
 * its figures are taken, so the memory does not grow with the sizes of the traces.
 *
 * What processes allocated, and what they held at their ends, are sets of different blocks: these
 * figures add up, as in `mayfly merge`. Peaks were at different moments and do not.
 */
#include "cli/report/report_many.h"
#include "fleet/http/server_url.h"

#include "answer/estimate_add.h"
#include "answer/json_parts.h"
#include "answer/text_format.h"

#include <dirent.h>
#include <glob.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define COMMAND_BYTES 4096
#define OTHER_COLUMNS 70 /* about what the table has beside the commands */
#define LEAST_COMMAND 24

struct process {
	char *path, *command, *title;
	uint32_t pid, parent_pid, absent, ending;
	int32_t ending_code;
	int64_t duration_ns;
	struct mayfly_summary summary;
};

struct many {
	const struct report *report;
	char *const *named;
	int names;
	glob_t found;
	struct stat *seen; /* the files that were read */
	struct process *process;
	size_t count, unread;
	size_t lack_allocated, lack_live; /* traces that the sums leave out */
	struct mayfly_estimate allocated, live;
};

/* ---- which files ---- */

static bool ends_with(const char *name, const char *end)
{
	size_t length = strlen(name), tail = strlen(end);

	return length > tail && strcmp(name + length - tail, end) == 0;
}

static bool is_folder_of_traces(const char *path)
{
	DIR *folder = opendir(path);
	struct dirent *entry;
	bool found = false;

	while (folder && !found && (entry = readdir(folder)))
		found = *entry->d_name != '.' &&
			(ends_with(entry->d_name, ".mayfly") || ends_with(entry->d_name, ".spool"));
	if (folder)
		closedir(folder);
	return found;
}

static bool is_pattern(const char *path)
{
	struct stat status;

	return !server_url_is(path) && strpbrk(path, "*?[") && stat(path, &status) != 0;
}

/* One that no file has is the name of a file that is not there. */
static bool is_pattern_of_files(const char *path)
{
	glob_t found;
	bool any = is_pattern(path) && glob(path, 0, NULL, &found) == 0;

	if (any)
		globfree(&found);
	return any;
}

bool report_is_many(int count, char **path)
{
	return count > 1 ||
	       (count == 1 && (is_pattern_of_files(*path) || is_folder_of_traces(*path)));
}

/* A name in a folder may contain what is special in a pattern. */
static char *escaped(const char *path, const char *end)
{
	char *text = malloc(2 * strlen(path) + strlen(end) + 1), *to = text;

	if (!text)
		return NULL;
	for (; *path; path++) {
		if (strchr("*?[]\\", *path))
			*to++ = '\\';
		*to++ = *path;
	}
	strcpy(to, end);
	return text;
}

static int find_pattern(struct many *m, char *pattern, int flags)
{
	int error =
	    pattern ? glob(pattern, flags | (m->found.gl_pathc ? GLOB_APPEND : 0), NULL, &m->found)
		    : GLOB_NOSPACE;

	free(pattern);
	return error == GLOB_NOSPACE ? cli_error("out of memory") : CLI_OK;
}

static int find_files(struct many *m, const char *path)
{
	size_t before = m->found.gl_pathc;
	int status;

	if (is_folder_of_traces(path)) {
		status = find_pattern(m, escaped(path, "/*.mayfly"), 0);
		return status ? status : find_pattern(m, escaped(path, "/*.spool"), 0);
	}
	if (!is_pattern(path)) /* reading it tells what is wrong with it */
		return find_pattern(m, escaped(path, ""), GLOB_NOCHECK);
	status = find_pattern(m, strdup(path), 0);
	if (status == CLI_OK && m->found.gl_pathc == before) {
		m->unread++;
		cli_error("%s: no such file", path);
	}
	return status;
}

/* ---- their figures ---- */

/* FILE.spool belongs to FILE, whose figures have it, if that is there, too. */
static bool is_of_another(const struct many *m, const char *path)
{
	size_t stem = strlen(path) - strlen(".spool");

	if (!ends_with(path, ".spool"))
		return false;
	for (size_t i = 0; i < m->found.gl_pathc; i++)
		if (strlen(m->found.gl_pathv[i]) == stem &&
		    memcmp(m->found.gl_pathv[i], path, stem) == 0)
			return true;
	return false;
}

static bool seen_before(struct many *m, const char *path)
{
	struct stat *status = &m->seen[m->count];

	if (stat(path, status) != 0)
		return false;
	for (size_t i = 0; i < m->count; i++)
		if (m->seen[i].st_ino == status->st_ino && m->seen[i].st_dev == status->st_dev)
			return true;
	return false;
}

/* A pipe is read if the user names it; in a folder, nobody may ever write to it. */
static bool is_stray_pipe(const struct many *m, const char *path)
{
	if (!S_ISFIFO(m->seen[m->count].st_mode))
		return false;
	for (int i = 0; i < m->names; i++)
		if (strcmp(m->named[i], path) == 0)
			return false;
	return true;
}

static void add_sums(struct many *m, const struct process *p)
{
	if (p->absent & MAYFLY_ABSENT_ALLOCATED)
		m->lack_allocated++;
	else
		estimate_add(&m->allocated, &p->summary.allocated);
	if (p->absent & MAYFLY_ABSENT_LIVE)
		m->lack_live++;
	else
		estimate_add(&m->live, &p->summary.live_at_end);
}

static int take_figures(struct many *m, const char *path, const struct opened_trace *file)
{
	const struct mayfly_info *info = file->info;
	struct process *p = &m->process[m->count];
	char command[COMMAND_BYTES];
	int error;

	*p = (struct process){.pid = info->pid,
			      .parent_pid = info->parent_pid,
			      .absent = info->absent,
			      .ending = info->ending,
			      .ending_code = info->ending_code,
			      .duration_ns = info->duration_ns};
	error = mayfly_trace_summary(file->trace, &p->summary);
	if (error) {
		m->unread++;
		cli_error("%s: %s", path, mayfly_error_text(error));
		return CLI_OK;
	}
	p->path = strdup(path);
	p->command = strdup(command_line(command, sizeof(command), info));
	m->count++;
	p->title = strdup(info->title);
	if (!p->path || !p->command || !p->title)
		return cli_error("out of memory");
	add_sums(m, p);
	return CLI_OK;
}

static int read_files(struct many *m)
{
	int status = CLI_OK;

	m->process = calloc(m->found.gl_pathc + 1, sizeof(*m->process));
	m->seen = calloc(m->found.gl_pathc + 1, sizeof(*m->seen));
	if (!m->process || !m->seen)
		return cli_error("out of memory");
	for (size_t i = 0; i < m->found.gl_pathc && status == CLI_OK; i++) {
		const char *path = m->found.gl_pathv[i];
		struct opened_trace file;

		if (is_of_another(m, path) || seen_before(m, path) || is_stray_pipe(m, path))
			continue;
		if (!open_trace(path, &file)) {
			m->unread++;
			continue;
		}
		status = take_figures(m, path, &file);
		close_trace(&file);
	}
	if (status == CLI_OK && !m->count)
		status = cli_error("none of the files could be read");
	return status;
}

static int by_peak(const void *a, const void *b)
{
	const struct process *p = a, *q = b;
	double one = p->summary.peak.bytes.estimate, other = q->summary.peak.bytes.estimate;

	if (one != other)
		return one < other ? 1 : -1;
	return strcmp(p->path, q->path);
}

/* ---- how they are shown ---- */

static char *short_ending(char *buffer, size_t size, const struct process *p)
{
	const char *name = sigabbrev_np(p->ending_code);

	switch ((enum mayfly_ending)p->ending) {
	case MAYFLY_END_EXITED:
		return text_format(buffer, size, "exit %" PRId32, p->ending_code);
	case MAYFLY_END_KILLED:
		return name ? text_format(buffer, size, "SIG%s", name)
			    : text_format(buffer, size, "signal %" PRId32, p->ending_code);
	case MAYFLY_END_OFF:
		return text_format(buffer, size, "stopped");
	case MAYFLY_END_EXEC:
		return text_format(buffer, size, "exec");
	case MAYFLY_END_ENDED:
		return text_format(buffer, size, "ended");
	case MAYFLY_END_RUNNING:
		return text_format(buffer, size, "runs");
	case MAYFLY_END_UNKNOWN:
		break;
	}
	return text_format(buffer, size, "-");
}

static void put_estimate(struct table *t, bool absent, const struct mayfly_estimate *e)
{
	char text[FIGURE_TEXT];

	table_cell(t, absent ? "-" : text_figure_value(text, sizeof(text), &e->bytes, e->samples));
}

static void put_number(struct table *t, uint32_t number)
{
	if (number)
		table_format(t, "%" PRIu32, number);
	else
		table_cell(t, "-");
}

static void put_process(struct table *t, const void *context, size_t row)
{
	const struct many *m = context;
	const struct process *p = &m->process[row];
	const struct output *o = &m->report->out;
	const char *name = *p->title ? p->title : *p->command ? p->command : p->path;
	char text[COMMAND_BYTES];
	size_t room = COMMAND_BYTES;

	if (!o->wide)
		room = o->width > OTHER_COLUMNS + LEAST_COMMAND ? (size_t)o->width - OTHER_COLUMNS
								: LEAST_COMMAND;
	put_estimate(COLUMN(t, "PEAK", true), p->absent & MAYFLY_ABSENT_PEAK, &p->summary.peak);
	put_estimate(COLUMN(t, "LIVE AT END", true), p->absent & MAYFLY_ABSENT_LIVE,
		     &p->summary.live_at_end);
	put_estimate(COLUMN(t, "ALLOCATED", true), p->absent & MAYFLY_ABSENT_ALLOCATED,
		     &p->summary.allocated);
	COLUMN(t, "TIME", true, 2);
	if (p->absent & MAYFLY_ABSENT_TIMES)
		table_cell(t, "-");
	else
		table_duration(t, (double)p->duration_ns);
	put_number(COLUMN(t, "PID", true), p->pid);
	put_number(COLUMN(t, "PARENT", true, 3), p->parent_pid);
	table_cell(COLUMN(t, "ENDED BY", false, 1), short_ending(text, sizeof(text), p));
	table_cell(COLUMN(t, "COMMAND"), line_fit(text, sizeof(text), o, name, room));
}

static size_t rows_shown(const struct many *m)
{
	size_t top = m->report->all ? 0 : m->report->top;

	return top && top < m->count ? top : m->count;
}

static void print_sum(const struct many *m, const char *name, const struct mayfly_estimate *sum,
		      size_t lacking)
{
	const struct output *o = &m->report->out;
	char text[FIGURE_TEXT], without[96] = "";

	if (lacking == m->count)
		return;
	if (lacking)
		text_format(without, sizeof(without), ", without %zu %s that cannot tell", lacking,
			    lacking == 1 ? "trace" : "traces");
	print_field(o, name, "%s%s", text_estimate(text, sizeof(text), o->utf8, sum), without);
}

static int print_text(const struct many *m)
{
	const struct output *o = &m->report->out;
	size_t rows = rows_shown(m);
	char unread[64] = "";

	if (!table_print_rows(o, rows, put_process, m))
		return cli_error("out of memory");
	if (rows < m->count)
		printf("(%zu more; --top 0 shows all)\n", m->count - rows);
	printf("\n");
	if (m->unread)
		text_format(unread, sizeof(unread), "; %zu could not be read", m->unread);
	print_field(o, "Traces", "%zu%s", m->count, unread);
	print_sum(m, "Allocated", &m->allocated, m->lack_allocated);
	print_sum(m, "Live at end", &m->live, m->lack_live);
	print_field(o, "Peak", "not summed: the processes had their peaks at different times");
	return cli_finish();
}

static void json_process(struct json *j, const struct process *p)
{
	const struct mayfly_summary *s = &p->summary;
	char text[FIGURE_TEXT];

	json_object(j, NULL);
	json_text(j, "file", p->path);
	json_unsigned_or_null(j, "pid", p->pid != 0, p->pid);
	json_unsigned_or_null(j, "parent_pid", p->parent_pid != 0, p->parent_pid);
	json_text_or_null(j, "command_line", p->command);
	json_text_or_null(j, "title", p->title);
	json_text(j, "ended_by", short_ending(text, sizeof(text), p));
	json_unsigned_or_null(j, "duration_ns", !(p->absent & MAYFLY_ABSENT_TIMES),
			      (uint64_t)p->duration_ns);
	json_estimate(j, "peak", p->absent & MAYFLY_ABSENT_PEAK ? NULL : &s->peak);
	json_estimate(j, "live_at_end", p->absent & MAYFLY_ABSENT_LIVE ? NULL : &s->live_at_end);
	json_estimate(j, "allocated", p->absent & MAYFLY_ABSENT_ALLOCATED ? NULL : &s->allocated);
	json_end(j);
}

/* Programs get all rows unless they ask for fewer. */
static int print_as_json(const struct many *m)
{
	size_t rows = m->report->top_given ? rows_shown(m) : m->count;
	struct json j = json_document();

	json_unsigned(&j, "traces", m->count);
	json_unsigned(&j, "unread", m->unread);
	json_estimate(&j, "allocated", m->lack_allocated == m->count ? NULL : &m->allocated);
	json_estimate(&j, "live_at_end", m->lack_live == m->count ? NULL : &m->live);
	JSON_LIST(&j, "processes", i, i < rows, json_process(&j, &m->process[i]));
	return json_print(&j);
}

static void free_many(struct many *m)
{
	for (size_t i = 0; i < m->count; i++) {
		free(m->process[i].path);
		free(m->process[i].command);
		free(m->process[i].title);
	}
	free(m->process);
	free(m->seen);
	globfree(&m->found);
}

int report_print_many(const struct report *r, int count, char **path)
{
	struct many m = {.report = r, .named = path, .names = count};
	int status = CLI_OK;

	for (int i = 0; i < count && status == CLI_OK; i++)
		status = find_files(&m, path[i]);
	if (status == CLI_OK)
		status = read_files(&m);
	if (status == CLI_OK) {
		qsort(m.process, m.count, sizeof(*m.process), by_peak);
		status = r->json ? print_as_json(&m) : print_text(&m);
	}
	free_many(&m);
	return status;
}
