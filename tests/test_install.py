#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""make install, from a tree like a release's and without a network: what lands where, that it works from
there, and that others can build on it."""
import glob
import os
import re
import shutil

from harness import BUILD, Folder, SOURCE, Skip, case, check, environment, info, main, need, program, read, run, same

_installed = {}


def git(tree, *words):
    done = run(["git", "-c", "user.name=Test", "-c", "user.email=test@example.org", *words], cwd=tree)
    same(done.code, 0, "git %s (%r)" % (words, done))


def tree_of_a_release(here):
    """What scripts/make-dist makes of these sources, twice the same; without git, or a page to put into it, a
    copy of them."""
    tree = here / "copy"
    shutil.copytree(SOURCE, tree, symlinks=True, ignore=lambda folder, names: [
        name for name in names if name in (".git", "node_modules", "prebuilt", "__pycache__") or
        (folder == SOURCE and name.startswith("build"))])
    if not page() or not shutil.which("git"):
        return tree
    git(tree, "init", "-q")
    git(tree, "add", "-A")
    git(tree, "commit", "-q", "-m", "All of it")
    for out in ("first", "second"):
        done = run([os.path.join(tree, "scripts", "make-dist"), BUILD, here / out])
        same((done.code, done.err), (0, b""), "make-dist")
    tarball, again = done.out.decode().strip(), *here.files("first/*")
    same(os.path.basename(tarball), os.path.basename(again), "names")
    check(read(tarball) == read(again), "another tarball of the same commit")
    same(run(["tar", "-C", here.path, "-xf", tarball]).code, 0, "tar")
    with open(os.path.join(tree, "README.md"), "a") as file:
        file.write("Another line.\n")
    done = run([os.path.join(tree, "scripts", "make-dist"), BUILD, here / "third"])
    check(done.code == 1 and b"not committed" in done.err and not here.files("third"), done)
    return os.path.join(here.path, os.path.basename(tarball).replace(".tar.xz", ""))


def page():
    path = os.path.join(BUILD, "src", "page", "viewer.html")
    return read(path) if os.path.exists(path) else b""


def without_network():
    """The beginning of a command that has none, where that can be had."""
    command = ["unshare", "--map-root-user", "--net"]
    return command if run([*command, "true"]).code == 0 else []


def install():
    """Installs once, as a packager would: PREFIX=/usr and a DESTDIR. Returns the DESTDIR."""
    if "staged" not in _installed:
        here = Folder().__enter__()
        _installed["folder"] = here
        stage, prefix = here / "stage", here / "prefix"
        tree = _installed["tree"] = tree_of_a_release(here)
        for arguments in (["PREFIX=/usr", "DESTDIR=" + stage], ["PREFIX=" + prefix]):
            result = run([*without_network(), "make", "-C", tree, "--no-print-directory", "install",
                          "BUILD_INSTALL=" + (here / "build"), *arguments])
            check(result.code == 0, "make install", arguments, result.err.decode()[-2000:],
                  result.out.decode()[-2000:])
        _installed.update(staged=stage, prefix=prefix)
    return _installed["staged"], _installed["prefix"]


def files_below(folder):
    found = []
    for path, _, names in os.walk(folder):
        found += [os.path.relpath(os.path.join(path, name), folder) for name in names]
    return sorted(found)


@case
def files():
    stage, _ = install()
    found = files_below(stage)
    for pattern in (r"usr/bin/mayfly", r"usr/lib/.*libmayfly\.so", r"usr/lib/.*libmayfly-musl\.so",
                    r"usr/include/mayfly/trace\.h",
                    r"usr/lib/.*pkgconfig/mayfly\.pc", r"usr/lib/.*libmayfly-trace\.(a|so)",
                    r"usr/share/man/man1/mayfly\.1(\.gz)?", r"usr/share/man/man1/mayfly-record\.1.*",
                    r"usr/share/man/man1/mayfly-report\.1.*", r"usr/share/man/man1/mayfly-info\.1.*",
                    r"usr/share/man/man1/mayfly-dump\.1.*", r"usr/lib/systemd/system/mayfly-agent\.service",
                    r"usr/share/man/man3/mayfly\.h\.3.*",
                    r"usr/include/mayfly/memprof\.h", r"usr/lib/.*libmayfly-memprof\.(a|so)",
                    r"usr/share/man/man3/memprof\.h\.3.*",
                    r"usr/include/mayfly/mayfly\.h", r"usr/include/mayfly/mayfly\.hpp"):
        check(any(re.fullmatch(pattern, name) for name in found), pattern, "not among", found)
    tools = [shutil.which(name, path="/usr/bin") for name in ("ocamlfind", "ocamlopt", "dune")]
    library = any(re.fullmatch(r"usr/lib/(.*/)?ocaml/(.*/)?mayfly/META", name) for name in found)
    same(library, all(tools), "the OCaml library is there")
    for name in found:
        check(name.startswith("usr/"), name, "is outside of the prefix")
        check(not re.search(r"(test|bench)_|ugly|known", name), name, "should not be installed")
    for name in found:
        mode = os.stat(os.path.join(stage, name)).st_mode & 0o777
        check(mode & 0o444 == 0o444 and not mode & 0o022, name, oct(mode))


@case
def loader_learns_of_the_libraries():
    """Programs find them right after the installation. (Where the machine's own places are written to,
    only what make would do can be looked at.)"""
    text = run(["make", "-C", SOURCE, "-n", "install"]).out.decode()
    check("test -n \"\" || ! test -w /etc/ld.so.cache || /sbin/ldconfig" in text, text)


@case
def page_is_the_releases():
    """Neither npm nor node nor clang were asked for it."""
    _, prefix = install()
    folder, tree = _installed["folder"], _installed["tree"]
    prebuilt = os.path.join(tree, "viewer", "prebuilt", "viewer.html")
    if not os.path.exists(prebuilt):
        raise Skip("the page is not built, or there is no git")
    with Folder() as here:
        result = run([os.path.join(prefix, "bin", "mayfly"), "view", "--html", here / "page.html"])
        same(result.code, 0, repr(result))
        check(read(here / "page.html") == read(prebuilt).replace(b"<!-- data -->", b""), "another page")
    check(not os.path.exists(os.path.join(tree, "viewer", "node_modules")), "npm's libraries")
    targets = run(["ninja", "-C", folder / "build", "-t", "targets", "all"]).out
    check(b"viewer_page.S" in targets and b"reader.wasm" not in targets, "the page is built")


@case
def page_is_built_when_its_sources_change():
    """And stays the release's where what it is built with is missing."""
    install()
    if not os.path.exists(os.path.join(_installed["tree"], "viewer", "prebuilt")):
        raise Skip("the page is not built, or there is no git")
    folder, tree = _installed["folder"], _installed["tree"]
    with open(os.path.join(tree, "viewer", "src", "begin.ts"), "a") as file:
        file.write("// Another line.\n")
    for path, expected in ((None, b"reader.wasm"), (hidden(folder, "node"), b"is that of the release")):
        result = run(["meson", "setup", "--wipe", "-Dtests=false", "-Dbench=false", folder / "build"],
                     cwd=tree, env=environment(PATH=path or environment()["PATH"]))
        same(result.code, 0, repr(result))
        targets = run(["ninja", "-C", folder / "build", "-t", "targets", "all"]).out
        check(expected in targets + result.out, result.out.decode()[-3000:])
        check(b"viewer_page.S" in targets + read(folder / "build/build.ninja"), "no page")


