/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The spool: what the agent leaves in a file while the program runs.
 *
 * One file per process image. A header, then packets of equal size:
 *
 *   +--------------------+----------+----------+----------+- - -
 *   | struct spool_header| packet 0 | packet 1 | packet 2 |
 *   | + strings          |          |          |          |
 *   +--------------------+----------+----------+----------+- - -
 *   0             header_bytes      +packet_bytes ...
 *
 * The agent maps the file shared, so whatever it has stored survives SIGKILL. A packet is claimed
 * by an atomic add on packets_claimed, or taken from the ring of those that the recorder has
 * consumed, and is from then on written by one writer only; `used` is stored with release order
 * after each whole record, so the first `used` bytes of a packet's body are valid records at every
 * instant. Each packet can be decoded without any other: its state (stack, address cache, last
 * time, last id) starts empty.
 *
 * All integers are little endian. doc/FORMAT.md is the normative description; this header is what
 * both sides compile. Times are in ticks of the clock that header.clock names.
 */
#ifndef MAYFLY_SPOOL_FORMAT_H
#define MAYFLY_SPOOL_FORMAT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define SPOOL_MAGIC	   "MAYFLYSP" /* 8 bytes, no terminating zero in the file */
#define SPOOL_VERSION	   3u
#define SPOOL_HEADER_BYTES 65536u
#define SPOOL_PACKET_BYTES 65536u
#define SPOOL_FIRST_PACKETS                                                                        \
	16u /* that have disk blocks when an agent begins a spool that nobody made for it */
#define SPOOL_PACKET_MAGIC 0x504b544du /* "MTKP" */
#define SPOOL_RECYCLED	   1024u
#define SPOOL_EXITED	   0x100u /* the status is in the low 8 bits */
#define SPOOL_CHILD_LOST   0x400u /* beside others: a forked child could not make a spool */
#define SPOOL_EXECUTED	   0x200u /* off_text has the path of what the process became */

/* The interval of a recording that names none, and the longest that may be chosen: log2 of bytes */
#define SPOOL_INTERVAL_DEFAULT_LOG2 19u
#define SPOOL_INTERVAL_MAX_LOG2	    40u

/* A reader must refuse a spool with a feature bit that it does not know. None is defined yet. */
#define SPOOL_FEATURES_KNOWN 0u

enum spool_state {
	SPOOL_WAITING = 0, /* made by the recorder, no agent has taken it yet */
	SPOOL_RUNNING = 1, /* an agent writes, or wrote until its process ended */
	SPOOL_OFF = 2,	   /* the agent gave up at off_ticks: see off_reason, off_text */
};

enum spool_off_reason {
	SPOOL_OFF_NONE = 0,
	SPOOL_OFF_NO_SPACE = 1,	 /* the file could not be extended */
	SPOOL_OFF_NO_MEMORY = 2, /* the agent could not map memory of its own */
	SPOOL_OFF_LIBC = 3,	 /* a libc without _dl_find_object */
	SPOOL_OFF_SANDBOX = 4,	 /* reserved space used up inside a seccomp sandbox */
	SPOOL_OFF_OWN_MALLOC =
	    5,			/* the program defines malloc itself; the hooks are never called */
	SPOOL_OFF_FORK = 6,	/* a forked child that is not followed */
	SPOOL_OFF_DETACHED = 7, /* from a program that runs on */
	SPOOL_OFF_LOST = 8,	/* the file's pages have gone; no reader finds this in it */
};

/* How blocks are named. */
enum spool_mode {
	SPOOL_SAMPLED = 0, /* SAMPLE and FREE: by the sample's id; the agent knows what is live */
	SPOOL_EXACT = 1,   /* ALLOC and RELEASE: by address; the spool's reader matches them */
};

enum spool_clock {
	SPOOL_CLOCK_TSC = 0,	   /* invariant TSC; each packet carries a (ticks, ns) pair */
	SPOOL_CLOCK_MONOTONIC = 1, /* ticks are CLOCK_MONOTONIC nanoseconds */
};

enum spool_sampler {
	SPOOL_STRATIFIED = 0, /* doc/FORMAT.md, "Weights" */
	SPOOL_POISSON = 1,
};

