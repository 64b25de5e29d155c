/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mayfly/trace.h: reading traces.
 *
 * A trace is a sequence of sampled (or all) allocations and the frees of those blocks, with the
 * stacks that allocated them and all names needed to print them. The library works on a trace that
 * the caller has in memory (mapped, read, received): it does no input or output, starts no threads
 * and has no global state. A trace is untrusted: every function is safe on any bytes.
 *
 * Units: bytes, and nanoseconds since the start of the program (int64_t, so times before it exist).
 * Ownership: a pointer to const that a function returns belongs to the trace or result it came from
 * and is valid as long as that. Threads: several threads may read one open trace; a cursor or a
 * result belongs to one thread. No function is async-signal-safe.
 * Errors: functions that can fail return 0 or a negative enum mayfly_error. On failure, those that
 * open something store NULL, and those that run a query store nothing, so set the pointer to NULL
 * before. All functions that close or free accept NULL.
 *
 * Compatibility: a program that was built with one version of libmayfly-trace.so.0 runs with every
 * later one. For that, structs that only the library allocates, and hands out by a pointer to one
 * (mayfly_info, mayfly_bad_chunk, mayfly_module, mayfly_thread, mayfly_frame, mayfly_counter,
 * mayfly_track_type and all results of queries) may get members at their end: do not copy them, make
 * arrays of them, or use their sizeof. struct mayfly_query uses up its `reserved` words, which mayfly_query_defaults() sets.
 * All others keep their size and members: elements of arrays (rows, places, locations), and those
 * that a caller provides (mayfly_event, mayfly_summary). Enums may get values at their end.
 */
#ifndef MAYFLY_TRACE_H
#define MAYFLY_TRACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define MAYFLY_ERRORS(X)                                                                           \
	X(MAYFLY_OK, 0, "no error")                                                                \
	X(MAYFLY_E_MEMORY, -1, "out of memory")                                                    \
	X(MAYFLY_E_NOT_A_TRACE, -2, "not a mayfly trace")                                          \
	X(MAYFLY_E_VERSION, -3, "made by another version of mayfly; this one cannot read it")      \
	X(MAYFLY_E_DAMAGED, -4, "damaged")                                                         \
	X(MAYFLY_E_EMPTY, -5, "holds nothing: it was cut off before the first events")             \
	X(MAYFLY_E_RANGE, -6, "argument out of range")                                             \
	X(MAYFLY_E_TOO_LARGE, -7, "larger than this reader allows")                                \
	X(MAYFLY_E_ABSENT, -8, "the trace does not hold what this needs")

enum mayfly_error {
#define MAYFLY_X(name, value, text) name = value,
	MAYFLY_ERRORS(MAYFLY_X)
#undef MAYFLY_X
};

/* A sentence fragment for people, never NULL. */
const char *mayfly_error_text(int error);

struct mayfly_trace;

/* Opens a trace of `size` bytes at `data`, which must stay there, unchanged, until close. A trace
 * that was cut off or damaged opens as far as it is whole; see mayfly_info.complete. */
int mayfly_trace_open(const void *data, size_t size, struct mayfly_trace **trace);
void mayfly_trace_close(struct mayfly_trace *trace);

/*
 * A caller that has threads can lend them: tasks on them then decode several chunks of events ahead
 * of the current one. Without a helper, the thread that needs a chunk decodes it.
 */
struct mayfly_helper {
	void *context;
	size_t tasks; /* at most this many for one cursor: each needs some MB */
	/* Has task(argument) run on another thread, at any later time. NULL: it will not be run. */
	void *(*start)(void *context, void (*task)(void *argument), void *argument);
	/* Returns when the task is done, or will not be run; the task is released then. needed: it
	 * must be done on return; finish() runs it here if it has not begun. */
	void (*finish)(void *context, void *task, bool needed);
};

/* For all further calls. The helper must outlive the trace. */
void mayfly_trace_help(struct mayfly_trace *trace, const struct mayfly_helper *helper);

/* ---- what the trace is ---- */

enum mayfly_mode { MAYFLY_SAMPLED = 0, MAYFLY_EXACT = 1 };
enum mayfly_sampler { MAYFLY_STRATIFIED = 0, MAYFLY_POISSON = 1 };

/* Why the recording ended. */
enum mayfly_ending {
	MAYFLY_END_UNKNOWN = 0, /* no recorder watched the program (preloaded by hand) */
	MAYFLY_END_EXITED = 1,	/* ending_code: exit status */
	MAYFLY_END_KILLED = 2,	/* ending_code: signal number */
	MAYFLY_END_OFF = 3,	/* the agent gave up before the program ended: see off_text */
	MAYFLY_END_EXEC = 4,	/* the process replaced itself by another program */
	MAYFLY_END_ENDED = 5,	/* it ended; with what status is not known */
	MAYFLY_END_RUNNING = 6, /* it did not: the trace was made while it ran */
};

/* What a trace lacks because the file it was converted from does not have it. Fields of mayfly_info
 * that depend on it are 0, and mean nothing. */
enum mayfly_absent {
	MAYFLY_ABSENT_TIMES = 1u << 0,	   /* times of all events, and the duration */
	MAYFLY_ABSENT_PEAK = 1u << 1,	   /* what was live at the peak */
	MAYFLY_ABSENT_LIVE = 1u << 2,	   /* what is live at the end: frees are unknown */
	MAYFLY_ABSENT_ALLOCATED = 1u << 3, /* blocks that were freed before the end */
	MAYFLY_ABSENT_TEMPORARY = 1u << 4,
	MAYFLY_ABSENT_LIFETIMES = 1u << 5,
	MAYFLY_ABSENT_SIZES = 1u << 6,	  /* of single blocks: only sums of each stack */
	MAYFLY_ABSENT_THREADS = 1u << 7,  /* which one allocated or freed: there is one, nameless */
	MAYFLY_ABSENT_ERRORS = 1u << 8,	  /* errors of estimates: a stderror of 0 means unknown */
	MAYFLY_ABSENT_BLOCKS = 1u << 9,	  /* their number: only their bytes are known */
	MAYFLY_ABSENT_PROCESS = 1u << 10, /* pid */
	MAYFLY_ABSENT_START = 1u << 11,	  /* start_real_ns */
	MAYFLY_ABSENT_COMMAND = 1u << 12,
	MAYFLY_ABSENT_MODULES = 1u << 13,     /* where they begin: addresses are the process's */
	MAYFLY_ABSENT_ALLOCATIONS = 1u << 14, /* any block: there are track events only */
	MAYFLY_ABSENT_SAMPLER = 1u << 15,     /* which one chose the samples */
};

