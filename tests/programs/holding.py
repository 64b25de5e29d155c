# SPDX-License-Identifier: Apache-2.0
"""holding.py: objects held by a module, a class, a closure and a function that runs, in a thread; says their sizes."""
import gc
import json
import sys
import threading


class Order:
    def __init__(self, number):
        self.items = [number * 1000 + i for i in range(5)]
        self.note = bytes(100 + number % 50)


class Slotted:
    __slots__ = ("value",)

    def __init__(self, value):
        self.value = value


class Registry:
    known = {}


def size_of(*objects):
    """As many bytes as Python's allocator gives: it rounds up to 16."""
    return sum((sys.getsizeof(o) + 15) // 16 * 16 for o in objects)


CACHE = {i: Order(i) for i in range(20000)}
SLOTTED = [Slotted(float(i)) for i in range(5000)]
Registry.known = {i: "x" * 50 + str(i) for i in range(1000, 30000)}


def make_counter():
    seen = {float(i) for i in range(8000)}

    def count():
        return len(seen)
    return count


counter = make_counter()


def work(ready, end):
    rows = [(float(i), str(i) * 3) for i in range(1000, 9000)]
    ready.set()
    end.wait()
    return rows


def main():
    ready, end = threading.Event(), threading.Event()
    thread = threading.Thread(target=work, args=(ready, end))
    thread.start()
    ready.wait()
    gc.collect()
    truth = {
        "orders": len(CACHE),
        "cache": sum(size_of(o.note, o.items) for o in CACHE.values()),
        "known_count": len(Registry.known),
        "known": size_of(*Registry.known.values()),
        "known_table": sys.getsizeof(Registry.known),
        "numbers": size_of(*Registry.known),
        "slotted": len(SLOTTED),
    }
    sys.stdout.write(json.dumps(truth) + "\n")
    sys.stdout.flush()
    sys.stdin.read()
    end.set()
    thread.join()


main()
