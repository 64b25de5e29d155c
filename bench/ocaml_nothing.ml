(* SPDX-License-Identifier: Apache-2.0 *)
(* Ends at once: what is added to it is what every program pays once. *)
