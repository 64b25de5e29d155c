#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""mayfly attach records the OCaml heap of a native program that runs already (programs/ocaml_attached.ml), with
threads, and with domains where there are any. The program counts what it allocates."""
import collections
import contextlib
import functools
import json
import math
import os
import shutil
import subprocess

from harness import Folder, MAYFLY, SOURCE, Skip, cases, check, environment, info, main, rows, run, same
from attaching import need_attach, recorder_of
from ocaml_tools import ocaml_version

LIST = 300 * 24  # bytes of one
SPAWN = {
    "threads": "let spawn f = Thread.create f () let join = Thread.join",
    "domains": "let spawn = Domain.spawn let join = Domain.join",
}
KINDS = ["threads", "domains"]
SAMPLE = 8 / 1e-5  # the bytes for each, on average
SURE = 4.5  # standard errors
folder = Folder()
folder.__enter__()


@functools.lru_cache(maxsize=None)
def program(kind):
    need_attach()
    if kind == "domains" and ocaml_version() < (5, 3):
        raise Skip("this OCaml is %d.%d; domains came with 5" % ocaml_version())
    ocaml_version()
    here = os.path.join(folder.path, kind)
    os.mkdir(here)
    shutil.copy(os.path.join(SOURCE, "tests", "programs", "ocaml_attached.ml"), here)
    with open(os.path.join(here, "spawn.ml"), "w") as file:
        file.write(SPAWN[kind])
    done = run(["ocamlfind", "ocamlopt", "-g", "-thread", "-package", "threads.posix", "-linkpkg", "spawn.ml",
                "ocaml_attached.ml", "-o", "attached"], cwd=here)
    same(done.code, 0, done)
    return os.path.join(here, "attached")


class Running:
    def __init__(self, process):
        self.process = process
        same(self.line(), "ready")

    def line(self):
        return self.process.stdout.readline().decode().strip()

    def ask(self, text):
        self.process.stdin.write(text.encode() + b"\n")
        self.process.stdin.flush()
        return self.line()

    def number(self, text):
        return int(self.ask(text))


@contextlib.contextmanager
def running(kind, workers=2, prefix=()):
    command = [*prefix, program(kind), str(workers)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment()) as process:
        try:
            p = Running(process)
            yield p
            process.stdin.close()
            same((p.line(), process.wait()), ("right", 0))
        except BaseException:
            process.kill()
            raise


@contextlib.contextmanager
def attached(p, trace, *options):
    recorder = recorder_of(p.process, "-q", "--force", "-o", trace, *options)
    check(recorder.poll() is None, "attach", recorder.poll())
    try:
        yield
    except BaseException:
        recorder.kill()
        raise
    done = run([MAYFLY, "detach", str(p.process.pid)])
    same((done.code, recorder.wait()), (0, 0), (done, recorder.stderr.read()))


def allocated(trace):
    """What was allocated by lists, and the number of samples."""
    row = rows(trace, "--heap", "ocaml", "--metric", "allocated", "--all").get("Ocaml_attached.build")
    return (row["self"]["bytes"]["estimate"], row["self"]["samples"]) if row else (0, 0)


def agrees(estimate, truth, what):
    z = (estimate - truth) / math.sqrt(truth * SAMPLE)
    check(abs(z) < SURE, what, "estimate", estimate, "true", truth, "z", z)


def status(p):
    return json.loads(run([MAYFLY, "ctl", "--json", str(p.process.pid), "status"]).out)


# The workers wait when mayfly attaches, and go on from a system call.
@cases(KINDS)
def as_much_as_there_was(kind):
    lists, rounds, trace = 20000, 4, folder / "t.mayfly"
    with running(kind) as p:
        p.ask("work 100")
        total = 0
        for _ in range(rounds):
            before = p.number("count")
            with attached(p, trace):
                same(status(p)["ocaml_rate"], 1e-5)
                after = p.number("work %d" % lists)
            p.ask("work 3000")  # in no recording
            estimate = allocated(trace)[0]
            agrees(estimate, (after - before) * LIST, "one attachment")
            total += estimate
        agrees(total, rounds * 2 * lists * LIST, "all attachments")
    # The same under mayfly record, to which the same holds.
    with running(kind, prefix=[MAYFLY, "record", "-q", "--force", "-o", trace]) as p:
        p.ask("work %d" % (rounds * lists))
    agrees(allocated(trace)[0], rounds * 2 * lists * LIST, "mayfly record")


# They make no system call meanwhile.
@cases(KINDS)
def while_it_computes(kind):
    trace = folder / "t.mayfly"
    with running(kind) as p:
        before = p.number("run")
        with attached(p, trace):
            first = p.number("count")
            while p.number("count") < first + 40000:
                pass
            last = p.number("count")
        after = p.number("stop")
    # A minor heap has 2 MiB; the first of a domain that computes is not seen.
    least, most, unseen = (last - first) * LIST, (after - before) * LIST, 2 * 3 * (2 << 20)
    estimate = allocated(trace)[0]
    check(least - unseen - SURE * math.sqrt(least * SAMPLE) < estimate < most + SURE * math.sqrt(most * SAMPLE),
          "estimate", estimate, "of", least, "to", most)
    at = collections.Counter(e["tid"] for e in events(trace) if e["event"] == "alloc" and e["heap"] == "ocaml-minor")
    check(len([thread for thread in at if at[thread] > 5]) == 2, "samples of each thread", at)


def events(trace):
    return [json.loads(line) for line in run([MAYFLY, "dump", "--json", trace]).out.splitlines()]


# Another rate than the attachment before: the sampler is started anew in each domain, of several after collections.
@cases(KINDS)
def every_block(kind):
    trace, first = folder / "t.mayfly", 1500 if kind == "domains" else 1
    with running(kind) as p:
        for rate in ("sampled", "exact", "sampled", "exact"):
            with attached(p, trace, *(["-x"] if rate == "exact" else [])):
                p.ask("work %d" % first)
                p.ask("work 2000")
            if rate == "exact":
                same(info(trace)["ocaml_rate"], 1.0)
                seen = allocated(trace)[0]
                check(4000 * LIST <= seen <= (4000 + 2 * first) * LIST, "bytes", seen)


@cases(KINDS)
def fifty_times_under_load(kind):
    trace, with_samples = folder / "t.mayfly", 0
    with running(kind, 3) as p:
        p.number("run")
        for _ in range(50):
            same(run([MAYFLY, "attach", "-q", "--force", "--for", "50ms", "-o", trace, str(p.process.pid)]).code, 0)
            with_samples += allocated(trace)[1] > 0
        p.number("stop")
        p.ask("sample")
    check(with_samples >= 10, "attachments with OCaml blocks", with_samples)


# The runtime has one sampler, which the program gets when it wants it.
@cases(KINDS)
def the_program_samples(kind):
    trace = folder / "t.mayfly"
    with running(kind) as p:
        with attached(p, trace):
            p.ask("work 2000")
            same([p.ask("sample"), p.ask("sample")], ["sampled", "sampled"])
            p.ask("work 20000")
        check("uses Gc.Memprof itself" in info(trace)["note"], info(trace)["note"])
        check(allocated(trace)[0] < 12000 * LIST, "recorded after that", allocated(trace))
        with attached(p, trace):
            same(p.ask("sample"), "sampled")
        check("not recorded" in info(trace)["note"], info(trace)["note"])


if __name__ == "__main__":
    main()
