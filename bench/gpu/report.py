#!/usr/bin/env python3
"""Joins the peers.json files of several visits to one machine, and prints the tables of results/README.md.

usage: report.py [--join OUT.json VISIT.json ...] [--autotune LOG ...] | report.py RESULTS.json [FACTS.json]

With --join, if several visits timed the same network, precision, peer and kind, the visit with the most timings counts, so
that figures measured alternately stay together. --autotune takes the logs of torch_peers.py, in which max-autotune lists what
it measured for each layer's shape. Without --join, prints the tables.
"""
import argparse
import json
import math
import pathlib
import re

NETWORKS = ["resnet18", "resnet50", "mobilenet_v2", "vgg16", "efficientnet_b0", "bert_base_128", "centernet_dla34"]
PEERS = ["eager", "graph", "fused_graph", "inductor_graph", "reduce_overhead", "max_autotune_graph", "max_autotune", "jax"]
PRECISIONS = ["fp32", "tf32", "fp16"]
KEY = ("network", "precision", "peer", "kind")


def joined(paths):
    """Joins all visits. Each row names its visit. If several visits timed the same thing, the visit with the most timings counts; the others' are kept separately."""
    visits = [json.loads(path.read_text()) for path in paths]
    result = {"visits": [], "timings": [], "other_timings": [], "compiled": [], "failed": [], "clocks": []}
    counts = {}
    for number, visit in sorted(enumerate(visits, 1), key=lambda item: len(item[1]["timings"])):
        result["visits"].append({"visit": number, **{key: visit[key] for key in ("date", "command", "versions", "device")}})
        for part in ("compiled", "failed", "clocks"):
            result[part] += [{"visit": number, **row} for row in visit[part]]
        for row in visit["timings"]:
            key = tuple(row[name] for name in KEY)
            if key in counts:
                result["other_timings"].append(counts[key])
            counts[key] = {"visit": number, **row}
    result["visits"].sort(key=lambda row: row["visit"])
    result["timings"] = list(counts.values())
    return result


def layers(paths):
    """Returns what inductor measured per shape: the library's time and the best Triton kernel's, in milliseconds."""
    found = {}
    block = re.compile(r"^AUTOTUNE (\w+)\((.*)\)\nstrides.*\ndtypes: torch\.(\w+).*\n((?:  .*\n)+)", re.M)
    for path in paths:
        for operator, shape, dtype, choices in block.findall(path.read_text()):
            tf32 = "ALLOW_TF32=True" in choices
            times = [(words[0], float(words[1])) for words in (line.split() for line in choices.splitlines())]
            triton = [ms for name, ms in times if name.startswith("triton")]
            library = [ms for name, ms in times if not name.startswith("triton")]
            precision = "fp16" if dtype == "float16" else "tf32" if tf32 else "fp32"
            best = min(triton, default=None)
            found.setdefault((operator, shape, precision), {"operator": operator, "shape": shape, "precision": precision,
                                                            "library_ms": min(library, default=None), "triton_ms": best})
    return sorted(found.values(), key=lambda row: (row["precision"], row["operator"], row["shape"]))


def table(rows, kind, precision, peers):
    """Prints milliseconds by network and peer, the best in bold, and the geometric mean over the best of peers that ran all."""
    print(f"| network | {' | '.join(peers)} |\n|---|{'---:|' * len(peers)}")
    ratios = {peer: [] for peer in peers}
    names = [n for n in NETWORKS if any((n, precision, p, kind) in rows for p in peers)]
    for network in names:
        times = {peer: rows[network, precision, peer, kind]["median_ms"] for peer in peers if (network, precision, peer, kind) in rows}
        best = min(times.values())
        for peer, ms in times.items():
            ratios[peer].append(ms / best)
        cells = [("**{:.3f}**" if times[p] == best else "{:.3f}").format(times[p]) if p in times else "-" for p in peers]
        print(f"| {network} | {' | '.join(cells)} |")
    means = [f"{math.exp(sum(map(math.log, r)) / len(r)):.2f}" if len(r) == len(names) else "-" for r in ratios.values()]
    print(f"| geometric mean over the best | {' | '.join(means)} |")
    best_all = [min(rows[n, precision, p, kind]["median_ms"] for p in peers if (n, precision, p, kind) in rows) for n in names]
    print(f"\nGeometric mean of the best peer's times: {math.exp(sum(map(math.log, best_all)) / len(best_all)):.3f} ms\n")


def print_tables(data):
    rows = {tuple(row[name] for name in KEY): row for row in data["timings"]}
    for kind, title in (("stream", "back to back, per run"), ("flushed", "cold L2, device time of a run"), ("sync", "each run waited for"),
                        ("end_to_end", "with copies from and to the host")):
        for precision in PRECISIONS:
            peers = [p for p in PEERS if any(key[1:] == (precision, p, kind) for key in rows)]
            if peers:
                print(f"### {precision}: {title}, ms\n")
                table(rows, kind, precision, peers)
    errors = {}
    for row in data["compiled"]:
        errors.setdefault((row["network"], row["precision"]), []).append(row["error"])
    print("### Largest difference from float64 over the largest value, worst peer\n")
    print(f"| network | {' | '.join(PRECISIONS)} |\n|---|{'---:|' * 3}")
    for network in NETWORKS:
        print(f"| {network} | {' | '.join('{:.1e}'.format(max(errors[network, p])) for p in PRECISIONS if (network, p) in errors)} |")


def print_facts(facts, prefix=""):
    for key, value in facts.items():
        if isinstance(value, dict):
            print_facts(value, f"{prefix}{key}: ")
        else:
            print(f"| {prefix}{key} | {f'{value:.4g}' if isinstance(value, float) else value} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", type=pathlib.Path)
    parser.add_argument("--join", nargs="+", type=pathlib.Path)
    parser.add_argument("--autotune", nargs="*", type=pathlib.Path, default=[])
    args = parser.parse_args()
    if args.join:
        data = joined(args.join[1:])
        data["inductor_layers"] = layers(args.autotune)
        args.join[0].write_text(json.dumps(data, indent=1) + "\n")
    if args.files:
        print_tables(json.loads(args.files[0].read_text()))
    if len(args.files) > 1:
        print("\n| fact | value |\n|---|---|")
        print_facts(json.loads(args.files[1].read_text()))


if __name__ == "__main__":
    main()
