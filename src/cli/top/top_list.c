/* SPDX-License-Identifier: Apache-2.0 */
/* top_list.c: the processes that carry the agent. */
#include "cli/top/top.h"

#include <inttypes.h>
#include <string.h>

#include "cli/input/recorded_processes.h"
#include "base/system/process_file.h"
#include "record/spool_control.h"
#include "record/spool_status.h"

static bool has_live(const struct spool_header *h)
{
	return h->mode == SPOOL_SAMPLED;
}

static uint64_t live_of(const struct spool_header *h)
{
	int64_t live = atomic_load(&h->live_bytes);

	return live > 0 ? (uint64_t)live : 0;
}

static void put_process(struct table *t, const void *context, size_t row)
{
	const struct recorded_process *c =
	    &((const struct recorded_processes *)context)->process[row];
	struct spool_control control;
	const struct spool_header *h;
	char text[FIGURE_TEXT];
	bool live;

	if (spool_control_open(&control, c->spool, false))
		return; /* it has just ended */
	h = control.header;
	live = has_live(h);
	table_format(COLUMN(t, "PID", true, 0, STYLE_BOLD), "%d", (int)c->pid);
	table_cell(COLUMN(t, "STATE", false, 2), spool_state_word(h));
	table_cell(COLUMN(t, "INTERVAL", true, 4, STYLE_DIM),
		   live ? text_bytes(text, sizeof(text), (double)spool_interval(h)) : "exact");
	COLUMN(t, "SAMPLES", true, 3, STYLE_DIM);
	if (live)
		table_format(t, "%" PRIu64, spool_samples(h));
	else
		table_cell(t, "-");
	table_cell(COLUMN(t, "LIVE, ABOUT", true),
		   live ? text_bytes(text, sizeof(text), (double)live_of(h)) : "-");
	table_cell(COLUMN(t, "COMMAND"), c->command);
	spool_control_close(&control);
}

static int print_table(const struct recorded_processes *c)
{
	struct output o = {0};

	output_detect(&o);
	if (!c->count) {
		print_wrapped(&o, STYLE_PLAIN, 0,
			      "No process is being recorded, as far as you may see. "
			      "'mayfly record -- COMMAND' starts one.");
		return cli_finish();
	}
	if (!table_print_rows(&o, c->count, put_process, c))
		return cli_error("out of memory");
	print_wrapped(&o, STYLE_DIM, 0, "'mayfly top PID' shows one of them.");
	return cli_finish();
}

static int print_json(const struct recorded_processes *c)
{
	struct json j = json_document();

	json_array(&j, "processes");
	for (size_t i = 0; i < c->count; i++) {
		struct spool_control control;
		const struct spool_header *h;

		if (spool_control_open(&control, c->process[i].spool, false))
			continue;
		h = control.header;
		json_object(&j, NULL);
		json_integer(&j, "pid", c->process[i].pid);
		json_text(&j, "command", c->process[i].command);
		json_text(&j, "spool", c->process[i].spool);
		json_text(&j, "state", spool_state_word(h));
		json_text(&j, "mode", has_live(h) ? "sampled" : "exact");
		json_unsigned_or_null(&j, "interval_bytes", has_live(h), spool_interval(h));
		json_unsigned_or_null(&j, "samples", has_live(h), spool_samples(h));
		json_unsigned_or_null(&j, "live_bytes", has_live(h), live_of(h));
		json_end(&j);
		spool_control_close(&control);
	}
	json_end(&j);
	return json_print(&j);
}

int top_print_list(const struct top *t)
{
	struct recorded_processes c;
	int status;

	if (!recorded_processes_find(&c, NULL))
		status = cli_error("out of memory");
	else
		status = t->r.json ? print_json(&c) : print_table(&c);
	recorded_processes_free(&c);
	return status;
}

char *top_largest(void)
{
	struct recorded_processes c;
	const char *largest = NULL;
	uint64_t most = 0;
	char *spool = NULL;

	if (recorded_processes_find(&c, NULL)) {
		for (size_t i = 0; i < c.count; i++) {
			uint64_t bytes = process_resident(c.process[i].pid);

			if (largest && bytes <= most)
				continue;
			most = bytes;
			largest = c.process[i].spool;
		}
		spool = largest ? strdup(largest) : NULL;
	}
	recorded_processes_free(&c);
	return spool;
}
