# SPDX-License-Identifier: Apache-2.0
"""How long the page of mayfly view takes in headless Chromium: opening an exact trace of clang, choosing a
range of time, and the flame graph as an SVG. The flame graph's own speed: viewer_flame.mjs."""

import json
import os
import re
import shutil
import subprocess
import time
import urllib.request

import measure

HERE = os.path.dirname(os.path.abspath(__file__))
HEADERS = ["map", "string", "vector", "regex", "iostream", "unordered_map", "functional", "algorithm",
           "thread", "future"]
SOURCE = "".join("#include <%s>\n" % name for name in HEADERS) + """int main()
{
	std::regex r("a+b*");
	std::unordered_map<int, std::function<int(int)>> f;
	f[1] = [](int x) { return x; };
	std::cout << std::async([] { return 3; }).get() << std::regex_match("aab", r) << f[1](1);
}
"""
VIEWS = ["summary", "flame", "table"]
REQUESTS = ["rows?by=function&top=50", "tree", "curve?points=400"]
SVG_BEFORE = "86 s, 17,896 boxes"


def node(script, *arguments):
    done = subprocess.run(["node", os.path.join(HERE, script), *arguments], capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(done.stderr.strip()[-300:])
    return done.stdout


def record(tools, work):
    trace, source = os.path.join(work, "clang.mayfly"), os.path.join(work, "viewer.cc")
    if not os.path.exists(trace):
        with open(source, "w") as f:
            f.write(SOURCE)
        subprocess.run([tools.mayfly, "record", "--exact", "-o", trace, "--", "clang-14", "-std=c++17", "-O2", "-c",
                        "-o", source + ".o", source], check=True, capture_output=True)
    return trace


class Server:
    """A running mayfly view; .url is its page."""

    def __init__(self, tools, trace):
        self.process = subprocess.Popen([tools.mayfly, "view", "--no-browser", trace], text=True,
                                        stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        for line in self.process.stdout:
            found = re.search(r"http://127\.0\.0\.1:\d+/[0-9a-f]+/", line)
            if found:
                self.url = found.group()
                return
        raise RuntimeError("mayfly view printed no address")

    def milliseconds(self, request):
        begin = time.monotonic()
        with urllib.request.urlopen(self.url + "ask/" + request) as answer:
            answer.read()
        return (time.monotonic() - begin) * 1e3

    def close(self):
        self.process.terminate()
        self.process.communicate()


def measure_all(tools, rounds, quick, work, progress):
    if not tools.has_mayfly() or not all(map(shutil.which, ("clang-14", "node", "chromium"))):
        return {"failed": "needs mayfly, clang-14, node and chromium"}
    progress("viewer: recording")
    trace = record(tools, work)
    facts = json.loads(subprocess.run([tools.mayfly, "info", "--json", trace], check=True,
                                      capture_output=True).stdout)
    times = ["%dns" % (facts["duration_ns"] * part) for part in (.25, .5)]
    page, alone, svg = (os.path.join(work, name) for name in ("clang.html", "page.html", "clang.svg"))
    for command in (["view", "--force", "--html", page, trace], ["view", "--force", "--html", alone],
                    ["export", "--force", "--to", "flamegraph", "-o", svg, trace]):
        subprocess.run([tools.mayfly, *command], check=True, capture_output=True)
    result = {"rounds": rounds, "blocks": facts["samples"], "page_bytes": os.path.getsize(alone),
              "trace_bytes": os.path.getsize(trace), "svg_bytes": os.path.getsize(svg), "pages": {}, "requests": {},
              "svg": []}
    server = Server(tools, trace)
    try:
        for number in range(rounds):
            progress("viewer: round %d of %d" % (number + 1, rounds))
            for view in VIEWS:
                for place, url in (("file", "file://" + page), ("served", server.url)):
                    result["pages"].setdefault("%s %s" % (place, view), []).append(
                        json.loads(node("viewer_speed.mjs", "page", url, view, *times)))
            result["svg"].append(json.loads(node("viewer_speed.mjs", "svg", "file://" + svg)))
            for request in REQUESTS:
                asked = "%s%smetric=allocated&from=%s&to=%s" % (request, "&" if "?" in request else "?", *times)
                result["requests"].setdefault(request, []).append(server.milliseconds(asked))
            result["load"] = os.getloadavg()[0]
    finally:
        server.close()
    progress("viewer: panning")
    result["panning"] = node("viewer_flame.mjs", "100000" if quick else "1000000")
    return result


def spread(values):
    return "%.0f [%.0f-%.0f]" % (measure.median(values), min(values), max(values))


def render(part, heading, table, size):
    data = part["data"]
    lines = heading("Viewer", part)
    if "failed" in data:
        return lines + ["", data["failed"], ""]
    lines += ["", "`mayfly view` of an exact trace of clang, %d allocations, %s, in headless Chromium without a GPU. The page"
              " without a trace: %s. The load average at the end was %.1f on %d CPUs%s" % (
                  data["blocks"], size(data["trace_bytes"]), size(data["page_bytes"]), data["load"], len(measure.CPUS),
                  ": **the machine was not quiet, and all times are too long.**" if data["load"] > 2.5 else "."),
              "", "Milliseconds, median [smallest-largest]: until a view is painted, and from the choice of a range (the"
              " second quarter, what was allocated) until it is painted again. *From its file* the WebAssembly in the page"
              " answers, *served* the native reader:", ""]
    rows = []
    for view in VIEWS:
        cells = [spread([one[key] for one in data["pages"]["%s %s" % (place, view)]])
                 for key in ("painted_ms", "range_ms") for place in ("file", "served")]
        rows.append([view, *cells])
    lines += table(["view", "opened from its file", "opened, served", "range, from its file", "range, served"], rows)
    lines += ["The answers to such a range by the server alone, from request to last byte:", ""]
    lines += table(["request", "ms"], [["`%s`" % name, spread(values)] for name, values in data["requests"].items()])
    lines += ["The same trace's flame graph as an SVG (%s): %d boxes, painted after %s ms; before callees below half a"
              " pixel were joined: %s (another trace of clang)." % (
                  size(data["svg_bytes"]), data["svg"][0]["boxes"], spread([one["painted_ms"] for one in data["svg"]]),
                  SVG_BEFORE),
              "", "Panning the page's flame graph (`bench/viewer_flame.mjs`):", "", "```",
              *data["panning"].strip().splitlines(), "```", ""]
    return lines
