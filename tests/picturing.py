# SPDX-License-Identifier: Apache-2.0
"""What the tests of mayfly heap share."""
import contextlib
import json
import subprocess

from harness import MAYFLY, environment, run, same


@contextlib.contextmanager
def started(*command, preexec_fn=None, stderr=None, **changes):
    """A program that says a line when it is ready and ends when its standard input does."""
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr,
                          preexec_fn=preexec_fn, env=environment(**changes)) as process:
        try:
            process.said = process.stdout.readline()
            yield process
            process.stdin.close()
            process.rest = process.stdout.read()
            same(process.wait(), 0, "the program's exit status")
        except BaseException:
            process.kill()
            raise


def heap(what, *options):
    done = run([MAYFLY, "heap", "--json", *options, str(what)])
    same((done.code, done.err), (0, b""), done)
    return json.loads(done.out)
