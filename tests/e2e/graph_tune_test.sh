#!/usr/bin/env bash
# The graph tuner through the program: a plan is chosen, kept beside the records, written to a file and compiled with.
# Usage: graph_tune_test.sh KILTER
set -euo pipefail
kilter=$(realpath "$1")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
die() { echo "FAILED: $*" >&2; exit 1; }
expect() { grep -qF -- "$2" "$1" || { cat "$1" >&2; die "$1 does not say: $2"; }; }
model=(zoo:squeezenet1_1 --input input=1x3x96x96 --threads 1)

"$kilter" tune "${model[@]}" --records r.db --time 30s --trials 60 --json tuned.json > tuned.txt
expect tuned.txt "graph tuner: "
expect tuned.txt "layers by the model: history-best "
[ "$(wc -l < r.db.plans.jsonl)" = 1 ] || die "tune keeps one plan"

"$kilter" graph-tune "${model[@]}" --records r.db --measure 1 --race 2 --write-plan best.plan --json best.json > best.txt
expect best.txt "layout changes: 16 samples, known from r.db.transforms-"
expect best.txt ", exact; "
"$kilter" run "${model[@]}" --layer-plan best.plan --verify > run.txt
expect run.txt "verify: passed"
"$kilter" run "${model[@]}" --records r.db --choose graph-best --verify > run.txt
expect run.txt "verify: passed"
"$kilter" graph-tune "${model[@]}" --records r.db --measure 0.5 --race 1 --measure-transforms > anew.txt
expect anew.txt "layout changes: 16 samples, measured in "

# From records alone: no worker, no race, every solver.
for solver in auto pbqp greedy; do
  "$kilter" graph-tune "${model[@]}" --records r.db --no-run --solver $solver --layers > records.txt
  expect records.txt "0 variants measured"
  expect records.txt "* "
done
# A plan that was better in its race stays; a worse one gives way only to one that won.
sed -i 's/"default_ratio":\[[^]]*\]/"default_ratio":[0.1,0.1,0.1]/' r.db.plans.jsonl
"$kilter" graph-tune "${model[@]}" --records r.db --measure 0.5 --race 1 > stays.txt
expect stays.txt " stays: it took 0.1000 (0.1000 to 0.1000) of the default's time in its race"
[ "$(sed -n '$p' r.db.plans.jsonl | grep -c '"default_ratio":\[0.1,0.1,0.1\]')" = 1 ] || die "the better plan does not stay"
rm r.db.plans.jsonl
"$kilter" inspect "${model[@]}" --records r.db --choose graph-best --schedules > schedules.txt
[ ! -e r.db.plans.jsonl ] || die "compiling keeps no plan"

refuse() {
  local says=$1
  shift
  if "$kilter" "$@" > out.txt 2> err.txt; then die "accepted: $*"; fi
  expect err.txt "$says"
}
refuse "not expected: best.plan --layer-plan" graph-tune "${model[@]}" --layer-plan best.plan
refuse "not expected: history-best --choose" graph-tune "${model[@]}" --choose history-best
"$kilter" graph-tune "${model[@]}" --records r.db --no-run --layers --forbid direct@fire2.expand3x3 > forbidden.txt
! grep "fire2.expand3x3 |" forbidden.txt | grep -q "conv2d_direct" || die "a forbidden template is an alternative"
refuse "--choose: worst not in {accepted,history-best,graph-best}" run "${model[@]}" --choose worst
echo 'fire2.squeeze = layout=c8' > bad.plan
refuse "bad.plan line 1: 'layout=c8': legal are layout=plain, fuse=no and threads=N beside the schedule" \
  run "${model[@]}" --layer-plan bad.plan
