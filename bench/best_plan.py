#!/usr/bin/env python3
"""Compares the plan from a few minutes of `kilter tune` with the best plan known. Prints one table with the share of the best speed that it reaches.

usage: best_plan.py [--kilter build/kilter] [--threads 1] [--time 3min] [--reference 10min] [--continue] [--race 30] [--compare 30]
                    [--restarts 5] [--records DIR] [--models models] [NAME[=TIME] ...]

For each network, `kilter tune --time TIME` starts without records. Then all searchers share REFERENCE: `model`, with another
seed, also starts without records; the others (ga, xgb, xgb-rank, random, grid) continue from what was found before them.
Every plan that one of these runs accepted is kept, including the tuned one. At the end, all distinct plans are raced
interleaved (--race seconds), and the fastest is the best one known. It is then compared with the tuned plan in a new measurement:
both are compiled and started --restarts times (--compare seconds in total). The share is the best plan's time over the
tuned plan's, with the interval over these processes. The control is the tuned plan against itself, compiled again. A plan
that no run accepted cannot be the best, so the share refers to what is known, not to what is possible.

--continue keeps the results of earlier runs under DIR and adds REFERENCE to their time, so that the promised hour can be
spread over several runs; networks without an earlier run start from nothing. DIR/NAME.THREADS/reference.json has the
seconds and trials of each searcher so far.
Exit codes: 0 done; 1 a share is below 0.97 or a network failed; 2 the command line, or the data for --continue, cannot be used.
"""
import json
import pathlib
import shutil
import subprocess
import sys

import networks
import peers

FRESH = "model"  # starts without records, as the tuned run does
SEARCHERS = [FRESH, "ga", "xgb", "xgb-rank", "random", "grid"]
NETWORKS = ["resnet50=5min", "resnet18", "mobilenet_v2", "squeezenet1_1", "inception_v3", "centernet_dla34", "ppocr_det"]
PROMISED_SHARE = 0.97
PROMISED_SECONDS = 3600  # of the reference


class Kept:
    """The results of a network's runs under --records: the tuned run, and the reference with every accepted plan."""

    def __init__(self, args, name):
        self.folder = pathlib.Path(args.records) / f"{name}.{args.threads}"
        self.file = self.folder / "reference.json"
        self.begun = args.go_on and self.file.exists()
        if args.go_on and not self.begun and (self.folder / "tuned.db").exists():
            self.refuse("reference.json is missing, so the tuned run did not end")
        self.tuned, self.reference = {}, {}
        if not self.begun:
            return
        self.tuned, self.reference = self.read("tuned.json"), self.read("reference.json")
        if not all(key in self.tuned for key in ("seconds", "trials", "trials_per_second", "ratio")):
            self.refuse("tuned.json is not what `kilter tune --json` writes")
        if not all(key in self.reference for key in ("searchers", "plans")):
            self.refuse("reference.json has no searchers or no plans")
        for file in ["best.db", *self.reference["plans"]]:
            if not (self.folder / file).exists():
                self.refuse(f"{file} is missing")

    def refuse(self, why):
        peers.refuse(f"--continue: {self.folder}: {why}; remove the folder or leave --continue out, and this network starts from nothing")

    def read(self, file):
        try:
            return json.loads((self.folder / file).read_text())
        except (OSError, ValueError) as error:
            self.refuse(f"{file} cannot be read: {error}")

    def begin(self):
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)

    def save(self):
        made = self.file.with_suffix(".new")
        made.write_text(json.dumps(self.reference, indent=1) + "\n")
        made.replace(self.file)

    def total(self, key):
        return sum(row[key] for row in self.reference["searchers"].values())


class Network:
    def __init__(self, args, name, kept):
        self.args, self.kept, self.folder = args, kept, kept.folder
        self.path = networks.path_of(name, args.models)
        self.common = ["--threads", args.threads, *networks.input_options(networks.SHAPES.get(name, {}))]

    def tune(self, records, seconds, plan, *more):
        """Returns the outcome, and writes the accepted plan to a file."""
        out = self.folder / f"{records}.json"
        peers.kilter(self.args, "tune", self.path, "--records", self.folder / f"{records}.db", "--time", f"{seconds:g}s", "--json", out,
                     "--write-plan", self.folder / plan, *more, *self.common)
        return json.loads(out.read_text())

    def begin(self, seconds):
        self.kept.begin()
        self.kept.tuned = self.tune("tuned", seconds, "tuned.plan")
        for file in self.folder.glob("tuned.db*"):
            shutil.copy(file, self.folder / file.name.replace("tuned.db", "best.db"))
        self.kept.reference = {"searchers": {}, "plans": ["tuned.plan"]}
        self.kept.save()

    def search(self, searcher, seconds):
        """Adds a run of a searcher to the reference."""
        row = self.kept.reference["searchers"].setdefault(searcher, {"seconds": 0.0, "trials": 0, "runs": 0})
        seed = ["--searcher-option", f"seed={2 + row['runs']}"] if searcher != "grid" else []
        plan = f"{searcher}.{row['runs'] + 1}.plan"
        run = self.tune("fresh" if searcher == FRESH else "best", seconds, plan, "--searcher", searcher, *seed)
        row["seconds"] += run["seconds"]
        row["trials"] += run["trials"]
        row["runs"] += 1
        self.kept.reference["plans"].append(plan)
        if searcher != FRESH:
            self.kept.reference["tasks"] = {"all": len(run["tasks"]), "wholly_tried": sum(t["tried"] >= t["size"] for t in run["tasks"])}
        self.kept.save()

    def with_plan(self, plan):
        """Returns the arguments of `kilter compile` for a plan."""
        return [self.path, "--layer-plan", self.folder / plan, *self.common]

    def distinct(self):
        """Returns the accepted plans that compile to different code, the tuned one first."""
        found = {}
        for plan in self.kept.reference["plans"]:
            found.setdefault(peers.layers_text(self.args, *self.with_plan(plan)), plan)
        return list(found.values())

    def fastest(self, plans):
        """Returns the fastest plan in a race of all, or the tuned plan if none is faster."""
        runners = {}
        for n, plan in enumerate(plans):
            file = self.folder / f"raced.{n}.kilter"
            peers.kilter(self.args, "compile", *self.with_plan(plan), "-o", file)
            runners[plan] = lambda file=file: peers.kilter_slice(self.args, file, {}, self.args.threads)["median_ms"]
        ms = peers.interleave(runners, self.args.race)
        for file in self.folder.glob("raced.*.kilter"):
            file.unlink()
        return min(plans, key=lambda plan: peers.paired_ratio(ms[plan], ms[plans[0]])["value"])

    def judge(self):
        """Returns the number of plans, the best one's name, and its share and the control's, both None if the tuned plan is the best."""
        plans = self.distinct()
        best = self.fastest(plans) if len(plans) > 1 else plans[0]
        if best == plans[0]:
            return len(plans), best, None, None
        tuned = self.with_plan(plans[0])
        share, control = (peers.restarted_ratio(self.args, self.folder, self.args.threads, tuned, b) for b in (self.with_plan(best), tuned))
        self.kept.reference["outcome"] = {"best": best, "share": share, "control": control}
        self.kept.save()
        return len(plans), best, share, control


