#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Programs that give up rights on their way: another user, another root, namespaces. What they become is recorded
into a folder that only root may look into, the traces are root's, nothing is left behind, and no process gets by it
what it must not have. The table in doc/CONTAINERS.md has a row for each case here."""
import array
import contextlib
import os
import re
import shutil
import signal
import socket
import stat
import struct
import subprocess
import threading

from harness import (AGENT, MAYFLY, TIMEOUT, Folder, Skip, case, cases, check, environment, info, main, need, program,
                     read, record, report, run, same, wait_until)

NOBODY = 65534
BYTES, BLOCKS = 125000, 100
USERS = {"setpriv": ["--reuid", str(NOBODY), "--clear-groups"],
         "setpriv --no-new-privs": ["--reuid", str(NOBODY), "--clear-groups", "--no-new-privs", "--bounding-set=-all",
                                    "--inh-caps=-all"]}


@contextlib.contextmanager
def private():
    """A folder of root's that nobody else may look into."""
    if os.geteuid():
        raise Skip("only root can give up rights")
    if not shutil.which("setpriv") or run(["setpriv", *USERS["setpriv"], "test", "-r", AGENT]).code:
        raise Skip("other users may not read %s" % AGENT)
    with Folder() as here:
        same(stat.S_IMODE(os.stat(here.path).st_mode), 0o700)
        yield here


def blocks():
    return [program("privileges"), "blocks"]


def live_bytes(trace):
    return report(trace, "--metric", "leaked")["total"]["bytes"]["estimate"]


