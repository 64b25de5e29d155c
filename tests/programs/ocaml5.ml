(* SPDX-License-Identifier: Apache-2.0 *)
(* What tests/test_ocaml5.py records: programs for OCaml 5 only. Each case prints what it has done, so
   that its output can be compared, and allocates what is known: sizes are in words with the header. *)

external stub_take : int -> unit = "stub_take"
external stub_call : ('a -> 'b) -> 'a -> 'b = "stub_call"
external stub_catch : ('a -> int) -> 'a -> int = "stub_catch"

let say fmt = Printf.printf (fmt ^^ "\n%!")

(* 3 words for each. *)
let rec count i n = if i = n then [] else i :: count (i + 1) n

(* n lists of 100 cells; some of them stay for a while. *)
let cells n =
  let kept = Array.make 100 [] in
  for i = 1 to n do
    kept.(i mod 100) <- count 0 100
  done;
  Array.fold_left (fun sum l -> sum + List.length l) 0 kept

let domains n =
  let others = List.init 3 (fun _ -> Domain.spawn (fun () -> cells n)) in
  let mine = cells n in
  say "kept %d" (List.fold_left (fun sum d -> sum + Domain.join d) mine others)

(* Domains that come and go, with threads in each, and blocks that outlive their domain. *)
let generations n =
  let kept = ref [] in
  for _ = 1 to n do
    let work () =
      let threads = List.init 3 (fun _ -> Thread.create (fun () -> ignore (cells 200)) ()) in
      List.iter Thread.join threads;
      count 0 1000
    in
    let made = List.map Domain.join (List.init 3 (fun _ -> Domain.spawn work)) in
    kept := List.concat made :: !kept;
    Gc.minor ()
  done;
  Gc.full_major ();
  say "kept %d" (List.fold_left (fun sum l -> sum + List.length l) 0 !kept)

(* Blocks of 80 KB, each of malloc's. *)
let[@inline never] make_large () = Array.make 10000 7

let large n =
  let kept = Array.make 10 [||] in
  for i = 1 to n do
    kept.(i mod 10) <- make_large ()
  done;
  say "length %d" (Array.fold_left (fun sum a -> sum + Array.length a) 0 kept)

open Effect
open Effect.Deep

type _ Effect.t += Ask : int -> int t

let in_fiber n =
  let sum = ref 0 in
  for i = 1 to n do
    let l = count 0 20 in
    if i mod 10 = 0 then stub_take 20000;
    sum := !sum + List.length l + perform (Ask i)
  done;
  !sum

let handled n =
  match_with in_fiber n
    { retc = (fun x -> x);
      exnc = raise;
      effc =
        (fun (type a) (e : a Effect.t) ->
          match e with
          | Ask i ->
            Some
              (fun (k : (a, _) continuation) ->
                if i mod 10 = 0 then stub_take 10000;
                continue k i)
          | _ -> None) }

let effects n = say "sum %d" (handled n)

(* C below OCaml below C, some thousands of frames. *)
let rec down depth =
  if depth = 0 then (stub_take 1000000; 1)
  else 1 + stub_call down (depth - 1)

let deep n =
  let sum = ref 0 in
  for _ = 1 to 20 do
    sum := !sum + down n
  done;
  say "sum %d" !sum

(* The runtime enlarges the stack, again and again. *)
let rec climb depth = if depth = 0 then 0 else 1 + climb (depth - 1)

let stacks n = say "depth %d" (climb n)

let rec fall depth =
  ignore (Sys.opaque_identity (count 0 50));
  if depth = 0 then raise Not_found else stub_call fall (depth - 1)

let exceptions n =
  let sum = ref 0 in
  for i = 1 to n do
    sum := !sum + stub_catch fall (i mod 20) + (try fall 5 with Not_found -> 2)
  done;
  say "sum %d" !sum

let finalisers n =
  let ran = Atomic.make 0 in
  let work () =
    for i = 1 to n do
      let l = count 0 10 in
      Gc.finalise (fun l -> ignore (count 0 (List.length l)); Atomic.incr ran) l;
      if i mod 3 = 0 then Gc.finalise_last (fun () -> Atomic.incr ran) (ref i);
      if i mod 100 = 0 then
        (try Gc.finalise (fun _ -> raise Exit) (ref i); Gc.full_major () with Exit -> ())
    done
  in
  let other = Domain.spawn work in
  work ();
  Domain.join other;
  say "ran %b" (Atomic.get ran > n)

(* Its own profiles, in two domains one after the other, while others allocate. *)
let own_memprof n =
  let stop = Atomic.make false in
  let others =
    List.init 2 (fun _ ->
        Domain.spawn (fun () -> while not (Atomic.get stop) do ignore (cells 50) done))
  in
  let seen = Atomic.make 0 and freed = Atomic.make 0 in
  let tracker =
    Gc.Memprof.
      { null_tracker with
        alloc_minor = (fun i -> Atomic.fetch_and_add seen i.n_samples |> ignore; Some ());
        dealloc_minor = (fun () -> Atomic.incr freed) }
  in
  let profile () =
    let t = Gc.Memprof.start ~sampling_rate:1. tracker in
    ignore (Sys.opaque_identity (count 0 n));
    Gc.Memprof.stop ();
    Gc.full_major ();
    Gc.Memprof.discard t;
    match Gc.Memprof.stop () with
    | () -> say "stopped twice"
    | exception Failure text -> say "%s" text
  in
  ignore (cells 1000);
  profile ();
  Domain.join (Domain.spawn profile);
  Atomic.set stop true;
  List.iter Domain.join others;
  say "seen %b freed %b" (Atomic.get seen >= 6 * n) (Atomic.get freed > 0)

let compactions n =
  let kept = ref [] in
  for i = 1 to n do
    kept := Bytes.make (i * 37 mod 3000) 'z' :: !kept;
    if i mod 100 = 0 then begin
      kept := List.filteri (fun k _ -> k mod 3 <> 0) !kept;
      Gc.compact ()
    end
  done;
  say "left %d" (List.length !kept)

(* The words that it has allocated, as the runtime counts them: with those of its sampler. *)
let known n =
  let before = Gc.minor_words () in
  ignore (Sys.opaque_identity (cells n));
  say "%.0f" (Gc.minor_words () -. before)

let () =
  let n = int_of_string Sys.argv.(2) in
  match Sys.argv.(1) with
  | "domains" -> domains n
  | "generations" -> generations n
  | "large" -> large n
  | "effects" -> effects n
  | "deep" -> deep n
  | "stacks" -> stacks n
  | "exceptions" -> exceptions n
  | "finalisers" -> finalisers n
  | "own_memprof" -> own_memprof n
  | "compactions" -> compactions n
  | "known" -> known n
  | _ -> exit 2
