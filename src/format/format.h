/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The trace file: numbers that writer and reader share. doc/FORMAT.md is the normative description.
 *
 *	+--------+------+-------+-------+- -+------+------+---------+
 *	| header | INFO | group | group |   | INFO | indx | trailer |
 *	+--------+------+-------+-------+- -+------+------+---------+
 *
 *	group:  STRS MODS THRD FRMS TREE: rows that are new, and absent when there are none;
 *		NAME in one of them; text, type, labl: rows that are new; EVNT, and prom where
 *		OCaml blocks were promoted; trak where something happened beside the blocks; now and
 *		then SUMS, cntr, frag; heap; POOL before the first block of a pool
 *	chunk:  u32 type, u32 stored bytes, u32 plain bytes (0: stored plainly), u32 CRC-32,
 *		then the bytes; plainly they are varints and columns as the type has them
 *	column: varint id, varint coding, varint length, that many bytes
 */
#ifndef MAYFLY_FORMAT_H
#define MAYFLY_FORMAT_H

#include <stddef.h>
#include <stdint.h>

#define TRACE_MAGIC	    "MAYFLYTR" /* 8 bytes, no terminating zero in the file */
#define TRACE_VERSION	    2u
#define TRACE_HEADER_BYTES  24u
#define TRACE_CHUNK_BYTES   16u /* of a chunk's header */
#define TRACE_END_MAGIC	    "MAYFLYND"
#define TRACE_TRAILER_BYTES 24u

/* A reader must refuse a trace with a feature bit that it does not know. None is defined yet. */
#define TRACE_FEATURES_KNOWN 0u

/* A type whose first letter is a capital must be understood, others may be skipped. */
#define TRACE_TYPE(a, b, c, d)                                                                     \
	((uint32_t)(a) | (uint32_t)(b) << 8 | (uint32_t)(c) << 16 | (uint32_t)(d) << 24)
#define TRACE_INFO	   TRACE_TYPE('I', 'N', 'F', 'O')
#define TRACE_STRINGS	   TRACE_TYPE('S', 'T', 'R', 'S')
#define TRACE_MODULES	   TRACE_TYPE('M', 'O', 'D', 'S')
#define TRACE_THREADS	   TRACE_TYPE('T', 'H', 'R', 'D')
#define TRACE_FRAMES	   TRACE_TYPE('F', 'R', 'M', 'S')
#define TRACE_TREE	   TRACE_TYPE('T', 'R', 'E', 'E')
#define TRACE_EVENTS	   TRACE_TYPE('E', 'V', 'N', 'T')
#define TRACE_NAMES	   TRACE_TYPE('N', 'A', 'M', 'E')
#define TRACE_SUMS	   TRACE_TYPE('S', 'U', 'M', 'S')
#define TRACE_PROMOTIONS   TRACE_TYPE('p', 'r', 'o', 'm')
#define TRACE_COUNTERS	   TRACE_TYPE('c', 'n', 't', 'r')
#define TRACE_FRAGMENTS	   TRACE_TYPE('f', 'r', 'a', 'g')
#define TRACE_MAPPINGS	   TRACE_TYPE('m', 'a', 'p', 's')
#define TRACE_ERRORS	   TRACE_TYPE('e', 'r', 'r', 's')
#define TRACE_PICTURE	   TRACE_TYPE('h', 'e', 'a', 'p')
#define TRACE_TEXTS	   TRACE_TYPE('t', 'e', 'x', 't')
#define TRACE_TRACK_TYPES  TRACE_TYPE('t', 'y', 'p', 'e')
#define TRACE_LABELS	   TRACE_TYPE('l', 'a', 'b', 'l')
#define TRACE_TRACK	   TRACE_TYPE('t', 'r', 'a', 'k')
#define TRACE_POOLS	   TRACE_TYPE('P', 'O', 'O', 'L')
#define TRACE_MAPPED	   TRACE_TYPE('M', 'M', 'A', 'P')
#define TRACE_INDEX	   TRACE_TYPE('i', 'n', 'd', 'x')
#define TRACE_ESSENTIAL(t) (!((t)&0x20))

#define TRACE_CHUNK_EVENTS  262144u /* the most that one chunk may have */
#define TRACE_MAX_DEPTH	    4096u   /* of the tree */
#define TRACE_MAX_INTERVAL  40u	    /* log2 */
#define TRACE_MAX_HITS	    0x3fffffffu
#define TRACE_MAX_LABELS    16u /* of a set */
#define TRACE_MAX_RANK	    64u /* of a frame in the list of those that followed another */
#define TRACE_LATEST_NS	    ((int64_t)1 << 62)	/* times lie within +-this */
#define TRACE_MOST_RESIDENT ((uint64_t)1 << 52) /* bytes of a mapping: more than machines have */
#define TRACE_UNIT_NS	    2000 /* of times in sampled traces, and of modules, as written */

