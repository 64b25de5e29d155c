#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The tour cannot age: what doc/TOUR.md shows is still printed by its commands, figures aside."""
import importlib.machinery
import os
import re
import sys

from harness import BUILD, SOURCE, Skip, case, cases, check, main, run, same

TOUR = os.path.join(SOURCE, "scripts", "tour")


@cases(["5", "8", "9"])
def outputs_are_those_of_today(section):
    result = run([TOUR, "--check", BUILD, section])
    if re.search(rb"^section %s: without" % section.encode(), result.out, re.MULTILINE):
        raise Skip(result.out.decode().strip())
    check(result.code == 0, result.err.decode())


@case
def a_line_that_is_gone_is_found():
    """The check fails for a head of a table that is another one now, and for a line of another form."""
    sys.dont_write_bytecode = True
    module = importlib.machinery.SourceFileLoader("tour", TOUR).load_module()
    printed = "Peak  1.2 MiB\nSELF  TOTAL  NAME\n 1.0 MiB ±3 %  2 MiB  f\n"
    same(module.remade("Peak  3.4 GiB\n...\nSELF  TOTAL  NAME\n 7 KiB  9 B  f\n", printed),
         ("Peak  1.2 MiB\n...\nSELF  TOTAL  NAME\n 1.0 MiB ±3 %  2 MiB  f", []), "what differs in figures only")
    same(module.remade("Peak  3.4 GiB\nSELF  ALL  NAME\n", printed)[1], ["SELF  ALL  NAME"], "another head")
    same(module.remade("Highest  3.4 GiB\n", printed)[1], ["Highest  3.4 GiB"], "another line")


if __name__ == "__main__":
    main()
