#!/usr/bin/env python3
"""Records on a PostgreSQL server, as used with the commands and the Python interface.

usage: server_test.py KILTER SOURCE
"""
import os
import pathlib
import re
import subprocess
import sys
import tempfile

KILTER, SOURCE = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]).resolve()
sys.path.insert(0, str(SOURCE / "tests/support"))
from postgres import Cluster  # noqa: E402

NETWORK = "zoo:squeezenet1_1"
TUNE = ["tune", NETWORK, "--threads", "1", "--trials", "16", "--choose", "history-best"]
PASSWORD = "hunter2"


def expect(holds, text):
    if not holds:
        sys.exit(f"server_test.py: {text}")


def kilter(*words, code=0, **environment):
    """Runs kilter and returns its whole output. Fails if the output contains the password."""
    done = subprocess.run([KILTER, *map(str, words)], text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          env={**os.environ, **environment}, timeout=300)
    expect(done.returncode == code, f"{words}: expected exit code {code}, got {done.returncode}:\n{done.stdout}")
    expect(PASSWORD not in done.stdout, f"{words}: the password is printed:\n{done.stdout}")
    return done.stdout


def says(text, *words, **how):
    said = kilter(*words, **how)
    expect(text in said, f"{words}: expected '{text}', got:\n{said}")
    return said


def moves(cluster):
    """Records go from a file to the server and back, and the commands that read find them there."""
    url, log = cluster.url("moves"), SOURCE / "tests/records/data/tvm_v01.txt"
    says("the database has no records; `kilter tune MODEL --records", "records", "list", "--records", url, code=3)
    says("its schema is that of this version", "records", "migrate", "--records", url)
    says("33 records, 24 different; 24 added to postgresql:///moves?", "records", "import", log, "--records", url)
    says("24 records", "records", "list", "--records", url)
    says("12 records", "records", "list", "--records", url, "--device", "llvm")
    says("24 sound, 0 damaged", "records", "verify", "--records", url)
    says("24 records written, 0 were already there", "records", "export", "--records", url, "-o", "out.db")
    says("24 records written, 0 were already there", "records", "export", "--records", "out.db", "-o", cluster.url("second"))
    says("24 records, 24 different; 0 added to", "records", "merge", cluster.url("second"), "--records", url)
    says("24 records, 24 different; 0 added to", "records", "import", cluster.url("second"), "--records", "out.db")
    says("24 records written", "records", "export", "--records", cluster.url("second"), "-o", "back.jsonl")
    says("would be removed", "records", "prune", "--keep", "1", "--records", url)
    says("records removed", "records", "prune", "--keep", "1", "--records", url, "--yes")
    says("no such file; nothing was migrated", "records", "migrate", "--records", "none.db", code=3)
    says("no measured schedules to learn from", "cost-model", "rows", url, "-o", "rows.jsonl", code=3)


def tunes(cluster):
    """Tuning adds records to the server, and compiling uses them. Nothing that is printed or written contains the
    password."""
    url = cluster.url("tunes") + "&password=" + PASSWORD
    shown, folder = cluster.url("tunes"), os.environ["XDG_DATA_HOME"] + "/kilter"
    says(f"records: {shown}", *TUNE, "--records", url, "--html", "tune.html", "--json", "tune.json")
    count = int(re.search(r"(\d+) records?\b", says("records", "records", "list", "--records", url)).group(1))
    expect(count > 0, "tuning kept no records")
    says(shown, "run", NETWORK, "--threads", "1", "--records", url)
    says("records: a PostgreSQL server: ", "compile", NETWORK, "--threads", "1", "--records", url, "--choose", "history-best", "-o", "net.kilter")
    says(shown, "explain", NETWORK, "--threads", "1", "--seconds", "1", "--records", url, "--html", "explain.html", "--json", "explain.json")
    says(shown, "profile", NETWORK, "--threads", "1", "--records", url, "--html", "profile.html", "--json", "profile.json")
    says(f"{folder}/postgresql-", "records", "plans", "--records", url)
    for file in filter(pathlib.Path.is_file, pathlib.Path(".").rglob("*")):
        expect(PASSWORD.encode() not in file.read_bytes(), f"{file} contains the password")
    says("--records " + shown, "records", "--records", url, code=2)
    pathlib.Path("layers.plan").write_text("")
    says("give only one of them", "run", NETWORK, "--records", url, "--layer-plan", "layers.plan", code=2)


def python(cluster):
    """The options of the Python interface take a URL."""
    sys.path.insert(0, str(KILTER.parent / "python"))
    import kilter as package
    url = cluster.url("tunes")
    expect(len(package.Records(url)) > 0, "kilter.Records reads nothing")
    network = package.load(NETWORK, threads=1, records=url)
    said = network.conditions()["records"]  # may be stored in a file, so it does not name the server
    expect(said.startswith("a PostgreSQL server: "), f"the network does not say whose records it uses: {said}")


def page(cluster):
    """The commands of the page about records run unchanged, except for the server's name and the duration."""
    block = (SOURCE / "doc/records.md").read_text().split("## A server")[1].split("```sh\n")[1].split("```")[0]
    kilter("records", "merge", "out.db", "--records", "records.db")
    pathlib.Path("services").write_text(f"[tuning]\nhost={cluster.folder}\nuser=postgres\ndbname=tuning\n")
    commands = re.sub(r"postgresql://(owner@)?db\.example\.com/tuning", f"'{cluster.url('tuning')}'", block)
    commands = commands.replace("zoo:resnet18", NETWORK + " --threads 1").replace("kilter tune", "kilter tune --time 2s")
    done = subprocess.run(["bash", "-ec", commands], text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          env={**os.environ, "PATH": f"{KILTER.parent}:{os.environ['PATH']}", "PGSERVICEFILE": "services"})
    expect(done.returncode == 0, f"the commands of the page failed:\n{done.stdout}")
    expect("24 added to postgresql:///tuning" in done.stdout, f"the page's commands add nothing:\n{done.stdout}")


def without_library():
    """Without libpq, the error for a server names the package to install, and files work."""
    pathlib.Path("no_libpq").mkdir()
    pathlib.Path("no_libpq/libpq.so.5").write_bytes(b"not a library" * 100)
    said = says("a PostgreSQL server can only be used with its client library libpq.so.5, which cannot be loaded (", "records", "list",
                "--records", f"postgresql://u:{PASSWORD}@host/db", code=3, LD_LIBRARY_PATH="no_libpq")
    expect("; install it (Debian: libpq5), or give a file of records" in said, f"the message does not say what to install:\n{said}")
    says("24 records", "records", "list", "--records", "out.db", LD_LIBRARY_PATH="no_libpq")


def main():
    with tempfile.TemporaryDirectory() as folder, Cluster() as cluster:
        os.chdir(folder)
        os.environ["XDG_DATA_HOME"] = f"{folder}/share"
        for name in ("moves", "second", "tunes", "tuning"):
            cluster.run("createdb", "-h", cluster.folder, "-U", "postgres", name)
        for part in (moves, tunes, python, page):
            part(cluster)
        without_library()
    print("server_test.py: passed")


if __name__ == "__main__":
    main()
