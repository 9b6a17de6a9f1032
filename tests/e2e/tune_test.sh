#!/usr/bin/env bash
# Tests kilter tune from outside: budget, records, resuming, layer plans, and a tuner that is killed several times (tune_kills_test.py).
# Usage: tune_test.sh KILTER
set -euo pipefail
kilter=$(realpath "$1")
# shellcheck source=tests/e2e/expect.sh
here=$(realpath "$(dirname "$0")")
. "$here/expect.sh"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
export XDG_DATA_HOME=$work/data LC_ALL=C
net=(zoo:squeezenet1_1 --input input=1x3x64x64)

die() { echo "FAILED: $*" >&2; exit 1; }
count() { "$kilter" records list --records "$1" --json - | python3 -c 'import json,sys; print(len(json.load(sys.stdin)))'; }
doubles() { "$kilter" records export --records "$1" -o all.jsonl > /dev/null && sort all.jsonl | uniq -d | wc -l; }
# surely_won THREADS RECORDS: writes records in which, for each task, the slowest direct convolution (never a default) has clearly won.
surely_won() {
  "$kilter" records list --records "$2" --threads "$1" --status ok --limit 100000 --json - | python3 -c '
import json, sys
slowest = {}
for r in json.load(sys.stdin):
    if "versus" in r and r["schedule"].startswith("conv2d_direct "):
        slowest[r["problem"]] = max(r, slowest.get(r["problem"], r), key=lambda r: r["versus"]["ratio"])
for won in slowest.values():
    won["versus"].update(ratio=0.5, low=0.49, high=0.51)
    del won["id"]
    print(json.dumps(won))'
}

# A short run keeps its records in the file that it names, and the files that it writes can be used.
"$kilter" tune "${net[@]}" --threads 1 --time 30s --trials 80 --records a.db --write-plan a.plan --json a.json --html a.html --events a.jsonl > out.txt
grep -q "^records: a.db" out.txt || die "no word of the records: $(cat out.txt)"
grep -q "^report: a.html$" out.txt || die "the report is not confirmed: $(cat out.txt)"
[ "$(grep -vcE '^(quiet: |(slightly|partly) disturbed: |busy: |report: |use it:|  +kilter compile |the plan |what was |graph tuner: )' out.txt)" = 3 ] || die "more than three lines of result: $(cat out.txt)"
python3 - <<'PY'
import json
r = json.load(open("a.json"))
assert r["trials"] >= 60 and r["failures"] == 0, r
assert r["same_plan"] or r["ratio"]["high"] <= 1, r["ratio"]
assert set(r["choices"]) <= {n for t in r["tasks"] for n in t["nodes"]}
# Every line is an event; together they agree with the outcome.
events = [json.loads(line) for line in open("a.jsonl")]
assert events[0]["event"] == "start" and events[-1]["event"] == "end", (events[0], events[-1])
assert [e["phase"] for e in events if e["event"] == "phase"] == ["preparing", "searching", "racing", "choosing"]
assert events[0]["cost_model"] == "shipped" and r["settings"]["cost_model"] == "shipped" and r["settings"]["graph_best"]
assert r["graph"]["won"] or r["ratio"] == r["history_ratio"], (r["graph"], r["ratio"])
assert all(a["seconds"] <= b["seconds"] for a, b in zip(events, events[1:]))
prepared = next(e for e in events if e["event"] == "prepared")
assert [t["problem"] for t in prepared["tasks"]] == [t["problem"] for t in r["tasks"]]
trials = [e for e in events if e["event"] == "trial"]
tasks = {t["task"]: t for t in r["tasks"]}
assert len(tasks) == len(r["tasks"]) and len(trials) == r["trials"] + r["failures"] and all(e["node"] in tasks[e["task"]]["nodes"] for e in trials)
assert all(e["share_of_bound"] > 0 for e in trials if e["status"] == "ok")
for of in (r, *r["tasks"]):
    for when in ("before", "after"):
        assert 0 < of[when]["share_of_bound"] < 1.5, of
        assert of[when]["gflops"] is None or of[when]["gflops"] > 0, of
