"""The wheel of kilter-runtime for AArch64, run by an AArch64 Python under qemu-user: a network compiled here for that
target must give the same results as in the compiler's own process.

KILTER_WHEELS names the folder with the wheel (KILTER_WHEEL_AARCH64=1 scripts/build_wheels.sh builds it). The
interpreter comes from Debian's arm64 packages, which apt downloads without installing them; NumPy comes from its own
wheel.
"""
import glob
import os
import pathlib
import shutil
import subprocess
import sys
import zipfile

import numpy
import pytest

import kilter

SOURCE = pathlib.Path(os.environ.get("KILTER_SOURCE", pathlib.Path(__file__).parents[2]))
WHEELS = pathlib.Path(os.environ.get("KILTER_WHEELS", SOURCE / "build" / "wheels"))
PACKAGES = ("python3.11-minimal", "libpython3.11-stdlib", "libstdc++6")


def need(programs):
    for program in programs:
        if shutil.which(program) is None:
            pytest.skip(f"no {program}; install Debian's packages qemu-user, apt and dpkg")


@pytest.fixture(scope="module")
def emulated(tmp_path_factory):
    """The command that runs an AArch64 Python which can import kilter_runtime and numpy."""
    need(("qemu-aarch64", "apt-get", "dpkg"))
    found = glob.glob(str(WHEELS / "kilter_runtime-*_aarch64.whl"))
    if not found:
        pytest.skip(f"no wheel for AArch64 in {WHEELS}; KILTER_WHEEL_AARCH64=1 scripts/build_wheels.sh builds it")
    folder = tmp_path_factory.mktemp("aarch64")
    root, packages = folder / "root", folder / "site"
    for part in ("state/lists/partial", "cache/archives/partial", "root", "site"):
        (folder / part).mkdir(parents=True)
    (folder / "status").touch()
    apt = ["apt-get", "-q", "-o", "APT::Architecture=arm64", "-o", "APT::Architectures=arm64", "-o", f"Dir::State={folder}/state",
           "-o", f"Dir::Cache={folder}/cache", "-o", f"Dir::State::status={folder}/status"]
    subprocess.run([*apt, "update"], check=True, capture_output=True)
    subprocess.run([*apt, "install", "-y", "--no-install-recommends", "--download-only", *PACKAGES], check=True, capture_output=True)
    for package in (folder / "cache" / "archives").glob("*.deb"):
        subprocess.run(["dpkg", "-x", package, root], check=True)
    subprocess.run([sys.executable, "-m", "pip", "download", "-q", "--disable-pip-version-check", "--only-binary=:all:", "--no-deps",
                    "--platform", "manylinux_2_28_aarch64", "--platform", "manylinux_2_27_aarch64", "--platform",
                    "manylinux2014_aarch64", "--python-version", "3.11", "-d", folder, "numpy<2.4"], check=True)
    for file in [found[-1], *glob.glob(str(folder / "numpy-*.whl"))]:
        with zipfile.ZipFile(file) as archive:
            archive.extractall(packages)
    return ["qemu-aarch64", "-L", str(root), "-E", f"PYTHONPATH={packages}", str(root / "usr" / "bin" / "python3.11")]


def test_network_compiled_here_runs_there(emulated, tmp_path):
    net = kilter.compile("zoo:squeezenet1_1", shapes={"input": (1, 3, 64, 64)}, target="neoverse-n1")
    net.save(tmp_path / "net.kilter")
    image = numpy.random.default_rng(0).random((1, 3, 64, 64), numpy.float32)
    numpy.save(tmp_path / "x.npy", image)
    here = kilter.compile("zoo:squeezenet1_1", shapes={"input": (1, 3, 64, 64)})(image)
    code = ("import kilter_runtime, numpy, platform\n"
            f"net = kilter_runtime.load({str(tmp_path / 'net.kilter')!r}, threads=2)\n"
            f"y = net(numpy.load({str(tmp_path / 'x.npy')!r}))\n"
            f"numpy.save({str(tmp_path / 'y.npy')!r}, y)\nprint(platform.machine(), kilter_runtime.__version__)")
    done = subprocess.run([*emulated, "-c", code], capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split()[0] == "aarch64"
    there = numpy.load(tmp_path / "y.npy")
    assert numpy.max(numpy.abs(there - here)) <= 1e-4 * numpy.max(numpy.abs(here))


def test_file_for_another_processor_is_refused(emulated, tmp_path):
    kilter.compile("zoo:squeezenet1_1", shapes={"input": (1, 3, 64, 64)}).save(tmp_path / "x86.kilter")
    code = (f"import kilter_runtime\ntry:\n  kilter_runtime.load({str(tmp_path / 'x86.kilter')!r})\n"
            "except kilter_runtime.UnsupportedError as error:\n  print(error)")
    done = subprocess.run([*emulated, "-c", code], capture_output=True, text=True, timeout=300)
    assert "so its code is for x86-64; this machine" in done.stdout, done.stdout + done.stderr
