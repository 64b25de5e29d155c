/* SPDX-License-Identifier: Apache-2.0 */
/* The commands. Each gets its own argc and argv (argv[0] is its name) and returns an exit status. */
#ifndef MAYFLY_CLI_H
#define MAYFLY_CLI_H

#include "terminal/message.h"

int cmd_record(int argc, char **argv);
int cmd_receive(int argc, char **argv);
int cmd_report(int argc, char **argv);
int cmd_info(int argc, char **argv);
int cmd_dump(int argc, char **argv);
int cmd_plan(int argc, char **argv);
int cmd_import(int argc, char **argv);
int cmd_export(int argc, char **argv);
int cmd_leaks(int argc, char **argv);
int cmd_diff(int argc, char **argv);
int cmd_merge(int argc, char **argv);
int cmd_check(int argc, char **argv);
int cmd_symbolize(int argc, char **argv);
int cmd_view(int argc, char **argv);
int cmd_ctl(int argc, char **argv);
int cmd_top(int argc, char **argv);
int cmd_attach(int argc, char **argv);
int cmd_detach(int argc, char **argv);
int cmd_heap(int argc, char **argv);
int cmd_push(int argc, char **argv);
int cmd_fleet(int argc, char **argv);
int cmd_agent(int argc, char **argv);

/* Their options (option_table.h). */
struct option_table;
extern const struct option_table record_option_table, receive_option_table, report_option_table,
    leaks_option_table, diff_option_table, check_option_table, merge_option_table,
    info_option_table, dump_option_table, plan_option_table, import_option_table,
    export_option_table, symbolize_option_table, view_option_table, ctl_option_table,
    top_option_table, attach_option_table, detach_option_table, heap_option_table,
    push_option_table, fleet_option_table, agent_option_table;

#endif
