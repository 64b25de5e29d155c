(* SPDX-License-Identifier: Apache-2.0 *)

(** Traces the memory of an OCaml program: where blocks are allocated, whether they are promoted,
    when they are collected.

    The runtime's sampler ([Gc.Memprof]) chooses blocks by chance, in proportion to their sizes, so
    that a program can be traced in production: at the default rates it costs less than one per
    cent. What is traced is OCaml's heaps and the memory that belongs to OCaml values outside them:
    that of Bigarrays and of other custom blocks that tell the runtime their size, and what is
    reported with {!External}.

    The one thing that most programs need, at the start of their main module:

    {[ let () = Mayfly.trace_if_requested () ]}

    or, without any change to the source, the library [mayfly.auto] among those that are linked.
    Then

    {v
MAYFLY=output=/tmp/server.%p.spool ./server     a file for all commands of mayfly
MEMTRACE=/tmp/server.ctf ./server               a file for Memtrace's tools (and for mayfly's)
mayfly record -- ./server                       OCaml's heaps and C's together
    v}

    The interface is that of the library [memtrace], with additions: [module Memtrace = Mayfly]
    makes a program use this one.

    {2 Where it works}

    Native programs of OCaml 4.13 on x86-64 Linux. In bytecode, and with other versions of OCaml,
    tracing is refused in one line on the error output, and the program runs on as without it. The
    same goes for a file that cannot be written.

    The program's output and its exit status do not change. [Gc.Memprof] is in use while a program
    is traced, so the program cannot start it itself then.

    {2 Forks, threads}

    All threads are traced. The child of a fork is not: nothing of it gets into the parent's file.
    It may start a trace of its own, with {!start}. *)

(** {1 Tracing on request} *)

val trace_if_requested :
  ?context:string -> ?sampling_rate:float -> ?callstack_limit:int -> unit -> unit
(** Starts tracing if the environment asks for it, until the program exits. Without one of these
    variables it does nothing, and it costs nothing. Never raises because of the environment.

    {b Under [mayfly record]} (and with the agent preloaded by hand) the agent traces OCaml's heaps,
    at its own rate, and this function starts no trace beside it; {!External} then reports to the
    agent.

    {b [MEMTRACE=FILE]}: writes a Memtrace file, format v002, in place of what [FILE] was. The
    sampling rate is [sampling_rate], or what the variable [MEMTRACE_RATE] says, or
    {!default_sampling_rate}, in this order. The variable is taken out of the environment, so that
    programs which this one starts do not write to the same file. [FILE] is a regular file.

    {b [MAYFLY=KEY=VALUE,...]}: writes a spool, which all commands of mayfly read, while the program
    runs and afterwards, also when it was killed. The keys are the agent's (see mayfly-record(1)):

    - [output=FILE]: the spool, by default [mayfly.%p.spool]. [%p] is the process id. A file that
      exists is kept: the spool then gets the process id and a number before its suffix.
    - [ocaml=RATE]: the sampling rate, by default 1e-5, unless [sampling_rate] says another.
      [ocaml=off]: no trace.
    - [ocaml_frames=N]: the callstack limit, unless [callstack_limit] says another.
    - [max_spool=BYTES] (K, M, G): the most that the spool may take.
    - [pid=N]: only in this process.
    - [start=dormant]: nothing is recorded until it is switched on.

    Other keys are for the agent alone.

    [MEMTRACE] is looked at first. A second call does nothing.

    @param context what this run is, for who reads the file.
    @param sampling_rate the chance of each allocated word to be sampled, above 0, at most 1.
    @param callstack_limit frames kept of a stack, by default 128: those nearest to the allocation.
    At most 1024, in Memtrace files 400. The depth of stacks is what tracing costs.
    @raise Invalid_argument for a rate or limit outside these bounds, if tracing was requested. *)

(** {1 Tracing a part of a program} *)

type tracer

