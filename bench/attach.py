# SPDX-License-Identifier: Apache-2.0
"""How long redis-server's event loop stands still while `mayfly attach` and `mayfly detach` work."""

import os
import shutil
import socket
import subprocess
import threading
import time

import measure

AFTER_S = 0.1  # a stop may still be seen by a request that was on its way


class Pings(threading.Thread):
    """Asks the server over and over; keeps when each answer came, and after how long."""

    def __init__(self, port):
        super().__init__(daemon=True)
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.answers, self.go_on = [], True

    def run(self):
        try:
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), -10)
        except PermissionError:
            pass
        while self.go_on:
            begun = time.monotonic()
            self.socket.sendall(b"PING\r\n")
            if not self.socket.recv(64):
                return
            now = time.monotonic()
            self.answers.append((now, now - begun))
            time.sleep(0.0005)

    def longest_ms(self, begin, end):
        return 1e3 * max(took for when, took in list(self.answers) if begin <= when and when - took <= end)


def during(pings, work):
    begin = time.monotonic()
    work()
    end = time.monotonic() + AFTER_S
    time.sleep(2 * AFTER_S)
    return pings.longest_ms(begin, end)


def cycles(tools, rounds, server, port, work, progress, label):
    trace = os.path.join(work, "attached.mayfly")
    found = {"attach": [], "detach": [], "neither": []}
    pings = Pings(port)
    pings.start()

    def mayfly(*words):
        subprocess.run([tools.mayfly, *words], check=True, stdout=subprocess.DEVNULL)

    for number in range(rounds):
        progress("attach: %s, round %d of %d" % (label, number + 1, rounds))
        recorder = []

        def attach():
            recorder.append(subprocess.Popen([tools.mayfly, "attach", "-q", "--force", "-o", trace, str(server.pid)]))
            while recorder[0].poll() is None and subprocess.run(
                    [tools.mayfly, "ctl", str(server.pid), "status"], stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL).returncode:
                time.sleep(0.01)

        found["attach"].append(during(pings, attach))
        found["detach"].append(during(pings, lambda: mayfly("detach", str(server.pid))))
        if recorder[0].wait():
            raise RuntimeError("mayfly attach: exit status %d" % recorder[0].returncode)
        found["neither"].append(during(pings, lambda: time.sleep(0.05)))
    pings.go_on = False
    pings.join()
    return found


def measure_all(tools, rounds, quick, work, progress):
    if not shutil.which("redis-server") or not shutil.which("redis-benchmark"):
        return {"rounds": 0, "failed": "redis-server and redis-benchmark are missing."}
    with socket.socket() as chosen:
        chosen.bind(("127.0.0.1", 0))
        port = chosen.getsockname()[1]
    result = {"rounds": rounds, "loads": {}}
    server = subprocess.Popen(["redis-server", "--port", str(port), "--save", "", "--appendonly", "no"],
                              stdout=subprocess.DEVNULL, cwd=work)
    load = None
    try:
        while True:
            try:
                socket.create_connection(("127.0.0.1", port)).close()
                break
            except ConnectionRefusedError:
                time.sleep(0.05)
        result["loads"]["one client"] = cycles(tools, rounds, server, port, work, progress, "one client")
        load = subprocess.Popen(["redis-benchmark", "-p", str(port), "-c", "20", "-q", "-l", "-t", "set,lpush", "-d", "100"],
                                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(1)
        result["loads"]["redis-benchmark, 20 clients"] = cycles(tools, rounds, server, port, work, progress,
                                                                "20 clients")
    except RuntimeError as problem:
        result["failed"] = str(problem)
    finally:
        for process in (load, server):
            if process:
                process.kill()
                process.wait()
    return result


def render(part, heading, table):
    data = part["data"]
    lines = heading("Attach", part)
    if "failed" in data:
        return lines + ["", data["failed"], ""]
    rows = []
    for label, found in data["loads"].items():
        for what, values in found.items():
            ranked = sorted(values)
            rows.append([label + ", " + what, "%.1f" % measure.median(ranked),
                         "%.1f" % ranked[int(0.95 * (len(ranked) - 1))], "%.1f" % ranked[-1]])
    return lines + ["", "The longest time that a PING to redis-server took while `mayfly attach` or `mayfly detach` worked, "
                    "or neither, in milliseconds. Two CPUs for everything: the server, its load, and mayfly.", ""] + \
        table(["", "median", "95 of 100", "longest"], rows)