struct mayfly_info {
	uint32_t format_version;
	uint32_t absent;  /* enum mayfly_absent; 0: nothing is absent */
	uint32_t mode;	  /* enum mayfly_mode */
	uint32_t sampler; /* enum mayfly_sampler */
	uint32_t pid, parent_pid;
	uint64_t interval_bytes; /* at the start of the recording */
	/* For blocks in OCaml's heaps: bytes per sample, rounded; 0: they are not recorded. */
	uint64_t ocaml_interval_bytes;
	double ocaml_rate; /* samples per word of 8 bytes, exactly */
	/* The heaps that blocks of the trace are in: 1 << enum mayfly_heap each; 0: unknown, the
	 * trace was cut off. */
	uint32_t heaps;
	/* If not 0, the trace has per-stack counters for each interval of this length, and no
	 * events. Queries by thread, size or lifetime, or with such filters, return
	 * MAYFLY_E_ABSENT, as do cursors; times are rounded up to the end of an interval. */
	int64_t snapshot_ns;
	bool grouped; /* points were drawn from groups of one class (doc/FORMAT.md, "Weights") */
	bool thinned; /* samples were dropped and weights raised, to keep within a size */
	int64_t start_real_ns; /* CLOCK_REALTIME of time 0 */
	int64_t duration_ns;   /* time of the end */
	uint32_t ending;       /* enum mayfly_ending */
	int32_t ending_code;
	uint64_t seed; /* 0: seeded by the kernel */
	/* What the program and the children that it waited for used, including the agent; 0: unknown. */
	uint64_t program_cpu_ns, program_max_rss_bytes;
	uint64_t samples, frees;   /* events in the trace; samples counts inherited ones too */
	uint64_t inherited;	   /* samples that a forked child took over from its parent */
	bool inherited_allocated;  /* snapshots of an older version: they count as allocated */
	uint64_t truncated_stacks; /* samples whose root part is unknown */
	uint64_t dropped_samples, dropped_frees;
	/* Blocks (sampled: samples) whose memory was handed out again although no free of them was
	 * seen. They count as freed at that moment; others may look leaked. */
	uint64_t missed_frees;
	uint64_t dropped_events;	      /* track events that could not be recorded */
	uint64_t nested_blocks, nested_bytes; /* allocated by signal handlers inside the agent */
	size_t command_count;		      /* argv */
	const char *const *command;
	const char *program;  /* path of the executable */
	const char *version;  /* version of mayfly that wrote the trace */
	const char *off_text; /* why the agent gave up, or "" */
	const char *note;     /* one line for the user, or "" */
	size_t modules, threads, strings, nodes, frames, frames_symbolized, counters;
	size_t track_types, label_sets; /* label_sets includes set 0, which is empty */
	uint64_t track_events;
	uint64_t file_bytes;
	bool complete; /* the trace was finished and no part of it is damaged */
	bool spool;    /* this is a spool, which was finalised while opening */
	/* From the Memtrace file that the trace was made of, so that it can be had back; else 0, "". */
	uint32_t memtrace_version, memtrace_domain; /* the domain that began the file */
	const char *host, *runtime_parameters;	    /* OCAMLRUNPARAM */
	const char *context;
	/* What the process called itself last, as ps shows it, where that is not its argv; else "". */
	const char *title;
	size_t bad_chunks; /* mayfly_trace_bad_chunk() */
	bool whole;	   /* the trace was finished, and nothing but bad chunks is missing */
	/* How many processes' traces were merged into this one, each with its own threads; 0: it is
	 * that of one process, or was merged by a version that joined threads of one name. */
	uint32_t processes;
	/* When Python's interpreter began to end. It then frees what the program had kept: for LEAKED, blocks
	 * of stacks with interpreted frames are never freed after that. 0: it did not, or nobody saw it. */
	int64_t python_end_ns;
	/* The module whose function the console script of Python calls that the process ran; else "". */
	const char *entry;
	/* Of MAYFLY_HEAP_MAPPING: the largest sum of bytes ever mapped at once, and the bytes and the
	 * number of blocks that are mapped at the end. */
	uint64_t mapped_peak_bytes, mapped_bytes, mapped_blocks;
	/* How many of samples, frees and inherited are of that heap. */
	uint64_t mapped_samples, mapped_frees, mapped_inherited;
};

const struct mayfly_info *mayfly_trace_info(const struct mayfly_trace *trace);

/* A part of the file that cannot be read and was left out, although the trace is usable without it. What
 * it held is missing; what does not depend on it is as it would be. */
struct mayfly_bad_chunk {
	char type[8];	   /* doc/FORMAT.md has the types */
	uint64_t offset;   /* in the file */
	const char *holds; /* "counters" */
};

/* index is below mayfly_info.bad_chunks; NULL when out of range. */
const struct mayfly_bad_chunk *mayfly_trace_bad_chunk(const struct mayfly_trace *trace,
						      size_t index);

struct mayfly_module {
	const char *path;
	const uint8_t *build_id;
	size_t build_id_length;
	uint64_t start, end, bias; /* as mapped in the process */
	int64_t from_ns, to_ns;	   /* first seen; unloaded, or INT64_MAX */
	const char *problem;	   /* why it has no symbols, or "" */
};

