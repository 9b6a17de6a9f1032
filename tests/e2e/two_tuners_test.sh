#!/usr/bin/env bash
# Tests two tuners on one database: both succeed, every trial of both is stored once, and a plan is kept. Usage: two_tuners_test.sh KILTER
set -euo pipefail
kilter=$(realpath "$1")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
export XDG_DATA_HOME=$work/data LC_ALL=C
net=(zoo:squeezenet1_1 --input input=1x3x64x64 --threads 1)

die() { echo "FAILED: $*" >&2; exit 1; }

pids=()
for tuner in a b; do
  "$kilter" tune "${net[@]}" --time 60s --trials 20 --choose history-best --records r.db --events $tuner.jsonl > $tuner.txt 2> $tuner.err &
  pids+=($!)
done
wait "${pids[0]}" || die "the first: exit code $?: $(cat a.err)"
wait "${pids[1]}" || die "the second: exit code $?: $(cat b.err)"
"$kilter" records verify --records r.db > verify.txt || die "$(cat verify.txt)"
grep -q "the file is sound" verify.txt || die "$(cat verify.txt)"
"$kilter" records export --records r.db -o all.jsonl > /dev/null
[ -z "$(sort all.jsonl | uniq -d)" ] || die "records are double"
python3 - <<'PY'
import collections, json
records = collections.Counter()
for line in open("all.jsonl"):
    r = json.loads(line)
    records[r["node"], r["schedule"]] += 1
trials = collections.Counter()
for tuner in "ab":
    for line in open(tuner + ".jsonl"):
        e = json.loads(line)
        if e["event"] == "trial": trials[e["node"], e["schedule"]] += 1
lost = trials - records
assert sum(trials.values()) >= 40 and not lost, ("trials without a record", lost)
print(f"two_tuners_test: {sum(records.values())} records of {sum(trials.values())} trials")
PY
# Before a tuner keeps its own plan, it checks whether the other one has accepted a better plan. A plan that is not kept
# is reported, and a second plan is better than the first.
[ -s r.db.plans.jsonl ] || die "no plan is kept: $(cat a.txt b.txt)"
python3 - <<'PY'
import json
ratios = [json.loads(line)["default_ratio"][0] for line in open("r.db.plans.jsonl")]
assert len(ratios) <= 2 and ratios == sorted(ratios, reverse=True) and len(set(ratios)) == len(ratios), ratios
PY
stayed=$(cat a.txt b.txt | grep -c "^the plan that another run accepted in the meantime is kept" || true)
[ $((stayed + $(wc -l < r.db.plans.jsonl))) = 2 ] || die "a plan is lost in silence: $(cat a.txt b.txt r.db.plans.jsonl)"
"$kilter" run "${net[@]}" --records r.db > /dev/null 2> said.txt || die "$(cat said.txt)"
grep -q "records: r.db: the plan accepted on " said.txt || die "run: $(cat said.txt)"
! grep -q "skipped" said.txt || die "run: $(cat said.txt)"

# Commands that tune also report a damaged plan.
echo '{"graph": 1}' >> r.db.plans.jsonl
line=$(wc -l < r.db.plans.jsonl)
"$kilter" graph-tune "${net[@]}" --records r.db --no-run > /dev/null 2> said.txt || die "$(cat said.txt)"
grep -q "^r.db.plans.jsonl: line $line: skipped: not a kept plan: " said.txt || die "graph-tune: $(cat said.txt)"
"$kilter" tune "${net[@]}" --records r.db --time 0.1s > /dev/null 2> said.txt || die "$(cat said.txt)"
grep -q "r.db.plans.jsonl: line $line: skipped: not a kept plan: " said.txt || die "tune: $(cat said.txt)"