def has_blocks(here, uid=NOBODY, owner=0):
    """The traces are the only files, root's, and one has the program's blocks."""
    files = here.files()
    check(files and all(name.endswith(".mayfly") for name in files), "left behind:", files)
    for name in files:
        st = os.stat(name)
        same((st.st_uid, st.st_gid), (owner, owner), name)
    found = [name for name in files if live_bytes(name) >= BYTES * BLOCKS]
    same(len(found), 1, "traces with the program's blocks, of %s" % files)
    same(live_bytes(found[0]) // (BYTES * BLOCKS), 1)
    return found[0]


def recorded(command, *options, uid=NOBODY, namespaces=False):
    with private() as here:
        plain = run(command)
        if namespaces and plain.code:
            raise Skip("not possible here: %s" % plain.err)
        same((plain.out, plain.code), (b"done %d\n" % uid, 0), plain)
        done = record(command, here / "t.mayfly", "-x", *options)
        same((done.code, done.out, done.err), (plain.code, plain.out, plain.err))
        has_blocks(here)


# ---- it becomes the program by exec: recorded also without --follow ----

def becomes(how, *follow):
    if how in USERS:
        recorded(["setpriv", *USERS[how], *blocks()], *follow)
    elif how in ("gosu", "daemon"):
        recorded([program("privileges"), "daemon" if how == "daemon" else "drop", *blocks()], *follow)
    elif how == "start-stop-daemon":
        need(how)
        recorded([how, "--start", "--chuid", "nobody", "--exec", blocks()[0], "--", "blocks"], *follow)
    elif how == "chroot":
        recorded([how, "--userspec=%d:%d" % (NOBODY, NOBODY), "/", *blocks()], *follow)
    elif how == "unshare -r":
        recorded(["unshare", "-r", *blocks()], *follow, uid=0, namespaces=True)
    else:
        same(how, "unshare -n")
        recorded(["unshare", "-n", "setpriv", *USERS["setpriv"], *blocks()], *follow, namespaces=True)


WAYS = [*USERS, "gosu", "daemon", "start-stop-daemon", "chroot", "unshare -r", "unshare -n"]


@cases(WAYS)
def becomes_the_program(how):
    becomes(how)


@cases(WAYS)
def becomes_the_program_followed(how):
    becomes(how, "--follow")


@case
def many_groups():
    """The file that tells a process's memory and filters is then longer than a page."""
    groups = ",".join(str(group) for group in range(1, 2001))
    with private() as here:
        command = ["setpriv", "--reuid", str(NOBODY), "--groups", groups, *blocks()]
        done = record(command, here / "t.mayfly", "-x")
        same((done.code, done.out, done.err), (0, b"done %d\n" % NOBODY, b""))
        has_blocks(here)
    with Folder() as here, subprocess.Popen([*command[:5], "cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as cat:
        try:
            cat.stdin.write(b"ready")
            cat.stdin.flush()
            same(cat.stdout.read(5), b"ready")
            done = run([MAYFLY, "attach", "-q", "--for", "2s", "-o", here / "t.mayfly", str(cat.pid)])
            same((done.code, done.err), (0, b""))
        finally:
            cat.kill()
        told = run([MAYFLY, "info", here / "t.mayfly"]).out
        check(re.search(rb"^Resident +.* at most", told, re.M), "no counter has its resident memory:", told)


@case
def a_picture_of_the_heap_at_its_exit():
    """It finds its recorder without the files of the recording."""
    with private() as here:
        done = record(["setpriv", *USERS["setpriv"], *blocks()], here / "t.mayfly", "-x", "--heap-at", "exit")
        same((done.code, done.out, done.err), (0, b"done %d\n" % NOBODY, b""))
        trace = has_blocks(here)
        picture = info(trace)["picture"]
        check(picture["blocks"] >= BLOCKS, picture)


# ---- a child runs the program: recorded with --follow, and one line without ----

STARTERS = {
    "su": ["su", "nobody", "-s", "/bin/sh", "-c"],
    "runuser": ["runuser", "-u", "nobody", "--"],
    "sudo": ["sudo", "-u", "nobody"],
    "bwrap": ["bwrap", "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc"],
    "bwrap --unshare-all": ["bwrap", "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--unshare-all"],
    "bwrap --uid": ["bwrap", "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--unshare-user", "--uid",
                    "1000"],
    "unshare -mpf": ["unshare", "-rmpf", "--mount-proc"],
}
INSIDE = {"bwrap": 0, "bwrap --unshare-all": 0, "bwrap --uid": 1000, "unshare -mpf": 0}


def start(how):
    command = STARTERS[how]
    need(command[0])
    return [*command, " ".join(blocks())] if how == "su" else [*command, *blocks()]


@cases(STARTERS)
def runs_the_program(how):
    recorded(start(how), "--follow", uid=INSIDE.get(how, NOBODY), namespaces=how in INSIDE)


@cases(["su", "sudo", "bwrap"])
def runs_the_program_unfollowed(how):
    command = start(how)
    with private() as here:
        if run(command).code:
            raise Skip("%s does not work here" % how)
        done = record(command, here / "t.mayfly", "-x")
        same((done.code, done.err), (0, b"mayfly: %s runs its program in a child process, which is not recorded "
                                     b"without --follow\n" % command[0].encode()))
        same(here.files(), [here / "t.mayfly"])


@case
def a_worker_of_a_server():
    recorded([program("privileges"), "worker"], "--follow")


@case
def a_daemon_in_the_background():
    need("start-stop-daemon")
    with private() as here:
        done = record(["start-stop-daemon", "--start", "--background", "--chuid", "nobody", "--exec", blocks()[0], "--",
                       "blocks"], here / "t.mayfly", "-x", "--follow")
        same((done.code, done.out), (0, b""), done)
        has_blocks(here)


# ---- servers with drops of their own ----

def serve(command, here, is_ready, after=lambda: None):
    """Runs a server under --follow until it is ready, and ends it. Returns the users of its workers."""
    with subprocess.Popen([MAYFLY, "record", "-f", "-i", "4K", "-o", here / "t.mayfly", "--", *command],
                          env=environment(), stderr=subprocess.PIPE, start_new_session=True) as process:
        try:
            wait_until(lambda: process.poll() is not None or is_ready(), "the server")
            after()
            process.send_signal(signal.SIGTERM)
            err = process.communicate(timeout=TIMEOUT)[1]
        except BaseException:
            process.kill()
            raise
    return process.returncode, err


def traces_by_program(here, name):
    files = here.files("*.mayfly*")
    check(files and all(path.endswith(".mayfly") for path in files), "left behind:", files)
    return [info(path) for path in files if os.path.basename(info(path)["program"] or "") == name]


def workers_of_nginx(pid_file):
    try:
        master = int(read(pid_file))
        children = read("/proc/%d/task/%d/children" % (master, master)).split()
        return [os.stat("/proc/%d" % int(child)).st_uid for child in children]
    except (OSError, ValueError):
        return []


@case
def nginx():
    need("nginx")
    with private() as here:
        with open(here / "nginx.conf", "w") as file:
            file.write("daemon off;\nuser nobody nogroup;\nworker_processes 2;\npid %s;\nerror_log %s;\n"
                       "events { worker_connections 64; }\n"
                       "http { access_log off; server { listen unix:%s; } }\n" %
                       (here / "pid", here / "log", here / "socket"))
        code, err = serve(["nginx", "-c", here / "nginx.conf"], here,
                          lambda: workers_of_nginx(here / "pid") == [NOBODY, NOBODY])
        same((code, err), (0, b""))
        for name in ("nginx.conf", "log", "socket", "pid"):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(here / name)
        found = traces_by_program(here, "nginx")
        same(len(found), 3, "traces of nginx")
        check(all(facts["ending"]["reason"] == "exited" for facts in found), found)


@case
def apache():
    need("apache2")
    with private() as here:
        modules = "/usr/lib/apache2/modules/"
        with open(here / "apache.conf", "w") as file:
            file.write("ServerName x\nServerRoot %s\nLoadModule mpm_prefork_module %smod_mpm_prefork.so\n"
                       "LoadModule authz_core_module %smod_authz_core.so\nPidFile %s\nErrorLog %s\n"
                       "User nobody\nGroup nogroup\nStartServers 2\nListen 127.0.0.1:%d\nMutex posixsem\n" %
                       (here.path, modules, modules, here / "pid", here / "log", free_port()))
        code, err = serve(["apache2", "-DFOREGROUND", "-f", here / "apache.conf"], here,
                          lambda: workers_of_nginx(here / "pid")[:2] == [NOBODY, NOBODY])
        same((code, err), (0, b""))
        for name in ("apache.conf", "log", "pid"):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(here / name)
        check(len(traces_by_program(here, "apache2")) >= 3, "traces of apache2")


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def postgres_programs():
    places = sorted(os.path.join("/usr/lib/postgresql", version, "bin") for version in
                    (os.listdir("/usr/lib/postgresql") if os.path.isdir("/usr/lib/postgresql") else []))
    if not places:
        raise Skip("postgres is not installed")
    return places[-1]


@case
def postgres():
    """As entry points of containers start it: root, then the server's user."""
    programs = postgres_programs()
    with private() as here, Folder() as data:
        os.chmod(data.path, 0o755)
        cluster = os.path.join(data.path, "cluster")
        os.mkdir(cluster, 0o700)
        os.chown(cluster, NOBODY, NOBODY)
        drop = ["setpriv", "--reuid", str(NOBODY), "--regid", str(NOBODY), "--clear-groups"]
        made = run([*drop, programs + "/initdb", "-D", cluster, "-A", "trust", "-U", "postgres", "--no-sync"],
                   cwd=data.path)
        same(made.code, 0, made)
        port = free_port()
        ready = [*drop, programs + "/pg_isready", "-h", "127.0.0.1", "-p", str(port)]
        code, err = serve([*drop, programs + "/postgres", "-D", cluster, "-k", "", "-p", str(port), "-F"], here,
                          lambda: not run(ready).code)
        same(code, 0, err)
        check(len(traces_by_program(here, "postgres")) >= 3, "traces of postgres")


# ---- what cannot be recorded says so ----

NOT_RECORDED = re.compile(rb"mayfly: process \d+: by exec it became '([^']*)', of which nothing is recorded: .*\n")


@case
def a_static_program():
    command = ["setpriv", *USERS["setpriv"], program("static")]
    with private() as here:
        plain, done = run(command), record(command, here / "t.mayfly", "-x")
        same((done.code, done.out), (plain.code, plain.out))
        match = NOT_RECORDED.fullmatch(done.err)
        check(match and match.group(1).decode() == program("static"), done)
        same(here.files(), [here / "t.mayfly"])
        check("nothing is recorded" in info(here / "t.mayfly")["note"], info(here / "t.mayfly"))


@case
def out_of_reach():
    """No folder of the recording is in the sandbox, nor the network that the recorder has."""
    command = [*STARTERS["bwrap --unshare-all"][:-1], "--tmpfs", "/tmp", "--tmpfs", "/var/tmp", "--unshare-all", *blocks()]
    need("bwrap")
    with private() as here:
        plain = run(command)
        if plain.code:
            raise Skip("not possible here: %s" % plain.err)
        done = record(command, here / "t.mayfly", "-x", "--follow")
        same((done.code, done.out), (plain.code, plain.out), done)
        check(re.fullmatch(rb"mayfly: process \d+: a child process is not recorded: .*\n", done.err), done)
        notes = [info(path)["note"] or "" for path in here.files()]
        check(any("a child process is not recorded" in note for note in notes), notes)
        check(all(path.endswith(".mayfly") for path in here.files()), "left behind:", here.files())


@case
def behind_a_filter():
    with private() as here:
        done = record([program("privileges"), "filter", *blocks()], here / "t.mayfly", "-x")
        same((done.code, done.out), (0, b"done 0\n"))
        match = NOT_RECORDED.fullmatch(done.err)
        same(match and match.group(1), b"another program, behind a seccomp filter", done)
        same(here.files(), [here / "t.mayfly"])


@case
def an_agent_that_the_user_may_not_read():
    """The loader would complain on the program's standard error."""
    with private() as here, Folder() as place:
        os.makedirs(place / "src/cli")
        os.makedirs(place / "src/agent")
        shutil.copy(MAYFLY, place / "src/cli/mayfly")
        for name in os.listdir(os.path.dirname(AGENT)):
            if name.endswith(".so"):
                shutil.copy(os.path.join(os.path.dirname(AGENT), name), place / "src/agent")
        done = run([place / "src/cli/mayfly", "record", "-x", "-o", here / "t.mayfly", "--", "setpriv", *USERS["setpriv"],
                    *blocks()])
        same((done.code, done.out), (0, b"done %d\n" % NOBODY), done)
        check(NOT_RECORDED.fullmatch(done.err), done)


# ---- what nobody gets ----

class Door:
    """The recorder's sockets, as a process that knows its key sees them."""
    FORMAT = "<32sIIiIQQ256s"

    def __init__(self, key, folder=""):
        self.name = ("\0" if not folder else folder) + "mayfly-" + key[:32]
        self.secret = key[32:].encode()

    def ask(self, secret=None, pid=77, device=0, inode=0, name=b""):
        """(errno, name, descriptor or None)"""
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as s:
            s.connect(self.name)
            s.send(struct.pack(self.FORMAT, secret or self.secret, pid, 0, 0, 0, device, inode, name))
            data, extra, _, _ = s.recvmsg(4096, 4096)
        fds = array.array("i")
        for _, _, content in extra:
            fds.frombytes(content)
        _, _, _, error, _, _, _, got = struct.unpack(self.FORMAT, data)
        return error, got.rstrip(b"\0").decode(), fds[0] if fds else None


@contextlib.contextmanager
def door(here, *options):
    """The door of a recording, and its program, which waits."""
    with subprocess.Popen([MAYFLY, "record", "-q", "-o", here / "t.mayfly", *options, "--", program("told")],
                          env=environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        try:
            child = None

            def settings():
                nonlocal child
                try:
                    child = int(read("/proc/%d/task/%d/children" % (process.pid, process.pid)).split()[0])
                    text = read("/proc/%d/environ" % child).decode()
                except (OSError, IndexError):
                    return None
                return re.search(r"handover=([0-9a-f]{64})", text)

            wait_until(settings, "the program to start")
            yield settings().group(1), process
            process.stdin.close()
            same(process.wait(), 0)
        except BaseException:
            process.kill()
            raise


@cases(["abstract", "file"])
def strangers_get_nothing(where):
    folder = "/var/tmp/" if where == "file" else ""
    with Folder() as here, door(here, "--follow") as (key, _):
        d = Door(key, folder)
        same(d.ask(secret=b"0" * 32), (13, "", None), "with a wrong secret")
        error, name, fd = d.ask()
        same((error, name), (0, "t.mayfly.77.0.spool"))
        os.close(fd)
        check(os.path.exists("/var/tmp/mayfly-" + key[:32]), "no socket")
    same([path for path in here.files() if not path.endswith("t.mayfly")], [], "left behind")
    same(os.path.exists("/var/tmp/mayfly-" + key[:32]), False, "the socket is left behind")
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as s:
        same(s.connect_ex("\0mayfly-" + key[:32]), 111, "nobody listens any more")


@case
def a_dead_recorders_socket():
    """The next recorder removes it; what is young may be just beginning."""
    with Folder() as here:
        dead = "/var/tmp/mayfly-" + os.urandom(16).hex()
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as s:
            s.bind(dead)
        same(record(["true"], here / "t.mayfly").code, 0)
        same(os.path.exists(dead), True, "young")
        os.utime(dead, (1, 1))
        same(record(["true"], here / "u.mayfly").code, 0)
        same(os.path.exists(dead), False)


@case
def without_follow_only_the_program_asks():
    with Folder() as here, door(here) as (key, _):
        same(Door(key).ask(), (1, "", None))


@contextlib.contextmanager
def silent_recorder(file):
    """The key of a recorder that gives this file to the first who asks, and to others no answer."""
    key = os.urandom(32).hex()
    held = []

    def serve():
        while True:
            try:
                held.append(s.accept()[0])
            except OSError:
                return
            held[-1].recv(4096)
            if len(held) == 1:
                answer = struct.pack(Door.FORMAT, b"", 0, 0, 0, 0, 0, 0, b"t.1.0.spool")
                socket.send_fds(held[0], [answer], [file.fileno()])

    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as s:
        s.bind(Door(key).name)
        s.listen()
        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield key, held
        finally:
            s.shutdown(socket.SHUT_RDWR)
            thread.join()
            for one in held:
                one.close()


def filters():
    """Of system calls, that this process runs under."""
    found = re.search(rb"^Seccomp_filters:\t(\d+)", read("/proc/self/status"), re.M)
    return int(found[1]) if found else 0


TAKER = ("import socket, sys\n"
         "s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)\n"
         "s.bind('\\0mayfly-' + sys.argv[1])\n"
         "s.listen()\n"
         "print('ready', flush=True)\n"
         "print(len(s.accept()[0].recv(4096)))\n")


@cases(["own", "other"])
def another_user_has_the_name(namespace):
    """After the recorder was killed. The agent tells by the user, where that has the same number."""
    key = os.urandom(32).hex()
    users = os.stat("/proc/self/ns/user").st_ino + (namespace == "other")
    with private() as here, subprocess.Popen(
            ["setpriv", *USERS["setpriv"], "/usr/bin/python3", "-c", TAKER, key[:32]], stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, env=environment()) as taker:
        same(taker.stdout.readline(), b"ready\n")
        settings = "output=%s/none/t.spool,exact=1,handover=%s,filters=%d,owner=0,users=%d" % (here, key, filters(), users)
        done = run(blocks(), env={**environment(), "LD_PRELOAD": AGENT, "MAYFLY": settings})
        same((done.code, done.out), (0, b"done 0\n"), done)
        same(int(taker.stdout.readline()), 0 if namespace == "own" else struct.calcsize(Door.FORMAT), "bytes sent")


@case
def a_recorder_that_does_not_answer():
    """The program goes on, also when a timer's signals interrupt it all the time."""
    source = ("import signal\n"
              "signal.signal(signal.SIGALRM, lambda *_: None)\n"
              "signal.setitimer(signal.ITIMER_REAL, .01, .01)\n"
              "for _ in range(400000): bytearray(1000)\n"
              "signal.setitimer(signal.ITIMER_REAL, 0)\n"
              "print('done')\n")
    with Folder() as here, open(here / "given", "w+b") as file, silent_recorder(file) as (key, held):
        settings = "output=%s/none/t.spool,exact=1,handover=%s,filters=%d" % (here, key, filters())
        done = run(["/usr/bin/python3", "-c", source], env={**environment(), "LD_PRELOAD": AGENT, "MAYFLY": settings})
        same((done.code, done.out), (0, b"done\n"), done)
        check(len(held) > 1, "it did not ask for more")


@case
def files_of_others():
    """Neither links, nor names, nor spools of other processes lead to a file that was there before."""
    with Folder() as here:
        with open(here / "precious", "w") as file:
            file.write("precious")
        os.symlink(here / "precious", here / "t.mayfly.78.0.spool")
        with door(here, "--follow") as (key, _):
            d = Door(key)
            error, name, fd = d.ask(pid=78)
            same((error, name), (0, "t.mayfly.78.1.spool"))
            os.write(fd, b"x" * 100)
            os.close(fd)
            for path in (here / "precious", here / "t.mayfly.spool", "/etc/passwd", here / "t.mayfly.78.0.spool"):
                st = os.stat(path)
                for name in (os.path.basename(path), path, "../" + path, "t.mayfly.spool/../" + path):
                    error, _, fd = d.ask(device=st.st_dev, inode=st.st_ino, name=name.encode())
                    check(error in (1, 40) and fd is None, name, error)  # ELOOP: a link
            os.unlink(here / "t.mayfly.78.0.spool")
        same(read(here / "precious"), b"precious")


@case
def no_more_than_the_limit():
    """Neither a long spool nor many, which together are counted with their disk blocks."""
    with Folder() as here:
        with door(here, "--follow", "--max-spool", "4M") as (key, _):
            d = Door(key)
            error, name, fd = d.ask(pid=1000)
            same(error, 0)
            os.posix_fallocate(fd, 0, 64 << 20)
            wait_until(lambda: os.fstat(fd).st_size <= 16 << 20, "the file to be cut")
            same(d.ask(pid=1001)[0], 28, "beyond the limit")
            os.ftruncate(fd, 0)
            os.close(fd)
            given = [d.ask(pid=2000 + number) for number in range(20)]
            same([error for error, _, _ in given], [0] * 4 + [28] * 16, "spools of a MB")
        same([path for path in here.files() if not path.endswith("t.mayfly")], [], "left behind")


if __name__ == "__main__":
    main()
