(* SPDX-License-Identifier: Apache-2.0 *)
(* Waits for lines of its standard input, with workers that Spawn.spawn makes: threads, or domains.

     work N    each worker makes N lists of 300 elements
     run       they make lists until the next line
     count     how many lists they have made so far
     sample    uses the runtime's sampler itself
     end *)
let workers = int_of_string Sys.argv.(1)
let rec build n list = if n = 0 then list else build (n - 1) (n :: list)
let[@inline never] make n = build n []
let lock = Mutex.create ()
let changed = Condition.create ()
let todo = Array.make workers 0
let busy = ref 0
let made = Array.make workers 0
let wrong = ref false

let one_list i =
  if List.fold_left ( + ) 0 (make 300) <> 45150 then wrong := true;
  made.(i) <- made.(i) + 1

let rec serve i =
  Mutex.lock lock;
  while todo.(i) = 0 do Condition.wait changed lock done;
  Mutex.unlock lock;
  if todo.(i) > 0 then begin
    while todo.(i) > 0 do
      one_list i;
      todo.(i) <- todo.(i) - 1
    done;
    Mutex.lock lock;
    decr busy;
    Condition.broadcast changed;
    Mutex.unlock lock;
    serve i
  end

let start n =
  Mutex.lock lock;
  busy := workers;
  Array.fill todo 0 workers n;
  Condition.broadcast changed;
  Mutex.unlock lock

let wait () =
  Mutex.lock lock;
  while !busy > 0 do Condition.wait changed lock done;
  Mutex.unlock lock

let stop () =
  Array.fill todo 0 workers 1;
  wait ()

let count () = Printf.printf "%d\n%!" (Array.fold_left ( + ) 0 made)

let sample () =
  let samples = ref 0 in
  let tracker = { Gc.Memprof.null_tracker with alloc_minor = (fun _ -> incr samples; None) } in
  ignore (Gc.Memprof.start ~sampling_rate:1e-2 tracker);
  ignore (Sys.opaque_identity (List.init 10000 string_of_int));
  Gc.Memprof.stop ();
  Printf.printf "%s\n%!" (if !samples > 20 then "sampled" else "not sampled")

let answer line =
  match String.split_on_char ' ' line with
  | [ "work"; n ] -> start (int_of_string n); wait (); count ()
  | [ "run" ] -> start max_int; count ()
  | [ "stop" ] -> stop (); count ()
  | [ "sample" ] -> sample ()
  | _ -> count ()

let () =
  let started = List.init workers (fun i -> Spawn.spawn (fun () -> serve i)) in
  print_endline "ready";
  (try while true do answer (input_line stdin) done with End_of_file -> ());
  start (-1);
  List.iter Spawn.join started;
  print_endline (if !wrong then "wrong" else "right")