/* Fields marked (a) are written by the agent while the program runs, (c) by a controlling process;
 * all others are constant once state has left SPOOL_WAITING. */
struct spool_header {
	char magic[8];
	uint32_t version;
	uint32_t header_bytes;
	uint32_t packet_bytes;
	uint32_t features;

	uint32_t pid;
	uint32_t parent_pid;
	uint64_t start_real_ns; /* CLOCK_REALTIME when the agent started */
	uint64_t start_mono_ns; /* CLOCK_MONOTONIC at the same moment */
	uint64_t start_ticks;	/* the clock's ticks at the same moment */
	uint32_t clock;		/* enum spool_clock */
	uint32_t sampler;	/* enum spool_sampler */
	uint32_t interval_log2; /* at the start; records carry changes */
	uint32_t image; /* 0 for the first program image of this pid, 1 after an exec, ... */
	uint64_t seed;	/* non-zero when the run was seeded for a test */
	uint32_t mode;	/* enum spool_mode */
	/* (a) of the blocks in the heaps of OCaml, once they are recorded; 0: they are not */
	_Atomic uint32_t ocaml_interval_log2;

	/* A forked child that is followed: what was live at the FORK record of the parent's spool
	 * whose time is fork_ticks is live here too. Sampled mode: ids go on from the parent's. */
	uint64_t first_sample_id; /* 0 unless forked */
	uint64_t fork_ticks;
	uint32_t fork_parent_pid; /* 0 unless forked */
	uint32_t parent_spool_length;
	uint32_t parent_spool_offset; /* path of the parent's spool, in the header's strings */

	uint32_t command_offset; /* argv, each argument with its terminating zero */
	uint32_t command_length;
	uint32_t command_truncated; /* 1 when argv did not fit */
	uint32_t exe_offset;	    /* path of the executable */
	uint32_t exe_length;
	uint32_t note_offset; /* one line for the user ("unknown key 'x' in MAYFLY"), or length 0 */
	_Atomic uint32_t note_length; /* (a) it may grow, by whole remarks */
	/* (a) samples for each word of the heaps of OCaml, the bits of a double; before
	 * ocaml_interval_log2, which is that of 8 / rate, rounded down */
	_Atomic uint64_t ocaml_rate;
	uint32_t pid_namespace; /* inode of the PID namespace of pid; 0: not known */
	/* (a) SPOOL_EXITED and the status, once the program is about to exit; SPOOL_EXECUTED, once it is
	 * about to become another by exec; SPOOL_CHILD_LOST beside these; 0: it runs, or a signal has
	 * ended it, or it ended in a way that the agent does not see */
	_Atomic uint32_t exited;
	/* Mode 0: address in the program of struct spool_live, where its live samples are; 0: not known */
	uint64_t live_where;
	/* Address in the program of a pointer to the first of a list of parts of the agent's memory, each of
	 * writer_bytes, with a pointer to the next at writer_older. They have registers of the program. */
	uint64_t writers_where;
	uint32_t writer_older, writer_bytes;

	_Alignas(64) _Atomic uint32_t control_generation; /* (c) add 1 after a change below */
	_Atomic uint32_t control_enabled;		  /* (c) 0 dormant, 1 sampling */
	_Atomic uint32_t control_interval_log2;		  /* (c) */
	_Atomic uint32_t recorder_pid;			  /* (c) extends the file; 0: nobody */
	/* (c) the share of a thread's time that samples may cost, in 1/10000; 0: the interval is
	 * fixed. Else each thread doubles or halves its interval, never below the one above. */
	_Atomic uint32_t control_overhead;
	/* (c) 1: recording has been switched off meanwhile, so that blocks are missing. */
	_Atomic uint32_t control_was_off;
	/* (c) packets that the file may have; 0 no limit. Beyond it records are dropped, counted.
	 */
	_Atomic uint64_t control_max_packets;
	/* (c) packets that the recorder has taken out of the spool, because their events are in the
	 * trace that it writes. 0: the spool is whole. */
	_Atomic uint64_t consumed_packets;
	/* (c) CLOCK_MONOTONIC until which somebody looks at the recording while it goes on. Until
	 * then the recorder writes what it has every second, even if it is little. */
	_Atomic uint64_t followed_until_ns;
	/* (c) CLOCK_MONOTONIC up to which everything is in the trace that the recorder writes while
	 * the program runs. 0: the recorder does not read the spool yet. */
	_Atomic uint64_t written_until_ns;
	/* (c) Pictures of the heap: how many somebody has asked the recorder for, and how many of these it
	 * has taken, or has failed to take: heap_text says why. */
	_Atomic uint32_t heaps_asked;
	_Atomic uint32_t heaps_done;