struct mayfly_thread {
	uint32_t tid;
	const char *name; /* the last one it had, "" when unknown */
	/* The thread whose row in answers by thread this one is in: its own index or, in a merged
	 * trace, that of the first thread of this name. */
	uint32_t row;
};

/* A source location of a frame. A frame has several when functions were inlined. */
struct mayfly_location {
	const char *function;		/* demangled; "" when unknown */
	const char *file;		/* "" when unknown */
	uint32_t line;			/* 0 when unknown */
	uint32_t first_char, last_char; /* of the expression, from the line's start; 0: unknown */
	bool inlined;			/* into the next location of the frame */
	/* How an OCaml unit's name was changed, so that it can be had back: 2 for each "__" that became
	 * a '.', and 1 for a capital letter (Stdlib__list.map: Stdlib.List.map). 0: it is as it was. */
	uint16_t respelled;
};

enum mayfly_frame_kind {
	MAYFLY_FRAME_CODE = 0,
	MAYFLY_FRAME_TRUNCATED = 1, /* the rest of the stack, towards the root, is unknown */
	MAYFLY_FRAME_ELIDED = 2,    /* about `address` frames of a very deep stack were left out */
};

struct mayfly_frame {
	uint32_t kind;	  /* enum mayfly_frame_kind */
	uint32_t module;  /* index, or UINT32_MAX: in none */
	uint64_t address; /* the ELF file's virtual address of the call (return address - 1), or the
			     process's address outside all modules */
	size_t locations; /* at least 1 for CODE */
	const struct mayfly_location *location; /* innermost first */
};

/* A node of the calling-context tree. Node 0 is the root and has no frame; a parent's number is
 * below its children's. */
struct mayfly_node {
	uint32_t parent;
	uint32_t frame;
};

/* NULL, or {0} for nodes, when out of range. */
const struct mayfly_module *mayfly_trace_module(const struct mayfly_trace *trace, size_t index);
const struct mayfly_thread *mayfly_trace_thread(const struct mayfly_trace *trace, size_t index);
const struct mayfly_frame *mayfly_trace_frame(const struct mayfly_trace *trace, size_t index);
struct mayfly_node mayfly_trace_node(const struct mayfly_trace *trace, size_t index);

/* ---- counters: figures other than blocks ---- */

/* A counter has a point's value from its time on, until the next point. doc/FORMAT.md, "Names of
 * counters", lists those that mayfly itself records. */
struct mayfly_counter {
	const char *name;
	const char *unit;	/* "bytes", "ns", "" for plain numbers */
	size_t points;		/* at least 1 */
	const int64_t *time_ns; /* ascending, some may be equal */
	const double *value;
};

/* index is below mayfly_info.counters; NULL when out of range. */
const struct mayfly_counter *mayfly_trace_counter(const struct mayfly_trace *trace, size_t index);

/* ---- nearly empty pages, in traces of every allocation ---- */

/* A page of memory is held by the stacks whose blocks lie in it, in proportion to their bytes. */
struct mayfly_fragment {
	uint32_t node;		/* of the stack that allocated */
	uint64_t blocks, bytes; /* live */
	uint64_t pages;		/* that they lie in, at least partly */
	uint64_t held_bytes;	/* its share of all pages; held_bytes - bytes of it is not filled */
};

struct mayfly_fragmentation {
	int64_t time_ns;
	uint64_t blocks, bytes, pages, page_bytes; /* of all stacks */
	uint64_t runs; /* of consecutive pages with live blocks, or a little more; 0: unknown */
	size_t count;
	const struct mayfly_fragment *fragment; /* by node; the worst, if there are very many */
};

/* at_end: at the end; otherwise near the peak, when a few percent less may have been live than then.
 * NULL: unknown. */
const struct mayfly_fragmentation *mayfly_trace_fragmentation(const struct mayfly_trace *trace,
							      bool at_end);

/* ---- mappings with resident pages ---- */

enum mayfly_mapping_kind {
	MAYFLY_MAPPING_HEAP = 0,  /* brk */
	MAYFLY_MAPPING_ARENA = 1, /* of glibc, except the first, which is in HEAP */
	MAYFLY_MAPPING_ANONYMOUS = 2,
	MAYFLY_MAPPING_STACK = 3,
	MAYFLY_MAPPING_DATA =
	    4, /* .data and .bss of a module: pages that are no longer the file's */
	MAYFLY_MAPPING_COPIES = 5, /* likewise of another file that is mapped privately */
	MAYFLY_MAPPING_FILE = 6,   /* pages of files, code among them */
	MAYFLY_MAPPING_SHARED = 7,
	MAYFLY_MAPPING_OTHER = 8,
	MAYFLY_MAPPING_OWN = 9, /* mayfly's: its spool, the pages of its library */
	MAYFLY_MAPPING_KINDS
};

/* A file mapping with changed pages appears twice, as DATA or COPIES and as FILE. */
struct mayfly_mapping {
	uint64_t start, size; /* both 0: all smaller ones of this kind */
	uint64_t resident;    /* bytes */
	enum mayfly_mapping_kind kind;
	const char *name; /* as in /proc/PID/maps, of .bss its module; "": none */
};

struct mayfly_residency {
	int64_t time_ns;
	uint64_t resident; /* RSS as the kernel counted it, immediately before */
	size_t count;
	const struct mayfly_mapping *mapping; /* by address; only those with resident pages */
};

/* at_end: the last reading of the mappings; otherwise the one with the most resident bytes, which may
 * be the same. NULL: unknown. */
const struct mayfly_residency *mayfly_trace_residency(const struct mayfly_trace *trace,
						      bool at_end);

/* ---- the picture of the heap: who held which block at a moment ---- */