assert all(r[when]["gflops"] and tasks[1][when]["gflops"] for when in ("before", "after")), r
progress = [e for e in events if e["event"] == "progress"]
assert {"preparing", "searching", "racing"} <= {e["phase"] for e in progress}, progress
for e in progress:
    assert abs(e["seconds"] + e["seconds_left"] - 30) < 1e-6 or e["seconds_left"] == 0, e
    assert e["trials"] + e["trials_left"] == 80 or e["trials_left"] == 0, e
    assert e["gflops"] > 0 and e["last_gflops"] > 0 and 0 < e["share_of_bound"] < 1.5, e
assert all(e["ratio"]["low"] <= e["ratio"]["value"] <= e["ratio"]["high"] for e in trials if e["status"] == "ok")
end = events[-1]
assert {k: v for k, v in end.items() if k != "event"} == {k: v for k, v in r.items() if k not in ("model", "settings", "trace")}
assert {e["event"] for e in events} <= {"start", "phase", "prepared", "progress", "trial", "gain", "race", "end"}
PY
# Tasks have the same numbers as in `kilter tasks`, whatever --ops, pins and --forbid exclude. If standard error is not
# a terminal, progress is printed as lines. The number of trials is the only limit if no other one is given.
"$kilter" tasks "${net[@]}" --json tasks.json > /dev/null
"$kilter" tune "${net[@]}" --threads 1 --trials 120 --records none --ops conv2d --schedule conv1=direct --forbid winograd@task:5 --choose history-best \
  --events n.jsonl --json n.json --verbose > out.txt 2> lines.txt
python3 - <<'PY'
import json, re
listed = {t["task"]: t for t in json.load(open("tasks.json"))["tasks"]}
r = json.load(open("n.json"))
assert r["settings"]["budget_seconds"] is None and r["stopped_because"].endswith(" trials are done"), (r["settings"], r["stopped_because"])
tasks = {t["task"]: t for t in r["tasks"]}
assert 1 not in tasks and 2 not in tasks and 5 in tasks and len(tasks) == len(r["tasks"]), tasks.keys()  # 1: pinned; 2: a pool
for number, t in tasks.items():
    assert (t["problem"], t["nodes"]) == (listed[number]["problem"], listed[number]["nodes"]), (number, t)
events = [json.loads(line) for line in open("n.jsonl")]
prepared = next(e for e in events if e["event"] == "prepared")
assert [(t["task"], t["nodes"]) for t in prepared["tasks"]] == [(t["task"], t["nodes"]) for t in r["tasks"]], prepared
for e in events:
    if e["event"] == "trial":
        assert e["node"] in listed[e["task"]]["nodes"], e
    if e["event"] == "gain":
        assert e["task"] in tasks and e["gflops"] > 0, e
said = open("out.txt").read().splitlines()
rows = said[next(i for i, line in enumerate(said) if line.startswith("task  share")) + 1:-1]
assert len(rows) == len(tasks)
for row in rows:
    assert listed[int(row.split()[0])]["problem"] in row, row
lines = open("lines.txt").read().splitlines()
busy = r"(busy machine, times are upper bounds; )?"
bound = r"(\d+ % of its bound|faster than its bound, which is therefore wrong)"
first = busy + r"preparing: \d+ s, 0 of 120 trials, .* GFLOP/s \(last [\d.]+\), " + bound + r", .* % of the runs disturbed$"
# --verbose prints the version and the machine before them, and the time and memory of the run after them.
assert re.match(r"kilter \d.*, LLVM ", lines[0]) and lines[1].endswith(" threads by default"), lines
assert re.match(first, lines[2]) and re.match(r"took [\d.]+ s, peak memory ", lines[-1]), lines
assert any(re.match(busy + "searching: ", line) for line in lines) and "\033" not in "".join(lines), lines
for line in lines:
    told = re.match(r"task (\d+): .* tried: (.*) \| ", line)
    assert not told or listed[int(told[1])]["problem"] == told[2], line