	_Alignas(64) _Atomic uint32_t state; /* (a) enum spool_state */
	_Atomic uint32_t off_reason;	     /* (a) enum spool_off_reason */
	_Atomic uint32_t off_errno;	     /* (a) errno that led there, or 0 */
	/* (a)(c) 1: the program ran already when recording began: older blocks are not known; 2: a
	 * program that such a one became or started by exec, recorded from its start */
	_Atomic uint32_t attached;
	_Atomic uint64_t off_ticks; /* (a) */
	char off_text[112];	    /* (a) for the user, zero-terminated */

	_Alignas(64) _Atomic uint64_t
	    packets_claimed;		   /* (a) may exceed packets_reserved: see drops */
	_Atomic uint64_t packets_reserved; /* (a)(c) packets whose disk blocks exist */
	_Atomic uint64_t next_sample_id;   /* (a) */
	_Atomic uint64_t frees;		   /* (a) frees of samples */
	_Atomic uint64_t truncated_stacks; /* (a) */
	_Atomic uint64_t dropped_samples;  /* (a) samples that could not be written */
	_Atomic uint64_t dropped_frees;	   /* (a) */
	_Atomic uint64_t dropped_events;   /* (a) TRACK records */
	_Atomic uint64_t nested_blocks;	   /* (a) blocks allocated by a signal handler that had
					      interrupted the sample path: not part of the estimate */
	_Atomic uint64_t nested_bytes;	   /* (a) */
	_Atomic int64_t live_bytes;    /* (a) sum of the weights of live samples, for progress */
	_Atomic uint64_t live_samples; /* (a) */
	_Atomic uint64_t last_ticks;   /* (a) of the latest event, about */
	/* (a) sampled mode: samples whose memory was handed out again while they were live, so the
	 * hooks have not seen their free */
	_Atomic uint64_t missed_frees;

	/* Calibration: the same moment on both clocks, or 0, 0. Used beside those of the packets.
	 */
	_Alignas(64) _Atomic uint64_t end_ticks; /* (a) when the program left through exit() */
	_Atomic uint64_t end_mono_ns;
	/* (c) recorder_pid is used again for other processes: when that one was started, in the unit of
	 * /proc/PID/stat, and the inode of its PID namespace; 0: not known */
	_Atomic uint64_t recorder_start;
	_Atomic uint32_t recorder_namespace;

	/* Packets that the recorder has consumed and gives back: a ring of their numbers. The
	 * recorder stores a number, then adds 1 to recycled_head; a writer that needs a packet
	 * reads the number at recycled_tail, then adds 1 to recycled_tail by compare-and-swap (and
	 * tries again if that failed). The ring is full when head - tail is SPOOL_RECYCLED. A
	 * recycled packet's magic is 0 until it is begun again. */
	_Alignas(64) _Atomic uint64_t recycled_head; /* (c) */
	_Alignas(64) _Atomic uint64_t recycled_tail; /* (a) */
	_Alignas(64) _Atomic uint64_t claims;	     /* (a) gives packets their sequence */
	_Alignas(64) _Atomic uint32_t recycled[SPOOL_RECYCLED];

	/* (c) set before heaps_done: why there is no picture, ended by a zero when shorter; "" : there is */
	_Alignas(64) char heap_text[512];
	/* (c) of the pictures asked for, those for which nothing more is read of the program */
	_Alignas(64) _Atomic uint32_t heaps_read;
	_Atomic uint32_t
	    last_heap; /* (a) enum spool_last_heap: of the picture at the program's exit */
	/* (a) when Python's interpreter began to end (Py_FinalizeEx), so that it frees what the program
	 * has kept; 0: it has not */
	_Atomic uint64_t ending_ticks;
};

