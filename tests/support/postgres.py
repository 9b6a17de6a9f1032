#!/usr/bin/env python3
"""A private PostgreSQL server for a test, on a socket in a temporary folder.

usage: postgres.py [--durable] [NAME=VALUE...]

Makes a cluster, starts it, and prints its folder; "postgresql:///DATABASE?host=FOLDER&user=USER" is the URL of a database.
The superuser is "postgres"; the database "postgres" exists. Users need no password, except
"locked", whom a test may make. The server ends, and its folder is removed, when standard input ends, so none is left behind by a test that is
killed. The lines "stop", "crash" and "start" are answered by "done" (see the methods). NAME=VALUE are settings of postgresql.conf. --durable: the server waits for its disk, as it does in use.

In Python: with Cluster(max_connections=250) as cluster: ... cluster.url("postgres") ...
Needs Debian's package postgresql. As root, the server runs as the user nobody, because PostgreSQL refuses to run as root.
"""
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time


def programs():
    """Returns the folder of the newest server's programs."""
    found = sorted(pathlib.Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda p: float(p.parts[-3]))
    if found:
        return found[-1].parent
    initdb = shutil.which("initdb")
    if initdb is None:
        sys.exit("postgres.py: no PostgreSQL server in /usr/lib/postgresql or PATH; install it (Debian: postgresql)")
    return pathlib.Path(initdb).parent


class Cluster:
    def __init__(self, durable=False, **settings):
        # A socket's path has at most 107 bytes, and the server's user must reach it: TMPDIR may be long or private.
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="kilter-postgres-", dir="/tmp"))
        self.as_user = ["setpriv", "--pdeathsig=QUIT"]  # the server ends even if this process is killed
        if os.getuid() == 0:
            shutil.chown(self.folder, "nobody", "nogroup")
            self.as_user += ["--reuid=nobody", "--regid=nogroup", "--clear-groups"]
        self.folder.chmod(0o755)
        self.server = None
        self.settings = {"listen_addresses": "''", "unix_socket_directories": f"'{self.folder}'", "max_connections": 50,
                         "shared_buffers": "32MB", "log_min_messages": "fatal",
                         **({} if durable else {"fsync": "off"}), **settings}
        try:
            self.make()
            self.start()
        except BaseException:
            self.close()
            raise

    def run(self, program, *words):
        done = subprocess.run([*self.as_user, programs() / program, *words], cwd="/", text=True, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)
        if done.returncode != 0:
            raise RuntimeError(f"{program} failed: {done.stdout}")

    def make(self):
        self.run("initdb", "-D", self.folder / "data", "-U", "postgres", "--no-sync", "--auth=trust", "--encoding=UTF8",
                 "--locale=C")
        (self.folder / "data/pg_hba.conf").write_text("local all locked scram-sha-256\nlocal all all trust\n")
        with open(self.folder / "data/postgresql.conf", "a") as conf:
            conf.writelines(f"{name} = {value}\n" for name, value in self.settings.items())

    def start(self):
        """Starts the server, also again after stop() or crash()."""
        with open(self.folder / "log", "a") as log:
            self.server = subprocess.Popen([*self.as_user, programs() / "postgres", "-D", self.folder / "data"], cwd="/",
                                           stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
        end = time.monotonic() + 60
        while subprocess.run([programs() / "pg_isready", "-q", "-h", self.folder]).returncode != 0:
            if self.server.poll() is not None or time.monotonic() > end:
                raise RuntimeError(f"the server does not start: {(self.folder / 'log').read_text()}")
            time.sleep(0.02)

    def stop(self):
        """Ends the server and all its connections at once."""
        self.end(signal.SIGINT)

    def crash(self):
        """Ends the server without writing anything that it has not written yet, as if it were killed."""
        self.end(signal.SIGQUIT)

    def end(self, how):
        self.server.send_signal(how)
        self.server.wait(60)
        self.server = None

    def url(self, database, user="postgres"):
        return f"postgresql:///{database}?host={self.folder}&user={user}"

    def close(self):
        if self.server is not None:
            self.crash()
        shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def main(arguments):
    settings = dict(a.split("=", 1) for a in arguments if "=" in a)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # of the terminal: the test ends first
    with Cluster(durable="--durable" in arguments, **settings) as cluster:
        print(cluster.folder, flush=True)
        for line in sys.stdin:
            {"stop": cluster.stop, "crash": cluster.crash, "start": cluster.start}[line.strip()]()
            print("done", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