PY
grep -q "<title>zoo:squeezenet1_1 - Kilter tuning</title>" a.html || die "no page"
"$kilter" tune "${net[@]}" --threads 1 --time 15s --trials 5 --records none --cost-model none --choose history-best --events - 2> /dev/null > events.txt
grep -q '"cost_model":"none"' events.txt || die "--cost-model none is not in the settings"
! grep -q '"choosing"' events.txt || die "history-best leaves the graph tuner out"
"$kilter" tune "${net[@]}" --threads 1 --time 15s --trials 5 --until 100% --records h.db --choose history-best > out.txt 2> /dev/null
[ "$(wc -l < h.db.plans.jsonl)" = 1 ] || die "without the graph tuner no plan is kept"
python3 -c 'import json; [json.loads(line) for line in open("events.txt")]' || die "standard output holds more than events"
[ "$(count a.db)" -ge 60 ] || die "too few records"
# On a terminal, the network and its tasks are redrawn in place and erased at the end.
python3 -c 'import pty, sys; sys.exit(pty.spawn(sys.argv[1:]))' sh -c 'stty cols 80 rows 24; exec "$@"' sh "$kilter" tune "${net[@]}" --threads 1 --time 20s \
  --trials 20 --records none --choose history-best --color never > screen.txt
grep -qE "^[0-9.]+ -> [0-9.]+ ms \(.* trials, [0-9]+ of [0-9]+ tasks changed" screen.txt || die "no line of the network: $(cat screen.txt)"
grep -q "^layer                share     gain  of bound       tried" screen.txt || die "no table of tasks: $(cat screen.txt)"
tail -n 1 screen.txt | grep -q "^records: none kept" || die "the summary is not the last: $(tail -n 3 screen.txt)"
# narrow COMMAND...: runs the command on a terminal of 20 columns, which its output must fit.
narrow() {
  python3 -c 'import pty, sys; sys.exit(pty.spawn(sys.argv[1:]))' sh -c 'stty cols 20 rows 8; exec "$@" > /dev/null' sh "$kilter" "$@" > screen.txt
  python3 -c 'import re; assert 10 < max(len(line) for line in re.split("[\r\n]|\033.[0-9;]*[AJKm]", open("screen.txt", newline="").read())) < 20' ||
    die "lines are wider than the terminal: $(cat screen.txt)"
}
narrow tune "${net[@]}" --threads 1 --time 20s --trials 20 --records none --choose history-best
narrow bench "${net[@]}" --threads 1 --repeat 3
"$kilter" run "${net[@]}" --threads 1 --records a.db --verify | grep -q "verify: passed" || die "verify with records"
# Records give the accepted plan for exactly this network and number of threads. The output always says which records
# are used.
says() {
  local text=$1
  shift
  "$kilter" "$@" > /dev/null 2> said.txt || die "kilter $*: $(cat said.txt)"
  grep -qF -- "$text" said.txt || die "kilter $* does not say '$text': $(cat said.txt)"
}
[ "$(wc -l < a.db.plans.jsonl)" -le 2 ] || die "tune keeps the plan of its race, and then graph-best where that wins"
says "records: a.db: the plan accepted on " run "${net[@]}" --threads 1 --records a.db
# A compiled file may be given to others: it contains neither the folder of the records nor dates.
says "records: a.db: the plan accepted: " compile "${net[@]}" --threads 1 --records "$PWD/a.db" -o a.kilter
says "records: a.db: the plan accepted: " run a.kilter --threads 1
! grep -qaF -e "$PWD" -e "$(date +%Y)-" a.kilter || die "a compiled file has the folder of the records, or a day"
# The summary ends with the commands that use the plan, with the options for which it was tuned, unless the default plan
# is kept: noise decides whether a run that tries nothing keeps a gain below 1 %.
cp a.db u.db
cp a.db.plans.jsonl u.db.plans.jsonl
"$kilter" tune "${net[@]}" --threads 1 --time 0.1s --records u.db > out.txt 2> /dev/null || die "a run that tries nothing"
changed=$(tail -n 1 u.db.plans.jsonl | python3 -c 'import json, sys; print(len(json.load(sys.stdin)["plan"]))')
if [ "$changed" -gt 0 ]; then
  cat > wanted.txt <<'TEXT'
use it:  kilter run zoo:squeezenet1_1 --threads 1 --input input=1x3x64x64 --records u.db
         kilter compile zoo:squeezenet1_1 --threads 1 --input input=1x3x64x64 --records u.db -o squeezenet1_1.kilter
TEXT
  tail -n 2 out.txt | diff wanted.txt - || die "how to use what was found: $(cat out.txt)"
else
  ! grep -q "^use it: " out.txt || die "nothing was found, but it says how to use it: $(cat out.txt)"
