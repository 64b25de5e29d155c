# SPDX-License-Identifier: Apache-2.0
"""What the tests of OCaml programs share: mayfly's library, installed, and a program that makes the
collector work."""
import functools
import os
import re
import shutil

from harness import SOURCE, Skip, check, run

WORK = """
let keep = Array.make 64 []
let work n =
  for i = 1 to n do
    keep.(i mod 64) <- List.init 3000 (fun k -> string_of_int (k * i));
    if i mod 40 = 0 then Gc.full_major ()
  done
"""


@functools.lru_cache(maxsize=None)
def ocaml_version():
    """(4, 13) and such. Skips where OCaml is missing, or its blocks are not recorded."""
    if not shutil.which("ocamlfind"):
        raise Skip("OCaml (ocaml-findlib) is not installed")
    text = run(["ocamlfind", "ocamlopt", "-version"]).out.decode().strip()
    found = re.match(r"(\d+)\.(\d+)", text)
    version = (int(found[1]), int(found[2])) if found else (0, 0)
    if version not in ((4, 13), (4, 14)) and version < (5, 3):
        raise Skip("this OCaml is " + text + ", recorded are 4.13, 4.14, and 5.3 and later")
    return version


def install_library(folder, source=SOURCE):
    """Builds the sources and installs below the folder; returns the prefix."""
    for program in ("ocamlfind", "ocamlopt", "dune"):
        if not shutil.which(program):
            raise Skip(program + " is not installed")
    ocaml_version()
    prefix = os.path.join(folder, "prefix")
    done = run([os.path.join(source, "ocaml", "install"), os.path.join(folder, "build"), prefix, ""])
    check(done.code == 0 and not done.err, "ocaml/install", done)
    check(prefix.encode() in done.out, "does not say where", done)
    return prefix
