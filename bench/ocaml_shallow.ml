(* SPDX-License-Identifier: Apache-2.0 *)
(* Allocations on stacks of some dozen calls, and little else: lists as long as Fibonacci's numbers. *)
let rec numbers n = if n < 2 then [ n ] else List.rev_append (numbers (n - 1)) (numbers (n - 2))

let () =
  let rounds = int_of_string Sys.argv.(1) in
  let length = ref 0 in
  for _ = 1 to rounds do
    length := !length + List.length (numbers 22)
  done;
  print_int !length