fi
for use in run "compile -o u.kilter"; do
  "$kilter" ${use} "${net[@]}" --threads 1 --records u.db 2>&1 > /dev/null | grep -qE "^records: u.db: the plan accepted(:| on )" ||
    die "kilter $use does not use the plan"
done
# If a compiled file or a written plan was tuned on one thread and runs on two, the output says so; default schedules
# cause no note.
loss="expected loss about 4 % (an estimate)"
cp a.db p.db
python3 -c 'import json, sys; line = json.loads(sys.stdin.readline()); line["plan"] = "conv1 = conv2d_direct vectors=1 rows=1 tile=7 prefetch=0\n"; print(json.dumps(line))' \
  < a.db.plans.jsonl > p.db.plans.jsonl
says "1 layer differs from the default; compiled for 1 thread" compile "${net[@]}" --threads 1 --records p.db -o p.kilter
says "; compiled for 1 thread, run on 2; $loss" run p.kilter --threads 2
! "$kilter" run p.kilter --threads 1 2>&1 | grep -q "compiled for" || die "a compiled file on its own number of threads"
: > none.jsonl
says "records: none.jsonl: 0 of 31 tasks" compile "${net[@]}" --threads 1 --records none.jsonl -o n.kilter
! grep -q "compiled for" said.txt || die "a compiled file without tuned schedules: $(cat said.txt)"
says "records: none.jsonl: 0 of 31 tasks" run n.kilter --threads 2
! grep -q "compiled for" said.txt || die "a compiled file without tuned schedules: $(cat said.txt)"
says "layer plan a.plan: " run "${net[@]}" --threads 2 --layer-plan a.plan
[ "$(grep -c ' = ' a.plan)" = 0 ] || grep -qF "; made for 1 thread, used on 2; $loss" said.txt || die "the plan that tune wrote: $(cat said.txt)"
"$kilter" inspect "${net[@]}" --threads 1 --records p.db --schedules --write-plan i.plan > /dev/null 2>&1 || die "inspect --write-plan"
says "; made for 1 thread, used on 2; $loss" run "${net[@]}" --threads 2 --layer-plan i.plan
# Records measured on one thread do not count as trials on two. Tasks start from the schedules that they give, and the
# resulting network is raced.
surely_won 1 a.db > o.jsonl
"$kilter" tune "${net[@]}" --threads 2 --time 20s --trials 40 --records o.jsonl --json o.json --verbose > out.txt 2> /dev/null ||
  die "tune with records of one thread"
grep -qE "^earlier records: 0 of [0-9]+ match these conditions and count as trials; [0-9]+ tasks? began" out.txt || die "$(cat out.txt)"
python3 -c 'import json; e = json.load(open("o.json"))["earlier_records"]; assert e["read"] > 0 and e["counted"] == 0 and e["advised"] > 0, e' \
  || die "what records of one thread are on two"
says "records: a.db: " tasks "${net[@]}" --threads 1 --records a.db
says "records: a.db: the plan accepted on " bench "${net[@]}" --threads 1 --seconds 0.1 --records a.db
says " of 31 tasks" run "${net[@]}" --threads 1 --records a.db --choose history-best
says "\`kilter tune zoo:squeezenet1_1 --threads 2 --input input=1x3x64x64 --records a.db\` tunes them" \
  run "${net[@]}" --threads 2 --records a.db
says " of 31 tasks" compile -o b.kilter "${net[@]}" --threads 2 --records a.db
# explain and profile say how much records have gained and how much more tuning may gain, whether or not the records are
# used.
for records in a.db none; do
  "$kilter" explain "${net[@]}" --threads 1 --seconds 1 --records $records > explain.txt 2> /dev/null
  "$kilter" profile "${net[@]}" --threads 1 --seconds 0.2 --minutes 0.5 --records $records --html profile.html > profile.txt 2> /dev/null
  if [ $records = none ]; then
    grep -qF "contains no record from this machine" explain.txt || die "explain without records: $(cat explain.txt)"
    grep -qE "^  no record from this machine .* another 0.5 minutes of tuning are expected to save about .* \(a prior\)" profile.txt ||
      die "profile without records: $(cat profile.txt)"
  else
    grep -qE "From [0-9]+ records of [0-9]+ tuned tasks? from this machine at this number of threads, in .*a.db:" explain.txt ||
      die "explain after tuning: $(cat explain.txt)"
    grep -qF "have schedules left to try: another 5 minutes of tuning are expected to save about " explain.txt || die "explain after tuning: $(cat explain.txt)"
    ! grep -q -- "--records would" explain.txt || die "explain suggests records that are in use: $(cat explain.txt)"
    grep -qE "^  [0-9]+ of [0-9]+ layers were tuned; another 0.5 minutes" profile.txt || die "profile after tuning: $(cat profile.txt)"
  fi
  grep -qF "kilter tune zoo:squeezenet1_1 " explain.txt || die "explain names no tuning command: $(cat explain.txt)"
  grep -q "^  \$ kilter tune zoo:squeezenet1_1 .* --time 0.5min$" profile.txt || die "profile names no tuning command: $(cat profile.txt)"
  grep -qF "another 0.5 minutes of tuning" profile.html || die "profile's page has no word on tuning"
