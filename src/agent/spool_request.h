/* SPDX-License-Identifier: Apache-2.0 */
/* Spools that the recorder opens for this process: see format/handover_message.h. */
#ifndef MAYFLY_SPOOL_REQUEST_H
#define MAYFLY_SPOOL_REQUEST_H

#include <stdbool.h>

#include "format/handover_message.h"

/* There is a recorder to be asked. */
bool spool_request_is_possible(void);
/* And it lives. */
bool spool_request_is_heard(void);

/* Asks for a spool; h says which one, and gets the answer. Returns the descriptor or -errno. */
long spool_request_send(struct handover *h);

#endif