enum spool_last_heap {
	SPOOL_LAST_NONE = 0,	    /* it has not been asked for */
	SPOOL_LAST_ASKED = 1,	    /* the program waits until it is read */
	SPOOL_LAST_SANDBOX = 2,	    /* the agent may not wait, as it makes no system calls */
	SPOOL_LAST_NO_RECORDER = 3, /* none was found, or it has ended meanwhile */
	SPOOL_LAST_LATE = 4,	    /* the recorder did not begin in time */
};

/* In the program's memory, for who reads it from outside. */
struct spool_live {
	uint64_t table;	      /* address of the entries */
	uint64_t entries;     /* many of them free */
	uint64_t entry_bytes; /* of which an entry begins with a struct spool_live_entry */
};

struct spool_live_entry {
	uint64_t turned; /* the complement of the block's address; 0: free */
	uint64_t id;	 /* of its sample */
};

/* The first 64 bytes of each packet. Its body of `used` bytes follows. */
struct spool_packet {
	uint32_t magic;	       /* SPOOL_PACKET_MAGIC; 0 in a packet that was never begun */
	uint32_t writer;       /* packets of one writer are in order; writers outlive threads */
	_Atomic uint32_t used; /* bytes of whole records after this header */
	uint32_t tid;	       /* the thread at the start; SPOOL_THREAD records change it */
	uint64_t ticks;	       /* time base of the first record */
	uint64_t mono_ns;      /* CLOCK_MONOTONIC at `ticks`: calibrates the TSC */
	uint32_t interval_log2;
	uint32_t pad0;
	/* A later pair of both clocks, renewed about each second; 0, 0 at first. */
	_Atomic uint64_t late_ticks, late_mono_ns;
	/* Counted from 1 over all packets ever begun: packets are used again, so their order in the
	 * file has no meaning. A writer's packets in this order are its records in order; all but
	 * the last are finished. */
	uint64_t sequence;
};

