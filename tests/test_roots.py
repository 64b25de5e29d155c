#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""scripts/test-on with stand-ins for the programs that make and enter a root: what it says when it
cannot, and which roots it uses again."""
import os
import shutil
import signal
import subprocess
import sys

from harness import Folder, SOURCE, Skip, case, check, main, run, same, wait_until

# unshare's stand-in runs nothing in the root. $INSIDE says what it does instead; the root's folder is
# $ROOT.
PROGRAMS = {
    "id": "echo ${USER_ID-0}",
    "mmdebstrap": 'echo made >>"$LOG"; for last; do folder=$root; root=$last; done; mkdir -p "$folder"; $MAKING',
    "unshare": '[ $# = 2 ] && exec ${MOUNTS-true}; echo entered >>"$LOG"; eval "${INSIDE-true}"',
}

# chroot's stand-in where unshare is the real one: waits until a process that lost its parent is gone.
ORPHAN = """#!/usr/bin/python3
import os, subprocess, time
pid = int(subprocess.check_output(["sh", "-c", "sleep 0.1 >/dev/null & echo $!"]))
while True:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        break
    time.sleep(0.01)
raise SystemExit(5)
"""


class Tree:
    """A source tree with nothing in it but scripts/test-on."""

    def __init__(self, here):
        self.log = here / "log"
        self.root = here / "roots/trixie"
        os.makedirs(here / "tree/scripts")
        os.mkdir(here / "bin")
        self.script = shutil.copy(os.path.join(SOURCE, "scripts", "test-on"), here / "tree/scripts")
        with open(here / "tree/scripts/setup", "w", encoding="ascii") as file:
            file.write("#!/bin/sh\nexit 0\n")
        os.chmod(here / "tree/scripts/setup", 0o755)
        with open(here / "tree/file", "w", encoding="ascii") as file:
            file.write("of the tree\n")
        for name, text in PROGRAMS.items():
            with open(here / "bin/" + name, "w", encoding="ascii") as file:
                file.write("#!/bin/sh\n%s\n" % text)
            os.chmod(here / "bin/" + name, 0o755)
        self.environment = dict(os.environ, PATH="%s:/usr/bin:/bin" % (here / "bin"), LOG=self.log,
                                MAYFLY_ROOTS=here / "roots", ROOT=self.root)
        self.environment.pop("MAYFLY_TEST_ON", None)

    def run(self, *arguments, **variables):
        """How it ended, and what was done: made (a root), entered (it)."""
        open(self.log, "w", encoding="ascii").close()
        done = run(["sh", self.script, *arguments], env=dict(self.environment, **variables))
        with open(self.log, encoding="ascii") as file:
            return done, file.read().split()


def refused(done, steps, *words):
    same((done.code, steps), (77, []), done)
    for word in words:
        check(word in done.err, word, done)


@case
def says_why_not():
    """One line and exit status 77 where there can be no root; nothing is left."""
    with Folder() as here:
        tree = Tree(here)
        refused(*tree.run("trixie", USER_ID="1000"), b"root rights")
        refused(*tree.run("trixie", MOUNTS="false"), b"mounts")
        refused(*tree.run("trixie", MAYFLY_TEST_ON="noble"), b"already a root")
        done, steps = tree.run("trixie", MAKING="false")
        same((done.code, steps), (77, ["made"]), done)
        check(b"cannot make a root for trixie from http" in done.err, done)
        same(os.listdir(here / "roots"), ["trixie.lock"], "roots")
        done, steps = tree.run("sarge")
        same((done.code, steps), (2, []), done)


@case
def a_root_is_used_again():
    """Until it is too old; a new one that cannot be had does not cost the old one."""
    with Folder() as here:
        tree = Tree(here)
        done, steps = tree.run("trixie", "cli")
        same((done.code, steps), (0, ["made", "entered"]), done)
        check(os.path.exists(tree.root + "/src/mayfly/file"), "no copy of the tree")
        open(tree.root + "/src/mayfly/gone", "w", encoding="ascii").close()
        os.mkdir(tree.root + "/src/mayfly/build")
        done, steps = tree.run("trixie", "cli", INSIDE="exit 3")
        same((done.code, steps), (3, ["entered"]), done)
        same(sorted(os.listdir(tree.root + "/src/mayfly")), ["build", "file", "run", "scripts"], "copy")
        refused_later, steps = tree.run("trixie", MAYFLY_ROOT_DAYS="-1", MAKING="false")
        same((refused_later.code, steps), (77, ["made"]), refused_later)
        done, steps = tree.run("trixie")
        same((done.code, steps), (0, ["entered"]), done)
        done, steps = tree.run("trixie", MAYFLY_ROOT_DAYS="-1")
        same((done.code, steps), (0, ["made", "entered"]), done)


@case
def another_tree_is_built_anew():
    """What was built there from one tree may be newer than the files of another: these count as changed."""
    with Folder() as here:
        tree = Tree(here)
        old = 1_000_000_000
        os.utime(here / "tree/file", (old, old))
        copy = tree.root + "/src/mayfly/file"
        tree.run("trixie")
        check(os.stat(copy).st_mtime > old, "the first tree's time")
        tree.run("trixie")
        same(os.stat(copy).st_mtime, old, "the same tree keeps its times")
        shutil.copytree(here / "tree", here / "other")
        same(run(["sh", here / "other/scripts/test-on", "trixie"], env=tree.environment).code, 0)
        check(os.stat(copy).st_mtime > old, "another tree's time")


@case
def half_installed():
    """A root in which packages were being installed when the run ended is made again."""
    with Folder() as here:
        tree = Tree(here)
        same(tree.run("trixie", INSIDE='touch "$ROOT/installing"; exit 77')[1], ["made", "entered"])
        same(tree.run("trixie")[1], ["made", "entered"])
        same(tree.run("trixie")[1], ["entered"])


@case
def signals():
    """SIGINT, SIGTERM, and the end of the script alone, end what runs in the root."""
    for number, code in ((signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGKILL, -9)):
        with Folder() as here:
            tree = Tree(here)
            process = subprocess.Popen(
                ["sh", tree.script, "trixie"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                env=dict(tree.environment, INSIDE='echo $$ >"$ROOT/pid.new"; '
                         'mv "$ROOT/pid.new" "$ROOT/pid"; exec sleep 100000'))
            wait_until(lambda: os.path.exists(tree.root + "/pid"), "the root being entered")
            with open(tree.root + "/pid", encoding="ascii") as file:
                inner = int(file.read())
            process.send_signal(number)
            same(process.wait(), code, "exit status")
            wait_until(lambda: not os.path.exists("/proc/%d" % inner), "the end of what ran in the root")


@case
def orphans():
    """A process in the root whose parent has ended does not stay as a zombie."""
    enter = ["unshare", "--mount", "--fork", "--pid", "--kill-child"]
    if os.geteuid() != 0 or run([*enter, "true"]).code != 0:
        raise Skip("needs root and namespaces")
    with Folder() as here:
        tree = Tree(here)
        os.unlink(here / "bin/unshare")
        for name, text in ("mount", "#!/bin/sh\n"), ("chroot", ORPHAN):
            with open(here / "bin/" + name, "w", encoding="ascii") as file:
                file.write(text)
            os.chmod(here / "bin/" + name, 0o755)
        done, _ = tree.run("trixie")
        same(done.code, 5, done)


if __name__ == "__main__":
    sys.exit(main())
