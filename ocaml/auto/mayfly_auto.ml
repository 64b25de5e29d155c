(* SPDX-License-Identifier: Apache-2.0 *)
(* Linked before the program's own units, so that what these allocate at their start is traced. *)
let () = Mayfly.trace_if_requested ()