/*
 * Records: a tag byte, then fields. u = unsigned LEB128, s = zigzag LEB128, b = one byte,
 * q = 8 bytes. "time" is s: ticks since the previous time in this packet (packet.ticks at first).
 * "id" is s: difference to the previous id in this packet (header.first_sample_id at first).
 *
 *   SAMPLE    b flags (bits 4-6: enum spool_heap), time, id, u size, u hits, u pop, u push,
 *             push x frame
 *             The stack is the packet's current stack without its `pop` leaf-most frames, then
 *             with `push` frames added towards the leaf (root-most of them first). hits: sampled
 *             points in the block; 0 when the block is recorded with weight 1 (stratified
 *             sampler, size >= interval). Poisson: 1.
 *   FREE      b flags, time, id
 *             In an exact spool these two are of OCaml's blocks, of which all are recorded, and SAMPLE
 *             of mappings.
 *   SHRINK    b flags, time, id, u bytes: a mapping has lost so many; when all are lost, it has ended
 *   THREAD    u tid, u length, name: this packet's following records are this thread's
 *   INTERVAL  b log2: in force for this packet's following samples
 *   MODULE    time, q start, q end, q bias, u length, path, u length, build-id
 *   GONE      time, q start: the module that was mapped at start is no longer
 *   LOST      time, u samples, u frees, u events: how many of this thread's were dropped
 *             before this (events: TRACK records)
 *   FORK      time: the process forks a child that will be followed; what is live is the child's
 *             too
 *   PROMOTE   time, id: the OCaml block has been moved from the minor to the major heap
 *   PLACE     time, q address, u count, count x (u length, function, u length, file, u line,
 *             u first character, u last character): where the code of a frame with this address
 *             is, as the runtime knows it; innermost first, each inlined into the next one. Once
 *             for each address of an OCaml stack, before the first sample with it. (Of an
 *             allocating OCaml function the address is that of its debug information, plus 1.) Also
 *             for the frames of Python and Ruby, whose addresses have SPOOL_CODE_INTERPRETED set.
 *   HEAP_END  time: blocks of the heaps of OCaml are not recorded from here on, neither their end
 *   ALLOCATOR time, u whose, u count, count x u value (at most SPOOL_ALLOCATOR_VALUES): what the
 *             allocator, or the kernel, says of the process's memory; enum spool_allocator
 *
 *   TYPE      u id, b kind (enum spool_type), u length, name, u length, category, u length, unit,
 *             u fields (at most SPOOL_EVENT_VALUES), fields x (b enum spool_field, u length,
 *             name): what events of type `id` are (0 < id < SPOOL_EVENT_TYPES)
 *   LABEL     u id, u length, key, u length, value: what label `id` is
 *   LABELS    u count (at most SPOOL_LABELS_MOST), count x u id: the labels of this packet's
 *             following SAMPLE and ALLOC records, the outermost first. At the start of a packet:
 *             none
 *
 * TYPE and LABEL stand in each packet before the first record that needs them, so a packet can
 * still be decoded without any other; ids are those of the process.
 *
 * TRACK is an event that is not about a block: a span begins or ends, something happens, a counter
 * has a value. It is made to be written fast:
 *
 *   first byte: bit 7 clear, bit 6 set; bits 0-1: enum spool_track; bits 2-3: width of time, as
 *               below; bit 4: a stack follows
 *   time        zigzag of ticks since the previous time in this packet, 1 << width bytes
 *   u16         type: id of a TYPE record
 *   values      not of SPOOL_END: one for each field of the type, in order. INT, UINT, FLOAT and
 *               FLOW: 8 bytes; TEXT: b length, that many bytes
 *   stack       if bit 4 is set: u pop, u push, push x frame, as in SAMPLE
 *
 * Exact mode has two more, made to be written fast: fields of fixed width, each of 1, 2, 4 or 8
 * bytes as two bits of the first byte say (code w: 1 << w bytes), little endian.
 *
 *   first byte: bit 7 set; bit 6: 0 ALLOC, 1 RELEASE; bits 0-1 width of time; bits 2-3 width of
 *               address; bits 4-5 ALLOC: width of size; RELEASE: flags (1 realloc)
 *   time        zigzag of ticks since the previous time in this packet
 *   address     zigzag of the difference of SPOOL_TURN(address) to the previous one in this packet
 *               (0 at first)
 *   ALLOC goes on with
 *   size        bytes asked for
 *   u16         pop (bits 0-5), push (bits 6-11), flags (bits 12-15)
 *   u16 pop     only when those 6 bits are all set; then u16 push likewise
 *   push x frame, as in SAMPLE
 *
 * A RELEASE with the realloc flag is written before the real realloc. What happened then stands in
 * the writer's next record: an ALLOC with SPOOL_FLAG_REALLOC: it is the block's new place; an ALLOC
 * with SPOOL_FLAG_UNDO: realloc failed, the release did not happen and neither did this ALLOC
 * (its other fields mean nothing, no frames follow); any other record: the block is gone.
 *
 * frame: u16 (2 bytes). Below SPOOL_CACHE_SIZE: the address in that cache slot of this packet.
 *        0xffff: q address follows, which enters the cache at slot spool_cache_slot(address).
 * Addresses are return addresses; for a frame that a signal interrupted, its pc + 1. So
 * "address - 1" is the place to look up, always.
 * Addresses with bit 63 set are marks, made by SPOOL_MARK(kind, count).
 */
enum spool_tag {
	SPOOL_PAD = 0, /* ends the packet */
	SPOOL_SAMPLE = 1,
	SPOOL_FREE = 2,
	SPOOL_THREAD = 3,
	SPOOL_INTERVAL = 4,
	SPOOL_MODULE = 5,
	SPOOL_GONE = 6,
	SPOOL_LOST = 7,
	SPOOL_FORK = 8,
	SPOOL_PROMOTE = 9,
	SPOOL_PLACE = 10,
	SPOOL_HEAP_END = 11,
	SPOOL_ALLOCATOR = 12,
	SPOOL_TYPE = 13,
	SPOOL_LABEL = 14,
	SPOOL_LABELS = 15,
	SPOOL_SHRINK = 16,
	SPOOL_TAGS
};