enum mayfly_holder_kind {
	MAYFLY_HOLDER_LOST = 0,	    /* nobody: no pointer to the block was left */
	MAYFLY_HOLDER_LOST_BY = 1,  /* nobody: only lost blocks led to it */
	MAYFLY_HOLDER_TOGETHER = 2, /* several holders, none of them alone */
	MAYFLY_HOLDER_VARIABLE = 3,
	MAYFLY_HOLDER_THREAD_LOCAL = 4,
	MAYFLY_HOLDER_UNNAMED = 5,   /* variables of a module that no symbol names */
	MAYFLY_HOLDER_STACK = 6,     /* of a function of a thread */
	MAYFLY_HOLDER_REGISTERS = 7, /* of a thread */
	MAYFLY_HOLDER_THREAD = 8,    /* what the C library keeps of a thread */
	MAYFLY_HOLDER_MAPPING = 9,   /* other memory */
	MAYFLY_HOLDER_KINDS
};

struct mayfly_holder {
	enum mayfly_holder_kind kind;
	const char *name;	/* "g_sessions", "stack of 'worker' 2099" */
	const char *place;	/* its module or function: "orderd", "drain()"; "": none */
	uint32_t tid;		/* 0: of no thread */
	uint64_t bytes, blocks; /* that would have been freed with it, recorded or not */
};

struct mayfly_held {
	uint64_t number; /* of the block: struct mayfly_event */
	uint32_t holder; /* index; UINT32_MAX: the heap had no block at its address */
	uint32_t type;	 /* index; UINT32_MAX: not known */
	uint32_t
	    steps; /* blocks that every way from the holder to it passes, with it; 0: no holder */
};

enum mayfly_picture_how {
	MAYFLY_PICTURE_COPY = 0,    /* of a copy of the process */
	MAYFLY_PICTURE_STOPPED = 1, /* while the process was stopped */
	MAYFLY_PICTURE_RUNNING = 2, /* while it ran: approximate */
};

struct mayfly_picture {
	int64_t time_ns, stopped_ns; /* the moment; how long the program was stopped for it */
	enum mayfly_picture_how how;
	uint64_t bytes, blocks; /* of malloc, recorded or not, by malloc_usable_size() */
	size_t holders, types;
	const struct mayfly_holder *holder;
	const char *const *type;
	size_t count;			/* the recorded blocks that were live */
	const struct mayfly_held *held; /* by number */
};

/* The last one; NULL: the trace has none. */
const struct mayfly_picture *mayfly_trace_picture(const struct mayfly_trace *trace);

/* ---- events, in time order ---- */

enum mayfly_event_kind {
	MAYFLY_ALLOC = 0,
	MAYFLY_FREE = 1,
	MAYFLY_PROMOTE = 2, /* from OCaml's minor to its major heap; only on request */
};

#define MAYFLY_FLAG_REALLOC   1u /* this event is one half of a realloc */
#define MAYFLY_FLAG_TEMPORARY 2u /* FREE: by the allocating thread before its next allocation */
#define MAYFLY_FLAG_INHERITED 4u /* ALLOC: by the parent, before the fork; time 0: the fork */
#define MAYFLY_FLAG_THINNED   8u /* ALLOC: kept by chance when the trace was thinned */
/* FREE: after Python's interpreter began to end */
#define MAYFLY_FLAG_ENDING 16u
/* ALLOC, in OCaml's heaps: the size has no header, as of the memory that a Bigarray holds */
#define MAYFLY_FLAG_NO_HEADER 128u
/* ALLOC: enum mayfly_heap, in three bits */
#define MAYFLY_FLAG_HEAP_SHIFT	4
#define MAYFLY_FLAG_HEAP_MASK	0x70u
#define MAYFLY_FLAG_HEAP(flags) ((flags) >> MAYFLY_FLAG_HEAP_SHIFT & 7u)

/* Where a block is. OCaml's heaps mostly lie in memory that the runtime has from malloc; both are
 * recorded (mayfly_query.heaps). */
enum mayfly_heap {
	MAYFLY_HEAP_MALLOC = 0,
	MAYFLY_HEAP_OCAML_MINOR = 1, /* allocated in the minor heap */
	MAYFLY_HEAP_OCAML_MAJOR = 2, /* allocated in the major heap */
	MAYFLY_HEAP_EXTERNAL = 3,    /* outside both, held by an OCaml block (Bigarray) */
	/* Blocks of the program's own allocators, which it reports (mayfly.h): inside malloc
	 * blocks, and in memory that malloc does not know. Only the latter count where all heaps
	 * are summed. */
	MAYFLY_HEAP_POOL = 4,
	MAYFLY_HEAP_POOL_MAPPED = 5,
	/* What the program has mapped itself, 128 KiB and more. Does not count where all heaps are
	 * summed: it stands beside them. */
	MAYFLY_HEAP_MAPPING = 6,
	MAYFLY_HEAPS = 7,
};

/* OCaml's heaps, a bit each, as in mayfly_info.heaps and mayfly_query.heaps. */
#define MAYFLY_HEAPS_OCAML                                                                         \
	(1u << MAYFLY_HEAP_OCAML_MINOR | 1u << MAYFLY_HEAP_OCAML_MAJOR | 1u << MAYFLY_HEAP_EXTERNAL)

static inline bool mayfly_heap_is_ocaml(uint32_t heap)
{
	return heap < MAYFLY_HEAPS && MAYFLY_HEAPS_OCAML >> heap & 1;
}

struct mayfly_event {
	uint32_t kind;
	uint32_t flags;
	int64_t time_ns;
	uint32_t thread; /* index; FREE: the thread that frees */
	uint64_t sample; /* the block's number: from 0, in order of allocation events */
	/* The block, for all kinds of events. */
	uint32_t node;
	uint32_t alloc_thread;
	uint32_t heap;	 /* enum mayfly_heap */
	uint64_t size;	 /* bytes asked for; OCaml blocks include their header */
	uint32_t hits;	 /* sampled points in it; 0: recorded with weight 1 */
	double interval; /* in force when it was allocated, bytes */
	int64_t alloc_time_ns;
	double weight_bytes; /* doc/FORMAT.md, "Weights" */
	double weight_blocks;
	uint32_t labels; /* set that its thread had at the allocation */
	bool inherited;	 /* a forked child took it over from its parent: not allocated here */
};

