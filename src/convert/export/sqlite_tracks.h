/* SPDX-License-Identifier: Apache-2.0 */
/* Track events and labels in an exported database. */
#ifndef MAYFLY_SQLITE_TRACKS_H
#define MAYFLY_SQLITE_TRACKS_H

#include "convert/export/sqlite_rows.h"

void sqlite_put_labels(struct database *d);
void sqlite_put_tracks(struct database *d);

#endif
