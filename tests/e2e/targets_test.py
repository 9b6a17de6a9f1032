#!/usr/bin/env python3
"""Tests compiled files for several targets and signatures: each processor runs the code compiled for it, natively and
under emulators, with the same results as a file for only that target.

    targets_test.py KILTER SOURCE PART...      PART: several, small, aarch64, signatures
"""

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

import numpy as np
import onnx
from onnx import helper

import made_models

KILTER, SOURCE = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
FOUR = "x86-64-v3,znver4,sapphirerapids,neoverse-n1"
NETWORK = "zoo:squeezenet1_1"
SHAPE = ["--input", "input=1x3x64x64"]

# Runs a compiled file with inputs of ones and prints the bits of the outputs.
PROGRAM = r"""
#include <kilter/runtime.h>
#include <stdio.h>
#include <stdlib.h>
int main(int argc, char **argv) {
  kilter_program *program = NULL;
  kilter_instance *instance = NULL;
  kilter_tensor_info in, out;
  if (argc != 2 || kilter_program_load(argv[1], &program) != KILTER_OK || kilter_program_input(program, 0, &in) != KILTER_OK ||
      kilter_program_output(program, 0, &out) != KILTER_OK || kilter_instance_create(program, 1, &instance) != KILTER_OK) {
    fprintf(stderr, "%s\n", kilter_last_error());
    return 1;
  }
  float *x = malloc(in.bytes), *y = malloc(out.bytes);
  for (size_t i = 0; i < in.bytes / sizeof(float); ++i) x[i] = 1;
  const void *inputs[] = {x};
  void *outputs[] = {y};
  if (kilter_instance_run(instance, inputs, 1, outputs, 1) != KILTER_OK) return 2;
  fwrite(y, 1, out.bytes, stdout);
  return 0;
}
"""


def run(*command, expect=0, **options):
    done = subprocess.run(command, capture_output=True, timeout=900, **options)
    text = (done.stdout + done.stderr).decode(errors="replace")
    assert done.returncode == expect, f"{' '.join(command)}: {done.returncode}\n{text}"
    return done.stdout if options.get("text") is None and expect == 0 and not done.stderr else text


def kilter(*words, expect=0):
    done = subprocess.run([KILTER, *words], capture_output=True, text=True, timeout=600)
    assert done.returncode == expect, f"kilter {' '.join(words)}: {done.returncode}\n{done.stdout}{done.stderr}"
    return done.stdout + done.stderr


