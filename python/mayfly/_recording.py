# SPDX-License-Identifier: Apache-2.0
"""Records this process from inside: it has `mayfly attach` attach to it, or switches a dormant recording on."""
import contextlib
import ctypes
import glob
import os
import time

from . import _events, _program, _trace

_PR_SET_PTRACER, _ANYBODY, _NOBODY = 0x59616d61, ctypes.c_ulong(-1), ctypes.c_ulong(0)
_PAUSE = 0.002  # seconds between two looks
_current = None


@contextlib.contextmanager
def _traceable():
    """Where Yama lets only parents trace their children, a process may say that others may trace it, too."""
    prctl = ctypes.CDLL(None).prctl
    prctl(_PR_SET_PTRACER, _ANYBODY, 0, 0, 0)
    try:
        yield
    finally:
        prctl(_PR_SET_PTRACER, _NOBODY, 0, 0, 0)


def _status():
    """What `mayfly ctl` says of this process, or None when it is not recorded."""
    try:
        return _program.ask("ctl", str(os.getpid()), "status")
    except _program.Error:
        return None


def _is_traced():
    """Whether a thread is in the hands of `mayfly attach`."""
    for path in glob.glob("/proc/self/task/*/status"):
        with contextlib.suppress(OSError), open(path) as file:
            if any(line.startswith("TracerPid:") and int(line.split()[1]) for line in file):
                return True
    return False


class Recording:
    """A recording of this process, from start() to stop(). path: of its trace."""

    def __init__(self, path, child):
        self.path, self._child, self._pid = path, child, os.getpid()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if _current is self:
            self.stop()

    def stop(self):
        """Ends the recording, and returns its Trace; None for a dormant recording that was started without path."""
        global _current
        if _current is not self or self._pid != os.getpid():
            raise _program.Error("this recording has ended, or is that of another process")
        _current = None
        if not self._child:
            trace = snapshot(self.path) if self.path else None
            _program.text("ctl", str(self._pid), "off")
            return trace
        with _traceable():
            with self._child as child:
                try:
                    _program.text("detach", str(self._pid))
                finally:
                    _, errors = child.communicate()
        _program.check(child.returncode, errors)
        return _trace.Trace(self.path)


def start(path=None, **options):
    """Records this process from now on, until stop(); also for `with`. Returns the Recording.

    path: of the trace; by default python.PID.mayfly. A file that is there is replaced.
    options: those of mayfly-attach(1): exact=True, interval="64K", heap_at="exit", ...

    What was allocated before is in no figure. It takes some 50 ms, and as much to stop. A process that was started
    with MAYFLY=start=dormant (mayfly-record(1)) needs no attaching: there, recording is switched on, and stop() writes
    a snapshot if there is a path.
    """
    global _current
    if _current:
        raise _program.Error("this process is recorded already, to %s" % _current.path)
    status = _status()
    if status and status["state"] == "off":
        if options:
            raise _program.Error("the recording was dormant: it has the options that it was started with")
        _program.text("ctl", str(os.getpid()), "on")
        _current = Recording(path and os.fspath(path), None)
    elif status and status["state"] in ("on", "waiting"):
        raise _program.Error("this process is recorded already, to %s" % status["spool"])
    else:
        path = os.path.abspath(path or "python.%d.mayfly" % os.getpid())
        with _traceable():
            _current = Recording(path, _attach(path, options))
    _events.connect()
    return _current


def _attach(path, options):
    child = _program.start("attach", "--quiet", "--force", *_program.options(output=path, **options), str(os.getpid()),
                           start_new_session=True)  # Ctrl-C is for the program
    while True:
        if child.poll() is not None:
            with child:
                _, errors = child.communicate()
            _program.check(child.returncode or 1, errors)
        status = _status()
        if status and status["state"] == "on" and not _is_traced():
            return child
        time.sleep(_PAUSE)


def stop():
    """Ends the recording that start() began, and returns its Trace."""
    if not _current:
        raise _program.Error("nothing is recorded: mayfly.start() begins")
    return _current.stop()


def snapshot(path):
    """Writes what has been recorded of this process up to now, and returns it as a Trace. The recording goes on. Also
    for a process that `mayfly record` has started."""
    _program.text("ctl", "--force", "--output=" + os.fspath(path), str(os.getpid()), "snapshot")
    return _trace.Trace(path)