struct mayfly_cursor;
int mayfly_cursor_open(const struct mayfly_trace *trace, struct mayfly_cursor **cursor);
/* Called before the first event: returns promotions, too. */
void mayfly_cursor_promotions(struct mayfly_cursor *cursor);
/* 1: *event is the next one; 0: no more; negative: error. */
int mayfly_cursor_next(struct mayfly_cursor *cursor, struct mayfly_event *event);
void mayfly_cursor_close(struct mayfly_cursor *cursor);
/* Whether the block counts where all heaps are summed; false: another block of the trace covers its
 * memory (mayfly_query.heaps). */
bool mayfly_event_counts(const struct mayfly_trace *trace, const struct mayfly_event *event);

/* ---- labels that the program puts on its allocations (request, tenant, phase) ---- */

struct mayfly_label {
	const char *key, *value;
};

#define MAYFLY_LABEL_SETS 1048576u

/* The labels of a set, the outermost first; among labels with the same key the last one counts.
 * Set 0 is empty. NULL and *count 0 when out of range or empty. */
const struct mayfly_label *mayfly_trace_labels(const struct mayfly_trace *trace, size_t set,
					       size_t *count);

/* The labels that count, as "key=value, ..."; "" for set 0 or when out of range. */
const char *mayfly_trace_label_text(const struct mayfly_trace *trace, size_t set);

/* ---- track events: spans, instants and counters of threads ---- */

enum mayfly_track_kind {
	MAYFLY_TRACK_BEGIN = 0,
	MAYFLY_TRACK_END = 1, /* of the thread's latest open span of this type */
	MAYFLY_TRACK_INSTANT = 2,
	MAYFLY_TRACK_COUNT = 3, /* the first value is the counter's */
};
enum mayfly_type_kind { MAYFLY_TYPE_SPAN = 0, MAYFLY_TYPE_INSTANT = 1, MAYFLY_TYPE_COUNTER = 2 };
enum mayfly_field_type {
	MAYFLY_FIELD_INT = 0,
	MAYFLY_FIELD_UINT = 1,
	MAYFLY_FIELD_FLOAT = 2,
	MAYFLY_FIELD_TEXT = 3,
	MAYFLY_FIELD_FLOW = 4, /* events with the same number belong together, in their order */
};

#define MAYFLY_TRACK_TYPES  65536u
#define MAYFLY_TRACK_VALUES 4

struct mayfly_track_field {
	const char *name;
	uint32_t type; /* enum mayfly_field_type */
};

struct mayfly_track_type {
	const char *name;
	const char *category; /* "ocaml", "process", "memory", "thread"; "": the program's own */
	const char *unit;     /* of a counter: "bytes", "ns", "" for plain numbers */
	uint32_t kind;	      /* enum mayfly_type_kind */
	size_t fields;	      /* at most MAYFLY_TRACK_VALUES; a counter has at least 1 */
	struct mayfly_track_field field[MAYFLY_TRACK_VALUES];
};

/* index is below mayfly_info.track_types; NULL when out of range. */
const struct mayfly_track_type *mayfly_trace_track_type(const struct mayfly_trace *trace,
							size_t index);

union mayfly_value {
	int64_t i;
	uint64_t u; /* UINT, FLOW */
	double f;
	const char *text; /* never NULL */
};

/* type, thread and node exist in the trace, and the kind fits the type. */
struct mayfly_track_event {
	uint32_t kind; /* enum mayfly_track_kind */
	uint32_t type; /* index */
	uint32_t thread;
	uint32_t node;	 /* of its stack; 0: none */
	int64_t time_ns; /* to the nanosecond */
	/* The number of events (as of a struct mayfly_cursor without promotions) before it: this
	 * makes one order of blocks and track events. 0 in traces of snapshots. */
	uint64_t events_before;
	size_t values; /* the type's fields; 0 for an END */
	union mayfly_value value[MAYFLY_TRACK_VALUES];
};

/* In time order. Errors and ownership are those of struct mayfly_cursor. An END may lack its BEGIN,
 * and a span may be open at the end: the recording may have begun or ended in between, or have lost
 * events. */
struct mayfly_track_cursor;
int mayfly_track_cursor_open(const struct mayfly_trace *trace, struct mayfly_track_cursor **cursor);
int mayfly_track_cursor_next(struct mayfly_track_cursor *cursor, struct mayfly_track_event *event);
void mayfly_track_cursor_close(struct mayfly_track_cursor *cursor);

/* ---- estimates ---- */

/* low and high: the 95 % interval (doc/INTERNALS.md, "Uncertainty"). An exact figure has stderror 0
 * and low = high. certain: the part of the estimate that was recorded with weight 1. below, above:
 * how much less or more the estimate is at other moments that may be the peak; else 0. */
struct mayfly_figure {
	double estimate, stderror, low, high, certain;
	double below, above;
};

struct mayfly_estimate {
	struct mayfly_figure bytes, blocks;
	uint64_t samples; /* number of recorded blocks, including those of weight 1 */
};

/* ---- questions ---- */

/* Blocks that a forked child inherited are live in it, and may leak. It has not allocated them: they
 * do not count in ALLOCATED, TEMPORARY and SURVIVED, nor in what an answer calls allocated. */
