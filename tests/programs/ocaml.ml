(* SPDX-License-Identifier: Apache-2.0 *)
(* What tests/test_ocaml.py records. Each case prints what it has done, so that its output can be
   compared, and allocates what is known: sizes are in words with the header. *)

external stub_blocks : int -> int -> int = "stub_blocks"
external stub_drop : unit -> unit = "stub_drop"

let say fmt = Printf.printf (fmt ^^ "\n%!")

(* A list cell is 3 words: 2 x n cells, made on stacks as deep as the list. *)
let lists n =
  let rec count i = if i = n then [] else i :: count (i + 1) in
  let doubled = List.map (fun x -> 2 * x) (count 0) in
  say "sum %d" (List.fold_left ( + ) 0 doubled)

module Names = Map.Make (String)

(* A node of a map is 6 words; n insertions copy about n log2 n of them. *)
let tables n =
  let table = Hashtbl.create 16 in
  for i = 1 to n do
    Hashtbl.replace table i (string_of_int i)
  done;
  let rec fill map i = if i = 0 then map else fill (Names.add (string_of_int i) i map) (i - 1) in
  let map = fill Names.empty n in
  say "table %d map %d" (Hashtbl.length table) (Names.cardinal map)

(* n arrays of 64 KB outside the heap; the last ten stay. *)
let bigarrays n =
  let kept = Queue.create () in
  for i = 1 to n do
    let a = Bigarray.(Array1.create char c_layout 65536) in
    Bigarray.Array1.fill a (Char.chr (i land 255));
    Queue.push a kept;
    if Queue.length kept > 10 then ignore (Queue.pop kept)
  done;
  Gc.full_major ();
  say "first %d" (Char.code (Bigarray.Array1.get (Queue.peek kept) 0))

exception Found of int * string

let rec search depth i =
  if depth = 0 then raise (Found (i, String.make 20 'x'));
  1 + (try search (depth - 1) i with Not_found -> 0)

let exceptions n =
  let sum = ref 0 in
  for i = 1 to n do
    try sum := !sum + search 50 i with Found (k, s) -> sum := !sum + k + String.length s
  done;
  say "sum %d" !sum

let make_arrays kept n =
  for i = 1 to n do
    kept.(i mod 100) <- Array.make 300 i
  done

let threads n =
  let work k =
    let kept = Array.make 100 [||] in
    for _ = 1 to 10 do
      make_arrays kept (n / 10);
      Thread.yield ()
    done;
    ignore (Sys.opaque_identity kept);
    ignore k
  in
  List.iter Thread.join (List.init 4 (Thread.create work));
  say "joined"

let mixed n =
  let kept = ref [] in
  let blocks = ref 0 in
  for i = 1 to n do
    blocks := !blocks + stub_blocks 10 10000;
    kept := String.make 1000 'y' :: !kept;
    if i mod 10 = 0 then stub_drop ()
  done;
  say "blocks %d strings %d" !blocks (List.length !kept)

(* Half of what the minor heap gets survives. *)
let promotions n =
  let kept = Array.make 100000 [] in
  for i = 1 to n do
    let cell = [ i; i + 1 ] in
    if i land 1 = 0 then kept.(i mod 100000) <- cell
  done;
  let s = Gc.quick_stat () in
  prerr_endline (Printf.sprintf "%.0f %.0f %.0f" s.Gc.minor_words s.Gc.promoted_words s.Gc.major_words);
  say "kept %d" (Array.length kept)

(* The collector's hardest work, with samples in all stages of their lives. *)
let collections n =
  let kept = ref [] in
  for i = 1 to n do
    kept := Bytes.make (i * 37 mod 3000) 'z' :: !kept;
    if i mod 100 = 0 then begin
      kept := List.filteri (fun k _ -> k mod 3 <> 0) !kept;
      Gc.full_major ()
    end;
    if i mod 400 = 0 then Gc.compact ()
  done;
  say "left %d" (List.length !kept)

let marshal n =
  let text = Marshal.to_string (List.init n string_of_int) [] in
  let back : string list = Marshal.from_string text 0 in
  say "back %d" (List.length back)

let own_memprof n =
  let seen = ref 0 in
  let tracker =
    Gc.Memprof.{ null_tracker with alloc_minor = (fun i -> seen := !seen + i.n_samples; None) } in
  let before = Array.init 1000 (fun i -> [ i ]) in
  (match Gc.Memprof.stop () with
   | () -> say "stopped what was not started"
   | exception Failure text -> say "%s" text);
  ignore (Gc.Memprof.start ~sampling_rate:1. tracker);
  ignore (Sys.opaque_identity (List.init n (fun i -> i)));
  Gc.Memprof.stop ();
  (match Gc.Memprof.stop () with
   | () -> say "stopped twice"
   | exception Failure text -> say "%s" text);
  say "seen %b before %d" (!seen >= 3 * n) (Array.length before)

let forks n =
  match Unix.fork () with
  | 0 ->
    lists n;
    exit 3
  | child ->
    lists n;
    (match Unix.waitpid [] child with
     | _, Unix.WEXITED code -> say "child %d" code
     | _ -> say "child?")

let fails n =
  lists n;
  failwith "at the end"

let () =
  let n = int_of_string Sys.argv.(2) in
  match Sys.argv.(1) with
  | "lists" -> lists n
  | "tables" -> tables n
  | "bigarrays" -> bigarrays n
  | "exceptions" -> exceptions n
  | "threads" -> threads n
  | "mixed" -> mixed n
  | "promotions" -> promotions n
  | "collections" -> collections n
  | "marshal" -> marshal n
  | "own_memprof" -> own_memprof n
  | "forks" -> forks n
  | "fails" -> fails n
  | _ -> exit 2
