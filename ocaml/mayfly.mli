(* SPDX-License-Identifier: Apache-2.0 *)

(** Traces the memory of an OCaml program: where blocks are allocated, whether they are promoted,
    and when they are collected.

    The runtime's sampler ([Gc.Memprof]) selects blocks at random, in proportion to their sizes, so
    that programs can be traced in production: at the default rates, it costs less than one percent.
    The trace covers the OCaml heaps, and memory outside them that belongs to OCaml values: that of
    Bigarrays, of other custom blocks that report their size to the runtime, and memory reported
    through {!External}.

    Most programs need only this line at the start of their main module:

    {[ let () = Mayfly.trace_if_requested () ]}

    To leave the source unchanged, link the library [mayfly.auto] instead. Then run the program with
    one of:

    {v
MAYFLY=output=/tmp/server.%p.spool ./server     a file for all mayfly commands
MEMTRACE=/tmp/server.ctf ./server               a file for Memtrace's tools and mayfly
mayfly record -- ./server                       the OCaml heaps and the C heap together
    v}

    The interface is a superset of that of the library [memtrace]: with [module Memtrace = Mayfly],
    a program uses this library instead.

    {2 Supported systems}

    Native programs of OCaml 4.13, 4.14 and 5.3 or later on x86-64 Linux. In bytecode, with other versions of OCaml, or if
    the file cannot be written, a line on standard error says that tracing is not possible, and the
    program runs without it.

    The program's output and its exit status do not change. While it is traced, the program cannot
    start [Gc.Memprof] itself.

    {2 Forks, threads}

    All threads are traced. The child of a fork is not traced, and does not write to the parent's
    file. It may start a trace of its own with {!start}. *)

(** {1 Tracing on request} *)

val trace_if_requested :
  ?context:string -> ?sampling_rate:float -> ?callstack_limit:int -> unit -> unit
(** Starts tracing, until the program exits, if one of the following environment variables requests
    it. Without them, it does nothing and costs nothing. Never raises because of the environment.

    {b Under [mayfly record]}, or with the agent preloaded by hand, the agent traces the OCaml
    heaps, at its own rate. This function then starts no trace, and {!External} reports to the
    agent.

    {b [MEMTRACE=FILE]}: writes a Memtrace file, format v002, and replaces [FILE] if it exists. The
    sampling rate is [sampling_rate], or else the value of the variable [MEMTRACE_RATE], or else
    {!default_sampling_rate}. The variable is removed from the environment, so that child programs
    do not write to the same file. [FILE] must be a regular file.

    {b [MAYFLY=KEY=VALUE,...]}: writes a spool, which all mayfly commands can read while the program
    runs and afterwards, even if it was killed. The keys are those of the agent (see
    mayfly-record(1)):

    - [output=FILE]: the spool, by default [mayfly.%p.spool]. [%p] is the process ID. An existing
      file is not replaced: the process ID and a number are then inserted before the suffix.
    - [ocaml=RATE]: the sampling rate, by default 1e-5, unless [sampling_rate] is given.
      [ocaml=off]: no trace.
    - [ocaml_frames=N]: the callstack limit, unless [callstack_limit] is given.
    - [max_spool=BYTES] (K, M, G): the maximum size of the spool.
    - [pid=N]: trace only in this process.
    - [start=dormant]: record nothing until switched on.

    Other keys apply only to the agent.

    [MEMTRACE] has precedence. A second call does nothing.

    @param context a description of this run for the reader of the file.
    @param sampling_rate the probability for each allocated word to be sampled, above 0, at most 1.
    @param callstack_limit the most frames that the runtime collects of a stack: those closest to the
    allocation. By default stacks are whole (up to 1048576 frames, which is also the most), with OCaml 5 up to 2046. A spool
    keeps 2046 frames of a stack, those at both ends, and how many are missing between them; a Memtrace
    file the 400 closest to the allocation. The depth of stacks dominates the cost of tracing.
    @raise Invalid_argument for a rate or limit outside these bounds, if tracing was requested. *)

(** {1 Tracing a part of a program} *)

type tracer