/* The path of the module of code that was compiled at run time. */
#define TRACE_JIT_MODULE "[jit]"

/* How a column's numbers are coded. */
enum trace_coding {
	CODING_CONSTANT = 0, /* one varint: all are this */
	CODING_VARINT = 1,   /* a stream of varints */
	CODING_PLANES = 2,   /* b width; for each byte of the numbers, low first, a stream */
	CODING_BUCKETS = 3,  /* b mantissa; stream of classes (bytes); stream of the rest (bits) */
	CODING_RUNS = 4,     /* varint runs; two nested columns without id: values, lengths - 1 */
	CODING_BYTES = 5,    /* a stream of bytes, no numbers */
	CODING_SPLIT = 6,    /* b limit; stream of min(v, limit); a nested column of v - limit */
};

/* Odd ids must be understood, even ones may be skipped. An absent column is all zero. */
enum trace_column {
	COLUMN_STRING_BYTES = 1, /* STRS */

	COLUMN_MODULE_PATH = 1, /* MODS */
	COLUMN_MODULE_START = 3,
	COLUMN_MODULE_SIZE = 5,
	COLUMN_MODULE_BIAS = 7,
	COLUMN_MODULE_FROM = 9,
	COLUMN_MODULE_BUILD_ID_LENGTH = 13,
	COLUMN_MODULE_BUILD_ID = 15,

	COLUMN_THREAD_TID = 1, /* THRD */
	COLUMN_THREAD_NAME = 3,
	COLUMN_THREAD_ROW = 4,

	COLUMN_FRAME_KIND = 1, /* FRMS */
	COLUMN_FRAME_MODULE = 3,
	COLUMN_FRAME_ADDRESS = 5,

	COLUMN_MODULE_TO = 1, /* NAME */
	COLUMN_MODULE_PROBLEM = 3,
	COLUMN_THREAD_RENAMED = 5,
	COLUMN_FRAME_LOCATIONS = 7,
	COLUMN_LOCATION_FUNCTION = 9,
	COLUMN_LOCATION_FILE = 11,
	COLUMN_LOCATION_LINE = 13,
	COLUMN_LOCATION_INLINED = 15,
	COLUMN_LOCATION_FIRST = 16,
	COLUMN_LOCATION_LENGTH = 18,
	COLUMN_LOCATION_RESPELLED = 20,

	COLUMN_CHAIN_PARENT = 1, /* TREE */
	COLUMN_CHAIN_LENGTH = 3,
	COLUMN_NODE_RANK = 5,
	COLUMN_NODE_FRAME = 7,
	COLUMN_NODE_BESIDE = 9,

	COLUMN_SUM_CHAIN = 1, /* SUMS */
	COLUMN_SUM_NODE = 3,
	COLUMN_SUM_ALLOCS = 5,
	COLUMN_SUM_SIZE = 7,
	COLUMN_SUM_NEW_SIZE = 9,
	COLUMN_SUM_REST = 11,
	COLUMN_SUM_FREES = 13,
	COLUMN_SUM_FREED = 15,
	COLUMN_SUM_TEMPS = 17,
	COLUMN_SUM_TEMP_BYTES = 19,
	COLUMN_SUM_INHERITED = 20,
	COLUMN_SUM_INHERITED_BYTES = 22,

	COLUMN_PROMOTION_EVENT = 1, /* prom */
	COLUMN_PROMOTION_BLOCK = 3,
	COLUMN_PROMOTION_TIME = 5,

	COLUMN_COUNTER_NAMES = 1, /* cntr */
	COLUMN_SERIES_COUNTER = 3,
	COLUMN_SERIES_POINTS = 5,
	COLUMN_SERIES_FORM = 7,
	COLUMN_MOMENT_TIME = 9,
	COLUMN_POINT_MOMENT = 11,
	COLUMN_POINT_VALUE = 13,

	COLUMN_FRAGMENT_NODE = 1, /* frag */
	COLUMN_FRAGMENT_BLOCKS = 3,
	COLUMN_FRAGMENT_BYTES = 5,
	COLUMN_FRAGMENT_PAGES = 7,
	COLUMN_FRAGMENT_HELD = 9,
	COLUMN_FRAGMENT_RUNS = 10, /* one number */

	COLUMN_MAPPING_NAMES = 1, /* maps */
	COLUMN_MAPPING_KIND = 3,
	COLUMN_MAPPING_START = 5,
	COLUMN_MAPPING_SIZE = 7,
	COLUMN_MAPPING_RESIDENT = 9,
	COLUMN_MAPPING_NAME = 11,

