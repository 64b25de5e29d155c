/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tables and views of an exported database.
 *
 *	samples --stack--> stacks --frame--> frames --module--> modules
 *	   |                | |  ^              ^
 *	   +-thread         | +--+ parent       |
 *	   v                +--symbol----> symbols (one for each function at a frame: several
 *	threads                                     when inlined)
 *
 *	samples --label_set--> labels (rows: the labels of a set)
 *	   |sample_spans
 *	   v
 *	spans, instants, counter_events --type--> track_types, track_fields
 *
 * A stack is its parent (the caller's stack) and one more frame, so stacks share common parts. Its
 * `symbol` is the allocating function, which most queries need: the first one that does not belong
 * to the allocator.
 *
 * Sums of samples' variances are an upper limit: samples of one stratum exclude each other, which
 * only `functions` takes into account. Sums over `at_peak` are the report's peak: see peak.h.
 */
#include "convert/export/sqlite_rows.h"

const char *const sqlite_tables[TABLES] = {
    [INFO] = "info(name TEXT PRIMARY KEY, value) WITHOUT ROWID",
    [MODULES] =
	"modules(module INTEGER PRIMARY KEY, path TEXT, build_id TEXT,"
	" start INTEGER, end INTEGER, bias INTEGER, loaded_ns INTEGER, unloaded_ns INTEGER)",
    [THREADS] = "threads(thread INTEGER PRIMARY KEY, tid INTEGER, name TEXT)",
    [FRAMES] = "frames(frame INTEGER PRIMARY KEY, module INTEGER, address INTEGER,"
	       " first_symbol INTEGER, symbols INTEGER)",
    [SYMBOLS] = "symbols(symbol INTEGER PRIMARY KEY, function TEXT, file TEXT, line INTEGER,"
		" inlined INTEGER, hidden INTEGER)",
    [STACKS] = "stacks(stack INTEGER PRIMARY KEY, parent INTEGER, frame INTEGER,"
	       " symbol INTEGER)",
    [SAMPLES] = "samples(sample INTEGER PRIMARY KEY, time_ns INTEGER, thread INTEGER,"
		" stack INTEGER, heap TEXT, size INTEGER, bytes REAL, blocks REAL,"
		" bytes_variance REAL, blocks_variance REAL, at_peak INTEGER, realloc INTEGER,"
		" inherited INTEGER, free_ns INTEGER, free_thread INTEGER, free_realloc INTEGER,"
		" temporary INTEGER, counted INTEGER, label_set INTEGER)",
    [LABELS] = "labels(label_set INTEGER, place INTEGER, key TEXT, value TEXT,"
	       " PRIMARY KEY(label_set, place)) WITHOUT ROWID",
    [TRACK_TYPES] = "track_types(type INTEGER PRIMARY KEY, kind TEXT, name TEXT, category TEXT,"
		    " unit TEXT)",
    [TRACK_FIELDS] = "track_fields(type INTEGER, field INTEGER, name TEXT, kind TEXT,"
		     " PRIMARY KEY(type, field)) WITHOUT ROWID",
    [SPANS] = "spans(span INTEGER PRIMARY KEY, type INTEGER, thread INTEGER, begin_ns INTEGER,"
	      " end_ns INTEGER, duration_ns INTEGER, parent INTEGER, depth INTEGER, stack INTEGER,"
	      " value1, value2, value3, value4)",
    [INSTANTS] = "instants(instant INTEGER PRIMARY KEY, type INTEGER, thread INTEGER,"
		 " time_ns INTEGER, span INTEGER, stack INTEGER, value1, value2, value3, value4)",
    [COUNTER_EVENTS] = "counter_events(time_ns INTEGER, type INTEGER, thread INTEGER, span INTEGER,"
		       " stack INTEGER, value, value2, value3, value4)",
    [FLOWS] = "flows(flow INTEGER, time_ns INTEGER, thread INTEGER, span INTEGER,"
	      " instant INTEGER)",
    [SAMPLE_SPANS] = "sample_spans(sample INTEGER PRIMARY KEY, span INTEGER)",
    [PROMOTIONS] = "promotions(sample INTEGER, time_ns INTEGER)",
    [INTERVALS] = "intervals(from_ns INTEGER, to_ns INTEGER, stack INTEGER, at_peak INTEGER,"
		  " blocks INTEGER, bytes INTEGER, inherited_blocks INTEGER,"
		  " inherited_bytes INTEGER, freed_blocks INTEGER, freed_bytes INTEGER,"
		  " temporary_blocks INTEGER, temporary_bytes INTEGER)",
    [FUNCTIONS] =
	"functions(metric TEXT, function TEXT, file TEXT, module TEXT, bytes REAL,"
	" bytes_error REAL, blocks REAL, blocks_error REAL, samples INTEGER, total_bytes REAL,"
	" total_bytes_error REAL, total_blocks REAL, total_blocks_error REAL, total_samples "
	"INTEGER)",
    [COUNTERS] = "counters(time_ns INTEGER, name TEXT, value REAL)",
};

/* The sums of every stack, from single blocks or from counters; a trace has one or the other. */
#define BY_STACK(name, samples_where, bytes, blocks, intervals_where)                              \
	"CREATE VIEW " name " AS SELECT stack, sum(bytes) AS bytes, sum(blocks) AS blocks,"        \
	" sum(samples) AS samples FROM"                                                            \
	" (SELECT stack, bytes, blocks, 1 AS samples FROM samples WHERE " samples_where            \
	" UNION ALL SELECT stack, " bytes ", " blocks ", " blocks                                  \
	" FROM intervals WHERE " intervals_where ") GROUP BY stack HAVING sum(blocks) > 0;"

/* Inherited blocks are live, but were not allocated. */
#define LIVE_BYTES  "bytes + inherited_bytes - freed_bytes"
#define LIVE_BLOCKS "blocks + inherited_blocks - freed_blocks"
#define ALLOCATED   "CASE WHEN NOT inherited THEN "

/* clang-format off */
const char sqlite_views[] =
    BY_STACK("live_at_end", "counted AND free_ns IS NULL", LIVE_BYTES, LIVE_BLOCKS, "1")
    BY_STACK("live_at_peak", "counted AND at_peak", LIVE_BYTES, LIVE_BLOCKS, "at_peak")
    BY_STACK("allocated", "counted AND NOT inherited", "bytes", "blocks", "1")
    BY_STACK("temporary", "counted AND temporary", "temporary_bytes", "temporary_blocks", "1")
    /* clang-format on */

    "CREATE VIEW places AS"
    " SELECT s.stack, y.function, y.file, y.line, m.path AS module"
    " FROM stacks AS s LEFT JOIN symbols AS y USING(symbol)"
    " LEFT JOIN frames AS f ON f.frame = s.frame LEFT JOIN modules AS m USING(module);"

    "CREATE VIEW leaks AS"
    " SELECT l.stack, p.function, p.file, p.line, l.bytes, l.blocks, l.samples"
    " FROM live_at_end AS l LEFT JOIN places AS p USING(stack) ORDER BY l.bytes DESC;"

    "CREATE VIEW by_function AS"
    " SELECT s.function, total(a.bytes) AS allocated_bytes, total(a.blocks) AS allocated_blocks,"
    " total(p.bytes) AS peak_bytes, total(p.blocks) AS peak_blocks,"
    " total(e.bytes) AS end_bytes, total(e.blocks) AS end_blocks"
    " FROM (SELECT stack FROM allocated UNION SELECT stack FROM live_at_peak"
    "  UNION SELECT stack FROM live_at_end) LEFT JOIN places AS s USING(stack)"
    " LEFT JOIN allocated AS a USING(stack)"
    " LEFT JOIN live_at_peak AS p USING(stack) LEFT JOIN live_at_end AS e USING(stack)"
    " GROUP BY s.function ORDER BY peak_bytes DESC;"

    /* Classes (2^(k-1), 2^k]. */
    "CREATE VIEW by_size AS"
    " WITH RECURSIVE class(low, high) AS (VALUES(-1, 0) UNION ALL VALUES(0, 1)"
    " UNION ALL SELECT high, high * 2 FROM class WHERE high BETWEEN 1 AND 1 << 61)"
    " SELECT low, high, total(" ALLOCATED "bytes END) AS allocated_bytes,"
    " total(" ALLOCATED "blocks END) AS allocated_blocks,"
    " total(CASE WHEN at_peak THEN bytes END) AS peak_bytes,"
    " total(CASE WHEN free_ns IS NULL THEN bytes END) AS end_bytes, sum(n) AS samples"
    " FROM (SELECT size, at_peak, inherited, free_ns, sum(bytes) AS bytes,"
    "  sum(blocks) AS blocks, count(*) AS n FROM samples WHERE counted"
    "  GROUP BY size, at_peak, inherited, free_ns IS NULL)"
    " JOIN class ON size > low AND size <= high GROUP BY low ORDER BY low;"

    "CREATE VIEW by_thread AS"
    " SELECT t.tid, t.name, total(" ALLOCATED "s.bytes END) AS allocated_bytes,"
    " total(" ALLOCATED "s.blocks END) AS allocated_blocks,"
    " total(CASE WHEN s.at_peak THEN s.bytes END) AS peak_bytes,"
    " total(CASE WHEN s.free_ns IS NULL THEN s.bytes END) AS end_bytes,"
    " total(CASE WHEN s.free_thread <> s.thread THEN s.bytes END) AS freed_by_others_bytes"
    " FROM samples AS s JOIN threads AS t USING(thread) WHERE s.counted GROUP BY s.thread"
    " ORDER BY allocated_bytes DESC;"

    /* self: without the time and allocations of nested spans. */
    "CREATE VIEW by_span AS"
    " SELECT t.name, t.category, count(s.duration_ns) AS spans,"
    " count(*) - count(s.duration_ns) AS open, total(s.duration_ns) AS total_ns,"
    " total(s.duration_ns) - total(c.inner_ns) AS self_ns, max(s.duration_ns) AS longest_ns,"
    " total(b.bytes) AS self_allocated_bytes, total(b.blocks) AS self_allocated_blocks,"
    " total(b.end_bytes) AS self_end_bytes"
    " FROM spans AS s JOIN track_types AS t USING(type)"
    " LEFT JOIN (SELECT parent, sum(duration_ns) AS inner_ns FROM spans"
    "  WHERE parent IS NOT NULL GROUP BY parent) AS c ON c.parent = s.span"
    " LEFT JOIN (SELECT span, sum(bytes) AS bytes, sum(blocks) AS blocks,"
    "  total(CASE WHEN free_ns IS NULL THEN bytes END) AS end_bytes"
    "  FROM sample_spans JOIN samples USING(sample) WHERE counted GROUP BY span) AS b"
    "  ON b.span = s.span GROUP BY s.type ORDER BY total_ns DESC;"

    "CREATE VIEW by_label AS"
    " SELECT l.key, l.value, total(" ALLOCATED "s.bytes END) AS allocated_bytes,"
    " total(" ALLOCATED "s.blocks END) AS allocated_blocks,"
    " total(CASE WHEN s.at_peak THEN s.bytes END) AS peak_bytes,"
    " total(CASE WHEN s.free_ns IS NULL THEN s.bytes END) AS end_bytes"
    " FROM samples AS s JOIN labels AS l USING(label_set) WHERE s.counted"
    " GROUP BY l.key, l.value ORDER BY l.key, allocated_bytes DESC;"

    /* Every function on each stack with blocks, from the leaf (0) to the root. */
    "CREATE VIEW stack_functions AS"
    " WITH RECURSIVE up(stack, depth, at) AS (SELECT stack, 0, stack FROM"
    " (SELECT stack FROM samples WHERE counted OR heap = 'mmap'"
    "  UNION SELECT stack FROM intervals)"
    " UNION ALL SELECT up.stack, up.depth + 1, s.parent FROM up JOIN stacks AS s"
    "  ON s.stack = up.at WHERE s.parent > 0)"
    " SELECT up.stack, up.depth, y.symbol - f.first_symbol AS inline_depth, y.function, y.file,"
    "  y.line, m.path AS module"
    " FROM up JOIN stacks AS s ON s.stack = up.at JOIN frames AS f ON f.frame = s.frame"
    " JOIN symbols AS y ON y.symbol BETWEEN f.first_symbol AND f.first_symbol + f.symbols - 1"
    " LEFT JOIN modules AS m USING(module) WHERE NOT y.hidden;";
