# SPDX-License-Identifier: Apache-2.0
"""Many processes, each with an exact trace of its own: a C++ build, and short programs one after the other."""

import os
import random
import shutil

import measure

UNIT = """#include <algorithm>
#include <map>
#include <string>
#include <vector>

"""
FUNCTION = """struct state_%(name)s {
	std::map<std::string, std::vector<int>> seen;
};

int work_%(name)s(state_%(name)s &s, int n)
{
	std::vector<int> v(n);
	for (int i = 0; i < n; i++)
		v[i] = i * %(factor)d %% 17;
	std::sort(v.begin(), v.end());
	s.seen[std::to_string(n)] = v;
	return (int)s.seen.size() + v[n / 2];
}

"""
MAKEFILE = """OBJECTS := $(patsubst %.cc,%.o,$(wildcard *.cc))
program: $(OBJECTS)
	$(CXX) -o $@ $^
%.o: %.cc
	$(CXX) -O1 -c -o $@ $<
"""
NATIVE, RECORDED = "native", "`mayfly record -f -x`"


def write_project(folder, units):
    numbers = random.Random(5)
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    texts = {"Makefile": MAKEFILE, "main.cc": "int main() { return 0; }\n"}
    for unit in range(units):
        texts["unit%d.cc" % unit] = UNIT + "".join(
            FUNCTION % {"name": "%d_%d" % (unit, i), "factor": numbers.randrange(1, 99)} for i in range(6))
    for name, text in texts.items():
        with open(os.path.join(folder, name), "w") as f:
            f.write(text)


def measure_program(tools, command, rounds, work, prepare, progress, label):
    """For each variant the runs, one a round. All traces stay until the end: for up to five minutes ext4 passes
    over the inodes of deleted files, one by one, whenever it makes a new file, so a run after the deletion of a
    thousand traces costs more than the one before."""
    traces = os.path.join(work, "traces")
    shutil.rmtree(traces, ignore_errors=True)
    runs = {NATIVE: [], RECORDED: []}
    for number in range(rounds):
        for variant in measure.rotated(list(runs), number):
            progress("processes: %s, round %d of %d" % (label, number + 1, rounds))
            prepare()
            folder = os.path.join(traces, str(number))
            os.makedirs(folder, exist_ok=True)
            record = [tools.mayfly, "record", "-q", "-f", "-x", "-o", os.path.join(folder, "t.mayfly"), "--"]
            run = measure.Process(tools.spawn, (record if variant == RECORDED else []) + command, {},
                                  measure.CPUS, work).finish()
            if run["status"]:
                raise RuntimeError("%s, %s: %s" % (label, variant, run["complaint"]))
            runs[variant].append({key: run[key] for key in ("cpu_s", "foreign")})
    shutil.rmtree(traces, ignore_errors=True)
    return runs


def measure_all(tools, rounds, quick, work, progress):
    units, short = (4, 100) if quick else (50, 1000)
    project = os.path.join(work, "project")
    loop = ["bash", "-c", "for i in $(seq %d); do /usr/bin/expr $i + 1; done" % short]
    result = {"rounds": rounds, "units": units, "short": short}
    try:
        result["build"] = measure_program(tools, ["make", "-s", "-j2", "-C", project], rounds, work,
                                          lambda: write_project(project, units), progress, "make")
        result["loop"] = measure_program(tools, loop, rounds, work, lambda: None, progress, "expr")
    except RuntimeError as problem:
        result["failed"] = str(problem)
    shutil.rmtree(project, ignore_errors=True)
    return result


def render(part, heading, table, spread, quiet):
    data = part["data"]
    lines = heading("Many processes", part)
    if "failed" in data:
        return lines + ["", data["failed"], ""]
    programs = [("`make -j2` of %d C++ files" % data["units"], data["build"]),
                ("%d times `/usr/bin/expr` from bash" % data["short"], data["loop"])]
    rows = []
    for label, runs in programs:
        pairs = list(zip(*[[run["cpu_s"] for run in runs[variant]] for variant in (NATIVE, RECORDED)]))
        rows.append([label, "%.2f" % measure.median([native for native, _ in pairs]),
                     spread([recorded / native for native, recorded in pairs]),
                     "%.2f" % (measure.median([recorded - native for native, recorded in pairs]) * 1e3 / data["short"])
                     if runs is data["loop"] else ""])
    return lines + [quiet([run["foreign"] for _, runs in programs for each in runs.values() for run in each]), "",
                    "CPU time of all processes and the recorder, every allocation recorded, a trace for each process.",
                    ""] + table(["", "native, s", "recorded / native", "ms added per process"], rows)
