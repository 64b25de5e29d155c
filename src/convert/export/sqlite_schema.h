/* SPDX-License-Identifier: Apache-2.0 */
/* Tables and views of an exported database: doc/man/mayfly-export.1.scd, "SQLITE". */
#ifndef MAYFLY_SQLITE_SCHEMA_H
#define MAYFLY_SQLITE_SCHEMA_H

/* Before the rows. */
extern const char sqlite_tables[];
/* After them: views. */
extern const char sqlite_views[];

#endif