done
# If there is an accepted plan, profile gives the gain in that plan's race as the time that --records would save.
mkdir -p beside/kilter && cp a.db beside/kilter/records.db && cp a.db.plans.jsonl beside/kilter/records.db.plans.jsonl
XDG_DATA_HOME=$PWD/beside "$kilter" profile "${net[@]}" --threads 1 --seconds 0.2 --json profile.json > profile.txt
python3 - profile.json beside/kilter/records.db.plans.jsonl <<'PY' || die "profile with an accepted plan: $(cat profile.txt)"
import json, sys
lines = json.load(open(sys.argv[1]))["tuning"]["lines"]
plan = json.loads(open(sys.argv[2]).readlines()[-1])
said = [line for line in lines if "--records would save" in line]
gain = 100 * max(0, 1 - plan["default_ratio"][0])
sys.exit(len(said) != (1 if plan["plan"] else 0) or any(f"about {gain:.1f} %" not in line for line in said))
PY
"$kilter" compare "${net[@]}" --threads 1 --seconds 0.3 --records-b a.db > compare.txt
grep -q "^  tuning records  *A: none   B: a.db: the plan accepted on " compare.txt || die "compare: $(cat compare.txt)"
"$kilter" compare "${net[@]}" --threads 1 --seconds 0.3 --records a.db > compare.txt
grep -q "^tuning records of both: a.db: the plan accepted on " compare.txt || die "compare with records on both sides: $(cat compare.txt)"
"$kilter" compare "${net[@]}" --threads 1 --seconds 0.3 --records a.db --choose-b history-best > compare.txt
grep -q "^  tuning records  *A: a.db: the plan accepted on .* B: a.db: .* of 31 tasks" compare.txt || die "compare: $(cat compare.txt)"
# A run that tried nothing keeps no plan, so the gain that records at another number of threads promise still counts.
"$kilter" tune "${net[@]}" --threads 2 --time 0.1s --records z.db > out.txt 2> /dev/null
grep -q ": 0 trials (" out.txt || die "trials in a tenth of a second: $(cat out.txt)"
grep -q "^nothing was tried, so the accepted plan is unchanged" out.txt || die "a run without trials: $(cat out.txt)"
[ ! -e z.db.plans.jsonl ] || die "a run without trials keeps a plan"
# Forbidden schedules are not tried, and the plan is kept separately.
"$kilter" tune "${net[@]}" --threads 1 --time 25s --trials 60 --choose history-best --records f.db --forbid winograd > out.txt 2> /dev/null || die "tune --forbid"
"$kilter" records list --records f.db --limit 1000 > listed.txt
grep -q "| conv2d_direct " listed.txt || die "nothing was tried: $(cat listed.txt)"
! grep -q "| conv2d_winograd " listed.txt || die "a forbidden template was tried"
grep -q '"settings":"--forbid conv2d_winograd"' f.db.plans.jsonl || die "the plan does not say what was forbidden"
says "the plan accepted on " run "${net[@]}" --threads 1 --records f.db --forbid winograd
says "--threads 2 --input input=1x3x64x64 --records f.db --schedule 'fire2.squeeze=conv2d_direct vectors=1 rows=1 tile=1 prefetch=0' --forbid winograd\`" \
  run "${net[@]}" --threads 2 --records f.db --forbid winograd --schedule "fire2.squeeze=conv2d_direct vectors=1 rows=1 tile=1 prefetch=0"
