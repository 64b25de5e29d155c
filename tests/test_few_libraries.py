#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""A build without the libraries that mayfly can do without."""
import os

from harness import Folder, case, check, main, run, same
from sanitized import built


@case
def without_optional_libraries():
    """One without SQLite, libsodium, libmicrohttpd, libcurl and ncurses says in one line what it lacks, and does the
    rest."""
    folder = built("plain")
    mayfly = os.path.join(folder, "src", "cli", "mayfly")
    libraries = run(["ldd", mayfly]).out
    check(b"libzstd" in libraries and b"sqlite" not in libraries and b"sodium" not in libraries and
          b"microhttpd" not in libraries and b"ncurses" not in libraries and b"curl" not in libraries, libraries)

    def refused(what, *arguments):
        result = run([mayfly, *arguments])
        check(result.code in (1, 2, 125) and not result.out, result)
        check(result.err.count(b"\n") == 1 and what in result.err and b"this build" in result.err, result)

    with Folder() as here:
        done = run([mayfly, "record", "-i", "1", "-o", here / "t.mayfly", "--", "/bin/true"])
        same(done.code, 0, repr(done))
        refused(b"libsqlite3-dev", "export", "--to", "sqlite", here / "t.mayfly")
        refused(b"libmicrohttpd-dev", "view", here / "t.mayfly")
        for address in ("clickhouse://localhost/fleet", "otlp://localhost", "pyroscope://localhost"):
            refused(b"libcurl4-openssl-dev", "push", "--to", address, here / "t.mayfly")
        with open(here / "key", "wb") as file:
            file.write(b"k" * 32)
        os.chmod(here / "key", 0o600)
        for address, key in ((here / "socket", ["--key", here / "key"]), ("192.0.2.1:7", [])):
            refused(b"libsodium", "receive", "-o", here / "got", *key, address)
            refused(b"libsodium", "record", *key, "--stream", address, "--", "/bin/true")
        same([os.path.basename(path) for path in here.files()], ["key", "t.mayfly"], "files")
        done = run([mayfly, "export", "--to", "csv", "-o", "-", here / "t.mayfly"])
        check(done.code == 0 and done.out, done)


if __name__ == "__main__":
    main()
