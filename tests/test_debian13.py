#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The tests of OCaml and Python programs on Debian 13, which has OCaml 5 and Python 3.13, in a root of
their own (scripts/test-on). Each test there is a point here. Skipped where such a root cannot be made;
on Debian 13 itself those tests run anyway."""
import os
import re
import subprocess
import sys

from harness import SOURCE

WORDS = ["ocaml", "runtime_events", "python"]
RESULT = re.compile(r"^(ok|FAIL) +(\S+) +(\d+) passed, (\d+) failed, (\d+) skipped")


def codename():
    with open("/etc/os-release") as file:
        found = re.search(r"^VERSION_CODENAME=(\S+)", file.read(), re.MULTILINE)
    return found.group(1) if found else ""


def main():
    if codename() == "trixie":
        print("1..0 # SKIP this is Debian 13")
        return
    done = subprocess.run([os.path.join(SOURCE, "scripts", "test-on"), "--packages", "build,ocaml",
                           "trixie", *WORDS], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT)
    lines = done.stdout.decode("utf-8", "replace").splitlines()
    if done.returncode == 77:
        print("1..0 # SKIP " + (lines[-1] if lines else "no reason given").replace("#", ""))
        return
    points = 0
    for line in lines:
        match = RESULT.match(line)
        if match:
            points += 1
            state, _, passed, failed, _ = match.groups()
            print("%s %d - %s on Debian 13: %s passed, %s failed, %s skipped%s" % (
                "ok" if state == "ok" else "not ok", points, *match.group(2, 3, 4, 5),
                " # SKIP all points of it" if passed == failed == "0" else ""))
    if done.returncode or not points:
        points += 1
        print("not ok %d - scripts/test-on" % points)
        for line in lines[-200:]:
            print("# " + line)
    print("1..%d" % points)


main()
