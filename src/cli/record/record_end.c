/* SPDX-License-Identifier: Apache-2.0 */
/* The end of a recording: the traces are made, and what there is to say is said. */
#include "cli/record/record.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "symbols/debug_server.h"

/* What the handler prints, when there is no part of the trace, and when there is one; NULL: out of memory.
 * A part that is needed may come while the trace is made. */
static char *interruption[2];
static char *part_path; /* NULL: parts are only sent */

/* For SIGINT and the like while the trace is made. */
static void abandon(int number)
{
	const char *text;
	ssize_t n;

	recorder_abandon();
	text = interruption[part_path && !access(part_path, F_OK)];
	if (text) {
		n = write(STDERR_FILENO, text, strlen(text));
		(void)n;
	}
	_exit(128 + number);
}

static const int numbers[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};

static void allow_interruption(struct record *r)
{
	struct sigaction action = {.sa_handler = abandon}, before;
	const struct recorder *first = r->recorder[0];

	part_path = first->options.no_file ? NULL : strdup(first->part_path);
	for (int part = 0; part < 2; part++) {
		char *places =
		    record_places(first, part || (!part_path && recorder_has_part(first)));

		/* On a terminal it comes after a ^C. */
		interruption[part] =
		    record_format("%smayfly: interrupted; the recording stays in %s\n",
				  isatty(STDERR_FILENO) ? "\n" : "", places ? places : r->spool);
		free(places);
	}
	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
		sigaction(numbers[i], NULL, &before);
		if (before.sa_handler != SIG_IGN)
			sigaction(numbers[i], &action, NULL);
	}
	child_release_signals(&r->child);
}

/* The traces are there: what abandon() says is no longer so. */
static void end_interruption(void)
{
	struct sigaction before;

	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
		sigaction(numbers[i], NULL, &before);
		if (before.sa_handler == abandon)
			signal(numbers[i], SIG_DFL);
	}
}

/* The agent has taken the spool. */
static bool record_has_begun(const struct record *r)
{
	const struct spool_header *h = r->recorder[0]->watch.header;

	return h && atomic_load(&h->state) != SPOOL_WAITING;
}

bool record_end(struct record_command *c)
{
	struct record *r = &c->record;
	const struct piece *main_one;
	const char *problem;
	struct pieces list;
	bool good, removed;

	r->found_ns = 0;
	record_serve(r);
	if (r->follow)
		record_wait_for_children(r);
	record_end_last_heap(r);
	handover_stop(&r->handover);
	when_finish(&c->when);
	allow_interruption(r);
	if (!record_collect_pieces(r, &list))
		return cli_fail("out of memory; the recording stays in '%s'", r->spool);
	main_one = record_main_piece(r, &list);
	c->no_trace = !main_one;
	removed = !main_one && record_has_begun(r) && access(r->spool, F_OK);
	if (!main_one)
		record_drop_spool(r);
	good = record_finalise_pieces(r, &list);
	if (good)
		end_interruption();
	if (main_one && good && !(r->stream.only && r->stream.failed))
		record_say_result(r, &list, main_one);
	else if (!main_one)
		record_say_not_attached(r, removed);
	if (!main_one)
		record_finish_stream(r, false);
	problem = debug_server_problem(r->debug_server);
	if (problem && !r->quiet)
		record_say(r, "%s", problem);
	record_free_pieces(&list);
	return good;
}