def outputs(file, folder, prefix=()):
    done = subprocess.run([*prefix, KILTER, "run", file, *SHAPE, "--output", folder], capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stdout + done.stderr
    return np.load(os.path.join(folder, "output.npy"))


def compile_all():
    """Compiles for four targets together, and for each alone. Returns the size of the common file, and the sum of the
    four."""
    kilter("compile", NETWORK, *SHAPE, "--target", FOUR, "-o", "four.kilter")
    for target in FOUR.split(","):
        kilter("compile", NETWORK, *SHAPE, "--target", target, "-o", f"{target}.kilter")
    return os.path.getsize("four.kilter"), sum(os.path.getsize(f"{t}.kilter") for t in FOUR.split(","))


def test_several():
    one, sum_of_four = compile_all()
    print(f"one file {one / 1e6:.1f} MB, the sum of four {sum_of_four / 1e6:.1f} MB, ratio {one / sum_of_four:.2f}")
    assert one < 0.95 * sum_of_four
    listed = json.loads(kilter("inspect", "four.kilter", "--json", "-"))["targets"]
    assert [row["target"] for row in listed] == FOUR.split(",")
    here = [row["target"] for row in listed if row["runs_here"]]
    assert len(here) == 1, listed
    text = kilter("inspect", "four.kilter")
    assert re.search(rf"^  {here[0]} .*\(runs here\)$", text, re.M), text
    assert np.array_equal(outputs("four.kilter", "four"), outputs(f"{here[0]}.kilter", "one"))
    kilter("compile", NETWORK, *SHAPE, "--target", FOUR, "-o", "again.kilter")
    assert open("again.kilter", "rb").read() == open("four.kilter", "rb").read()
    # Such files can also contain a network for several shapes, or one with control flow.
    onnx.save(made_models.model([helper.make_node("Softmax", ["x"], ["y"])], [made_models.value("x", ["n", 8])],
                                [made_models.value("y", ["n", 8])]), "open.onnx")
    kilter("compile", "open.onnx", "--shapes", "x={1,4}x8", "--target", "x86-64-v3,x86-64-v2,aarch64", "-o", "shapes.kilter")
    assert " (runs here)" in kilter("inspect", "shapes.kilter")
    kilter("run", "shapes.kilter", "--input", "x=4x8")
    with open("one.plan", "w") as file:
        file.write("conv1 = threads=1\n")
    text = kilter("compile", NETWORK, *SHAPE, "--target", "x86-64-v3,aarch64", "--layer-plan", "one.plan", "-o", "planned.kilter")
    for target in ("x86-64-v3", "aarch64"):
        assert f"records: layer plan one.plan: 1 layers; for {target}\n" in text, text
    for words, text in [
        (["--target", "x86-64-v3,x86-64-v3"], "target x86-64-v3,x86-64-v3: 'x86-64-v3' is given twice"),
        (["--target", "x86-64-v3,zen9"], "zen9"),
        (["--target", "x86-64-v3,"], "target 'x86-64-v3,': there is no name before or after a comma"),
        (["--target", "x86-64-v3,znver4", "--cmake"], "--target x86-64-v3,znver4: a library contains code for one "
                                                      "target only"),
    ]:
        assert text in kilter("compile", NETWORK, *SHAPE, *words, "-o", "x.kilter", expect=2), words
    if os.uname().machine == "x86_64":
        kilter("compile", NETWORK, *SHAPE, "--target", "neoverse-n1,aarch64", "-o", "arm.kilter")
        text = kilter("run", "arm.kilter", *SHAPE, expect=3)
        assert re.search(r"'arm.kilter' has no code for this machine \(.*\): neoverse-n1 needs the architecture AArch64; "
                         r"aarch64 needs the architecture AArch64; compile it for this machine as well", text), text
        emulator = shutil.which("qemu-x86_64")  # has AVX2, but not AVX-512
        if emulator is not None:
            got = outputs("four.kilter", "emulated", (emulator, "-cpu", "Haswell"))
            assert np.array_equal(got, outputs("x86-64-v3.kilter", "v3"))


def lstm(folder):
    """A network with an LSTM whose weights are packed by gates, of 96 hidden units."""
    rng = np.random.default_rng(0)
    weights = [onnx.numpy_helper.from_array(rng.standard_normal(shape, np.float32) * 0.1, name)
               for name, shape in [("w", (2, 384, 40)), ("r", (2, 384, 96)), ("b", (2, 768))]]
    node = helper.make_node("LSTM", ["x", "w", "r", "b"], ["y"], hidden_size=96, direction="bidirectional")
    path = os.path.join(folder, "lstm.onnx")
    onnx.save(made_models.model([node], [made_models.value("x", [7, 1, 40])],
                                [made_models.value("y", [7, 2, 1, 96])], weights), path)
    return path


def products(folder):
    """A network of two matrix products, the second of many matrices, with sizes that no vector length divides."""
    rng = np.random.default_rng(1)
    weights = [onnx.numpy_helper.from_array(rng.standard_normal(shape, np.float32), name)
               for name, shape in [("a", (200, 330)), ("b", (3, 330, 70))]]
    nodes = [helper.make_node("MatMul", ["x", "a"], ["h"]), helper.make_node("MatMul", ["h", "b"], ["y"])]
    path = os.path.join(folder, "products.onnx")
    onnx.save(made_models.model(nodes, [made_models.value("x", [3, 64, 200])], [made_models.value("y", [3, 64, 70])], weights),
              path)
    return path


def small_and_fast(model, targets, *words):
    """Compiles both kinds of files, and checks that their results are bitwise identical here. Returns their sizes."""
    for size in ("fast", "small"):
        kilter("compile", model, "--target", targets, "--size", size, *words, "-o", f"{size}.kilter")
        kilter("run", f"{size}.kilter", *[w for w in words if "=" in w or w == "--input"], "--output", size)
    names = os.listdir("fast")
    assert names and sorted(os.listdir("small")) == sorted(names)
    for name in names:
        assert open(f"fast/{name}", "rb").read() == open(f"small/{name}", "rb").read(), (model, name)
    return os.path.getsize("fast.kilter"), os.path.getsize("small.kilter")


def test_small():
    for model, targets, words, most in [
        (NETWORK, FOUR, SHAPE, 0.4),
        ("zoo:resnet18", "native", ["--input", "input=1x3x96x96"], 0.96),
        ("zoo:mobilenet_v1", "native,aarch64", ["--input", "input=1x3x64x64"], 0.6),
        ("zoo:densenet121", "native,aarch64", ["--input", "input=1x3x64x64"], 0.6),
        (lstm("."), "native,aarch64", [], 0.7),
        (products("."), "x86-64-v3,native,aarch64", [], 0.7),
    ]:
        fast, small = small_and_fast(model, targets, *words)
        print(f"{model} for {targets}: {fast / 1e6:.1f} MB, small {small / 1e6:.1f} MB, ratio {small / fast:.2f}")
        assert small < most * fast, (model, small, fast)
    kilter("compile", NETWORK, *SHAPE, "--size", "small", "-o", "again.kilter")
    kilter("compile", NETWORK, *SHAPE, "--size", "small", "-o", "once_more.kilter")
    assert open("again.kilter", "rb").read() == open("once_more.kilter", "rb").read()
    listed = json.loads(kilter("inspect", "again.kilter", "--json", "-"))["targets"]
    assert len(listed) == 1 and listed[0]["memory_bytes"] > listed[0]["constant_bytes"] > 4_000_000, listed
    assert re.search(r"^  \S+ +code +[\d.]+ MB, weights +[\d.]+ MB, +[\d.]+ MB of its own, packed [\d.]+ MB  \(runs here\)$",
                     kilter("inspect", "again.kilter"), re.M)
    text = kilter("compile", NETWORK, *SHAPE, "--size", "small", "-o", "net.so", expect=2)
    assert "--size small: a library contains its weights only in packed form; write a compiled file" in text, text
    # Shapes share the tensors from which constants are packed.
    onnx.save(made_models.model([helper.make_node("Softmax", ["x"], ["y"])], [made_models.value("x", ["n", 8])],
                                [made_models.value("y", ["n", 8])]), "open.onnx")
    kilter("compile", "open.onnx", "--shapes", "x={1,4}x8", "--size", "small", "-o", "shapes.kilter")
    kilter("run", "shapes.kilter", "--input", "x=4x8")


def test_aarch64():
    compiler, emulator = "aarch64-linux-gnu-gcc", "qemu-aarch64"
    if shutil.which(compiler) is None or shutil.which(emulator) is None:
        print(f"targets: skipped: no {compiler} or {emulator}; ./test installs them")
        sys.exit(77)
    for step in (["cmake", "--preset", "aarch64"], ["cmake", "--build", "--preset", "aarch64"]):
        run(*step, cwd=SOURCE)
    one, _ = compile_all()
    with open("main.c", "w") as out:
        out.write(PROGRAM)
    library = f"{SOURCE}/build-aarch64/src"
    run(compiler, "main.c", f"-I{SOURCE}/include", f"-L{library}", "-lkilter_runtime", f"-Wl,-rpath,{library}", "-o", "main")
    command = [emulator, "-cpu", "neoverse-n1", "-L", "/usr/aarch64-linux-gnu", "./main"]
    several = run(*command, "four.kilter")
    assert several == run(*command, "neoverse-n1.kilter") and len(several) == 4000
    kilter("compile", NETWORK, *SHAPE, "--target", FOUR, "--size", "small", "-o", "small.kilter")
    assert several == run(*command, "small.kilter")
    assert np.all(np.isfinite(np.frombuffer(several, np.float32)))
    text = run(emulator, "-cpu", "cortex-a57", "-L", "/usr/aarch64-linux-gnu", "./main", "four.kilter", expect=1)
    assert "has no code for this machine" in text and "neoverse-n1 needs rdm, fullfp16, dotprod" in text, text


def test_signatures():
    kilter("compile", NETWORK, *SHAPE, "-o", "net.kilter")
    try:
        text = kilter("sign", "--new-keys", "release")
    except AssertionError as error:
        if "libsodium, which signatures and fleets need, is not installed" in str(error):
            print("targets: signatures skipped: no libsodium; ./test installs it")
            sys.exit(77)
        raise
    assert re.fullmatch(r"release.secret: the secret key; release.public: the public key; fingerprint [0-9a-f]{16}\n", text), text
    key = bytes.fromhex(open("release.public").read().split("\n")[1])
    assert text.split()[-1] == hashlib.sha256(key).hexdigest()[:16], text
    assert os.stat("release.secret").st_mode & 0o777 == 0o600
    text = kilter("sign", "--new-keys", "release", expect=2)
    assert "release.secret: exists; keys are never replaced: give another name, or move it away" in text, text
    made = json.loads(kilter("sign", "--new-keys", "other", "--json", "-"))
    assert made["files"] == ["other.secret", "other.public"] and re.fullmatch("[0-9a-f]{16}", made["fingerprint"]), made
    assert kilter("sign", "net.kilter", "--key", "release.secret") == "net.kilter.sig: the signature of net.kilter\n"
    kilter("run", "net.kilter", *SHAPE, "--signed-by", "release.public")
    text = kilter("run", "net.kilter", *SHAPE, "--signed-by", "other.public", expect=3)
    assert re.search(r"net.kilter: signed by the owner of the key [0-9a-f]{64}, expected that of other.public", text), text
    with open("broken.secret", "w") as out:
        out.write("kilter secret key 1\n0123\n")
    with open("mixed.secret", "w") as out:
        out.write(open("release.secret").read()[:-65] + open("other.secret").read()[-65:])
    data = bytearray(open("net.kilter", "rb").read())
    data[-1] ^= 1
    with open("net.kilter", "wb") as out:
        out.write(data)
    text = kilter("run", "net.kilter", *SHAPE, "--signed-by", "release.public", "--no-verify-file", expect=3)
    assert "net.kilter: its bytes are not those that were signed in net.kilter.sig; nothing in it was run" in text, text
    for words, text in [
        (["run", "net.kilter", *SHAPE, "--signed-by", "release.secret"], 
         "release.secret: not a file that starts with 'kilter public key 1': it is a secret key; expected a public key, the file "
         "NAME.public of `kilter sign --new-keys NAME`"),
        (["sign", "net.kilter", "--key", "gone.secret"],
         "gone.secret: there is no such file; expected a secret key, the file NAME.secret of `kilter sign --new-keys NAME`"),
        (["sign", "net.kilter", "--key", "mixed.secret"], "mixed.secret: the two halves of the key do not belong together; copy the file again"),
        (["run", NETWORK, "--signed-by", "release.public"], f"{NETWORK} is not a compiled file, so it has no signature; leave out the key"),
        (["run", "net.kilter", *SHAPE, "--signed-by", ""], "--signed-by '': expected the file of a public key"),
        (["sign", "nothing.kilter", "--key", "release.secret"], "nothing.kilter"),
        (["sign", "net.kilter", "--key", "broken.secret"], "broken.secret: line 2: expected 128 digits of 0 to 9 and a to f"),
        (["sign", "net.kilter"], "--key FILE is missing"),
        (["sign", "release.public", "--key", "release.secret"], "release.public is not a compiled file"),
        (["sign"], "give the files to sign and --key, or --new-keys NAME"),
    ]:
        done = subprocess.run([KILTER, *words], capture_output=True, text=True, timeout=300)
        assert done.returncode != 0 and text in done.stderr, (words, done.returncode, done.stderr)
    os.remove("net.kilter.sig")
    text = kilter("run", "net.kilter", *SHAPE, "--signed-by", "release.public", expect=3)
    assert "net.kilter is not signed: there is no file 'net.kilter.sig', which `kilter sign` creates" in text, text


def main():
    for part in sys.argv[3:]:
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)
            globals()[f"test_{part}"]()
            print(f"targets: {part}: fine")
            os.chdir("/")


main()
