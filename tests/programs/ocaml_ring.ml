(* Does what its arguments say, with events of its own. It reads its events with OCaml's library, and
   "count" prints how many of each there were up to "work.done", one "NAME NUMBER" a line. *)
open Runtime_events

type User.tag += Phase | Items | Done

let phase = User.register "work.phase" Phase Type.span
let items = User.register "work.items" Items Type.int
let finished = User.register "work.done" Done Type.unit

let rec build n = if n = 0 then [] else (n, string_of_int n) :: build (n - 1)

let work times =
  for i = 1 to times do
    User.write phase Type.Begin;
    ignore (Sys.opaque_identity (List.length (build 5000)));
    User.write items i;
    User.write phase Type.End
  done

(* (time, name) of each event that was read. *)
let seen = ref []
let lost = ref 0
let add time name = seen := (Timestamp.to_int64 time, name) :: !seen

let callbacks =
  let user name _ time event _ = add time (name ^ " " ^ User.name event) in
  Callbacks.create ()
    ~runtime_begin:(fun _ time phase -> add time ("begin " ^ runtime_phase_name phase))
    ~lifecycle:(fun _ time life _ -> add time ("life " ^ lifecycle_name life))
    ~lost_events:(fun _ n -> lost := !lost + n)
  |> Callbacks.add_user_event Type.span (fun _ time event value ->
         if value = Type.Begin then add time ("begin " ^ User.name event))
  |> Callbacks.add_user_event Type.int (user "count")
  |> Callbacks.add_user_event Type.unit (user "instant")

let print_counts cursor =
  User.write finished ();
  while read_poll cursor callbacks None > 0 do () done;
  let last = fst (List.find (fun (_, name) -> name = "instant work.done") !seen) in
  let counts = Hashtbl.create 16 in
  List.iter
    (fun (time, name) ->
      if time <= last then
        Hashtbl.replace counts name
          (1 + Option.value ~default:0 (Hashtbl.find_opt counts name)))
    !seen;
  Hashtbl.iter (Printf.printf "%s %d\n") counts;
  Printf.printf "lost %d\n" !lost

let count () =
  let cursor = create_cursor None in
  (* A domain that starts after another has ended takes its ring: both live at once. *)
  let started = Atomic.make 0 in
  let together () =
    Atomic.incr started;
    while Atomic.get started < 2 do Domain.cpu_relax () done;
    work 20
  in
  let domains = List.init 2 (fun _ -> Domain.spawn together) in
  for _ = 1 to 10 do
    work 4;
    ignore (read_poll cursor callbacks None)
  done;
  List.iter Domain.join domains;
  Gc.full_major ();
  print_counts cursor

let variables () =
  Array.iter
    (fun v -> if String.length v > 5 && String.sub v 0 5 = "OCAML" then print_endline v)
    (Unix.environment ());
  flush stdout;
  ignore (Sys.command "env | grep -c OCAML_RUNTIME_EVENTS")

let () =
  match Sys.argv.(1) with
  | "count" -> count ()
  | "variables" -> variables ()
  | "killed" ->
    work 20;
    Unix.kill (Unix.getpid ()) Sys.sigkill
  | "fork" ->
    work 5;
    if Unix.fork () = 0 then work 7
    else begin
      ignore (Unix.wait ());
      work 5
    end
  | "dropped" | "rooted" ->
    if Sys.argv.(1) = "rooted" then Unix.chroot "/usr";
    Unix.setuid 65534;
    if Unix.fork () = 0 then work 7
    else begin
      match snd (Unix.wait ()) with
      | Unix.WEXITED n -> Printf.printf "ended %d\n" n
      | _ -> print_endline "killed"
    end
  | "long" ->
    let encode buffer text = Bytes.blit_string text 0 buffer 0 (String.length text); String.length text in
    let decode buffer length = Bytes.sub_string buffer 0 length in
    let note = User.register "work.note" Items (Type.register ~encode ~decode) in
    for i = 1 to 10000 do User.write note (String.make (i mod 1025) 'x') done
  | "many" ->
    for _ = 1 to 40000 do
      User.write phase Type.Begin;
      User.write items 1;
      User.write phase Type.End
    done
  | _ -> work 10
