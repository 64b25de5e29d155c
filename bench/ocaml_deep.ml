(* SPDX-License-Identifier: Apache-2.0 *)
(* Allocations on deep stacks: maps, tables and lists are made 800 calls down. *)
module Numbers = Map.Make (Int)

let scattered i = i * 7919 land 0xffff

let fill n =
  let rec go map i = if i = 0 then map else go (Numbers.add (scattered i) i map) (i - 1) in
  let map = go Numbers.empty n in
  let table = Hashtbl.create 16 in
  List.iter
    (fun i -> Hashtbl.replace table i (string_of_int i))
    (List.sort compare (List.init n scattered));
  Numbers.cardinal map + Hashtbl.length table

let rec below depth work = if depth = 0 then work () else 1 + below (depth - 1) work

let () =
  let rounds = int_of_string Sys.argv.(1) in
  let sum = ref 0 in
  for _ = 1 to rounds do
    sum := !sum + below 800 (fun () -> fill 50000)
  done;
  print_int !sum