def hidden(folder, name):
    """A PATH with all programs but this one."""
    os.makedirs(folder / "bin", exist_ok=True)
    for place in ("/usr/bin", "/usr/sbin"):
        for other in os.listdir(place):
            if other != name and not os.path.lexists(folder / ("bin/" + other)):
                os.symlink(os.path.join(place, other), folder / ("bin/" + other))
    return folder / "bin"


@case
def no_build_paths():
    stage, _ = install()
    for name in files_below(stage):
        with open(os.path.join(stage, name), "rb") as file:
            content = file.read()
        if name.endswith((".pc", "META", "dune-package")) or name.startswith("usr/share/man"):
            check(_installed["folder"].path.encode() not in content and SOURCE.encode() not in content,
                  name, "names the folder that it was built in")


def record_with(mayfly, trace):
    result = run([mayfly, "record", "-i", "1", "-o", trace, "--", program("ugly"), "churn", "2000"],
                 cwd="/")
    same((result.code, result.err), (0, b""), "record")
    check(info(trace)["samples"] >= 2000, "samples")
    result = run([mayfly, "report", trace])
    check(result.code == 0 and b"churn" in result.out, result)


@case
def works_from_its_prefix():
    _, prefix = install()
    with Folder() as here:
        record_with(os.path.join(prefix, "bin", "mayfly"), here / "t.mayfly")
        # And when found in PATH, or by a link.
        os.symlink(os.path.join(prefix, "bin", "mayfly"), here / "link")
        record_with(here / "link", here / "l.mayfly")
        variables = environment(PATH=os.path.join(prefix, "bin") + ":/usr/bin:/bin")
        result = run(["mayfly", "--version"], env=variables)
        check(result.code == 0 and re.match(rb"mayfly \d+\.\d+", result.out), result)


