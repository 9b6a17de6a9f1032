#!/usr/bin/env python3
"""Tests kilter precision: the mix that it finds, its report, the use of its layer plan, and its errors.

usage: precision_test.py KILTER
"""
import json
import pathlib
import subprocess
import sys
import tempfile

import numpy as np

NET = ["zoo:squeezenet1_1", "--input", "input=1x3x64x64", "--threads", "1"]
TARGET = ["--target", "x86-64-v3"]  # has f16 and no bf16
TOLERANCE = 3e-4  # of fp16; measured for the whole network: 7e-4


class Kilter:
    def __init__(self, program):
        self.program = program

    def run(self, *words, code=0):
        """Returns what the program prints, standard error after standard output."""
        done = subprocess.run([self.program, *map(str, words)], capture_output=True, text=True)
        text = done.stdout + done.stderr
        assert done.returncode == code, f"kilter {' '.join(map(str, words))}: exit {done.returncode}, expected {code}\n{text}"
        return text

    def output(self, folder, *words):
        self.run("run", *words, "--output", folder)
        return np.load(folder / "output.npy")


def expect(part, text):
    assert part in text, f"expected: {part}\ngot: {text}"


def test_errors(kilter, folder, samples):
    precision = ["precision", *NET, "--tolerance", 1e-2]
    text = kilter.run(*precision, code=2)
    expect("precision zoo:squeezenet1_1: give a folder of samples with --samples DIR, on which the outputs are compared with "
           "f32\nthe model's inputs:\n  input: f32[1,3,64,64]\n", text)
    expect('numpy.save(f"DIR/{i:04}.npy", x.astype(numpy.float32))', text)
    empty, wrong = folder / "empty", folder / "wrong"
    empty.mkdir(), wrong.mkdir()
    expect(f"--samples {empty}: the folder contains no samples\nthe model's inputs:",
           kilter.run(*precision, "--samples", empty, code=3))
    expect(f"--samples {folder / 'none'}: cannot be read: No such file or directory",
           kilter.run(*precision, "--samples", folder / "none", code=3))
    np.save(wrong / "a.npy", np.zeros((1, 3, 32, 32), np.float32))
    expect(f"{wrong / 'a.npy'}: f32 of shape 1x3x32x32, expected f32[1,3,64,64] for input 'input'",
           kilter.run(*precision, "--samples", wrong, code=3))
    np.save(wrong / "a.npy", np.zeros((1, 3, 64, 64), np.float64))
    expect(f"{wrong / 'a.npy'}: f64 of shape 1x3x64x64, expected f32[1,3,64,64] for input 'input'",
           kilter.run(*precision, "--samples", wrong, code=3))
    expect("--precision bf16: this command chooses the precision itself; leave the option out",
           kilter.run(*precision, "--samples", samples, "--precision", "bf16", code=2))
    expect("--tolerance", kilter.run("precision", *NET, "--samples", samples, code=2))
    expect("--tolerance 1e-12: no mix of f32 with bf16 or fp16 stays within it on these samples; the best reached is ",
           kilter.run("precision", *NET, *TARGET, "--samples", samples, "--tolerance", 1e-12, code=2))
    expect("--precision bf16: target 'x86-64-v2' has no instruction that multiplies bf16",
           kilter.run(*precision, "--samples", samples, "--target", "x86-64-v2", code=2))