enum mayfly_metric {
	MAYFLY_LIVE, /* live at query.at */
	MAYFLY_PEAK, /* live when live bytes were at their peak (doc/INTERNALS.md, "The peak") */
	MAYFLY_ALLOCATED,  /* allocated in [from, to) */
	MAYFLY_LEAKED,	   /* allocated in [from, to), or inherited at 0, and never freed */
	MAYFLY_TEMPORARY,  /* allocated in [from, to), with MAYFLY_FLAG_TEMPORARY when freed */
	MAYFLY_SURVIVED,   /* allocated in [from, to) and still live at `to` */
	MAYFLY_IN_PICTURE, /* allocated in [from, to) and live when the heap's picture was taken;
			      MAYFLY_E_ABSENT: there is none */
};

enum mayfly_by {
	MAYFLY_BY_FUNCTION,
	MAYFLY_BY_LINE,
	MAYFLY_BY_STACK,
	MAYFLY_BY_MODULE,
	MAYFLY_BY_THREAD,   /* the allocating one */
	MAYFLY_BY_SIZE,	    /* classes (2^(k-1), 2^k]; row.low/high are their bounds in bytes */
	MAYFLY_BY_LIFETIME, /* classes of decades; row.low/high in ns; never freed: high = INT64_MAX
			     */
	MAYFLY_BY_HEAP,	    /* row.low: enum mayfly_heap */
	MAYFLY_BY_FREEING_THREAD, /* row.free_thread */
	MAYFLY_BY_LABEL,   /* row.function: the value of query.label_key, or "key=value, ..." of the
			      whole set when that is NULL; "": no label. Not for snapshots */
	MAYFLY_BY_THREADS, /* pairs: allocating and freeing thread; MAYFLY_E_TOO_LARGE when a trace
			      has thousands of threads */
	/* For IN_PICTURE only. */
	MAYFLY_BY_HOLDER, /* row.low: the holder's index; their number: the heap had no such block;
			     row.function, file: its name and its place */
	MAYFLY_BY_TYPE,	  /* row.function; "": not known, and row.low/high are those of BY_SIZE */
};

enum mayfly_sort { MAYFLY_SORT_SELF, MAYFLY_SORT_TOTAL };

#define MAYFLY_AT_END  INT64_MAX
#define MAYFLY_AT_PEAK (INT64_MAX - 1)

/* Matches a text: 1 yes, 0 no. Called once for each distinct function, file and module name. */
struct mayfly_match {
	int (*matches)(void *context, const char *text);
	void *context;
};

/*
 * Frames that are folded into their callers: they are taken out of the stacks, as hidden ones are,
 * but a stack of which nothing else is left keeps one of them. Asked once for each distinct place in
 * the code (module, file: "" when unknown). 0: the place stays; at most 255. If nothing stays, the place with
 * the highest answer is kept: of several the outermost, from MAYFLY_FOLD_INNERMOST on the innermost.
 */
#define MAYFLY_FOLD_INNERMOST 128
struct mayfly_fold {
	unsigned (*folds)(void *context, const struct mayfly_trace *trace, const char *function,
			  const char *file, const char *module);
	void *context;
};

/* IN_PICTURE: which blocks. What the heap did not have is neither lost nor held. */
enum mayfly_holding { MAYFLY_LOST_OR_HELD, MAYFLY_ONLY_LOST, MAYFLY_ONLY_HELD };

struct mayfly_query {
	enum mayfly_metric metric;
	enum mayfly_by by;
	enum mayfly_sort sort;
	int64_t at_ns;		     /* LIVE: a time, MAYFLY_AT_END or MAYFLY_AT_PEAK */
	int64_t from_ns, to_ns;	     /* only blocks allocated in [from, to); 0 and INT64_MAX: all */
	uint64_t min_size, max_size; /* 0 and UINT64_MAX: all */
	int64_t min_lifetime_ns, max_lifetime_ns; /* 0 and INT64_MAX: all; never freed = infinite */
	struct mayfly_match focus;  /* keep stacks with a matching function, file or module */
	struct mayfly_match ignore; /* drop stacks with a match */
	struct mayfly_match hide;   /* take matching frames out of the stacks */
	struct mayfly_match show;   /* take all other frames out of the stacks */
	/* Keep stacks with a match; they begin, towards the root, at the first one. */
	struct mayfly_match show_from;
	struct mayfly_fold fold; /* ignored BY_MODULE, where libraries are rows, and with `show` */
	struct mayfly_match thread; /* keep blocks allocated by a thread of this name or number */
	/* Keep blocks in these: 1 << enum mayfly_heap each. 0: all heaps, but each byte once.
	 * Omitted then are malloc blocks that hold OCaml's heaps or its sampler's tables and, where
	 * malloc's blocks are recorded, external ones; BY_HEAP has them all. */
	uint32_t heaps;
	const char *label_key;	   /* BY_LABEL */
	struct mayfly_match label; /* keep blocks with a matching "key=value" */
	size_t stack_rows; /* BY_STACK: the most rows to return, as large traces have very many
			      stacks; 0: all */
	/* BY_STACK: functions that call themselves, directly or through up to seven others, stand once
	 * (mayfly_place.recursive), so that stacks that differ only in the depth are one row. */
	bool fold_recursion;
	/* IN_PICTURE: keep blocks of holders, or of types, whose name matches; those without do not. */
	struct mayfly_match holder, type;
	enum mayfly_holding holding;
	uint64_t reserved[2]; /* 0 */
};

/* All of the above set to "everything", metric PEAK, by FUNCTION, sort SELF. */
void mayfly_query_defaults(struct mayfly_query *query);

/* What the query needs and a converted trace lacks (enum mayfly_absent). If not 0, all functions
 * that take queries return MAYFLY_E_ABSENT. */
uint32_t mayfly_query_absent(const struct mayfly_trace *trace, const struct mayfly_query *query);

