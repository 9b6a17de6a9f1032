#!/usr/bin/env python3
"""Tests that the Debian packages can be installed in a fresh Debian, work there, and leave nothing when they are removed.

usage: fresh_root_test.py --source FOLDER --build FOLDER --config NAME --libdir NAME

Creates a minimal root with debootstrap and keeps it in the build folder for the next run. The packages come from the
mirrors that apt uses on this machine. Exits with 77 and the reason if this is not possible: it needs root, and mounts
/proc.
"""
import hashlib
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile

from package_test import FIRST, Failure, Package, expect, options_of, run, write_model

# Files in which apt and dpkg keep data about packages, and caches that they rewrite.
OWN = ("var/lib/dpkg/", "var/lib/apt/", "var/cache/", "var/log/", "etc/ld.so.cache", "etc/apt/", "tmp/", "proc/", "dev/")


class Skip(Exception):
    pass


def check_machine():
    if os.geteuid() != 0:
        raise Skip("only root can make a Debian root and change into it")
    for program in ("debootstrap", "unshare", "chroot"):
        if shutil.which(program) is None:
            raise Skip(f"{program} is missing")
    if subprocess.run(["unshare", "--mount", "true"], stderr=subprocess.DEVNULL).returncode != 0:
        raise Skip("this machine does not allow mounts")


def sources():
    """The Debian mirrors that apt uses here, as (address, release, components)."""
    text = run(["apt-get", "indextargets", "--format", "$(ORIGIN)|$(REPO_URI)|$(RELEASE)|$(COMPONENT)", "Created-By: Packages"])
    places = {}
    for origin, address, release, component in sorted({tuple(line.split("|")) for line in text.splitlines()}):
        if origin == "Debian":
            places.setdefault((address, release), []).append(component)
    return [(*place, components) for place, components in places.items()]


def make_root(folder):
    """Creates a minimal Debian of this machine's release, unless an earlier run has done so."""
    release = re.search(r"^VERSION_CODENAME=(\w+)$", pathlib.Path("/etc/os-release").read_text(), re.M)
    places = sources()
    address = next((address for address, name, _ in places if release and name == release.group(1)), None)
    if address is None:
        raise Skip("apt's sources have no Debian of this machine's release")
    lines = "".join(f"deb {address} {name} {' '.join(components)}\n" for address, name, components in places)
    stamp = folder / "etc/apt/kilter-made"
    if stamp.exists() and stamp.read_text() == lines:
        return
    shutil.rmtree(folder, ignore_errors=True)
    folder.parent.mkdir(parents=True, exist_ok=True)
    run(["debootstrap", "--variant=minbase", release.group(1), folder, address])
    (folder / "etc/apt/sources.list").write_text(lines)
    settings = run(["apt-config", "dump", "Acquire::http", "Acquire::https"])  # proxies
    (folder / "etc/apt/apt.conf.d/00here").write_text("\n".join(line for line in settings.splitlines() if "Acquire::http" in line) + "\n")
    stamp.write_text(lines)


class Root:
    """A copy of the minimal root for one run."""

    def __init__(self, made, folder):
        self.folder = folder
        run(["cp", "-a", "--reflink=auto", made, folder])
        for name in ("resolv.conf", "hosts"):
            shutil.copyfile(f"/etc/{name}", folder / "etc" / name)
        self("apt-get", "update")

    def __call__(self, *words, code=0):
        """Runs a command in the root, with /proc and without this machine's environment variables, except those for
        proxies."""
        kept = [f"{name}={value}" for name, value in os.environ.items() if name.lower().endswith("_proxy")]
        inside = shlex.join(["chroot", str(self.folder), "env", "-i", "PATH=/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root", "LC_ALL=C.UTF-8",
                             "DEBIAN_FRONTEND=noninteractive", *kept, *map(str, words)])
        return run(["unshare", "--mount", "sh", "-c", f"mount -t proc proc {shlex.quote(str(self.folder))}/proc && cd / && exec {inside}"], code=code)

    def install(self, *names):
        self("apt-get", "install", "-y", "--no-install-recommends", *names)

    def files(self):
        """Every file and folder, except those that apt and dpkg keep for themselves."""
        paths = (str(path.relative_to(self.folder)) + ("/" if path.is_dir() and not path.is_symlink() else "")
                 for path in self.folder.rglob("*"))
        return {path for path in paths if not path.startswith(OWN)}

    def contents(self):
        """The files with hashes of their contents, or the targets of links."""
        found = {}
        for path in sorted(self.files()):
            at = self.folder / path
            found[path] = os.readlink(at) if at.is_symlink() else hashlib.sha256(at.read_bytes()).digest() if at.is_file() else b""
        return found

    def check_libraries(self, packages):
        """The loader finds the libraries of every program and library of these packages."""
        for path in self("dpkg", "-L", *packages).split():
            if (self.folder / path[1:]).is_file() and (self.folder / path[1:]).read_bytes()[:4] == b"\x7fELF":
                said = self("ldd", path)
                expect("not found" not in said, f"{path} lacks libraries that no package brings:\n{said}")

    def put(self, source):
        """Copies a file into /tmp of the root, and returns its name there."""
        shutil.copy(source, self.folder / "tmp")
        return f"/tmp/{pathlib.Path(source).name}"