# Accepted plans are copied with their records, and are used from the copy.
expect 0 "f.db.plans.jsonl: 1 accepted plan" records plans --records f.db
expect 0 "moved.jsonl: 1 accepted plan added, 0 were already there or superseded" records export --records f.db --output moved.jsonl
says "records: moved.jsonl: the plan accepted on " run "${net[@]}" --threads 1 --records moved.jsonl --forbid winograd
expect 0 "moved.jsonl: 1 accepted plan added, 0 were already there or superseded" records merge moved.jsonl --records merged.db
expect 0 "moved.jsonl: 0 accepted plans added, 1 was already there or superseded" records merge moved.jsonl --records merged.db
expect 0 "merged.db.plans.jsonl: 1 accepted plan, 0 damaged lines" records verify --records merged.db
expect 0 "merged.db.plans.jsonl: 0 accepted plans" records plans --records merged.db --threads 2
"$kilter" records export --records f.db --status ok --output some.jsonl > /dev/null
[ ! -e some.jsonl.plans.jsonl ] || die "a plan went with records that were chosen by status"
echo '{"graph": 1}' >> merged.db.plans.jsonl
expect 1 "merged.db.plans.jsonl: line 2: skipped: not a kept plan: " records verify --records merged.db
[ "$failures" = 0 ] || die "accepted plans in kilter records"
# A single record can be excluded by its id.
"$kilter" records list --records a.db --limit 100000 --json - | python3 -c '
import json, sys
wins = [r for r in json.load(sys.stdin) if r["status"] == "ok" and r.get("versus", {}).get("high", 1) < 1]
for r in wins[:1]: print(json.dumps(r))' > one.jsonl
if [ -s one.jsonl ]; then
  id=$(python3 -c 'import json; print(json.loads(open("one.jsonl").readline())["id"][:12])')
  says "records: one.jsonl: 0 of " run "${net[@]}" --threads 1 --records one.jsonl --forbid "record:$id"
  ! "$kilter" run "${net[@]}" --threads 1 --records one.jsonl 2>&1 | grep -q "records: one.jsonl: 0 of " || die "the record serves nothing"
fi
expect 2 "--forbid record:abcdef: no records are in use; give --records" run "${net[@]}" --forbid record:abcdef
expect 2 "--forbid record:abcdef: no records are in use; give --records" tune "${net[@]}" --time 5s --records none --forbid record:abcdef
expect 2 "--forbid record:zz: expected 6 or more hexadecimal digits of an id, as \`kilter records list\` shows them" \
  run "${net[@]}" --records a.db --forbid record:zz
expect 2 "--forbid record:00000000000000: 0 records of a.db have ids that start with this; expected one; \`kilter records list\` shows them" \
  run "${net[@]}" --records a.db --forbid record:00000000000000
expect 2 "--forbid conv2d_winograd@conv1: 'conv2d_winograd' does not apply here anyway: strides and dilations: limit 1, got more; leave it out" \
  tune "${net[@]}" --time 5s --records none --forbid winograd@conv1
# If a plan tuned at one thread is used at two, or the reverse, the output says so with the expected loss, for the
# network and for each layer, with the layer's record.
"$kilter" tune "${net[@]}" --threads 2 --time 25s --trials 60 --choose history-best --records t2.db > /dev/null 2>&1 || die "tune at two threads"
for from in 1 2; do
  to=$((3 - from)) db=a.db tuned="1 thread"
  [ $from = 1 ] || { db=t2.db; tuned="2 threads"; }
  surely_won $from $db > won$from.jsonl
  for choose in history-best graph-best; do
    how=("${net[@]}" --threads $to --records won$from.jsonl --choose $choose)
    says " tuned at $tuned, used at $to" run "${how[@]}"
    says " that differ in threads, expected loss up to 4 %" run "${how[@]}"
    "$kilter" inspect "${how[@]}" --schedules > schedules.txt 2> /dev/null
    grep -qE "record [0-9a-f]{12}, tuned at $tuned, used at $to; expected loss about 4 % \(an estimate\); measured on " schedules.txt ||
      die "$choose, tuned at $from, used at $to: $(grep -A1 record schedules.txt)"
    "$kilter" inspect "${how[@]}" --schedules --write-plan j.plan > /dev/null 2>&1 || die "inspect --write-plan"
    says "; made for $tuned, used on $to; $loss" run "${net[@]}" --threads $to --layer-plan j.plan
    "$kilter" tasks "${how[@]}" --no-nodes > tasks.txt 2> /dev/null
    grep -qE "^ +(graph-best by records; )?record [0-9a-f]{12}, tuned at $tuned, .*: 0\.500 \(0\.490 to 0\.510\) of the default's time there" tasks.txt ||
      die "tasks --choose $choose: $(cat tasks.txt)"
  done