struct mayfly_row {
	/* The key. Parts that the grouping does not use are "", 0 or NULL. */
	const char *function, *file, *module;
	uint32_t line;
	uint32_t thread;      /* index */
	uint32_t free_thread; /* index; UINT32_MAX: never freed */
	int64_t low, high;
	const struct mayfly_place *stack; /* leaf first */
	size_t stack_length;
	struct mayfly_estimate self;  /* blocks allocated by this key directly */
	struct mayfly_estimate total; /* and by its callees; each block once */
};

struct mayfly_place { /* one line of a printed stack */
	const char *function, *file, *module;
	uint32_t line;
	uint64_t address; /* of the frame, for places without a function */
	uint32_t kind;	  /* enum mayfly_frame_kind */
	bool inlined;
	bool recursive; /* it and what it calls itself through stand for any depth */
	uint32_t first_char, last_char; /* as in struct mayfly_location */
};

struct mayfly_result {
	int64_t time_ns; /* LIVE, PEAK: the moment; others: the end of the window */
	struct mayfly_estimate total;
	struct mayfly_estimate nothing; /* of a row without samples: its blocks may be unseen */
	size_t rows;
	size_t all_rows;	      /* larger than rows when query.stack_rows omits some */
	const struct mayfly_row *row; /* sorted */
};

int mayfly_query_run(const struct mayfly_trace *trace, const struct mayfly_query *query,
		     struct mayfly_result **result);
void mayfly_result_free(struct mayfly_result *result);

/* Figures that info.absent makes unknown are 0. */
struct mayfly_summary {
	struct mayfly_estimate allocated, peak, live_at_end, temporary;
	int64_t peak_time_ns;
};

int mayfly_trace_summary(const struct mayfly_trace *trace, struct mayfly_summary *summary);

/* The most live bytes in each of `points` equal steps from 0 to the end; what was live when a step began
 * counts, too. The most between two snapshots counts for the step that contains the second one.
 * MAYFLY_E_ABSENT when the trace has no times. */
int mayfly_timeline(const struct mayfly_trace *trace, size_t points, double *live_bytes);

/*
 * Survival of blocks allocated in OCaml's minor heap. The rows are those of mayfly_query_run(), by
 * function, line, stack or module, over all such blocks that the query's filters keep (no filter by
 * lifetime), sorted by allocated bytes. Each sample counts with its bytes. All figures have 95 %
 * intervals. OCaml notices that a block is dead only when it collects.
 */
struct mayfly_quantile {
	int64_t estimate_ns, low_ns, high_ns; /* INT64_MAX: later than the end of the recording */
	uint64_t samples; /* that it is computed from; 0: there is no quantile */
};

struct mayfly_survival_row {
	const struct mayfly_row *key; /* NULL: all rows together */
	struct mayfly_estimate allocated;
	struct mayfly_figure promoted;	/* share that was moved to the major heap, 0 to 1 */
	struct mayfly_figure collected; /* share that was collected before that */
	struct mayfly_quantile promotion_median, promotion_p90; /* from allocation to promotion */
	struct mayfly_quantile lifetime_median;
};

struct mayfly_survival {
	struct mayfly_survival_row all;
	size_t rows;
	const struct mayfly_survival_row *row;
};

int mayfly_survival_run(const struct mayfly_trace *trace, const struct mayfly_query *query,
			struct mayfly_survival **survival);
void mayfly_survival_free(struct mayfly_survival *survival);

/*
 * Rows over time: the live bytes and blocks of each row at each of `points` evenly spaced moments,
 * and its allocations up to then. Moment i is (i + 1) / points of the way from query.from_ns, or 0,
 * to query.to_ns, or the end. Grouping, filters and order are the query's; its metric determines
 * the order of rows and which ones come first. The result has the first `rows` rows and one more,
 * the sum of the others, whose key is empty. Estimates have no errors.
 *
 * The window only selects the moments: blocks count even if they were allocated before it. Rows are
 * sorted as in mayfly_query_run(), for LIVE and PEAK without the window. In a trace of snapshots
 * moments are rounded up to the end of an interval. With totals, the last row holds the blocks
 * whose stacks go through none of the first `rows`.
 */
struct mayfly_series {
	size_t points, rows;	      /* rows includes the last one, for the others */
	const int64_t *time_ns;	      /* [points] */
	const struct mayfly_row *row; /* [rows], as mayfly_query_run() gives them */
	/* [rows][points]: the value of row r at point i is at r * points + i. The row's self, or
	 * with MAYFLY_SORT_TOTAL its total. */
	const double *live_bytes, *live_blocks, *allocated_bytes, *allocated_blocks;
};

int mayfly_series_run(const struct mayfly_trace *trace, const struct mayfly_query *query,
		      size_t points, size_t rows, struct mayfly_series **series);
void mayfly_series_free(struct mayfly_series *series);

/*
 * Histograms: the distribution of a row's blocks over the classes of MAYFLY_BY_SIZE or
 * MAYFLY_BY_LIFETIME, for each of the first `rows` rows and for the sum of the others, whose key is
 * empty. The whole query applies. With MAYFLY_SORT_TOTAL rows count with their totals, and the last
 * row holds the blocks whose stacks go through none of the others. Not for traces of snapshots.
 */
struct mayfly_histogram {
	int64_t time_ns; /* as in struct mayfly_result */
	struct mayfly_estimate total;
	size_t rows, classes;	      /* rows includes the last one, for the others */
	const struct mayfly_row *row; /* [rows], as mayfly_query_run() gives them */
	/* [classes], ascending, from the first to the last that has a block, as in struct
	 * mayfly_row. The class of blocks that are never freed exists if it has blocks. */
	const int64_t *low, *high;
	const struct mayfly_estimate *cell; /* [rows][classes] */
};

int mayfly_histogram_run(const struct mayfly_trace *trace, const struct mayfly_query *query,
			 enum mayfly_by classes, size_t rows, struct mayfly_histogram **histogram);
void mayfly_histogram_free(struct mayfly_histogram *histogram);

