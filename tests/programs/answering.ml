(* SPDX-License-Identifier: Apache-2.0 *)
(* As answering.c, in OCaml. *)
let stop = ref false
let wrong = ref false

let work rounds =
  for i = 1 to rounds do
    let texts = List.init 50 (fun k -> String.make (k + 1) (Char.chr (97 + (k mod 26)))) in
    let bytes = Bytes.make 5000 (Char.chr (i land 127)) in
    let table = Hashtbl.create 10 in
    List.iteri (fun k text -> Hashtbl.replace table k text) texts;
    List.iteri (fun k text -> if Hashtbl.find table k <> text || String.length text <> k + 1 then wrong := true) texts;
    Bytes.iter (fun c -> if Char.code c <> i land 127 then wrong := true) bytes
  done

let load () =
  while not !stop do
    work 5;
    Thread.delay 0.002
  done

let fork_one () =
  match Unix.fork () with
  | 0 ->
      work 20;
      Unix._exit (if !wrong then 1 else 7)
  | child -> if Unix.waitpid [] child <> (child, Unix.WEXITED 7) then wrong := true

let say text =
  print_endline text;
  flush stdout

let answer = function
  | "alive" -> say "alive"
  | "work" ->
      work 1000;
      Gc.compact ();
      say "worked"
  | "fork" ->
      fork_one ();
      say "forked"
  | _ -> Unix.execv "/proc/self/exe" Sys.argv

let () =
  let threads = List.init 3 (fun _ -> Thread.create load ()) in
  say "ready";
  (try
     while true do
       answer (input_line stdin)
     done
   with End_of_file -> ());
  stop := true;
  List.iter Thread.join threads;
  say (if !wrong then "wrong" else "good");
  exit 23