def test_a_mix(kilter, folder, samples):
    report, plan = folder / "report.json", folder / "net.plan"
    text = kilter.run("precision", *NET, *TARGET, "--samples", samples, "--tolerance", TOLERANCE, "--seconds", 1, "--json",
                      report, "-o", plan)
    expect("zoo:squeezenet1_1 for x86-64-v3 on 1 thread, ", text)
    expect("; 3 samples, tolerance 0.0003\nprecision  layers in f32     error         ms    of f32\ndeclared ", text)
    expect("  beyond the tolerance\n", text)
    expect("\nbf16: --precision bf16: target 'x86-64-v3' has no instruction that multiplies bf16", text)
    expect("\nfp16, layers with the largest errors error alone    f32 ms   fp16 ms  stays  operators\n", text)
    data = json.loads(report.read_text())
    declared, whole, mix = data["mixes"]
    assert [m["precision"] for m in data["mixes"]] == ["declared", "fp16", "fp16"], data["mixes"]
    assert declared["error"] == 0 and whole["error"] > TOLERANCE >= mix["error"] > 0, data["mixes"]
    assert [m["within"] for m in data["mixes"]] == [True, False, True], data["mixes"]
    assert sum(m["chosen"] for m in data["mixes"]) == 1 and not whole["chosen"], data["mixes"]
    assert 0 < mix["layers_in_f32"] < mix["layers"] and mix["keep_float"], mix
    bf16, fp16 = data["precisions"]
    assert bf16["precision"] == "bf16" and bf16["refused"] and not bf16["layers"], bf16
    kept = [layer for layer in fp16["layers"] if layer["in_f32"]]
    assert sorted({node for layer in kept for node in layer["nodes"]}) == sorted(mix["keep_float"]), mix
    assert all(layer["f32_ms"] > 0 and layer["ms"] > 0 for layer in kept), kept
    # The errors of the layers account for the error of the network.
    together = sum(layer["error"] ** 2 for layer in fp16["layers"]) ** 0.5
    assert whole["error"] / 4 < together < whole["error"] * 4, (whole, together)
    expect(f"# zoo:squeezenet1_1 for x86-64-v3 on 1 thread, {data['cpu']}: precision chosen on 3 samples for a tolerance of 0.0003\n",
           plan.read_text())
    return mix


def test_using_it(kilter, folder, samples, mix):
    """Compiles with a plan of the mix, whether or not it is the fastest on this machine."""
    plan, sample = folder / "mix.plan", sorted(samples.iterdir())[0]
    plan.write_text("--precision fp16\n" + "".join(f"--keep-float {node}\n" for node in mix["keep_float"]))
    net = ["zoo:squeezenet1_1", "--input", f"input={sample}", "--threads", "1"]
    wide = kilter.output(folder / "wide", *net, *TARGET)
    mixed = kilter.output(folder / "mixed", *net, *TARGET, "--layer-plan", plan)
    error = np.abs(mixed - wide).max() / np.abs(wide).max()
    assert 0 < error <= TOLERANCE, error
    same = kilter.output(folder / "same", *net, *TARGET, "--precision", "fp16",
                         *[word for node in mix["keep_float"] for word in ("--keep-float", node)])
    assert np.array_equal(mixed, same)
    compiled = folder / "net.kilter"
    kilter.run("compile", *NET, *TARGET, "--layer-plan", plan, "-o", compiled)
    assert np.array_equal(kilter.output(folder / "compiled", compiled, *net[1:]), mixed)
    expect("(x86-64-v3, fp16+f32 on ", kilter.run("bench", compiled, "--seconds", 0.1, "--threads", 1))
    expect(f"{compiled} is a compiled file, which has the precision that it was compiled with; give the model",
           kilter.run("precision", compiled, "--samples", samples, "--tolerance", 1e-2, code=2))
    # Records may be used with a plan that only sets the precision.
    kilter.run("run", *NET, *TARGET, "--layer-plan", plan, "--records", folder / "none.db", code=3)
    expect(f"precision bf16: the layer plan {plan} sets precision fp16; give only one of them",
           kilter.run("run", *NET, "--layer-plan", plan, "--precision", "bf16", code=2))
    plan.write_text("--precision fp16\n--keep-float nothing\n")
    expect("--keep-float nothing: no node or operator of the network has this name; its operators are ",
           kilter.run("run", *NET, *TARGET, "--layer-plan", plan, code=2))


def main():
    kilter = Kilter(sys.argv[1])
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        samples = folder / "samples"
        samples.mkdir()
        random = np.random.default_rng(1)
        for i in range(3):
            np.save(samples / f"{i}.npy", random.standard_normal((1, 3, 64, 64), np.float32))
        test_errors(kilter, folder, samples)
        mix = test_a_mix(kilter, folder, samples)
        test_using_it(kilter, folder, samples, mix)
    print("precision: passed")


if __name__ == "__main__":
    main()