	COLUMN_ERROR_NODE = 1, /* errs: then for each sum its three numbers */
	COLUMN_ERROR_BYTES = 3,
	COLUMN_ERROR_BLOCKS = 5,
	COLUMN_ERROR_SAMPLES = 7,
	COLUMN_ERROR_STEP = 6, /* to those of the next sum */
	COLUMN_CHOICE_BYTES = 15,
	COLUMN_CHOICE_BLOCKS = 17,
	COLUMN_CHOICE_STEP = 4,

	COLUMN_PICTURE_TEXTS = 1, /* heap */
	COLUMN_HOLDER_KIND = 3,
	COLUMN_HOLDER_NAME = 5,
	COLUMN_HOLDER_PLACE = 7,
	COLUMN_HOLDER_TID = 9,
	COLUMN_HOLDER_BYTES = 11,
	COLUMN_HOLDER_BLOCKS = 13,
	COLUMN_HELD_TYPE_NAME = 15,
	COLUMN_HELD_NUMBER = 17,
	COLUMN_HELD_HOLDER = 19,
	COLUMN_HELD_STEPS = 21,
	COLUMN_HELD_TYPE = 23,

	COLUMN_EVENT_KIND = 1, /* EVNT */
	COLUMN_EVENT_TIME = 3,
	COLUMN_ALLOC_SITE = 5,
	COLUMN_ALLOC_NODE = 7,
	COLUMN_ALLOC_SIZE = 9,
	COLUMN_ALLOC_NEW_SIZE = 11,
	COLUMN_ALLOC_THREAD = 13,
	COLUMN_ALLOC_HITS = 15,
	COLUMN_ALLOC_INTERVAL = 17,
	COLUMN_ALLOC_FLAGS = 19,
	COLUMN_FREE_RANK = 21,
	COLUMN_FREE_BACK = 23,
	COLUMN_FREE_STEP = 25,
	COLUMN_FREE_LIFE = 27,
	COLUMN_FREE_THREAD = 29,
	COLUMN_FREE_FLAGS = 31,
	COLUMN_EVENT_BITS = 33,
	COLUMN_TIME_EVENTS = 35,
	COLUMN_TIME_STEP = 37,
	COLUMN_ALLOC_ID = 39,
	COLUMN_PAIR_SITE = 41,
	COLUMN_PAIR_SIZE = 43,
	COLUMN_EVENT_THREAD = 45,
	COLUMN_ALLOC_PAIR = 47,
	COLUMN_ALLOC_LABELS = 50, /* set of labels: 0 as its thread's last, else 1 + set */

	COLUMN_TEXT_BYTES = 1, /* text: all strings of the three chunk types below */

	COLUMN_TYPE_NAME = 1, /* type: texts, each as zigzag of its step; number of fields */
	COLUMN_TYPE_KIND = 3,
	COLUMN_TYPE_CATEGORY = 5,
	COLUMN_TYPE_UNIT = 7,
	COLUMN_TYPE_FIELDS = 9,
	COLUMN_FIELD_NAME = 11, /* of all types' fields */
	COLUMN_FIELD_TYPE = 13,

	COLUMN_SET_LABELS = 1, /* labl: their number; the labels of all sets, texts as steps */
	COLUMN_LABEL_KEY = 3,
	COLUMN_LABEL_VALUE = 5,

	COLUMN_TRACK_TYPE = 1, /* trak: type * 4 + enum mayfly_track_kind */
	COLUMN_TRACK_TIME = 3, /* ns since the one before */
	COLUMN_TRACK_AT = 5,   /* events of EVNT between the one before and this one */
	COLUMN_TRACK_THREAD = 7,
	COLUMN_TRACK_NODE = 9,	  /* of its stack; 0: none */
	COLUMN_TRACK_NUMBER = 11, /* values, those of each field together, in the order of fields */
	COLUMN_TRACK_FLOAT = 13,
	COLUMN_TRACK_TEXT = 15, /* 0: the next new one, else 1 + its number */
	COLUMN_TRACK_FORM = 17, /* enum trace_form, of the fields of all types */
};

/* How the values of a field stand in a trak chunk. */
enum trace_form {
	FORM_VALUE =
	    0, /* NUMBER: INT as zigzag; FLOAT: bits that differ from the one before; TEXT */
	FORM_STEP = 1,	/* NUMBER: zigzag of the difference to the one before; a FLOAT's is whole */
	FORM_WHOLE = 2, /* NUMBER: zigzag of a FLOAT that is whole */
};

/* How the values of a counter stand in a cntr chunk. */
enum series_form { SERIES_INTEGERS = 0, SERIES_DOUBLES = 1 };

/* The moment that a frag chunk is of. */
enum fragments_kind { FRAGMENTS_PEAK = 0, FRAGMENTS_END = 1, FRAGMENTS_KINDS };