def verdict_of(share):
    if share is None:
        return "passed"
    says = "passed" if share["value"] >= PROMISED_SHARE else "missed"
    return says + (", undecided" if share["low"] < PROMISED_SHARE < share["high"] else "")


def row_of(kept, plans, best, share, control):
    run, tasks = kept.tuned, kept.reference.get("tasks", {"wholly_tried": 0, "all": 0})
    shares = f"{peers.ratio_text(share)} | {peers.ratio_text(control)}" if share else "1, the tuned plan is the best one | not timed"
    return (f"{run['seconds']:.0f} s | {run['trials']} | {run['trials_per_second']:.0f} | {peers.ratio_text(run['ratio'])} "
            f"| {kept.total('seconds') / 60:.3g} of {PROMISED_SECONDS // 60} min | {kept.total('trials')} | {tasks['wholly_tried']} of {tasks['all']} "
            f"| {best.removesuffix('.plan')} of {plans} | {shares} | {verdict_of(share)} |")


def searchers_here(args):
    """Returns the searchers that can run. The XGBoost ones need its library; Kilter quickly says whether it finds it."""
    table = min((pathlib.Path(__file__).parent / "searchers").glob("*.jsonl"), key=lambda file: file.stat().st_size)
    try:
        peers.kilter(args, "searchers", table, "--searcher", "xgb", "--seeds", 1, "--trials", 1)
        return SEARCHERS
    except RuntimeError as error:
        print(f"without xgb and xgb-rank: {error}\n", flush=True)
        return [searcher for searcher in SEARCHERS if not searcher.startswith("xgb")]


def parsed():
    """Parses and checks the command line. `networks` maps names to the seconds that they are tuned for."""
    parser = peers.Parser(__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME[=TIME]", default=NETWORKS)
    parser.add_argument("--kilter", default="build/kilter")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--time", default="3min")
    parser.add_argument("--reference", default="10min")
    parser.add_argument("--continue", dest="go_on", action="store_true")
    parser.add_argument("--race", type=float, default=30)
    parser.add_argument("--compare", type=float, default=30)
    parser.add_argument("--restarts", type=int, default=5)
    parser.add_argument("--records", default="models/best_plan")
    parser.add_argument("--models", default="models")
    args = parser.parse_args()
    peers.check_comparison(args)
    usual = peers.seconds_of(args.time, f"--time {args.time}")
    args.reference = peers.seconds_of(args.reference, f"--reference {args.reference}")
    args.networks = {}
    for entry in args.names:
        name, equals, time = entry.partition("=")
        args.networks[name] = peers.seconds_of(time, entry) if equals else usual
    peers.check_names(args.networks)
    peers.check_program(args)
    return args


def main():
    args = parsed()
    kept = {name: Kept(args, name) for name in args.networks}
    searchers = searchers_here(args)
    print(f"| network, {args.threads} thread{'s' if args.threads > 1 else ''} | tuned for | trials | trials a second | tuned / default (95 %) | reference "
          "| its trials | tasks wholly tried | best plan known, of how many | share of its speed (95 %) | tuned / tuned (95 %) | at least 0.97 |\n"
          f"|{'---|' * 12}", flush=True)
    missed = False
    for name, seconds in args.networks.items():
        try:
            network = Network(args, name, kept[name])
            if not kept[name].begun:
                network.begin(seconds)
            for searcher in searchers:
                network.search(searcher, args.reference / len(searchers))
            plans, best, share, control = network.judge()
        except (RuntimeError, OSError, ValueError, subprocess.SubprocessError) as error:
            print(f"| {name} | failed: {error} |", flush=True)
            missed = True
            continue
        print(f"| {name} | {row_of(kept[name], plans, best, share, control)}", flush=True)
        missed = missed or (share is not None and share["value"] < PROMISED_SHARE)
    print()
    for name in args.networks:
        rows = kept[name].reference.get("searchers", {})
        if rows:
            says = ", ".join(f"{searcher} {row['seconds']:.0f} s {row['trials']} trials" for searcher, row in rows.items())
            print(f"{name}: {says}; {kept[name].file}")
    sys.exit(1 if missed else 0)


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        print("best_plan.py: stopped; --continue continues from what was found", file=sys.stderr)
        sys.exit(130)
