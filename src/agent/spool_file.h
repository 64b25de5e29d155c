/* SPDX-License-Identifier: Apache-2.0 */
/* The spool as a mapped file: its header, and the packets that are claimed in it. */
#ifndef MAYFLY_SPOOL_FILE_H
#define MAYFLY_SPOOL_FILE_H

#include "agent/agent.h"

/* The header's control_enabled, where programs look before they call; 1 while there is no spool:
 * the first event may start the agent. */
extern const uint32_t *spool_awake;

/* Opens the spool named by agent_config.output, or makes it. False: *reason, *error say why. */
bool spool_file_open(uint32_t *reason, int *error);
/* In the child of a fork: a spool of its own that refers to the parent's, and to its FORK record. */
bool spool_file_open_child(uint64_t fork_ticks, uint32_t *reason, int *error);

/* Memory of nobody's takes the place of all that is mapped: threads may be just writing there. */
void spool_file_leave(void);

/* The same without waiting, for a fault at this address. False: it is not of the spool. */
bool spool_file_lost(uintptr_t address);

#define SPOOL_LOST_TEXT "the spool was emptied, or its disk failed" /* why the agent is off then */

/* Whether that has happened since the spool was opened. */
bool spool_file_is_lost(void);

/* The recorder that started the recording serves it: it has a lock on the first spool. For the thread that
 * ends the process. */
bool spool_file_has_recorder(void);

/* Unmaps all of it; there is no spool then. */
void spool_file_forget(void);

/* The process may not write files so large that a spool begins: no program that it becomes is recorded. */
bool spool_file_has_limit(void);

/* A packet that is the caller's from now on. NULL: the agent is off, or the spool has reached its
 * limit and nothing has been given back yet. */
struct spool_packet *spool_file_claim(void);

/* Nothing more is written to this packet until it is claimed again. Its pages leave the process's
 * memory (and stay in the file) unless it is one of the first, so that a program which is faster than
 * the recorder does not grow by what waits there. */
void spool_file_full(struct spool_packet *packet);

/* The path of a loaded object as it is recorded: the program itself is under the name that it was
 * started by. */
const char *spool_file_program(const char *found);

/* The interval that is in force. An invalid control word is ignored. */
static inline uint32_t spool_interval_log2(void)
{
	uint32_t log2 =
	    atomic_load_explicit(&spool_header->control_interval_log2, memory_order_relaxed);

	return LIKELY(log2 <= SPOOL_INTERVAL_MAX_LOG2) ? log2 : spool_header->interval_log2;
}

/* False while recording is dormant. */
static inline bool spool_enabled(void)
{
	return LIKELY(atomic_load_explicit(&spool_header->control_enabled, memory_order_relaxed));
}

#endif
