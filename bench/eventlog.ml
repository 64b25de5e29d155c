(* SPDX-License-Identifier: Apache-2.0 *)
(* What an eventlog is made of. First argument: how often lists are promoted while a slice of the major
   collector is due, when the runtime asks for it anew with every block (request_major/alloc_shr).
   Second: minor collections of nothing, some phases each. *)
let kept = ref []

let () =
  let words = 32768 in
  Gc.set { (Gc.get ()) with Gc.minor_heap_size = words };
  for i = 1 to int_of_string Sys.argv.(1) do
    kept := List.init 3000 (fun k -> string_of_int (k * i));
    (* More than a minor heap, and not there: the slice is due. *)
    ignore (Sys.opaque_identity (Bytes.create (8 * (words + 1))))
  done;
  for _ = 1 to int_of_string Sys.argv.(2) do
    Gc.minor ()
  done
