/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the page asks and gets: the same code answers in the native reader and, compiled for
 * WebAssembly, in the page itself. The page computes no figure.
 *
 * A request is a name and parameters, encoded as in a URL:
 *
 *	rows?by=function&metric=live&at=2s&focus=parse&top=50
 *
 * Parameters are named as the long options of `mayfly report` and have the same values, so each
 * request is also a command line: metric, at, from, to, by, sort, focus, ignore, hide, show,
 * show-from, thread, label, heap, min-size, max-size, min-lifetime, max-lifetime, holder, type,
 * frames. A flag has the value 1. `focus` and the other patterns may be given several times. An
 * unknown name or parameter is refused. overview, rows, tree, callers, source, leaks, held, diff,
 * difftree and changes can be asked of the picture of the heap (metric=picture); the others are refused.
 *
 * Answers are one JSON object, with keys and units as `mayfly report --json` writes them, or, where
 * said so, arrays (below).
 *
 *	info			what the trace is: "program", "command", "info" (as in report --json),
 *				"summary", "counters", "notes" (all caveats that report has), "resident",
 *				"picture" (of the heap: "headline", "time_ns", "stopped_ns", and
 *				"bytes", "blocks" of malloc; or null), "interpreted" (the language
 *				of interpreted frames, "Python"; or null), "sources",
 *				"base" (null, or the same of the trace to compare with)
 *	overview		what the report without options says: "headline" (or null), "time_ns",
 *				"total", "functions", "callers", "stacks" (rows)
 *	rows			top=N, skip=N: "rows", "rows_count" (of all), "total", "time_ns"
 *	tree			the call tree, arrays; invert=1, merge=none|function|line, recursion=1
 *				(fold it), blocks=1 (instead of bytes), least=SHARE (prune)
 *	callers			function=NAME: "function" (a row, or null), "callers", "callees"
 *				(rows by function); a block counts once for each of them; a caller's
 *				self is what the function itself allocates when called from there
 *	curve			points=N: "times_ns", "live_bytes" of what the filters keep, at the
 *				moments with the least and the most of it in each of N steps
 *	series			points=N, top=N: stacked by rows; at the peak: those that are the
 *				largest at one of these moments; extremes=1: at the curve's moments;
 *				"callers": for each row without a name its nearest named caller, else
 *				null
 *	grown			what is live at `to` and not at `from`, and the reverse: "before",
 *				"after", "survived" (allocated between, live at the end), "freed"
 *				(live at the begin, not at the end), and the same by rows
 *	counters		points=N: "times_ns", "counters": each one's values at the same times;
 *				RSS is one (view_counters.c)
 *	lanes			width=N, top=N, skip=N: spans, instants and pauses by thread, arranged
 *				for so many pixels: "types", "lanes", "shown" (view_lanes.c)
 *	histogram		classes=size|lifetime, top=N
 *	heat			size by lifetime: "sizes", "lifetimes", "cells" (view_heat.c)
 *	spans, events, churn, reallocs, survival, rss, fragmentation
 *				as the command's --json
 *	leaks			also as the command's: "lost", "held" and "allocated_later" if the trace
 *				has a picture of the heap; if not, also "over_time" (or null):
 *				"times_ns" and for each row "first_ns", "last_ns" (of the allocations
 *				of blocks that were never freed), "live_bytes" (at these times),
 *				"growth" (bytes a second, over the second half), "growing"
 *	held			the picture of the heap by holder, "rows", what retains most first: the
 *				key as in rows, "lost", "self" (what was recorded of it, and the filters
 *				keep), "types" (the same by type, of the first holders), "types_count";
 *				"time_ns", "bytes", "blocks" (of malloc), "total" (recorded), "elsewhere"
 *				(recorded blocks that malloc's heap did not have; or null)
 *	source			file=PATH: "lines": line, self, total (rows by line, so a line in
 *				several functions is several); "text", or null. Without file:
 *				"files": what each allocates itself, and the largest total of its
 *				lines ("most"), in descending order
 *	changes			"headline", "changes": the totals of the base and of the trace, the
 *				most significant change first
 *	diff			the rows of a difference with the base; difftree: its tree, arrays
 *	file, basefile		the trace's file, and that of the base, as they are
 *	export			format=folded|csv|pprof|flamegraph: that file
 *
 * Arrays: a 32-bit length, that many bytes of JSON, then, at offsets that are multiples of 8 counted
 * from the start of the answer, little-endian arrays. The JSON says where each one lies:
 *
 *	{"arrays": {"parent": {"type": "u32", "offset": 4096, "count": 17896}, ...}, ...}
 *
 * The call tree is in preorder, callees by descending total. Node 0 is the root ("all"; its parent is
 * 2^32 - 1). Callees below least are one node, "(12 smaller)", the last; where an inverted tree would
 * be too large, "(deeper callers)" ends it. merge=none is as merge=function. Arrays, one element per
 * node:
 *
 *	u32 parent, end (the number after its subtree's last), depth, name, file (texts), module
 *	    (texts), line, samples, self_samples
 *	u8  kind: 0 own code, 1 library of the language, 2 runtime or allocator, 3 entry, 4 no code
 *	f64 self, total (bytes or blocks), left (where it begins, in the same unit: the root is 0)
 *	f32 self_stderr, total_stderr
 *
 * and in the JSON "texts" (an array of strings), "total" (an estimate), "time_ns". difftree has
 * also f64 before (total in the base; what is only there has total 0), u8 significant (0 or 1, after
 * the correction for many nodes), and in the JSON "base_total".
 */
#ifndef MAYFLY_VIEW_H
#define MAYFLY_VIEW_H

#include <stdbool.h>
#include <stddef.h>

#include "base/bytes.h"

#include <mayfly/trace.h>

struct export_format;

struct view {
	const struct mayfly_trace *trace;
	const struct mayfly_trace *base; /* to compare with; NULL: none */
	const char *path;		 /* of the trace, as the user named it */
	const char *base_path;
	/* The bytes of both files, for a page that is to hold them; NULL: none. */
	const void *file, *base_file;
	size_t file_size, base_file_size;
	const struct export_format *exports; /* a table as export_formats(); NULL: none */
	/* Reads a source file of the program; false: it cannot be read. NULL: none can. */
	bool (*source)(void *context, const char *path, struct bytes *text);
	void *source_context;
};

enum view_status {
	VIEW_OK = 200,
	VIEW_BAD_REQUEST = 400, /* the answer is {"error": "..."} */
	VIEW_NOT_FOUND = 404,	/* no such request */
	VIEW_ABSENT = 422,	/* the trace does not have what this needs */
	VIEW_FAILED = 500,	/* out of memory, damaged */
};

struct view_answer {
	enum view_status status;
	const char *type; /* "application/json", "application/octet-stream", "text/csv", ... */
	struct bytes bytes;
};

/*
 * Answers a request. In each case *answer is set; the caller frees answer->bytes. Threads: several
 * may ask one view at a time.
 */
void view_ask(const struct view *view, const char *request, struct view_answer *answer);

#endif