done
# If another run accepts a better plan in the meantime, that plan is kept.
cp a.db m.db
"$kilter" tune "${net[@]}" --threads 1 --time 25s --trials 60 --records m.db --events m.jsonl > out.txt 2> /dev/null &
pid=$!
for _ in $(seq 600); do [ -s m.jsonl ] && break; sleep 0.1; done  # by then it knows which plan is in use
python3 - <<'PY'
import json
line = json.loads(open("a.db.plans.jsonl").readline())
line["date"], line["default_ratio"] = "2026-01-01T00:00:00Z", [0.1, 0.1, 0.1]
open("m.db.plans.jsonl", "a").write(json.dumps(line) + "\n")
PY
wait $pid || die "a run at the same time as another: exit code $?"
grep -q "^the plan that another run accepted in the meantime is kept: it took 0.1000 " out.txt || die "a run at the same time as another: $(cat out.txt)"
[ "$(wc -l < m.db.plans.jsonl)" = 1 ] || die "the plan of the other run does not stay"
# If the race rejects everything, the defaults are kept, whatever single records say; damaged lines are skipped.
cp a.db r.db
python3 -c 'import json, sys; line = json.loads(sys.stdin.readline()); line["plan"] = ""; print(json.dumps(line))' < a.db.plans.jsonl > r.db.plans.jsonl
echo '{"graph": 1}' >> r.db.plans.jsonl
says "nothing was faster than the default plan, which stays" run "${net[@]}" --threads 1 --records r.db
says "r.db.plans.jsonl: line 2: skipped: not a kept plan: " run "${net[@]}" --threads 1 --records r.db
"$kilter" inspect "${net[@]}" --threads 1 --records r.db --schedules > schedules.txt 2> /dev/null
! grep -q "^    record " schedules.txt || die "a record that the race rejected is used"
"$kilter" run "${net[@]}" --threads 1 --layer-plan a.plan --verify | grep -q "verify: passed" || die "verify with a plan"
"$kilter" bench "${net[@]}" --threads 2 --seconds 0.2 --records a.db --json - | grep -q '"records": "a.db: ' || die "conditions"
"$kilter" bench "${net[@]}" --threads 1 --seconds 0.2 --json - | grep -q '"records": "none"' || die "the default is none"

# Errors.
expect 2 "--time : expected a time such as 90s, 5min or 1h" tune "${net[@]}" --time ""
expect 2 "--time 5 years: expected a time such as 90s, 5min or 1h" tune "${net[@]}" --time "5 years"
expect 2 "--choose: accepted not in {graph-best,history-best}" tune "${net[@]}" --choose accepted
expect 2 "unknown option '--layer-plan'" tune "${net[@]}" --layer-plan a.plan
expect 3 "records no/where.db: there is no folder no; create it, or give another file" tune "${net[@]}" --records no/where.db
[ ! -e no ] || die "a folder was made"
expect 2 "--json - and --events -: standard output can hold only one of them; give a file for the others" \
  tune "${net[@]}" --json - --events -
for option in --events --html --json --write-plan; do
  expect 3 "$option no/where: cannot write the file: No such file or directory; choose a writable path" tune "${net[@]}" $option no/where
done
echo "not a model" > bad.trees
expect 3 "bad.trees: line 1: expected 'kilter-trees ...', got 'not a model'" tune "${net[@]}" --cost-model bad.trees
expect 3 "nowhere.trees" tune "${net[@]}" --cost-model nowhere.trees
expect 2 "--cost-model shipped: it is used by --searcher model, not by --searcher ga; leave it out" \
  tune "${net[@]}" --searcher ga --cost-model shipped
