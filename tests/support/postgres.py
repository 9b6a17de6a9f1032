#!/usr/bin/env python3
"""A private PostgreSQL server for a test, on a socket in a temporary folder.

usage: postgres.py [--durable] [--clock=LIBRARY] [--disk=MB] [NAME=VALUE...]

Creates a cluster, starts it, and prints its folder; "postgresql:///DATABASE?host=FOLDER&user=USER" is the URL of a
database. The superuser is "postgres"; the database "postgres" exists. Users need no password, except "locked", whom a
test may create. When standard input ends, the server ends and its folder is removed, so a killed test leaves nothing
behind. The reply to the lines "stop", "crash", "start", "restart", "clock SECONDS", "fill" and "free" is "done" (see
the methods). NAME=VALUE are settings of postgresql.conf.
--durable: the server waits for its disk, as in production.
--clock: LIBRARY is tests/support/moved_clock.cpp, which moves the server's wall clock.
--disk: the data are on a separate in-memory file system of this many megabytes. This needs root; without it, the reply
to "fill" is the reason.

In Python: with Cluster(max_connections=250) as cluster: ... cluster.url("postgres") ...
Needs Debian's package postgresql. As root, the server runs as the user nobody, because PostgreSQL refuses to run as root.
"""
import ctypes
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time


def programs():
    """Returns the folder with the programs of the newest server version."""
    found = sorted(pathlib.Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda p: float(p.parts[-3]))
    if found:
        return found[-1].parent
    initdb = shutil.which("initdb")
    if initdb is None:
        sys.exit("postgres.py: no PostgreSQL server in /usr/lib/postgresql or PATH; install it (Debian: postgresql)")
    return pathlib.Path(initdb).parent


def mount_small(place, megabytes):
    """Mounts an in-memory file system that only this process and its children see. Returns why this failed, or
    nothing."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(0x00020000) != 0:  # CLONE_NEWNS
        return f"no small file system: {os.strerror(ctypes.get_errno())}"
    for words in (["--make-rprivate", "/"], ["-t", "tmpfs", "-o", f"size={megabytes}m", "tmpfs", place]):
        done = subprocess.run(["mount", *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if done.returncode != 0:
            return f"no small file system: {' '.join(done.stdout.split())}"
    return ""


class Cluster:
    def __init__(self, durable=False, clock=None, disk=None, **settings):
        # A socket's path has at most 107 bytes, and the server's user must reach it: TMPDIR may be long or private.
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="kilter-postgres-", dir="/tmp"))
        self.as_user = ["setpriv", "--pdeathsig=QUIT"]  # the server ends even if this process is killed
        if os.getuid() == 0:
            shutil.chown(self.folder, "nobody", "nogroup")
            self.as_user += ["--reuid=nobody", "--regid=nogroup", "--clear-groups"]
        self.folder.chmod(0o755)
        (self.folder / "data").mkdir(mode=0o700)
        self.not_small = mount_small(self.folder / "data", disk) if disk else "the server has no --disk"
        if os.getuid() == 0:
            shutil.chown(self.folder / "data", "nobody", "nogroup")
        self.server_words = [programs() / "postgres", "-D", self.folder / "data"]
        if clock:
            shutil.copy(clock, self.folder / "clock.so")  # to a place where the server's user can read it
            (self.folder / "clock").write_bytes(bytes(8))
            self.server_words = ["env", f"LD_PRELOAD={self.folder}/clock.so", f"KILTER_MOVED_CLOCK={self.folder}/clock",
                                 *self.server_words]
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
        """Starts the server, for the first time or after stop() or crash()."""
        with open(self.folder / "log", "a") as log:
            self.server = subprocess.Popen([*self.as_user, *self.server_words], cwd="/",
                                           stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
        end = time.monotonic() + 60
        while subprocess.run([programs() / "pg_isready", "-q", "-h", self.folder]).returncode != 0:
            if self.server.poll() is not None or time.monotonic() > end:
                raise RuntimeError(f"the server does not start: {(self.folder / 'log').read_text()}")
            time.sleep(0.02)

    def stop(self):
        """Stops the server immediately and closes all its connections."""
        self.end(signal.SIGINT)

    def crash(self):
        """Ends the server without writing data that it has not written yet, as if it were killed."""
        self.end(signal.SIGQUIT)

    def restart(self):
        """Starts the server if it has ended."""
        if self.server.poll() is not None:
            self.start()

    def clock(self, seconds):
        """Moves the wall clock, so that it differs from the right time by this much."""
        with open(self.folder / "clock", "r+b") as file:
            file.write((int(seconds) * 10**9).to_bytes(8, "little", signed=True))

    def fill(self):
        """Fills the small disk until free() is called. Returns the reason if there is no such disk."""
        if self.not_small:
            return self.not_small
        with open(self.folder / "data/ballast", "wb", buffering=0) as file:
            for size in (1 << 20, 4096):
                try:
                    while True:
                        file.write(bytes(size))
                except OSError:
                    pass
        return None

    def free(self):
        (self.folder / "data/ballast").unlink()

    def end(self, how):
        self.server.send_signal(how)
        self.server.wait(60)
        self.server = None

    def url(self, database, user="postgres"):
        return f"postgresql:///{database}?host={self.folder}&user={user}"

    def close(self):
        if self.server is not None:
            self.crash()
        if not self.not_small:
            subprocess.run(["umount", "--lazy", self.folder / "data"])
        shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def main(arguments):
    options = dict(a.removeprefix("--").split("=", 1) for a in arguments if a.startswith("--") and "=" in a)
    settings = dict(a.split("=", 1) for a in arguments if "=" in a and not a.startswith("--"))
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # from the terminal: the test ends first
    with Cluster(durable="--durable" in arguments, **options, **settings) as cluster:
        print(cluster.folder, flush=True)
        does = {name: getattr(cluster, name) for name in ("stop", "crash", "start", "restart", "clock", "fill", "free")}
        for line in sys.stdin:
            name, *words = line.split()
            print(does[name](*words) or "done", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