#define SPOOL_TRACK		0x40u /* set in the first byte of TRACK, with bit 7 clear */
#define SPOOL_TRACK_WIDTH_SHIFT 2
#define SPOOL_TRACK_STACK	0x10u
/* Equal to enum mayfly_track_kind. SPOOL_END: of the thread's latest open span of this type. */
enum spool_track { SPOOL_BEGIN = 0, SPOOL_END = 1, SPOOL_INSTANT = 2, SPOOL_COUNT = 3 };
enum spool_type { SPOOL_TYPE_SPAN = 0, SPOOL_TYPE_INSTANT = 1, SPOOL_TYPE_COUNTER = 2 };
/* Equal to enum mayfly_field_type. SPOOL_FLOW: events with the same number belong together. */
enum spool_field {
	SPOOL_INT = 0,
	SPOOL_UINT = 1,
	SPOOL_FLOAT = 2,
	SPOOL_TEXT = 3,
	SPOOL_FLOW = 4,
};
#define SPOOL_EVENT_TYPES  4096u
#define SPOOL_EVENT_VALUES 4u
#define SPOOL_LABELS_MOST  16u /* on one thread at once */
#define SPOOL_LABEL_IDS	   65536u
#define SPOOL_TEXT_BYTES   255u /* of a text value, a name, a label's key or value */

/* ALLOCATOR: the source of the figures, and their order. All are bytes. */
enum spool_allocator {
	SPOOL_OF_PROCESS = 0, /* resident, resident and of a file or shared */
	/* mallinfo2(): arena, hblkhd, uordblks, fordblks, fsmblks, keepcost */
	SPOOL_OF_GLIBC = 1,
	/* stats.allocated, active, metadata, resident, mapped, retained */
	SPOOL_OF_JEMALLOC = 2,
	SPOOL_OF_MIMALLOC = 3, /* committed */
	/* in use by the program, heap size, free in the page heap, unmapped in the page heap, free
	 * in the central, transfer and threads' caches */
	SPOOL_OF_TCMALLOC = 4,
};
#define SPOOL_ALLOCATOR_VALUES 8u

/* ALLOC and RELEASE, the first byte. The width of time is in bits 0-1. */
#define SPOOL_EXACT_RECORD	  0x80u
#define SPOOL_EXACT_RELEASE	  0x40u
#define SPOOL_EXACT_ADDRESS_SHIFT 2 /* width of address */
#define SPOOL_EXACT_LAST_SHIFT	  4 /* ALLOC: width of size; RELEASE: flags */

static inline uint32_t spool_time_width(uint8_t tag)
{
	return tag & 3;
}

static inline uint32_t spool_address_width(uint8_t tag)
{
	return tag >> SPOOL_EXACT_ADDRESS_SHIFT & 3;
}

static inline uint32_t spool_size_width(uint8_t tag)
{
	return tag >> SPOOL_EXACT_LAST_SHIFT & 3;
}

static inline uint32_t spool_release_flags(uint8_t tag)
{
	return tag >> SPOOL_EXACT_LAST_SHIFT & 3;
}

/* ALLOC's word of pop, push and flags. */
#define SPOOL_ALLOC_MORE	63u /* pop or push: it does not fit, and follows */
#define SPOOL_ALLOC_PUSH_SHIFT	6
#define SPOOL_ALLOC_FLAGS_SHIFT 12

/* Whether the part that the recorder makes has what the spool has not: packets that were given back, or a
 * picture of the heap. */
static inline bool spool_has_part(const struct spool_header *h)
{
	return atomic_load(&h->consumed_packets) || atomic_load(&h->heaps_done);
}

static inline uint32_t spool_alloc_word(uint32_t pop, uint32_t push, uint32_t flags)
{
	return (pop < SPOOL_ALLOC_MORE ? pop : SPOOL_ALLOC_MORE) |
	       (push < SPOOL_ALLOC_MORE ? push : SPOOL_ALLOC_MORE) << SPOOL_ALLOC_PUSH_SHIFT |
	       flags << SPOOL_ALLOC_FLAGS_SHIFT;
}

static inline uint32_t spool_alloc_pop(uint32_t word)
{
	return word & SPOOL_ALLOC_MORE;
}

static inline uint32_t spool_alloc_push(uint32_t word)
{
	return word >> SPOOL_ALLOC_PUSH_SHIFT & SPOOL_ALLOC_MORE;
}

static inline uint32_t spool_alloc_flags(uint32_t word)
{
	return word >> SPOOL_ALLOC_FLAGS_SHIFT;
}

