# SPDX-License-Identifier: Apache-2.0
"""For test_python.py: keeps what it allocates. A comment "#@ NAME" gives the line a name for the test.
"""
import array
import json
import os
import sys
import threading

keep = []


class Point:
    __slots__ = ("x", "y")

    def __init__(self, x):
        self.x = x + 100000  #@ slots
        self.y = (x, self)  #@ pairs


def lists():
    keep.append([None] * 100000)  #@ list
    keep.append({i: None for i in range(40000)})  #@ dict
    keep.append([Point(i) for i in range(20000)])  #@ points


def texts():
    keep.append(b"b" * 300001)  #@ bytes
    keep.append(bytearray(200001))  #@ bytearray
    keep.append("t" * 400001)  #@ string
    keep.append(["key %d" % i for i in range(10000)])  #@ strings


def generate(n):
    for i in range(n):
        yield bytes(1000 + i)  #@ generator


def generators():
    keep.extend(list(generate(100)))
    keep.append([bytes(2000) for _ in range(100)])  #@ expression


def extensions():
    keep.append(array.array("d", [0.0]) * 30000)  #@ array
    text = json.dumps(["x" * 900 for _ in range(1000)])
    keep.append(json.loads(text))  #@ json


def numbers():
    import numpy
    keep.append(numpy.ones(100000))  #@ numpy
    keep.append(keep[-1] * 2)  #@ product


def work(n):
    keep.append(bytearray(n))  #@ threads


def threads():
    all_threads = [threading.Thread(target=work, args=(100000,)) for _ in range(4)]
    for t in all_threads:
        t.start()
    for t in all_threads:
        t.join()


def raising(depth):
    if depth:
        raising(depth - 1)
    keep.append(bytearray(50000))  #@ raising
    raise ValueError("x" * 10)


def exceptions():
    try:
        raising(50)
    except ValueError:
        keep.append(bytearray(60000))  #@ handler


def deep(n):
    if n:
        return deep(n - 1)
    keep.append(bytearray(70000))  #@ deep


def recursion():
    sys.setrecursionlimit(20000)
    deep(5000)


def forks():
    keep.append(bytearray(80000))  #@ before
    pid = os.fork()
    if pid == 0:
        keep.append(bytearray(90000))  #@ child
        os._exit(0)
    os.waitpid(pid, 0)


def executes():
    os.execv(sys.executable, [sys.executable, __file__, "texts"])


def reused():
    """Code objects that come and go in the same memory."""
    for i in range(300):
        names = {"keep": keep}
        exec(compile("\n" * i + "def f%d(): keep.append(bytearray(%d))\nf%d()\n" % (i, 2000 + i, i),
                     "made%d.py" % i, "exec"), names)
        keep[-1][0] = 1
        names.clear()


class AtExit:
    def __del__(self):
        bytearray(100000)


def finalisation():
    """Threads, objects and C code that allocate while the interpreter ends."""
    import atexit
    import ctypes
    sys.kept_for_the_end = AtExit()
    atexit.register(lambda: bytearray(100000))
    libc = ctypes.CDLL(None)
    libc.malloc.restype = ctypes.c_void_p
    libc.malloc.argtypes = [ctypes.c_size_t]

    def forever():
        while True:
            libc.free(ctypes.c_void_p(libc.malloc(5000)))
    for _ in range(3):
        threading.Thread(target=forever, daemon=True).start()
    print("leaving")


def interpreters():
    try:
        import _interpreters as module
    except ImportError:
        import _xxsubinterpreters as module
    for _ in range(3):
        number = module.create()
        getattr(module, "run_string", module.exec if hasattr(module, "exec") else None)(
            number, "import json\nx = [json.dumps([i] * 100) for i in range(200)]\n")
        module.destroy(number)
    print("done")


def main():
    for name in sys.argv[1:]:
        globals()[name]()


if __name__ == "__main__":
    main()
    if "finalisation" in sys.argv or "interpreters" in sys.argv:
        sys.exit(0)
    if os.environ.get("TRACED"):
        import tracemalloc
        taken = tracemalloc.take_snapshot().statistics("lineno")
        for s in taken:
            if s.traceback[0].filename == __file__:
                print(s.traceback[0].lineno, s.size)
    sys.stdout.flush()
    os._exit(0)
