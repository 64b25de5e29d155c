(* SPDX-License-Identifier: Apache-2.0 *)
(* What tests/test_ocaml_package.py builds with the library mayfly: its interface, used by a
   program. Needs neither Unix nor Threads. *)

external stub_fork : unit -> int = "stub_fork"
external stub_wait : int -> int = "stub_wait"
external stub_kill_self : unit -> unit = "stub_kill_self"
external stub_names : unit -> int = "stub_names"

let say fmt = Printf.printf (fmt ^^ "\n%!")

let rec count i n = if i = n then [] else i :: count (i + 1) n
let cells n = ignore (Sys.opaque_identity (count 0 n))

(* n buffers of 1 to 1000 bytes; each second one is released. *)
let buffers n =
  let bytes i = 1 + (i * 37 mod 1000) in
  let kept = ref [] and total = ref 0 and live = ref 0 in
  for i = 1 to n do
    let token = Mayfly.External.alloc ~bytes:(bytes i) in
    total := !total + bytes i;
    if i land 1 = 0 then Option.iter Mayfly.External.free token
    else begin
      live := !live + bytes i;
      Option.iter (fun token -> kept := token :: !kept) token
    end
  done;
  say "total %d live %d" !total !live;
  !kept

let rec deep n = if n = 0 then Array.make 200 0 else Sys.opaque_identity (deep (n - 1))

let () =
  let n = int_of_string Sys.argv.(2) in
  match Sys.argv.(1) with
  | "cells" ->
    Mayfly.trace_if_requested ~context:"of the test" ();
    cells n;
    say "cells %d names %d" n (stub_names ())
  | "twice" ->
    Mayfly.trace_if_requested ();
    Mayfly.trace_if_requested ();
    cells n;
    say "active %b" (Mayfly.active_tracer () <> None)
  | "buffers" ->
    Mayfly.trace_if_requested ();
    ignore (Sys.opaque_identity (buffers n))
  | "deep" ->
    Mayfly.trace_if_requested ();
    for _ = 1 to n do
      ignore (Sys.opaque_identity (deep 3000))
    done;
    say "deep %d" n
  | "limit" ->
    Mayfly.trace_if_requested ~callstack_limit:20 ~sampling_rate:0.125 ();
    for _ = 1 to n do
      ignore (Sys.opaque_identity (deep 3000))
    done;
    say "deep %d" n
  | "killed" ->
    Mayfly.trace_if_requested ();
    cells n;
    stub_kill_self ()
  | "sessions" ->
    (* Two files, one after the other; what happens between them is in neither. A token of the
       first does nothing in the second. *)
    let first =
      Mayfly.start_tracing ~context:(Some "first") ~sampling_rate:0.125 ~filename:Sys.argv.(3)
    in
    let tokens = buffers n in
    (match Mayfly.start Sys.argv.(4) with
     | _ -> say "two at once"
     | exception Failure text -> say "refused %b" (String.length text > 20));
    Mayfly.stop_tracing first;
    Mayfly.stop_tracing first;
    cells (10 * n);
    say "active %b" (Mayfly.active_tracer () <> None);
    let second = Mayfly.start ~format:Mayfly.Spool ~sampling_rate:0.125 Sys.argv.(4) in
    List.iter Mayfly.External.free tokens;
    cells n;
    say "active %b" (Mayfly.active_tracer () = Some second);
    Mayfly.stop_tracing first;
    cells n (* until exit *)
  | "unwritable" ->
    (match Mayfly.start Sys.argv.(3) with
     | _ -> say "started"
     | exception Failure text -> say "%s" text);
    cells n
  | "invalid" ->
    List.iter
      (fun f -> match f () with _ -> say "taken" | exception Invalid_argument _ -> say "invalid")
      [
        (fun () -> ignore (Mayfly.start ~sampling_rate:0. Sys.argv.(3)));
        (fun () -> ignore (Mayfly.start ~sampling_rate:nan Sys.argv.(3)));
        (fun () -> ignore (Mayfly.start ~callstack_limit:0 Sys.argv.(3)));
        (fun () -> ignore (Mayfly.External.alloc ~bytes:(-1)));
      ];
    say "file %b" (Sys.file_exists Sys.argv.(3))
  | "memprof_first" ->
    ignore (Gc.Memprof.start ~sampling_rate:1e-3 Gc.Memprof.null_tracker);
    Mayfly.trace_if_requested ();
    cells n;
    Gc.Memprof.stop ();
    say "stopped"
  | "memprof_stopped" ->
    Mayfly.trace_if_requested ();
    cells n;
    Gc.Memprof.stop ();
    cells n;
    say "stopped"
  | "children" ->
    (* The child goes on allocating, starts a trace of its own, and ends through exit. *)
    Mayfly.trace_if_requested ();
    cells n;
    let token = buffers 1000 in
    (match stub_fork () with
     | 0 ->
       cells n;
       List.iter Mayfly.External.free token;
       ignore (Sys.opaque_identity (buffers 1000));
       if Mayfly.active_tracer () <> None then exit 4;
       ignore (Mayfly.start ~sampling_rate:0.125 Sys.argv.(3));
       cells (n / 2);
       exit 3
     | child ->
       cells n;
       say "child %d" (stub_wait child))
  | _ -> exit 2