type format =
  | Memtrace  (** a Memtrace file, replaced if it exists *)
  | Spool  (** mayfly's own; [%p] in its name is the process id; no file is replaced *)

val start :
  ?format:format ->
  ?callstack_limit:int ->
  ?context:string ->
  ?sampling_rate:float ->
  string ->
  tracer
(** [start filename] starts tracing, now, whatever the environment says. The format is [Memtrace] by
    default. Other parameters are those of {!trace_if_requested}. The trace ends with
    {!stop_tracing} or when the program exits.

    Where tracing does not work (bytecode, another version of OCaml), says so on the error output,
    once, and returns a tracer that does nothing.

    Under [mayfly record] the agent ends its recording of OCaml's heaps, which there is only one
    sampler for, and the trace of the agent says so.

    @raise Failure when the file cannot be written or when a tracer is active already, be it this
    library's or another use of [Gc.Memprof]. *)

val start_tracing : context:string option -> sampling_rate:float -> filename:string -> tracer
(** [start] with Memtrace's format, by the name and with the arguments that it has in Memtrace. *)

val stop_tracing : tracer -> unit
(** Ends the trace. Does nothing when it has ended already, and in the child of a fork. A file that
    could not be written to its end is reported in one line on the error output. *)

val active_tracer : unit -> tracer option
(** The tracer that is at work, if there is one. Not that of the agent, which is no tracer. *)

val default_sampling_rate : float
(** 1e-6, of Memtrace files: one word in a million, about one sample in 8 MB. *)

val default_callstack_limit : int
(** 128 *)

(** {1 Events and labels}

    What the program tells of itself, for the timeline and beside the allocations: [mayfly report
    --spans], [--events], [--by label], and exports to Perfetto and other viewers. Under
    [mayfly record], in every program of OCaml that links this library, bytecode too; else they do
    nothing, and cost a call and a test, so they can stay in what is shipped.

    Names are those of kinds of things, written in the source: ["parse"], not ["parse " ^ file]. About
    4000 different ones can be told apart; events with others are dropped. 255 bytes are kept of each
    text, up to its first zero. *)

val span : string -> (unit -> 'a) -> 'a
(** [span name f] is [f ()], and a span of this thread from its call to its end, also when it ends
    by an exception, which is raised on with its backtrace. Spans nest.

    A span is of a thread: with Lwt or Async, [f] is the part that runs until it returns its promise,
    and not what the promise waits for. *)

val instant : string -> unit
(** Something happens, now. *)

val counter : ?unit:string -> string -> int -> unit
(** [counter name n]: from now on the counter has the value [n]. [unit]: ["bytes"], ["ns"], or by
    default [""], plain numbers; others are shown as they are. *)

val counter_float : ?unit:string -> string -> float -> unit

val label : string -> string -> (unit -> 'a) -> 'a
(** [label key text f] is [f ()]; blocks that this thread allocates meanwhile have the label:
    [label "request" "search" f]. Up to 16 at once; of one key the innermost counts. Texts are for
    groups, not for numbering: 65535 different ones are kept. *)

val active : unit -> bool
(** Whether an event would be recorded now; for values that are costly to compute. *)

(** {1 Memory outside the heaps} *)

(** Reports memory that OCaml's runtime does not know of, such as buffers of C libraries.
    (Bigarrays are reported by the runtime: do not report them again.)

    {[
      type buffer = { data : Lib.t; token : Mayfly.External.token option }

      let create bytes =
        { data = Lib.allocate bytes; token = Mayfly.External.alloc ~bytes }

      let release b =
        Lib.release b.data;
        Option.iter Mayfly.External.free b.token
    ]}

    Blocks are chosen by chance, as those of the heaps are, in proportion to their sizes, and appear
    as external ones, with the stack of the call of [alloc] and with their true sizes. A C library's
    memory comes from malloc, mostly: a recording by the agent then shows it among malloc's blocks
    as well, in the other heap, [mayfly report --heap malloc]. *)
module External : sig
  type token
  (** A block that was chosen. *)

  val alloc : bytes:int -> token option
  (** Call it when a block has been allocated. [None] for a block that is not followed any further:
      for nearly all of them, and always when nothing is traced. Then it costs a call and a
      subtraction.

      @raise Invalid_argument if [bytes] is negative. *)

  val free : token -> unit
  (** Call it when the block is released, once. Does nothing if the trace has ended meanwhile. *)
end