/* The sums whose errors an errs chunk has. */
enum trace_error_sum { ERROR_ALLOCATED = 0, ERROR_LIVE = 1, ERROR_SUMS };
#define ERROR_BLOCK 256 /* standard errors of blocks are in parts of a block */

/* The moment that a maps chunk is of. Where one is missing, it is the other. */
enum residency_moment { RESIDENCY_PEAK = 0, RESIDENCY_END = 1, RESIDENCY_MOMENTS };

/*
 * The fields of INFO: varint id, varint length, that many bytes: a varint, zigzag where the member
 * is signed, or a text. Odd ids must be understood. X(name, id, member of struct mayfly_info), in
 * the order in which they are written.
 */
#define TRACE_INFO_FIELDS(X)                                                                       \
	X(MODE, 1, mode)                                                                           \
	X(SAMPLER, 3, sampler)                                                                     \
	X(SNAPSHOT, 5, snapshot_ns)                                                                \
	X(PID, 2, pid)                                                                             \
	X(PARENT_PID, 4, parent_pid)                                                               \
	X(INTERVAL, 6, interval_bytes)                                                             \
	X(START_REAL, 8, start_real_ns)                                                            \
	X(DURATION, 10, duration_ns)                                                               \
	X(ENDING, 12, ending)                                                                      \
	X(ENDING_CODE, 14, ending_code)                                                            \
	X(SEED, 16, seed)                                                                          \
	X(TRUNCATED, 18, truncated_stacks)                                                         \
	X(LOST_SAMPLES, 20, dropped_samples)                                                       \
	X(LOST_FREES, 22, dropped_frees)                                                           \
	X(NESTED_BLOCKS, 24, nested_blocks)                                                        \
	X(NESTED_BYTES, 26, nested_bytes)                                                          \
	X(COMMAND, 28, command) /* argv, each with a zero after it */                              \
	X(PROGRAM, 30, program)                                                                    \
	X(WRITER, 32, version) /* of mayfly */                                                     \
	X(OFF_TEXT, 34, off_text)                                                                  \
	X(NOTE, 36, note)                                                                          \
	X(COMPLETE, 38, complete)                                                                  \
	X(SPOOL, 40, spool)                                                                        \
	X(OCAML_INTERVAL, 48, ocaml_interval_bytes)                                                \
	X(OCAML_RATE, 52, ocaml_rate) /* the bits of a double */                                   \
	X(HEAPS, 54, heaps)                                                                        \
	X(THINNED, 42, thinned)                                                                    \
	X(CPU, 44, program_cpu_ns)                                                                 \
	X(RESIDENT, 46, program_max_rss_bytes)                                                     \
	X(ABSENT, 50, absent)                                                                      \
	X(LOST_EVENTS, 56, dropped_events)                                                         \
	X(GROUPED, 58, grouped)                                                                    \
	X(MISSED_FREES, 60, missed_frees)                                                          \
	X(MEMTRACE_VERSION, 62, memtrace_version)                                                  \
	X(MEMTRACE_DOMAIN, 64, memtrace_domain)                                                    \
	X(HOST, 66, host)                                                                          \
	X(RUNTIME_PARAMETERS, 68, runtime_parameters)                                              \
	X(CONTEXT, 70, context)                                                                    \
	X(TITLE, 72, title)                                                                        \
	X(PROCESSES, 74, processes)                                                                \
	X(ENTRY, 76, entry)                                                                        \
	X(PYTHON_END, 78, python_end_ns)                                                           \
	X(MAPPED_PEAK, 80, mapped_peak_bytes)                                                      \
	X(MAPPED, 82, mapped_bytes)                                                                \
	X(MAPPED_BLOCKS, 84, mapped_blocks)                                                        \
	X(MAPPED_SAMPLES, 86, mapped_samples)                                                      \
	X(MAPPED_FREES, 88, mapped_frees)                                                          \
	X(MAPPED_INHERITED, 90, mapped_inherited)

enum trace_field {
#define TRACE_FIELD(name, id, member) FIELD_##name = id,
	TRACE_INFO_FIELDS(TRACE_FIELD)
#undef TRACE_FIELD
};

/* CRC-32 as of zlib (IEEE 802.3, reflected), going on from `crc` (0 at first). */
uint32_t trace_checksum(uint32_t crc, const void *data, size_t size);

/* The number of the class of a value under CODING_BUCKETS, and how many low bits are left over. */
static inline unsigned bucket_rest(uint64_t number, unsigned mantissa)
{
	unsigned length = number ? 64 - (unsigned)__builtin_clzll(number) : 0;

	return length > mantissa + 1 ? length - 1 - mantissa : 0;
}

#endif
