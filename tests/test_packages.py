#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The Debian packages (make deb): they build, lintian has nothing to say, and what is in them works
together when it is unpacked."""
import os
import re
import subprocess

from harness import Folder, SOURCE, Skip, case, check, main, need, program, run, same

PACKAGES = ["mayfly", "libmayfly-memprof1", "libmayfly-trace1", "libmayfly-dev", "mayfly-doc"]
# The maintainer's address is for whoever uploads the packages.
NOT_YET = ("bogus-mail-host", "bogus-mail-host-in-debian-changelog")

_built = {}


def built():
    """Builds once; returns the folder of the packages, and one in which all are unpacked."""
    need("dpkg-buildpackage", "dh", "meson")
    if not _built:
        here = Folder().__enter__()
        done = run([os.path.join(SOURCE, "scripts", "make-packages"), here / "packages"])
        check(done.code == 0, "scripts/make-packages", done.err.decode()[-3000:])
        for name in os.listdir(here / "packages"):
            if name.endswith(".deb") and "dbgsym" not in name:
                subprocess.run(["dpkg-deb", "-x", here / ("packages/" + name), here / "root"],
                               check=True)
        _built.update(folder=here, packages=here / "packages", root=here / "root")
    return _built["packages"], _built["root"]


def library_folder(root):
    multiarch = run(["gcc", "-print-multiarch"]).out.decode().strip()
    return os.path.join(root, "usr", "lib", multiarch)


@case
def packages():
    folder, _ = built()
    names = {name.split("_")[0] for name in os.listdir(folder) if name.endswith(".deb")}
    check(names >= set(PACKAGES), "packages", names)


@case
def lintian():
    need("lintian")
    folder, _ = built()
    changes = [name for name in os.listdir(folder) if name.endswith(".changes")]
    done = run(["lintian", "--allow-root", "--profile", "debian", os.path.join(folder, changes[0])])
    found = [line for line in done.out.decode().splitlines()
             if re.match(r"[EW]: ", line) and line.split()[2] not in NOT_YET
             and line.split()[3] not in NOT_YET]
    same(found, [], "lintian")


@case
def library_for_ocaml():
    """It is where this system's OCaml looks for libraries."""
    need("ocamlc")
    folder, root = built()
    if not any(name.startswith("mayfly-ocaml_") for name in os.listdir(folder)):
        raise Skip("mayfly-ocaml was not built: dune or ocamlfind is missing")
    where = run(["ocamlc", "-where"]).out.decode().strip()
    check(os.path.exists(root + where + "/mayfly/META"), "no", where + "/mayfly/META")


@case
def unpacked_mayfly_records():
    _, root = built()
    with Folder() as here:
        trace = here / "t.mayfly"
        mayfly = os.path.join(root, "usr", "bin", "mayfly")
        done = run([mayfly, "record", "-x", "-o", trace, "--", program("known"), "1", "1", "200"])
        same((done.code, done.err), (0, b""), "record")
        check(b"peak_site" in run([mayfly, "report", trace]).out, "report")


@case
def programs_build_with_the_packages():
    """As with the packages installed, but below a folder."""
    _, root = built()
    libraries = library_folder(root)
    with Folder() as here:
        cc = run(["cc", "-I", os.path.join(root, "usr", "include"), "-o", here / "top_sites",
                  os.path.join(SOURCE, "examples", "top_sites.c"), "-L" + libraries,
                  "-lmayfly-trace", "-Wl,-rpath," + libraries])
        same((cc.code, cc.err), (0, b""), "cc")
        check(b"libmayfly-trace.so.1" in run(["ldd", here / "top_sites"]).out, "the shared library")
        trace = here / "t.mayfly"
        run([os.path.join(root, "usr", "bin", "mayfly"), "record", "-x", "-o", trace, "--",
             program("known"), "1", "1", "200"])
        done = run([here / "top_sites", trace])
        check(done.code == 0 and b"peak_site" in done.out, done)


@case
def links_hold():
    """Each link of an installed document leads to something that is installed."""
    _, root = built()
    documents = os.path.join(root, "usr", "share", "doc", "mayfly")
    links = 0
    for folder, _, names in os.walk(documents):
        for name in names:
            if not name.endswith(".md"):
                continue
            with open(os.path.join(folder, name)) as file:
                text = re.sub(r"^```.*?^```", "", file.read(), flags=re.DOTALL | re.MULTILINE)
            for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", text):
                if not re.match(r"https?:", target):
                    links += 1
                    check(os.path.exists(os.path.join(folder, target)), name, "links to", target)
    check(links > 10, "links", links)


main()
