#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""doc/EMBEDDING.md: its steps work as they are written, from an empty folder."""
import os
import re
import shutil

from harness import BUILD, SOURCE, Folder, Skip, case, check, environment, main, run


def blocks():
    with open(os.path.join(SOURCE, "doc", "EMBEDDING.md")) as file:
        return re.findall(r"^```(c|diff|sh)\n(.*?)^```$", file.read(), re.M | re.S)


def name_of(kind, text):
    """The first line of C says it; there is one diff."""
    return "engine.diff" if kind == "diff" else re.match(r"/\* (\S+) \*/\n", text).group(1)


def as_installed():
    """mayfly, its headers and library as if they were installed."""
    path = os.path.join(BUILD, "src", "cli") + ":" + os.environ["PATH"]
    library = os.path.join(BUILD, "src", "memprof")
    return dict(environment(), PATH=path, LD_LIBRARY_PATH=library, CPATH=os.path.join(SOURCE, "include"),
                PKG_CONFIG_PATH=os.path.join(BUILD, "meson-uninstalled"))


@case
def steps_work_as_written():
    for tool in ("patch", "pkg-config", "cc"):
        if not shutil.which(tool):
            raise Skip(tool + " is not installed")
    out = []
    with Folder() as here:
        for kind, text in blocks():
            if kind != "sh":
                with open(here / name_of(kind, text), "w") as file:
                    file.write(text)
                continue
            result = run(["sh", "-eu", "-c", text], env=as_installed(), cwd=here.path)
            check(result.code == 0, text, result)
            out.append(result.out.decode())
    check(len(out) == 5, len(out), "steps with commands")
    check(re.search(r"program\.tiny:12\b", out[3]), "no line of the program in the report:", out[3])
    check("work" in out[3] and "fill_cache" in out[3], "no functions of the program:", out[3])
    words = float(re.search(r"([\d.]+) million words", out[4]).group(1))
    check(abs(words / 12.08 - 1) < 0.05, words)


if __name__ == "__main__":
    main()
