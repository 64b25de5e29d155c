/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How a process gets its spool from the recorder when it cannot open it by its path, because it runs as
 * another user by now, or sees other files:
 *
 *	agent ── struct handover ──> recorder
 *	      <── struct handover, and the descriptor of the spool (SCM_RIGHTS) ──
 *
 * The recorder listens on two sockets (SOCK_SEQPACKET) of one name: an abstract one, which is reached from
 * any root, and a file, which is reached from any network namespace. The key that the agent has from its
 * settings gives the name, which everybody can read, and a secret, which only those know who may read the
 * environment of the program.
 */
#ifndef MAYFLY_HANDOVER_MESSAGE_H
#define MAYFLY_HANDOVER_MESSAGE_H

#include <stdint.h>

#define HANDOVER_FOLDER	     "/var/tmp/" /* a zero takes its place in the abstract name */
#define HANDOVER_SOCKET	     "mayfly-"	 /* before the first half of the key */
#define HANDOVER_HALF_DIGITS 32u
#define HANDOVER_KEY_DIGITS  (2 * HANDOVER_HALF_DIGITS)
#define HANDOVER_NAME	     256u

struct handover {
	char secret[HANDOVER_HALF_DIGITS];
	uint32_t pid;	/* of the process, as it has it itself */
	uint32_t image; /* the answer: K in the spool's name */
	int32_t error;	/* the answer: 0 or an errno */
	uint32_t pad;
	/* A spool that the process has mapped, to be opened once more; 0, 0: a new one. */
	uint64_t device, inode;
	char name[HANDOVER_NAME]; /* of the spool, without its folder; ends with a zero */
};

#endif
