"""Measures tile registers (AMX): what to run first on a machine that has them.

usage: amx.py [--kilter build/kilter] [--tests build/tests] [--threads 1] [--seconds 0.5] [--json FILE]
Runs the tests of tile registers on the processor itself. Then times the layers of bench/kernels/amx.txt with tile
registers (target sapphirerapids) and with vectors (sapphirerapids-avx512), each target twice in turn, and prints for
each layer the time, the share of the bound, and the speed-up over vectors. The last lines are medians: for layers of 20
million operations and more, 60 % of the bound is the aim. The figures correct the assumptions of doc/decisions/0045 and
the rates in src/schedule/templates/amx_core.cpp.
Exit codes: 0 done, 1 a test fails or a command cannot run, 2 usage, 3 the machine has no AMX or the system refuses it.
"""
import argparse
import json
import pathlib
import statistics
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
TARGETS = {"tiles": "sapphirerapids", "vectors": "sapphirerapids-avx512"}
LARGE = 20e6  # operations of a layer that counts for the median


def has_amx():
    flags = next((line for line in open("/proc/cpuinfo") if line.startswith("flags")), "")
    return {"amx_tile", "amx_bf16", "amx_int8"} <= set(flags.split())


def run_tests(folder):
    """Returns whether the tests of tile registers pass."""
    calls = [("loop", "Tiles*"), ("codegen", "Tiles*"), ("amx", "*"), ("measure", "Peaks*")]
    return all(subprocess.run([folder / name / f"test_{name}", f"--gtest_filter={only}", "--gtest_brief=1"],
                              check=False).returncode == 0 for name, only in calls)


def measure(kilter, target, threads, seconds):
    """Returns the report of `kilter kernels` for a target."""
    call = [kilter, "kernels", HERE / "kernels/amx.txt", "--target", target, "--threads", str(threads), "--seconds",
            str(seconds), "--json", "-"]
    done = subprocess.run(call, check=False, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{target}: {done.stderr.strip()}")
    return json.loads(done.stdout)


def best_times(reports):
    """Returns for each problem the report row with the least time."""
    best = {}
    for report in reports:
        for network in report["networks"]:
            for row in network["kernels"]:
                known = best.get(row["problem"])
                if known is None or row["chosen"]["ms"] < known["chosen"]["ms"]:
                    best[row["problem"]] = row
    return best


def print_table(tiles, vectors):
    shares, gains = [], []
    print(f"{'ms':>8} {'GFLOP/s':>8} {'of bound':>8} {'gain':>6}  layer")
    for problem, row in tiles.items():
        chosen = row["chosen"]
        share = chosen["bound_ms"] / chosen["ms"]
        gain = vectors[problem]["chosen"]["ms"] / chosen["ms"]
        if chosen["effective_flops"] >= LARGE:
            shares.append(share)
            gains.append(gain)
        print(f"{chosen['ms']:8.4f} {chosen['gflops']:8.0f} {share:8.0%} {gain:6.2f}  {problem} | {chosen['schedule']}")
    print(f"median of {len(shares)} layers of {LARGE:.0e} operations or more: {statistics.median(shares):.0%} of the bound, "
          f"{statistics.median(gains):.2f} times as fast as with vectors")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kilter", type=pathlib.Path, default=HERE.parent / "build/kilter")
    parser.add_argument("--tests", type=pathlib.Path, default=HERE.parent / "build/tests")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=0.5)
    parser.add_argument("--json", type=pathlib.Path, help="writes all reports to a file")
    options = parser.parse_args()
    if not has_amx():
        print("amx.py: this processor has no AMX, or the system hides it", file=sys.stderr)
        return 3
    if not run_tests(options.tests):
        return 1
    reports = {name: [] for name in TARGETS}
    for _ in range(2):
        for name, target in TARGETS.items():
            reports[name].append(measure(options.kilter, target, options.threads, options.seconds))
    if options.json:
        options.json.write_text(json.dumps(reports, indent=1))
    peaks = reports["tiles"][0]
    print(f"peaks: f32 {peaks['peak_gflops']:.0f} GFLOP/s, bf16 {peaks['peak_bf16_gflops']:.0f}, "
          f"int8 {peaks['peak_byte_gops']:.0f}; L2 {peaks['l2_gbps']:.0f} GB/s, L3 {peaks['l3_gbps']:.0f}, DRAM {peaks['dram_gbps']:.0f}")
    print_table(best_times(reports["tiles"]), best_times(reports["vectors"]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
