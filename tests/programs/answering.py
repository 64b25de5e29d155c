# SPDX-License-Identifier: Apache-2.0
"""As answering.c, in Python."""
import json
import os
import sys
import threading

stop = []
wrong = []


def work(rounds):
    for i in range(rounds):
        made = [{"number": k, "text": str(k) * 3} for k in range(20)]
        view = memoryview(bytearray(range(100)))
        if json.loads(json.dumps(made)) != made or sum(view) != 4950:
            wrong.append(i)


def load():
    while not stop:
        work(2)
        threading.Event().wait(0.002)


def fork_one():
    child = os.fork()
    if not child:
        work(20)
        os._exit(1 if wrong else 7)
    if os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) != 7:
        wrong.append("child")


threads = [threading.Thread(target=load) for _ in range(3)]
for thread in threads:
    thread.start()
print("ready", flush=True)
for line in iter(sys.stdin.readline, ""):
    if line == "alive\n":
        print("alive", flush=True)
    elif line == "work\n":
        work(1000)
        print("worked", flush=True)
    elif line == "fork\n":
        fork_one()
        print("forked", flush=True)
    else:
        os.execv(sys.executable, [sys.executable, "-W", "ignore", __file__])
stop.append(1)
for thread in threads:
    thread.join()
print("wrong" if wrong else "good", flush=True)
sys.exit(23)
