(* SPDX-License-Identifier: Apache-2.0 *)
(* What to trace, and where to: from the environment or from the program. See mayfly.mli, and
   library.h for what the primitives do. *)

external objection_of_runtime : unit -> string = "mayfly_ocaml_objection"
external pid : unit -> int = "mayfly_ocaml_pid"
external hide : string -> unit = "mayfly_ocaml_hide"
external agent_rate : unit -> float = "mayfly_ocaml_agent_rate"
external agent_frames : unit -> int = "mayfly_ocaml_agent_frames"

(* Path, executable, runtime's parameters, context, rate: the problem, or "". *)
external open_memtrace : string -> string -> string -> string -> float -> string
  = "mayfly_ocaml_open_memtrace"

(* Path, note, rate, most bytes, dormant: likewise. *)
external open_spool : string -> string -> float -> int -> bool -> string
  = "mayfly_ocaml_open_spool"

external start_sampler : int -> float = "mayfly_ocaml_start"
external stop_sampler : unit -> unit = "mayfly_ocaml_stop"
external end_session : unit -> string = "mayfly_ocaml_end"
external running : unit -> bool = "mayfly_ocaml_running" [@@noalloc]

external gap : (float[@unboxed]) -> (int[@untagged])
  = "mayfly_ocaml_gap_boxed" "mayfly_ocaml_gap"
  [@@noalloc]

external allocated : int -> int -> Printexc.raw_backtrace -> int = "mayfly_ocaml_allocated"
  [@@noalloc]

external freed : int -> unit = "mayfly_ocaml_freed" [@@noalloc]

external active : unit -> bool = "mayfly_ocaml_active" [@@noalloc]

(* 0: nothing has begun. *)
external span_begin : string -> int = "mayfly_ocaml_span_begin" [@@noalloc]
external span_end : int -> unit = "mayfly_ocaml_span_end" [@@noalloc]
external instant : string -> unit = "mayfly_ocaml_instant" [@@noalloc]

(* Unit, name. *)
external add_count : string -> string -> int -> unit = "mayfly_ocaml_counter" [@@noalloc]

external add_count_float : string -> string -> (float[@unboxed]) -> unit
  = "mayfly_ocaml_counter_float_boxed" "mayfly_ocaml_counter_float"
  [@@noalloc]

external label_push : string -> string -> bool = "mayfly_ocaml_label_push" [@@noalloc]
external label_pop : unit -> unit = "mayfly_ocaml_label_pop" [@@noalloc]

type format = Memtrace | Spool
type tracer = { number : int; path : string }

let default_sampling_rate = 1e-6
let default_spool_rate = 1e-5
let most_frames = 1 lsl 20

(* OCaml 5 collects garbage for a stack that it has made a block of: larger ones disturb the program. *)
let default_callstack_limit = if Sys.ocaml_version < "5" then most_frames else 2046

let most_memtrace_frames = 400

let say text = try prerr_endline ("mayfly: " ^ text) with Sys_error _ -> ()

(* Why this program cannot be traced. *)
let objection () =
  match Sys.backend_type with
  | Sys.Native -> ( match objection_of_runtime () with "" -> None | text -> Some text)
  | Sys.Bytecode | Sys.Other _ -> Some "it is bytecode"

(* ---- events ---- *)

let counter ?(unit = "") name number = add_count unit name number
let counter_float ?(unit = "") name number = add_count_float unit name number

let span name f =
  let begun = span_begin name in
  if begun = 0 then f ()
  else
    match f () with
    | result ->
      span_end begun;
      result
    | exception e ->
      let trace = Printexc.get_raw_backtrace () in
      span_end begun;
      Printexc.raise_with_backtrace e trace

let label key text f =
  if not (label_push key text) then f ()
  else
    match f () with
    | result ->
      label_pop ();
      result
    | exception e ->
      let trace = Printexc.get_raw_backtrace () in
      label_pop ();
      Printexc.raise_with_backtrace e trace

(* ---- memory outside the heaps ---- *)

module External = struct
  (* Sessions are told apart, so that a token of an earlier one does nothing. *)
  type token = { session : int; block : int }

  let session = ref 0
  let rate = ref 0. (* 0: nothing is traced *)
  let frames = ref 0

  (* Bytes until the next sampled word's end. The bytes of all calls form one line, cut into words:
     so each block has its share of the samples, also if its size is no whole number of words. *)
  let left = ref max_int

  let start ~at ~most =
    incr session;
    rate := at;
    frames := most + 1 (* ours *);
    left := gap at * (Sys.word_size / 8)

  let stop () =
    rate := 0.;
    left := max_int

  let hits () =
    let n = ref 0 in
    while !left <= 0 do
      incr n;
      left := !left + (gap !rate * (Sys.word_size / 8))
    done;
    !n

  (* Never inlined: its frame is the one that the C side leaves out. *)
  let[@inline never] alloc ~bytes =
    if bytes < 0 then invalid_arg "Mayfly.External.alloc: bytes is negative";
    let rest = !left - bytes in
    left := rest;
    if rest > 0 then None
    else if !rate = 0. then begin
      left := max_int;
      None
    end
    else
      let hits = hits () in
      let block = allocated bytes hits (Printexc.get_callstack !frames) in
      if block < 0 then None else Some { session = !session; block }

  let free token = if token.session = !session && !rate > 0. then freed token.block
end

(* ---- sessions ---- *)

let current = ref None
let sessions = ref 0

let active_tracer () =
  (match !current with
   | Some _ when not (running ()) ->
     (* We are the child of a fork. *)
     current := None;
     External.stop ()
   | _ -> ());
  !current

let stop_tracing tracer =
  match active_tracer () with
  | Some active when active.number = tracer.number -> (
    current := None;
    External.stop ();
    (try stop_sampler () with Failure _ -> () (* the program has stopped it *));
    match end_session () with
    | "" -> ()
    | problem -> say (Printf.sprintf "%s is not complete: %s" tracer.path problem))
  | _ -> ()

let stop_at_exit = lazy (at_exit (fun () -> Option.iter stop_tracing (active_tracer ())))

let check_rate rate =
  if not (rate > 0. && rate <= 1.) then
    invalid_arg "Mayfly: the sampling rate must be above 0 and at most 1"

let check_limit limit =
  if limit < 1 || limit > most_frames then
    invalid_arg
      (Printf.sprintf "Mayfly: the callstack limit must be from 1 to %d" most_frames)

exception Problem of string

let problem fmt = Printf.ksprintf (fun text -> raise (Problem text)) fmt

(* [opened ()] opens the file; [frames] is how many the runtime gives of a stack. *)
let begin_session path ~limit ~frames opened =
  Option.iter
    (fun t -> problem "nothing is traced to %s: a tracer is active already, to %s" path t.path)
    (active_tracer ());
  (match opened () with "" -> () | why -> problem "cannot write %s: %s" path why);
  match start_sampler limit with
  | rate ->
    incr sessions;
    let tracer = { number = !sessions; path } in
    current := Some tracer;
    External.start ~at:rate ~most:frames;
    Lazy.force stop_at_exit;
    tracer
  | exception Failure _ ->
    ignore (end_session ());
    problem "nothing is traced to %s: the program uses Gc.Memprof itself" path

let begin_memtrace ~context ~rate ~limit path =
  let limit = min limit most_memtrace_frames in
  begin_session path ~limit ~frames:limit (fun () ->
      open_memtrace path Sys.executable_name (Sys.runtime_parameters ()) context rate)

(* In the path the character 1 stands for the process id. *)
let begin_spool ?(most = 0) ?(dormant = false) ?(note = "") ~context ~rate ~limit path =
  let absolute = if Filename.is_relative path then Filename.concat (Sys.getcwd ()) path else path in
  let context = if context = "" then "" else "context: " ^ context in
  let notes = String.concat "; " (List.filter (( <> ) "") [ context; note ]) in
  (* One frame more tells that there are more. *)
  begin_session path ~limit ~frames:(limit + 1) (fun () ->
      open_spool absolute notes rate most dormant)

let pid_mark = "\001"

(* "%p" is the process id, "%2c" and the like are that character. *)
let expand path =
  let out = Buffer.create 100 and last = String.length path - 1 in
  let rec from i =
    if i <= last then
      match path.[i] with
      | '%' when i < last && path.[i + 1] = 'p' ->
        Buffer.add_string out pid_mark;
        from (i + 2)
      | '%' when i + 1 < last -> (
        match int_of_string_opt ("0x" ^ String.sub path (i + 1) 2) with
        | Some code when code > 1 ->
          Buffer.add_char out (Char.chr code);
          from (i + 3)
        | _ -> keep '%' i)
      | c -> keep c i
  and keep c i =
    Buffer.add_char out c;
    from (i + 1)
  in
  from 0;
  Buffer.contents out

let refused = { number = 0; path = "" }
let said = ref false

let refuse fmt =
  Printf.ksprintf
    (fun text ->
      if not !said then say text;
      said := true)
    fmt

let start ?(format = Memtrace) ?(callstack_limit = default_callstack_limit) ?(context = "")
    ?(sampling_rate = default_sampling_rate) filename =
  check_rate sampling_rate;
  check_limit callstack_limit;
  match objection () with
  | Some why ->
    refuse "the program is not traced to %s: %s" filename why;
    refused
  | None -> (
    let rate = sampling_rate and limit = callstack_limit in
    try
      match format with
      | Memtrace -> begin_memtrace ~context ~rate ~limit filename
      | Spool -> begin_spool ~context ~rate ~limit (expand filename)
    with Problem text -> failwith ("Mayfly: " ^ text))

let start_tracing ~context ~sampling_rate ~filename = start ?context ~sampling_rate filename

(* ---- on request ---- *)

type settings = {
  output : string;
  rate : float option;
  wanted : bool;
  frames : int option;
  most : int;
  only : int option; (* process *)
  follow : bool;
  dormant : bool;
  problems : string list;
}

let no_settings =
  {
    output = "mayfly." ^ pid_mark ^ ".spool";
    rate = None;
    wanted = true;
    frames = None;
    most = 0;
    only = None;
    follow = false;
    dormant = false;
    problems = [];
  }

let rate_of text =
  match float_of_string_opt text with
  | Some rate when rate > 0. && rate <= 1. -> Some rate
  | _ -> None

let number_of text =
  match int_of_string_opt text with Some n when n > 0 -> Some n | _ -> None

(* "100M" *)
let bytes_of text =
  let length = String.length text in
  let unit =
    if length = 0 then None
    else
      match Char.lowercase_ascii text.[length - 1] with
      | 'k' -> Some 10
      | 'm' -> Some 20
      | 'g' -> Some 30
      | _ -> None
  in
  match unit with
  | None -> number_of text
  | Some shift ->
    Option.bind (number_of (String.sub text 0 (length - 1))) (fun n ->
        if n > max_int lsr shift then None else Some (n lsl shift))

let take settings setting =
  let key, text =
    match String.index_opt setting '=' with
    | None -> (setting, "")
    | Some i -> (String.sub setting 0 i, String.sub setting (i + 1) (String.length setting - i - 1))
  in
  let set parsed f =
    match parsed with
    | Some x -> f x
    | None ->
      { settings with problems = settings.problems @ [ "bad value in MAYFLY: " ^ setting ] }
  in
  match (key, text) with
  | "output", "" -> settings
  | "output", path -> { settings with output = expand path }
  | "ocaml", "off" -> { settings with wanted = false }
  | "ocaml", "on" -> settings
  | "ocaml", _ -> set (rate_of text) (fun rate -> { settings with rate = Some rate })
  | "ocaml_frames", _ ->
    set
      (Option.bind (number_of text) (fun n -> if n <= most_frames then Some n else None))
      (fun n -> { settings with frames = Some n })
  | "max_spool", _ -> set (bytes_of text) (fun most -> { settings with most })
  | "pid", _ -> set (number_of text) (fun n -> { settings with only = Some n })
  | "follow", _ -> { settings with follow = text = "1" || text = "yes" }
  | "start", _ -> { settings with dormant = text = "dormant" }
  | _ -> settings

let variable name = match Sys.getenv_opt name with None | Some "" -> None | Some text -> Some text

(* Tracing was asked for: what is in the way is said, and the program goes on. *)
let attempt name f =
  match objection () with
  | Some why -> refuse "%s is set, but the program is not traced: %s" name why
  | None -> ( try ignore (f () : tracer) with Problem text -> say text)

let request_memtrace ~context ~rate ~limit path =
  let rate =
    match (rate, variable "MEMTRACE_RATE") with
    | Some rate, _ -> rate
    | None, None -> default_sampling_rate
    | None, Some text -> (
      match rate_of text with
      | Some rate -> rate
      | None ->
        say
          (Printf.sprintf
             "MEMTRACE_RATE: '%s' is no number above 0 and at most 1; the rate is %g" text
             default_sampling_rate);
        default_sampling_rate)
  in
  attempt "MEMTRACE" (fun () ->
      hide "MEMTRACE";
      begin_memtrace ~context ~rate ~limit path)

let request_spool ~context ~rate ~limit text =
  let settings = List.fold_left take no_settings (String.split_on_char ',' text) in
  let here () =
    match settings.only with Some n when not settings.follow -> n = pid () | _ -> true
  in
  let first a b default = match (a, b) with Some x, _ | None, Some x -> x | None, None -> default in
  if settings.wanted then
    attempt "MAYFLY" (fun () ->
        if not (here ()) then refused
        else
          begin_spool ~most:settings.most ~dormant:settings.dormant
            ~note:(String.concat "; " settings.problems)
            ~context
            ~rate:(first rate settings.rate default_spool_rate)
            ~limit:(first limit settings.frames default_callstack_limit)
            settings.output)

let trace_if_requested ?(context = "") ?sampling_rate ?callstack_limit () =
  let by_agent = agent_rate () in
  let checked () =
    Option.iter check_rate sampling_rate;
    Option.iter check_limit callstack_limit
  in
  if active_tracer () <> None || !External.rate > 0. then ()
  else if by_agent > 0. then External.start ~at:by_agent ~most:(agent_frames ())
  else
    match (variable "MEMTRACE", variable "MAYFLY") with
    | Some path, _ ->
      checked ();
      let limit = Option.value callstack_limit ~default:default_callstack_limit in
      request_memtrace ~context ~rate:sampling_rate ~limit path
    | None, Some text when by_agent < 0. ->
      checked ();
      request_spool ~context ~rate:sampling_rate ~limit:callstack_limit text
    | _ -> ()
