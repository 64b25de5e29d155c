#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""scripts/setup with stand-ins for Debian's programs: which packages it asks apt for."""
import os
import sys

from harness import Folder, SOURCE, case, cases, check, main, run, same

# What the stand-ins know: $KNOWN are packages that can be had, $NAMED those that are only names, $HAVE
# those that are installed.
PROGRAMS = {
    "dpkg-query": 'for n; do case " $HAVE " in *" $n "*) echo "install ok installed";; esac; done',
    "apt-cache": 'for n; do :; done; case " $KNOWN " in *" $n "*) echo "  Candidate: 1";; *) '
                 'case " $NAMED " in *" $n "*) echo "  Candidate: (none)";; *) exit 100;; esac;; esac',
    "apt-get": 'case "$*" in *" install "*) echo "$*" >>"$ASKED";; esac',
    # Not root, so that everything that would change the system goes to sudo, which runs apt only.
    "id": "echo 1000",
    "sudo": 'case $1 in env) exec "$@";; tee) cat >/dev/null;; esac',
}


def asked(here, known, have, named=""):
    """The packages that apt is to install for the group `viewer`, and the run."""
    folder = here / "bin"
    if not os.path.isdir(folder):
        os.mkdir(folder)
    for name, text in PROGRAMS.items():
        path = os.path.join(folder, name)
        with open(path, "w", encoding="ascii") as file:
            file.write("#!/bin/sh\n%s\n" % text)
        os.chmod(path, 0o755)
    log = here / "asked"
    with open(log, "w", encoding="ascii"):
        pass
    result = run(["sh", os.path.join(SOURCE, "scripts", "setup"), "viewer"],
                 env=dict(os.environ, PATH="%s:/usr/bin:/bin" % folder, BUILD=str(here / "build"),
                          KNOWN=known, NAMED=named, HAVE=have, ASKED=str(log)))
    with open(log, encoding="ascii") as file:
        words = file.read().split()
    return [word for word in words if "clang" in word or "lld" in word], result


RUNTIME = "libclang-rt-%s-dev-wasm32"


@cases([("both", "14 19", "14"), ("first", "14", "14"), ("second", "19", "19")])
def one_of_two_names(which):
    """One package of two names is installed: the first one that there is."""
    _, versions, wanted = which
    known = " ".join("clang-%s lld-%s %s" % (v, v, RUNTIME % v) for v in versions.split())
    with Folder() as here:
        packages, result = asked(here, known, "nodejs npm wasi-libc zstd")
        same(result.code, 0, result)
        same(packages, ["clang-" + wanted, "lld-" + wanted, RUNTIME % wanted], result)


@case
def names_without_a_package():
    """A name that apt knows from other packages only is as good as none: the second one is taken."""
    names = {v: "clang-%s lld-%s %s" % (v, v, RUNTIME % v) for v in ("14", "19")}
    with Folder() as here:
        packages, result = asked(here, names["19"], "nodejs npm wasi-libc zstd", named=names["14"])
        same((result.code, packages), (0, names["19"].split()), result)


@case
def unknown_names_are_remembered():
    """When neither name is known, the next run asks for neither."""
    with Folder() as here:
        for attempt in range(2):
            packages, result = asked(here, "", "nodejs npm wasi-libc zstd")
            same((result.code, packages), (0, []), result)
            same(b"clang-14|clang-19" in result.err, attempt == 0, result)


@case
def either_name_will_do():
    """A package that is installed under its second name is not asked for."""
    with Folder() as here:
        packages, result = asked(here, "clang-14 lld-14", "nodejs npm wasi-libc zstd clang-19 lld-19 " +
                                 RUNTIME % "19")
        same((result.code, packages), (0, []), result)
        check(not result.out, result)


if __name__ == "__main__":
    sys.exit(main())