expect 2 "--ops foo: no task of this network is of this kind; legal values are conv2d, " tune "${net[@]}" --ops foo
expect 2 "--ops foo: no task of this network is of this kind; legal values are conv2d, " tasks "${net[@]}" --ops conv2d,foo
expect 2 "--until 12%: expected a share from 50% to 100% such as 98%; a bare number is percent" tune "${net[@]}" --until 12%
expect 2 "--until soon: expected a share from 50% to 100%" tune "${net[@]}" --until soon
legal="legal values are latency, memory, or weights in percent that add up to 100, such as latency:80,memory:20"
expect 2 "--objective speed: unknown objective 'speed'; $legal" tune "${net[@]}" --objective speed
expect 2 "--objective latency:80,memory:30: the weights add up to 110; $legal" \
  tune "${net[@]}" --objective latency:80,memory:30
expect 2 "--timeout 5: expected a time from 10ms to 600s such as 500ms or 10s; a bare number is milliseconds" \
  tune "${net[@]}" --timeout 5
expect 2 "--tuner: kilter tune has no such option; --searcher chooses the searcher that proposes schedules" tune "${net[@]}" --tuner xgb
expect 2 "--enable-cpu-cache-flush: kilter tune has no such option; layers are measured inside the network" \
  tune --enable-cpu-cache-flush "${net[@]}"
"$kilter" tune --help-all > help.txt
"$kilter" options > options.txt
for option in number repeat min-repeat-ms timeout n-parallel; do
  grep -q -- "--$option" help.txt || die "no help for --$option"
  grep -q "^  $option " options.txt || die "kilter options lacks $option"
done
expect 2 "give only one of them" run "${net[@]}" --records a.db --layer-plan a.plan
expect 2 "no task has this name" run "${net[@]}" --layer-plan <(echo "nowhere = map item=1024")
expect 3 "nothing.db" run "${net[@]}" --records nothing.db

[ ! -e "$XDG_DATA_HOME" ] || die "what failed before its first record left $(find "$XDG_DATA_HOME")"

[ "$failures" = 0 ] || die "$failures errors read otherwise"

# A full disk ends the run with a clear message. Stored records are safe, and the same command continues when there is
# space again.
full_disk() {
  mkdir small
  mount -t tmpfs -o size=8m tmpfs small
  local records=small/r.db before
  "$kilter" tune "${net[@]}" --threads 1 --time 20s --trials 10 --records $records > /dev/null
  before=$(count $records)
  head -c 8m /dev/zero > small/fill 2> /dev/null || true
  expect 3 "records $records: no space left to write" tune "${net[@]}" --threads 1 --time 60s --records $records
  rm small/fill
  expect 0 "the file is sound" records verify --records $records
  [ "$(count $records)" -ge "$before" ] || die "a full disk: $before records before, $(count $records) after"
  "$kilter" tune "${net[@]}" --threads 1 --time 20s --trials 10 --records $records > /dev/null
  [ "$(count $records)" -gt "$before" ] || die "a full disk: the run does not go on"
  [ "$(doubles $records)" = 0 ] || die "a full disk: records are double"
  [ "$failures" = 0 ] || die "a full disk"
}
export -f full_disk expect die count doubles
export kilter failures
if unshare -rm true 2> /dev/null; then
  net="${net[*]}" unshare -rm bash -euo pipefail -c 'read -ra net <<< "$net"; command=(); full_disk' || exit 1
else
  echo "a full disk: skipped, this user may not mount"
fi

# SIGINT and SIGTERM end the search; the schedules found so far are raced and kept, and the summary says so.
for signal in INT TERM; do
  rm -f s.*
  "$kilter" tune "${net[@]}" --threads 1 --time 300s --until 99.9 --records s.db --events s.jsonl > out.txt 2> /dev/null &
  pid=$!
  for _ in $(seq 600); do
    [ -e s.jsonl ] && [ "$(grep -c '"event":"trial"' s.jsonl)" -ge 20 ] && break
    sleep 0.1
  done
  kill -$signal $pid
  wait $pid || die "SIG$signal: exit code $?"
  grep -q "; stopped: interrupted" out.txt || die "SIG$signal: $(head -n 1 out.txt)"
  grep -q '"phase":"racing"' s.jsonl || die "SIG$signal: no race"
  [ "$(wc -l < s.db.plans.jsonl)" = 1 ] || die "SIG$signal: no plan is kept"
  [ "$(count s.db)" -ge 20 ] || die "SIG$signal: records are lost"
done

# A tuner that is killed at any moment loses nothing that it reported.
"$here/tune_kills_test.py" "$kilter" 5
