/* SPDX-License-Identifier: Apache-2.0 */
/* Tables and views of an exported database: doc/man/mayfly-export.1.scd, "SQLITE". */
#ifndef MAYFLY_SQLITE_SCHEMA_H
#define MAYFLY_SQLITE_SCHEMA_H

/* SQL to run before inserting rows. */
extern const char sqlite_tables[];
/* SQL to run after inserting rows: views. */
extern const char sqlite_views[];

#endif