@case
def works_when_moved():
    """From the folder that it was staged in, and from the build tree."""
    stage, _ = install()
    with Folder() as here:
        shutil.copytree(stage, here / "elsewhere")
        record_with(here / "elsewhere/usr/bin/mayfly", here / "t.mayfly")
        record_with(os.path.join(BUILD, "src", "cli", "mayfly"), here / "b.mayfly")


READER = r"""
#include <mayfly/trace.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
	struct mayfly_trace *trace;
	FILE *file = argc > 1 ? fopen(argv[1], "rb") : NULL;
	char *data = (char *)malloc(1 << 26);
	size_t size = file && data ? fread(data, 1, 1 << 26, file) : 0;
	int error = mayfly_trace_open(data, size, &trace);

	if (error) {
		printf("%s\n", mayfly_error_text(error));
		return 1;
	}
	printf("%llu\n", (unsigned long long)mayfly_trace_info(trace)->samples);
	mayfly_trace_close(trace);
	free(data);
	fclose(file);
	return 0;
}
"""


@case
def readers_build_with_pkg_config():
    """A C and a C++ program against the installed library, shared and static."""
    need("pkg-config", "gcc")
    _, prefix = install()
    places = glob.glob(os.path.join(prefix, "lib", "**", "pkgconfig"), recursive=True)
    check(places, "no pkgconfig folder in", prefix)
    variables = environment(PKG_CONFIG_PATH=places[0])

    def ask(*arguments):
        result = run(["pkg-config", *arguments, "mayfly"], env=variables)
        check(result.code == 0, "pkg-config", result)
        return result.out.decode().split()

    check(re.match(r"\d+\.\d+", ask("--modversion")[0]), "version")
    with Folder() as here:
        trace = here / "t.mayfly"
        record_with(os.path.join(prefix, "bin", "mayfly"), trace)
        expected = b"%d\n" % info(trace)["samples"]
        for compiler, suffix in (("gcc", "c"), ("g++", "cc")):
            source = here / ("reader." + suffix)
            with open(source, "w") as file:
                file.write(READER)
            result = run([compiler, source, "-o", here / "reader", *ask("--cflags"),
                          *ask("--libs", "--static")])
            check(result.code == 0, compiler, result)
            result = run([here / "reader", trace],
                         env=environment(LD_LIBRARY_PATH=os.path.dirname(places[0])))
            same((result.code, result.out), (0, expected), "the reader")
            result = run([here / "reader", source],
                         env=environment(LD_LIBRARY_PATH=os.path.dirname(places[0])))
            same((result.code, result.out), (1, b"not a mayfly trace\n"), "of another file")


@case
def clean_up():
    if "folder" in _installed:
        _installed["folder"].__exit__()


if __name__ == "__main__":
    main()
