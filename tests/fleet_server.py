# SPDX-License-Identifier: Apache-2.0
"""A real ClickHouse server for a test, and what is pushed to it and asked of it."""
import contextlib
import os
import shutil
import signal
import socket
import subprocess
import urllib.error
import urllib.request

from harness import MAYFLY, SOURCE, Folder, Skip, cases, check, environment, need, report, run, same, wait_until

CONFIG = """<yandex>
<logger><level>error</level><log>{here}/log</log><errorlog>{here}/errors</errorlog></logger>
<http_port>{http}</http_port><tcp_port>{tcp}</tcp_port><listen_host>127.0.0.1</listen_host>
<interserver_http_port>{replication}</interserver_http_port><interserver_http_host>127.0.0.1</interserver_http_host>
<path>{here}/data/</path><tmp_path>{here}/tmp/</tmp_path><user_files_path>{here}/files/</user_files_path>
<users_config>{here}/users.xml</users_config><default_profile>default</default_profile>
<default_database>default</default_database><mark_cache_size>10000000</mark_cache_size>
<remote_servers><two>{shards}</two></remote_servers>
{more}
</yandex>
"""
ZOOKEEPER = "/usr/share/java/zookeeper.jar"
USERS = """<yandex>
<profiles><default><max_memory_usage>2000000000</max_memory_usage></default></profiles>
<users>
<default><password></password><networks><ip>::/0</ip></networks><profile>default</profile><quota>default</quota></default>
<pusher><password>so secret</password><networks><ip>::/0</ip></networks><profile>default</profile><quota>default</quota></pusher>
</users>
<quotas><default></default></quotas>
</yandex>
"""


def free_ports(count):
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]


REPLICA = "<replica><host>127.0.0.1</host><port>%d</port></replica>"
KEEPER = "<zookeeper><node><host>127.0.0.1</host><port>%d</port></node></zookeeper>"
MACROS = "<macros><shard>%d</shard><replica>%s</replica></macros>"


class Server:
    def __init__(self, folder):
        self.folder = folder
        self.http, self.tcp, self.replication = free_ports(3)
        self.shards = []  # lists of servers
        self.more = ""
        self.process = None

    def start(self):
        shards = "".join("<shard><internal_replication>true</internal_replication>%s</shard>" % "".join(
            REPLICA % one.tcp for one in shard) for shard in self.shards)
        for name in ("data", "tmp", "files"):
            os.makedirs(self.folder / name, exist_ok=True)
        for name, text in (("config.xml", CONFIG), ("users.xml", USERS)):
            with open(self.folder / name, "w") as file:
                file.write(text.format(here=self.folder.path, http=self.http, tcp=self.tcp, replication=self.replication,
                                       shards=shards, more=self.more))
        self.run("clickhouse-server", "--config-file", self.folder / "config.xml")

    def run(self, *command):
        self.process = subprocess.Popen(command, cwd=self.folder.path, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                        stderr=subprocess.DEVNULL, start_new_session=True)
        wait_until(self.answers, command[0] + " to answer")

    def answers(self):
        check(self.process.poll() is None, "the server has ended")
        try:
            return self.ask("SELECT 1") == "1"
        except (OSError, urllib.error.URLError):
            return False

    def has_keeper(self):
        try:
            return self.ask("SELECT count() > 0 FROM system.zookeeper WHERE path = '/'") == "1"
        except AssertionError:
            return False

    def stop(self, number=signal.SIGKILL):
        """ZooKeeper takes one that was killed for alive for half a minute, in which a new one waits."""
        if self.process:
            os.killpg(self.process.pid, number)
            self.process.wait()
        self.process = None

    def ask(self, statement):
        try:
            with urllib.request.urlopen("http://127.0.0.1:%d/" % self.http, statement.encode()) as answer:
                return answer.read().decode("utf-8", "replace").rstrip("\n")
        except urllib.error.HTTPError as error:
            raise AssertionError(statement + ": " + error.read().decode("utf-8", "replace")) from error

    def url(self, database="fleet"):
        return "clickhouse://127.0.0.1:%d/%s" % (self.http, database)


NEWEST = os.path.join(SOURCE, "tests", "newest_clickhouse")


class Newest(Server):
    """The newest version, of the package chdb; tests/newest_clickhouse/install brings it."""
    def start(self):
        self.run("node", os.path.join(NEWEST, "server.mjs"), str(self.http), self.folder.path)


