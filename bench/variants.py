# SPDX-License-Identifier: Apache-2.0
"""The ways in which a program is run: alone, with mayfly, with each peer."""

import glob
import os
import shutil

INTERVAL = "512K"
INTERVAL_LOG2 = 19


def library(name):
    for folder in ("/usr/lib/*-linux-gnu", "/usr/lib64", "/usr/lib", "/usr/local/lib"):
        for path in sorted(glob.glob(os.path.join(folder, name))):
            return path
    return None


class Variant:
    """base: the variant that this one is compared with. wraps: a helper process runs beside the
    program, so the measured CPU includes it and the run is not pinned to one CPU. file: pattern of
    the output file, in the work folder."""

    def __init__(self, name, label, base, env=None, wrap=None, missing=None, file=None, rounds=None):
        self.name = name
        self.label = label
        self.base = base
        self.env = env or (lambda work: {})
        self.wrap = wrap or (lambda command, work: command)
        self.wraps = wrap is not None
        self.missing = missing
        self.file = file
        self.rounds = rounds


class Tools:
    """Where everything is. A tool that is not there makes its variants say so."""

    def __init__(self, build):
        self.build = build
        self.mayfly = os.path.join(build, "src", "cli", "mayfly")
        self.agent = os.path.join(build, "src", "agent", "libmayfly.so")
        self.spawn = os.path.join(build, "bench", "bench_spawn")
        self.forward = os.path.join(build, "bench", "forward_preload.so")
        self.jemalloc = library("libjemalloc.so.2")
        self.tcmalloc = library("libtcmalloc.so.4")
        self.heaptrack = shutil.which("heaptrack")
        self.heaptrack_print = shutil.which("heaptrack_print")
        self.heaptrack_preload = library("heaptrack/libheaptrack_preload.so")

    def program(self, name):
        return os.path.join(self.build, "bench", name)

    def has_mayfly(self):
        return os.path.exists(self.mayfly) and os.path.exists(self.agent)

    def agent_variant(self, name, label, options, base="native"):
        return Variant(
            name, label, base, missing=None if os.path.exists(self.agent) else "not built",
            env=lambda work: {"LD_PRELOAD": self.agent, "MAYFLY": "output=%s,%s" % (
                os.path.join(work, name + ".%p.spool"), options)},
            file=name + ".*.spool")

    def peers(self, prefix):
        """jemalloc and tcmalloc with and without their profilers, heaptrack in the process."""
        def needs(path):
            return None if path else "not installed"
        prof = "prof:true,prof_final:true,lg_prof_sample:%d,prof_prefix:%s"
        return [
            Variant("jemalloc", "jemalloc", "native", missing=needs(self.jemalloc),
                    env=lambda work: {"LD_PRELOAD": self.jemalloc}),
            Variant("jemalloc-prof", "jemalloc prof, 512 KiB", "jemalloc",
                    missing=needs(self.jemalloc), file="je.*.heap",
                    env=lambda work: {"LD_PRELOAD": self.jemalloc, "MALLOC_CONF": prof % (
                        INTERVAL_LOG2, os.path.join(work, "je"))}),
            Variant("tcmalloc", "tcmalloc", "native", missing=needs(self.tcmalloc),
                    env=lambda work: {"LD_PRELOAD": self.tcmalloc}),
            Variant("tcmalloc-sampling", "tcmalloc sampling, 512 KiB", "tcmalloc",
                    missing=needs(self.tcmalloc),
                    env=lambda work: {"LD_PRELOAD": self.tcmalloc,
                                      "TCMALLOC_SAMPLE_PARAMETER": str(1 << INTERVAL_LOG2)}),
            Variant("heaptrack-in-process", "heaptrack, in the process", "native",
                    missing=needs(self.heaptrack_preload), file="ht.raw", rounds=prefix,
                    env=lambda work: {"LD_PRELOAD": self.heaptrack_preload,
                                      "DUMP_HEAPTRACK_OUTPUT": os.path.join(work, "ht.raw")}),
        ]

    def micro(self):
        native = Variant("native", "native", None)
        forward = Variant("forward", "forwarding preload", "native",
                          missing=None if os.path.exists(self.forward) else "not built",
                          env=lambda work: {"LD_PRELOAD": self.forward})
        return [native, forward,
                self.agent_variant("mayfly-dormant", "mayfly, dormant", "start=dormant", "forward"),
                self.agent_variant("mayfly", "mayfly, 512 KiB", "interval=" + INTERVAL, "forward"),
                ] + self.peers(None)

    def macro(self, heaptrack_rounds):
        """native stands twice: the second is compared with the first, which shows the noise."""
        without_mayfly = None if self.has_mayfly() else "not built"
        return [
            Variant("native", "native", None),
            self.agent_variant("mayfly", "mayfly, in the process", "interval=" + INTERVAL),
            Variant("native-again", "native again", "native"),
            Variant("mayfly-record", "mayfly record", "native", missing=without_mayfly,
                    file="record.mayfly",
                    wrap=lambda command, work: [self.mayfly, "record", "-i", INTERVAL, "-o",
                                                os.path.join(work, "record.mayfly"), "--"] + command),
        ] + self.peers(heaptrack_rounds) + [
            Variant("heaptrack", "heaptrack", "native", file="ht.full.*", rounds=heaptrack_rounds,
                    missing=None if self.heaptrack else "not installed",
                    wrap=lambda command, work: [self.heaptrack, "-o",
                                                os.path.join(work, "ht.full")] + command),
        ]