type format =
  | Memtrace  (** a Memtrace file, replaced if it exists *)
  | Spool  (** mayfly's own; [%p] in its name is the process ID; never replaces a file *)

val start :
  ?format:format ->
  ?callstack_limit:int ->
  ?context:string ->
  ?sampling_rate:float ->
  string ->
  tracer
(** [start filename] starts tracing immediately, regardless of the environment. The default format
    is [Memtrace]. The other parameters are those of {!trace_if_requested}. The trace ends with
    {!stop_tracing} or when the program exits.

    If tracing is not supported (bytecode, another version of OCaml), prints one message on standard
    error and returns a tracer that does nothing.

    Under [mayfly record], the agent stops recording the OCaml heaps, since there is only one
    sampler, and the agent's trace says so.

    @raise Failure if the file cannot be written, or if a tracer is already active, from this
    library or another user of [Gc.Memprof]. *)

val start_tracing : context:string option -> sampling_rate:float -> filename:string -> tracer
(** [start] with Memtrace's format, with the same name and arguments as in Memtrace. *)

val stop_tracing : tracer -> unit
(** Ends the trace. Does nothing if it has already ended, or in the child of a fork. If the file
    could not be written completely, prints one message on standard error. *)

val active_tracer : unit -> tracer option
(** The active tracer, if there is one. The agent does not count as a tracer. *)

val default_sampling_rate : float
(** 1e-6, for Memtrace files: one word in a million, about one sample per 8 MB. *)

val default_callstack_limit : int
(** 1048576: stacks are whole; 2046 with OCaml 5. *)

(** {1 Events and labels}

    Reports by the program about its activity, which appear on the timeline and in relation to its
    allocations: [mayfly report --spans], [--events], [--by label], and exports to Perfetto and
    other viewers. They are recorded under [mayfly record] in every OCaml program that links this
    library, including bytecode. Otherwise they do nothing and cost a call and a test, so they can
    stay in released programs.

    Names denote kinds of events and should be literals: ["parse"], not ["parse " ^ file]. There can
    be about 4000 different names; events with further ones are dropped. Texts are kept up to 255
    bytes, or to the first NUL. *)

val span : string -> (unit -> 'a) -> 'a
(** [span name f] runs [f ()] and returns its result, and records a span of this thread for its
    duration. If [f] raises an exception, the span ends, and the exception is re-raised with its
    backtrace. Spans nest.

    A span belongs to a thread: with Lwt or Async, it covers [f] until it returns its promise, not
    what the promise waits for. *)

val instant : string -> unit
(** Records that something happens now. *)

val counter : ?unit:string -> string -> int -> unit
(** [counter name n] sets the counter to [n]. [unit] is ["bytes"], ["ns"], or [""] (the default) for
    plain numbers; other units are shown unchanged. *)

val counter_float : ?unit:string -> string -> float -> unit

val label : string -> string -> (unit -> 'a) -> 'a
(** [label key text f] runs [f ()] and returns its result; blocks that this thread allocates
    meanwhile have the label: [label "request" "search" f]. There can be up to 16 labels at once; of
    several with the same key, the innermost counts. Texts should name groups, not individual items:
    only 65535 different ones are kept. *)

val active : unit -> bool
(** Whether an event would be recorded now. Use it before computing expensive values. *)

(** {1 Memory outside the heaps} *)

(** Reports memory that the OCaml runtime does not know about, such as buffers of C libraries. (The
    runtime reports Bigarrays: do not report them again.)

    {[
      type buffer = { data : Lib.t; token : Mayfly.External.token option }

      let create bytes =
        { data = Lib.allocate bytes; token = Mayfly.External.alloc ~bytes }

      let release b =
        Lib.release b.data;
        Option.iter Mayfly.External.free b.token
    ]}

    Like blocks of the heaps, these blocks are sampled at random in proportion to their sizes. They
    appear as external blocks, with the stack of the call of [alloc] and with their true sizes. Most
    C libraries get their memory from malloc, so a recording by the agent also shows it among the
    blocks of malloc, as a separate heap: [mayfly report --heap malloc]. *)
module External : sig
  type token
  (** A sampled block. *)

  val alloc : bytes:int -> token option
  (** Call this after allocating a block. Returns [None] if the block is not sampled, which is the
      case for nearly all blocks, and always if nothing is traced. The cost is then a call and a
      subtraction.

      @raise Invalid_argument if [bytes] is negative. *)

  val free : token -> unit
  (** Call this once when the block is released. Does nothing if the trace has ended meanwhile. *)
end