def check_removed(root, names, before):
    root("apt-get", "purge", "-y", *names)
    root("apt-get", "autoremove", "--purge", "-y")
    after = root.contents()
    left, lost = sorted(set(after) - set(before)), sorted(set(before) - set(after))
    expect(not left and not lost, f"after removing {names}, there are still {left[:20]}, and {lost[:20]} are gone")
    changed = sorted(path for path in before if before[path] != after[path])
    expect(not changed, f"after removing {names}, these files have changed: {changed[:20]}")


def check_runtime(package, root, debs):
    """The runtime alone needs only a minimal Debian and two libraries of the C++ compiler."""
    root.install(debs["runtime"])
    root.check_libraries(["kilter-runtime"])
    added = set(root("dpkg-query", "-W", "-f", "${Package}\\n").split())
    expect(not [name for name in added if "llvm" in name or "protobuf" in name], f"kilter-runtime brings {added}")


def check_tools(package, root, debs):
    """The program runs a network, compiles it for the runtime, and finds the worker of the tuner."""
    root.install(debs["tools"])
    root.check_libraries(["kilter-tools"])
    said = root("kilter", "--version")
    expect(said.startswith(f"kilter {package.version} "), f"kilter --version: expected {package.version}, got '{said}'")
    write_model(package.work / "model.onnx")
    model = root.put(package.work / "model.onnx")
    said = root("kilter", "run", model, "--verify")
    expect("y: f32[1x2]" in said and "verify: passed" in said, f"kilter run: expected an output y and a passed check, got '{said}'")
    root("kilter", "compile", model, "-o", "/tmp/model.kilter")
    said = root("kilter", "tune", "zoo:squeezenet1_1", "--input", "input=1x3x32x32", "--threads", "1", "--time", "10s", "--trials", "4",
                "--records", "/tmp/r.db")
    expect(re.search(r": [1-9][0-9]* trials ", said), f"kilter tune: expected a few trials, got '{said}'")


def check_program(package, root, debs):
    """With a compiler from Debian, the C program of doc/install.md is built with pkg-config, and runs."""
    root.install(debs["dev"], "gcc", "libc6-dev", "pkgconf")
    root.check_libraries(["kilter-dev"])
    (package.work / "run.c").write_text(package.block("c", "kilter_program_load"))
    root.put(package.work / "run.c")
    command = next(line for line in package.block("sh", "pkg-config --cflags").splitlines() if "run.c" in line)
    said = root("sh", "-c", f"cd /tmp && {command} && ./run model.kilter")
    expect(said == f"y starts with {FIRST}\n", f"run: expected 'y starts with {FIRST}', got '{said}'")


def main():
    options = options_of(sys.argv[1:])
    with tempfile.TemporaryDirectory(dir=options.build) as work:
        package = Package(options, pathlib.Path(work))
        try:
            check_machine()
            made = options.build / "fresh_root"
            make_root(made)
            run(["cpack", "-G", "DEB", "--config", options.build / "CPackConfig.cmake", "-B", package.work / "cpack",
                 "-D", "CPACK_DEBIAN_COMPRESSION_TYPE=none"])
            root = Root(made, package.work / "root")
            debs = {name: root.put(next((package.work / "cpack").glob(f"kilter-{name}_*.deb"))) for name in ("runtime", "dev", "tools")}
            before = root.contents()
            for check in (check_runtime, check_tools, check_program):
                check(package, root, debs)
                print(f"{check.__name__}: passed", flush=True)
            check_removed(root, ["kilter-runtime", "kilter-dev", "kilter-tools", "gcc", "libc6-dev", "pkgconf"], before)
            print("check_removed: passed")
        except Skip as reason:
            print(f"skipped: {reason}")
            return 77
        except Failure as failure:
            print(f"FAILED: {failure}", file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