/* Blocks are aligned, so the low bits are 0: they go to the top. */
#define SPOOL_TURN(address)  ((uint64_t)(address) >> 4 | (uint64_t)(address) << 60)
#define SPOOL_UNTURN(turned) ((uint64_t)(turned) << 4 | (uint64_t)(turned) >> 60)

#define SPOOL_FLAG_REALLOC   1u /* SAMPLE, FREE: part of a realloc of a sampled block */
#define SPOOL_FLAG_TEMPORARY 2u /* FREE: by the allocating thread, with no allocation between */
#define SPOOL_FLAG_UNDO	     4u /* ALLOC: the realloc before it failed */
#define SPOOL_FLAG_ENDING    8u /* FREE: when the interpreter had begun to end */
#define SPOOL_RELEASE_ENDING 2u /* RELEASE: likewise */

/* SAMPLE, bits 4-6 of the flags. OCaml's samples have the interval ocaml_interval_log2
 * of the header, and hits of a Bernoulli trial on each word. */
#define SPOOL_FLAG_HEAP_SHIFT 4
enum spool_heap {
	SPOOL_HEAP_MALLOC = 0,
	SPOOL_HEAP_MINOR = 1,	    /* of OCaml */
	SPOOL_HEAP_MAJOR = 2,	    /* of OCaml, allocated there directly */
	SPOOL_HEAP_EXTERNAL = 3,    /* memory outside both heaps that an OCaml block holds */
	SPOOL_HEAP_POOL = 4,	    /* of a pool of the program, inside malloc blocks */
	SPOOL_HEAP_POOL_MAPPED = 5, /* the same, in memory that malloc does not know */
	SPOOL_HEAP_MAPPING = 6,	    /* mapped by the program itself; has an id in mode 1, too */
};

/* A block of a pool may begin where a block of malloc does: ALLOC and RELEASE have its address with
 * one of these bits, which no address of a program has. */
#define SPOOL_ADDRESS_POOL	  (1ull << 62)
#define SPOOL_ADDRESS_POOL_MAPPED (1ull << 61)

/* The most of a stack of OCaml's, beside its marks. A deeper one keeps its SPOOL_OCAML_ROOT root-most
 * frames, then an ELIDED mark, and its leaf-most frames. */
#define SPOOL_OCAML_FRAMES (SPOOL_MAX_FRAMES - 2)
#define SPOOL_OCAML_ROOT   512u
/* The most that the runtime is asked for: so many that stacks are whole, and not more, as a runtime without
 * a limit goes on for seconds. */
#define SPOOL_OCAML_ASKED  (1u << 20)
#define SPOOL_OCAML_PLACES 32u /* of one frame */
/* Frames of a runtime that uses mayfly/memprof.h have numbers from here on in place of addresses; the
 * upper 32 bits are these. Above all addresses of programs. */
#define SPOOL_RUNTIME_CODE (1ull << 48)

#define SPOOL_CACHE_BITS    11
#define SPOOL_CACHE_SIZE    (1u << SPOOL_CACHE_BITS)
#define SPOOL_FRAME_LITERAL 0xffffu

static inline uint32_t spool_cache_slot(uint64_t address)
{
	return (uint32_t)((address * 0x9e3779b97f4a7c15u) >> (64 - SPOOL_CACHE_BITS));
}

/* Kinds of marks: TRUNCATED, as the root-most frame: the walk could not go on, the rest is unknown;
 * ELIDED: `count` frames between the root part and the leaf part were left out. */
#define SPOOL_MARK_BIT	     (1ull << 63)
#define SPOOL_MARK_TRUNCATED 1u
#define SPOOL_MARK_ELIDED    2u
#define SPOOL_MARK(kind, count)                                                                    \
	(SPOOL_MARK_BIT | (uint64_t)(kind) << 56 | ((uint64_t)(count)&0xffffffffu))
#define SPOOL_MARK_KIND(address)  ((uint32_t)((address) >> 56 & 0x7f))
#define SPOOL_MARK_COUNT(address) ((uint32_t)(address))

/* In the address of a frame: it is an instruction of an interpreter's, and no address of the process. */
#define SPOOL_CODE_INTERPRETED (1ull << 62)

/* The largest stack of one SAMPLE record, marks included; see walk.h. */
#define SPOOL_MAX_FRAMES 2048u

#endif
