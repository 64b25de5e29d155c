#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Whatever happens to a recording that mayfly attach has begun, the program runs on, with the right data, and can be
attached to again: programs under load (programs/answering.*) x what happens. MAYFLY_ROUNDS rounds of each."""
import glob
import os
import random
import shutil

from harness import TIMEOUT, Folder, Skip, cases, check, info, main, need, program, run, same
from attaching import EXACT, SAMPLED, Subject, need_attach, source

ROUNDS = int(os.environ.get("MAYFLY_ROUNDS", "1"))
PRECIOUS = b"not a spool\n" * 1000


# ---- the programs ----

def python(version):
    """The command for a Python of this version that the machine has."""
    name = "python" + version
    places = ["/usr/bin/" + name, "/usr/local/bin/" + name,
              *glob.glob(os.path.expanduser("~/.pyenv/versions/%s*/bin/%s" % (version, name)))]
    found = [place for place in places if os.path.exists(place)]
    if not found:
        raise Skip("there is no " + name)
    return [found[0], "-S", "-W", "ignore", source("answering.py")]


def ocaml(here):
    need("ocamlfind")
    shutil.copy(source("answering.ml"), here / "answering.ml")
    done = run(["ocamlfind", "ocamlopt", "-thread", "-package", "threads.posix,unix", "-linkpkg", "-o", here / "answering",
                here / "answering.ml"])
    same(done.code, 0, done)
    return [here / "answering"]


def node(_):
    need("node")
    return ["node", source("answering.js")]


def java(here):
    need("java", "javac")
    same(run(["javac", "-d", here / "classes", source("Answering.java")]).code, 0, "javac")
    return ["java", "-cp", here / "classes", "Answering"]


PROGRAMS = {
    "C": lambda _: [program("answering")],
    "C++": lambda _: [program("answering_cxx")],
    "python3.11": lambda _: python("3.11"),
    "python3.12": lambda _: python("3.12"),
    "python3.13": lambda _: python("3.13"),
    "ocaml": ocaml,
    "node": node,
    "java": java,
}
NO_EXEC = ("node", "java")


# ---- what happens; afterwards the program is attached to again ----

def recorder_killed(s):
    s.attach()
    s.kill_recorder()
    s.work()


def recorder_killed_and_spool_removed(s):
    """The program goes on until the agent has found out."""
    s.attach(EXACT)
    s.lose_recorder(os.unlink, 40)  # node and java allocate too little with malloc


def spool_removed(s):
    s.attach()
    os.unlink(s.spool())
    s.work(3)
    s.let_go()
    info(s.trace)


def spool_replaced(s):
    s.attach()
    s.precious = s.spool()
    with open(s.here / "precious", "wb") as file:
        file.write(PRECIOUS)
    os.rename(s.here / "precious", s.spool())
    s.work(3)
    s.let_go()
    info(s.trace)


def spool_truncated(s):
    """The recorder ends by itself."""
    s.attach()
    os.truncate(s.spool(), 0)
    s.work(3)
    err = s.recorder.communicate(timeout=TIMEOUT)[1]
    check(s.recorder.returncode in (0, 1) and err.count(b"\n") == 1 and b"emptied" in err, s.recorder.returncode, err)
    s.recorder = None


def disk_full(s):
    folder = s.here / "small"
    os.makedirs(folder, exist_ok=True)
    if run(["mount", "-t", "tmpfs", "-o", "size=24m", "none", folder]).code:
        print("# no file system can be mounted here: no full disk")
        return
    try:
        s.attach(EXACT, folder)
        with open(os.path.join(folder, "filler"), "wb", buffering=0) as file:
            try:
                while file.write(b"x" * 65536) == 65536:
                    pass
            except OSError:
                pass
        s.work(5)
        s.let_go()
        s.attach_again()
    finally:
        run(["umount", "-l", folder])


def detached(s):
    s.attach()
    s.work()
    s.let_go()
    check(s.mayfly("detach").code, "detach of what is not recorded")


def second_attach(s):
    s.attach()
    done = s.mayfly("attach", "-o", s.new_trace())
    check(done.code == 1 and b"already being recorded" in done.err, done)
    trace = s.trace
    s.let_go()
    info(trace)


def attach_by_force(s):
    """It must not take the files of a recording that goes on."""
    s.attach()
    done = s.mayfly("attach", "--force", "-o", s.trace)
    check(done.code == 1 and b"already being recorded" in done.err, done)
    trace = s.trace
    s.let_go()
    info(trace)


def recorder_killed_and_attach_by_force(s):
    s.attach()
    s.kill_recorder()
    s.work()
    done = s.mayfly("attach", "-q", "--force", "--for", "50ms", "-o", s.trace)
    same((done.code, done.err.count(b"\n")), (0, 1), done)
    info(s.trace)


def forks_meanwhile(s):
    s.attach()
    s.ask("fork", "forked")
    s.kill_recorder()
    s.ask("fork", "forked")


EVENTS = [recorder_killed, recorder_killed_and_spool_removed, spool_removed, spool_replaced, spool_truncated,
          disk_full, detached, second_attach, attach_by_force, recorder_killed_and_attach_by_force, forks_meanwhile]


def one_event(s, event):
    event(s)
    s.ask("alive", "alive")
    s.let_go()
    s.attach_again()
    s.ask("alive", "alive")
    if s.precious:
        with open(s.precious, "rb") as file:
            same(file.read(), PRECIOUS, "the file that had the spool's name")
        os.unlink(s.precious)
        s.precious = None


def exec_meanwhile(s, lost):
    """The recording goes on in the next program; its recorder, then, ends or dies."""
    s.attach()
    s.ask("exec", "ready")
    s.work()
    if lost:
        s.kill_recorder()
        same(s.mayfly("detach").code, 0)
    s.let_go()
    s.ask("alive", "alive")


@cases(list(PROGRAMS))
def whatever_happens(name):
    need_attach()
    # In another order each time, the same one for each run of this test.
    chance = random.Random(name)
    with Folder() as here:
        s = Subject(PROGRAMS[name](here), here)
        done = []
        try:
            s.start()
            for number in range(ROUNDS):
                for event in chance.sample(EVENTS, len(EVENTS)):
                    s.mode = chance.choice([EXACT, SAMPLED])
                    done.append("%s %s" % (event.__name__, s.mode[0]))
                    one_event(s, event)
                if name not in NO_EXEC:
                    s.mode = chance.choice([EXACT, SAMPLED])
                    done.append("exec_meanwhile %s" % s.mode[0])
                    exec_meanwhile(s, number % 2)
                    s.finish()
                    s.start()
                for file in here.files("t*"):
                    os.unlink(file)
            s.finish()
        except AssertionError as error:
            raise AssertionError("%s\nafter: %s" % (error, ", ".join(done))) from error
        finally:
            s.stop()


if __name__ == "__main__":
    main()
