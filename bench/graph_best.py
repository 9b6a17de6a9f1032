#!/usr/bin/env python3
"""graph-best against history-best on networks: what the graph tuner chooses, how long it takes, what the race says.

usage: bench/graph_best.py [--kilter PROGRAM] [--records FILE] [--threads N] [--measure S] [--race S] [--json FILE] NETWORK...
  networks as `kilter graph-tune` takes them: zoo:resnet18, model.onnx; records of `kilter tune --records FILE`
Exit codes: 0 done, 1 graph-best was taken and is slower, 2 usage or a network that does not run.
"""
import argparse
import json
import subprocess
import sys
import time


def run(options, network, more):
    command = [options.kilter, "graph-tune", network, "--threads", str(options.threads), "--records", options.records,
               "--json", "-", *more]
    start = time.monotonic()
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}: {done.stderr.strip()}")
    return json.loads(done.stdout) | {"wall_seconds": time.monotonic() - start}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("networks", nargs="+")
    parser.add_argument("--kilter", default="build/kilter")
    parser.add_argument("--records", default="default")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--measure", default="8")
    parser.add_argument("--race", default="10")
    parser.add_argument("--json")
    options = parser.parse_args()
    rows, slower = {}, False
    print("| network | layers, alternatives, edges | solved by | ms | from records alone, s | with measuring, s "
          "| differs in schedules, threads, layouts, fusions | graph-best / history-best | taken |")
    print("|---|---|---|---|---|---|---|---|---|")
    for network in options.networks:
        records = run(options, network, ["--no-run"])
        r = run(options, network, ["--measure", options.measure, "--race", options.race])
        rows[network] = {"records": records, "measured": r}
        d, ratio = r["differences"], r["ratio"]
        says = "the same plan" if r["same_plan"] else f"{ratio['value']:.4f} ({ratio['low']:.4f} to {ratio['high']:.4f})"
        print(f"| {network} | {r['layers']}, {r['alternatives']}, {r['edges']} | {r['how']}"
              f"{', exact' if r['exact'] else ''} | {r['solve_ms']:.1f} | {records['wall_seconds']:.1f} "
              f"| {r['wall_seconds']:.1f} | {d['schedules']}, {d['threads']}, {d['layouts']}, {d['fusions']} | {says} "
              f"| {'yes' if r['won'] else 'no'} |", flush=True)
        slower = slower or (r["won"] and ratio["high"] > 1)
    if options.json:
        with open(options.json, "w", encoding="utf-8") as out:
            json.dump(rows, out, indent=1)
    sys.exit(1 if slower else 0)


if __name__ == "__main__":
    main()
