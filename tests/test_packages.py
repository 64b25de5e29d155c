#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The Debian packages (make deb): they build, lintian has nothing to say, and what is in them works
together when it is unpacked. The files for other distributions' packages are well formed."""
import os
import re
import subprocess

from harness import Folder, SOURCE, Skip, case, cases, check, environment, main, need, program, run, same

PACKAGES = ["mayfly", "libmayfly-memprof0", "libmayfly-trace0", "libmayfly-dev", "mayfly-doc", "python3-mayfly"]
# The maintainer's address is for whoever uploads the packages.
NOT_YET = ("bogus-mail-host", "bogus-mail-host-in-debian-changelog", "initial-upload-closes-no-bugs")

_built = {}


def make_packages(folder):
    done = run([os.path.join(SOURCE, "scripts", "make-packages"), folder])
    check(done.code == 0, "scripts/make-packages", done.err.decode()[-3000:])


def built():
    """Builds once; returns the folder of the packages, and one in which all are unpacked."""
    need("dpkg-buildpackage", "dh", "meson")
    if not _built:
        here = Folder().__enter__()
        make_packages(here / "packages")
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


@cases(["demo", "attach", "python"])
def tests_of_the_installed_package(name):
    """debian/tests, which autopkgtest runs."""
    _, root = built()
    with Folder() as here:
        done = run([os.path.join(SOURCE, "debian", "tests", name)],
                   env=environment(AUTOPKGTEST_TMP=here.path,
                                   PYTHONPATH=os.path.join(root, "usr", "lib", "python3", "dist-packages"),
                                   PATH=os.path.join(root, "usr", "bin") + ":" + os.environ["PATH"]))
        if b"the kernel does not allow" in done.err or b"ptrace_scope" in done.err:
            raise Skip("no process may be traced here")
        same(done.code, 0, done)


@case
def libraries_opened_by_name_are_noted():
    need("readelf")
    _, root = built()
    note = run(["readelf", "-p", ".note.dlopen", os.path.join(root, "usr", "bin", "mayfly")]).out
    check(b'"libcurl.so.4"' in note and b'"libdebuginfod.so.1"' in note, note)


def version():
    with open(os.path.join(SOURCE, "meson.build")) as file:
        return re.search(r"version: '(.*?)'", file.read())[1]


@cases(["mayfly.spec", "PKGBUILD", "mayfly.nix"])
def other_distributions(name):
    path = os.path.join(SOURCE, "packaging", name)
    with open(path) as file:
        text = file.read()
    check(re.search(r"(?i)(version:\s*|pkgver=|version = \")%s\b" % re.escape(version()), text), "the version in", name)
    linter = {"mayfly.spec": ["rpmspec", "-P"], "PKGBUILD": ["shellcheck", "--shell=bash", "--exclude=SC2034,SC2154"],
             "mayfly.nix": ["nix-instantiate", "--parse"]}[name]
    need(linter[0])
    done = run([*linter, path])
    same(done.code, 0, done)


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
        check(b"libmayfly-trace.so.0" in run(["ldd", here / "top_sites"]).out, "the shared library")
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