/*
 * Churn: allocated bytes beside the live bytes that they sustain. The rows are the first `rows` by
 * bytes allocated in [from, to), and one for the others as in a histogram; each has the mean of its
 * live bytes over this time. allocated / mean live is how often each live byte was replaced, and
 * (to - from) * mean live / allocated how long a byte lived. metric and at_ns of the query are not
 * used. Not for traces of snapshots.
 */
struct mayfly_churn {
	int64_t from_ns, to_ns; /* within the trace */
	struct mayfly_estimate total;
	double mean_live_total;
	size_t rows;
	const struct mayfly_row *row;
	const double *mean_live; /* [rows] bytes */
};

int mayfly_churn_run(const struct mayfly_trace *trace, const struct mayfly_query *query,
		     size_t rows, struct mayfly_churn **churn);
void mayfly_churn_free(struct mayfly_churn *churn);

/*
 * Chains of realloc: each block takes over the contents of the one before. The last block stands
 * for the chain: its stack, thread, size, lifetime and time of allocation determine the row, and
 * whether the filters and the window keep the chain. metric and at_ns of the query are not used.
 * Rows are sorted by copied bytes; bytes and blocks of their estimates are copied bytes and chains.
 * Only traces of every allocation have chains: MAYFLY_E_ABSENT for others.
 */
struct mayfly_growth {
	uint64_t chains, steps;		  /* steps: calls of realloc */
	uint64_t longest;		  /* steps of the longest chain */
	uint64_t copied_bytes;		  /* at most: realloc may leave a block where it is */
	uint64_t first_bytes, last_bytes; /* sizes of first and last blocks, summed */
};

struct mayfly_reallocs {
	struct mayfly_growth total;
	size_t rows; /* includes the last one, for the others */
	const struct mayfly_row *row;
	const struct mayfly_growth *growth; /* [rows] */
};

int mayfly_reallocs_run(const struct mayfly_trace *trace, const struct mayfly_query *query,
			size_t rows, struct mayfly_reallocs **reallocs);
void mayfly_reallocs_free(struct mayfly_reallocs *reallocs);

/*
 * Spans: for each type of span the number and duration of its spans, and the blocks that their
 * threads allocated while they were open. A block counts in `allocated` of every type that is open
 * on its thread, once for each, and in `self_allocated` of the latest span's type. `live` are those
 * blocks that are live at the end. Times are sums over all spans, including those inside another
 * one of their type.
 *
 * The query's filters select the blocks, its threads also the spans. Its window selects blocks
 * allocated in it and spans that begin in it. metric, by, sort and at_ns are not used. Set min_size
 * > max_size to skip blocks altogether (faster). In traces of snapshots the estimates are 0. Rows
 * are sorted by total time, the longest first. doc/FORMAT.md, "Spans", tells which span an END
 * ends.
 */
#define MAYFLY_SPAN_CLASSES 20 /* of durations, two in a decade */

struct mayfly_span_row {
	uint32_t type;		   /* index */
	uint64_t count;		   /* spans that ended: times and durations are theirs */
	uint64_t open;		   /* spans that were open at the end */
	int64_t total_ns, self_ns; /* self: while it was the latest open span of its thread */
	/* Durations, to 0.4 %; exact for up to some thousand spans, and for the extremes. */
	int64_t min_ns, p50_ns, p90_ns, p99_ns, max_ns;
	uint64_t in_class[MAYFLY_SPAN_CLASSES]; /* number of spans of each class: see below */
	struct mayfly_estimate allocated, self_allocated, live;
};

struct mayfly_spans {
	size_t rows;
	const struct mayfly_span_row *row;
	uint64_t unmatched; /* ENDs without a BEGIN */
	uint64_t ignored;   /* spans above the limit of open spans on a thread */
};

int mayfly_spans_run(const struct mayfly_trace *trace, const struct mayfly_query *query,
		     struct mayfly_spans **spans);
void mayfly_spans_free(struct mayfly_spans *spans);
/* The shortest duration of a class: 0, 100 ns, 300 ns, 1 us, 3 us ... INT64_MAX: past the last. */
int64_t mayfly_span_class_ns(size_t class_number);

/* Instants and counters by type: their number, for counters also their values. Only events in the
 * query's window and on its threads count. */
struct mayfly_track_sum {
	uint32_t type;
	uint64_t count;
	int64_t first_ns, last_ns;
	double min, mean, max, last,
	    total; /* COUNTER: the values'; the mean is over events, not over time */
};

/* CPU time of a thread in the query's window, from its counter "thread.cpu". */
struct mayfly_thread_cpu {
	uint32_t thread;
	int64_t cpu_ns;
};

struct mayfly_track_sums {
	size_t rows; /* one for each type with events, instants and counters, by count */
	const struct mayfly_track_sum *row;
	size_t threads; /* with known CPU time, most first */
	const struct mayfly_thread_cpu *thread;
};

int mayfly_track_sums_run(const struct mayfly_trace *trace, const struct mayfly_query *query,
			  struct mayfly_track_sums **sums);
void mayfly_track_sums_free(struct mayfly_track_sums *sums);

/* ---- sums of nodes, for exports ---- */

struct mayfly_node_sum {
	uint32_t node; /* of the stack that allocated */
	struct mayfly_estimate self;
};

struct mayfly_node_sums {
	int64_t time_ns; /* as in struct mayfly_result */
	struct mayfly_estimate total;
	size_t count;
	const struct mayfly_node_sum *sum; /* by ascending node; only nodes with blocks */
};

/* The query's metric, moment, window and filters apply; `by`, `sort`, `stack_rows`, `hide` and
 * `fold` do not: the caller hides frames when it prints stacks. */
int mayfly_node_sums_run(const struct mayfly_trace *trace, const struct mayfly_query *query,
			 struct mayfly_node_sums **sums);
void mayfly_node_sums_free(struct mayfly_node_sums *sums);

#ifdef __cplusplus
}
#endif
#endif