@contextlib.contextmanager
def started(kind):
    with Folder() as here:
        one = kind(here)
        try:
            one.start()
            yield one
        finally:
            one.stop()


def newest():
    need("node")
    if not os.path.exists(os.path.join(NEWEST, "node_modules", "chdb")):
        raise Skip("the package chdb is not installed (tests/newest_clickhouse/install)")
    return started(Newest)


def server():
    if not shutil.which("clickhouse-server"):
        raise Skip("clickhouse-server is not installed")
    return started(Server)


def on_each_server(function):
    """A case for the oldest version that mayfly is for, and one for the newest; each is given how to start it."""
    def on(version):
        function({"oldest": server, "newest": newest}[version])
    on.__name__ = function.__name__
    return cases(["oldest", "newest"])(on)


@contextlib.contextmanager
def cluster():
    """Two servers that share the rows of their tables, which are made."""
    if not shutil.which("clickhouse-server"):
        raise Skip("clickhouse-server is not installed")
    with Folder() as here, Folder() as there:
        both = [Server(here), Server(there)]
        try:
            for one in both:
                one.shards = [[other] for other in both]
                one.start()
            for one in both:
                good("fleet", "init", "-q", "--cluster", "two", one.url())
            yield both
        finally:
            for one in both:
                one.stop()


@contextlib.contextmanager
def keeper():
    """A ZooKeeper; its port."""
    if not os.path.exists(ZOOKEEPER):
        raise Skip("zookeeper is not installed")
    need("java")
    port, = free_ports(1)
    with Folder() as here:
        with open(here / "zoo.cfg", "w") as file:
            file.write("tickTime=2000\ndataDir=%s\nclientPort=%d\nclientPortAddress=127.0.0.1\n"
                       "admin.enableServer=false\n" % (here.path, port))
        process = subprocess.Popen(["java", "-Xmx128m", "-cp", ZOOKEEPER, "org.apache.zookeeper.server.quorum.QuorumPeerMain",
                                    here / "zoo.cfg"], cwd=here.path, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                   stderr=subprocess.DEVNULL, start_new_session=True)
        def answers():
            check(process.poll() is None, "zookeeper has ended")
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)) as connection:
                connection.sendall(b"srvr")
                return b"Mode: standalone" in connection.recv(4096)
            return False
        try:
            wait_until(answers, "zookeeper to answer")
            yield port
        finally:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


@contextlib.contextmanager
def replicas(shards=1):
    """Two servers for each shard, without tables: those of the first shard come first."""
    if not shutil.which("clickhouse-server"):
        raise Skip("clickhouse-server is not installed")
    with keeper() as port, contextlib.ExitStack() as stack:
        all_servers = [Server(stack.enter_context(Folder())) for _ in range(2 * shards)]
        for number, one in enumerate(all_servers):
            stack.callback(one.stop)
            one.shards = [all_servers[i:i + 2] for i in range(0, 2 * shards, 2)]
            one.more = KEEPER % port + MACROS % (number // 2 + 1, "ab"[number % 2])
            one.start()
            wait_until(one.has_keeper, "clickhouse-server to find ZooKeeper")
        yield all_servers


def good(*command, **changes):
    done = run([MAYFLY, *command], env=environment(**changes))
    same((done.code, done.err), (0, b""), done)
    return done.out.decode()


def fails(*command, **changes):
    """The one line that it says."""
    done = run([MAYFLY, *command], env=environment(**changes))
    same((done.code, done.err.count(b"\n")), (1, 1), done)
    return done.err.decode()


def push(url, *arguments, **changes):
    return good("push", "--to", url, *arguments, **changes)


# As doc/FLEET.md has it: the windows that count, and their samples.
COUNTED = "push IN (SELECT min(push) FROM fleet.windows GROUP BY window)"


def figures(text):
    return [float(word) for word in text.split()]


def whole_of(trace):
    """Bytes and blocks that were allocated, and are live at the end."""
    totals = [report(trace, "--metric", metric)["total"] for metric in ("allocated", "leaked")]
    return [total[what]["estimate"] for total in totals for what in ("bytes", "blocks")]


def windows(s, which="1"):
    return int(s.ask("SELECT count(DISTINCT window) FROM fleet.windows WHERE " + which))
