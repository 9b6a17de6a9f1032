#!/usr/bin/env bash
# Tests the graph tuner through the program: a plan is chosen, kept next to the records, written to a file and used to compile.
# Usage: graph_tune_test.sh KILTER
set -euo pipefail
kilter=$(realpath "$1")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
die() { echo "FAILED: $*" >&2; exit 1; }
expect() { grep -qF -- "$2" "$1" || { cat "$1" >&2; die "$1 does not say: $2"; }; }
model=(zoo:squeezenet1_1 --input input=1x3x96x96 --threads 1)

"$kilter" tune "${model[@]}" --records r.db --time 30s --trials 60 --verbose --json tuned.json > tuned.txt
expect tuned.txt "graph tuner: "
expect tuned.txt "layers by the analytic model: history-best "
[ "$(wc -l < r.db.plans.jsonl)" -le 2 ] || die "tune keeps the plan of its race, and then graph-best where that wins"

"$kilter" graph-tune "${model[@]}" --records r.db --measure 1 --race 2 --write-plan best.plan --json best.json > best.txt
expect best.txt "layout changes: 16 samples, known from r.db.transforms-"
expect best.txt ", exact; "
"$kilter" run "${model[@]}" --layer-plan best.plan --verify > run.txt
expect run.txt "verify: passed"
"$kilter" run "${model[@]}" --records r.db --choose graph-best --verify > run.txt
expect run.txt "verify: passed"
"$kilter" graph-tune "${model[@]}" --records r.db --measure 0.5 --race 1 --measure-transforms > anew.txt
expect anew.txt "layout changes: 16 samples, measured in "

# With every solver, a plan is computed only from records, without worker or race.
for solver in auto pbqp greedy; do
  "$kilter" graph-tune "${model[@]}" --records r.db --no-run --solver $solver --layers > records.txt
  expect records.txt "0 variants measured"
  expect records.txt "* "
done
"$kilter" graph-tune "${model[@]}" --records none.db --no-run > records.txt
[ ! -e none.db ] || { echo "FAILED: --no-run makes a file of records"; exit 1; }
# Setting up and solving the problem of a whole network takes seconds, including the start of the command.
for net in inception_v3 densenet121; do
  for solver in auto pbqp; do
    (ulimit -t 10; timeout 120 "$kilter" graph-tune zoo:$net --threads 2 --records none --no-run --solver $solver > whole.txt) ||
      die "$net takes more than 10 s of CPU time: $(cat whole.txt)"
    expect whole.txt ", exact; 0 variants measured"
  done
done
# The accepted plan takes part in the race, whatever its own race showed, and is replaced only if it clearly loses.
python3 - <<'PY'
import json
line = json.loads(open("r.db.plans.jsonl").readlines()[-1])
line["default_ratio"] = [0.1, 0.1, 0.1]
line["plan"] = "conv1 = conv2d_direct vectors=1 rows=1 tile=1 prefetch=0\n"
open("r.db.plans.jsonl", "a").write(json.dumps(line) + "\n")
PY
"$kilter" graph-tune "${model[@]}" --records r.db --measure 0.5 --race 2 --json raced.json --write-plan raced.plan > raced.txt
python3 - <<'PY'
import json
best, plan, said = json.load(open("raced.json")), open("raced.plan").read(), open("raced.txt").read()
kept = json.loads(open("r.db.plans.jsonl").readlines()[-1])
raced = best["rounds"] > 0 and not best["same_plan"]
assert ("accepted_ratio" in best) == raced, best
assert not raced or best["accepted_ratio"]["value"] < 1, best
if best["won"]:
    assert ": graph-best is accepted\ngraph-best is kept as the accepted plan" in said, said
    assert " graph-best 20" in plan.splitlines()[0] and kept["default_ratio"][0] > 0.1, (plan, kept)
else:
    assert not raced or ": the accepted plan stays\n" in said, said
    assert " is kept: it took 0.1000 (0.1000 to 0.1000) of the default's time in its race" in said, said
    assert " the accepted plan 20" in plan.splitlines()[0] and "conv1 = conv2d_direct vectors=1 rows=1 tile=1" in plan, plan
PY
rm r.db.plans.jsonl
"$kilter" inspect "${model[@]}" --records r.db --choose graph-best --schedules > schedules.txt
[ ! -e r.db.plans.jsonl ] || die "compiling keeps no plan"

refuse() {
  local says=$1
  shift
  if "$kilter" "$@" > out.txt 2> err.txt; then die "accepted: $*"; fi
  expect err.txt "$says"
}
refuse "unknown option '--layer-plan'" graph-tune "${model[@]}" --layer-plan best.plan
refuse "unknown option '--choose'" graph-tune "${model[@]}" --choose history-best
"$kilter" graph-tune "${model[@]}" --records r.db --no-run --layers --forbid direct@fire2.expand3x3 > forbidden.txt
! grep "fire2.expand3x3 |" forbidden.txt | grep -q "conv2d_direct" || die "a forbidden template is an alternative"
refuse "--choose: worst not in {accepted,history-best,graph-best}" run "${model[@]}" --choose worst
echo 'fire2.squeeze = layout=c8' > bad.plan
refuse "bad.plan line 1: 'layout=c8': legal settings after the schedule are layout=plain, fuse=no, fuse=before, fuse=apart and threads=N" \
  run "${model[@]}" --layer-plan bad.plan
