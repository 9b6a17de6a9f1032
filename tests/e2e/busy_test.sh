#!/usr/bin/env bash
# Tests what commands say on a busy machine. On a CPU that another process keeps busy, all of them must say so first and
# must not present any figure as reliable. Usage: busy_test.sh KILTER
set -euo pipefail
kilter=$(realpath "$1")
work=$(mktemp -d)
cpu=$(python3 -c 'import os; print(max(os.sched_getaffinity(0)))')
# The loop stops after 900 s in case this script cannot end it.
timeout 900 taskset -c "$cpu" bash -c 'while :; do :; done' &
other=$!
trap 'kill $other 2> /dev/null || true; rm -rf "$work"' EXIT
cd "$work"
export XDG_DATA_HOME=$work/data
here=(timeout 300 taskset -c "$cpu" "$kilter")
net=(zoo:resnet18 --threads 1)  # a run takes longer than the operating system's time slice
die() { echo "FAILED: $*" >&2; exit 1; }
# says_first FILE: checks that the first line reports a busy machine with the share, and that no later line says "quiet".
says_first() {
  head -n 1 "$1" | grep -qE "^busy: [0-9]+ of [0-9]+ [a-z]+ disturbed \([0-9.]+ %: .*\), because other programs use the machine; the time is an upper bound" ||
    die "$1 does not begin with the busy machine: $(head -n 5 "$1")"
  if grep -qE "(^|[^a-z])quiet: " "$1"; then die "$1 says quiet, too: $(cat "$1")"; fi
}

"${here[@]}" bench "${net[@]}" --seconds 2 --json bench.json > bench.txt
says_first bench.txt
grep -qE "^resnet18: [0-9.]+ to [0-9.]+ ms on 1 thread" bench.txt || die "bench's figure is no interval: $(cat bench.txt)"

"${here[@]}" profile "${net[@]}" --seconds 2 --json profile.json --csv profile.csv --html profile.html > profile.txt
says_first profile.txt
grep -qE "^Sum over end to end  [+-][0-9.]+ % \([+-][0-9.]+ to [+-][0-9.]+, 95 %, in pairs\): " profile.txt || die "profile's sum has no interval: $(cat profile.txt)"

"${here[@]}" profile zoo:resnet18 --threads 2 --seconds 2 --json absent.json --html absent.html > absent.txt
absent='^2 threads requested, 1 took part: thread 1 joined in [0-9]+ % of the work for all threads, since its CPU was in use; end other programs, or use 1 thread$'
sed -n 2p absent.txt | grep -qE "$absent" || die "profile does not say that a thread had no CPU: $(head -n 5 absent.txt)"
"${here[@]}" bench zoo:resnet18 --threads 2 --seconds 1 > absent.txt
sed -n 2p absent.txt | grep -qE "$absent" || die "bench does not say that a thread had no CPU: $(head -n 5 absent.txt)"
"${here[@]}" run zoo:resnet18 --threads 2 2> absent.txt > run.txt
"${here[@]}" time zoo:resnet18 --threads 2 --node conv1 2>> absent.txt > time.txt
[ "$(grep -cE "$absent" absent.txt)" = 2 ] || die "run and time do not say that a thread had no CPU: $(cat absent.txt)"

"${here[@]}" explain "${net[@]}" --seconds 4 --json explain.json --html explain.html > explain.txt
says_first explain.txt
grep -qF " 1. (network): the machine is busy" explain.txt || die "explain's first finding is another one: $(cat explain.txt)"
grep -qE "^    [0-9]+ findings? (is|are) withheld: " explain.txt || die "explain withholds nothing: $(cat explain.txt)"
if grep -qF "too few threads busy" explain.txt; then die "explain blames threads: $(cat explain.txt)"; fi

"${here[@]}" compare "${net[@]}" --seconds 3 --json compare.json > compare.txt
says_first compare.txt
grep -qE "^by CPU time  B / A = " compare.txt || die "compare has no CPU time: $(cat compare.txt)"

"${here[@]}" compare zoo:resnet18 --threads-a 1 --threads-b 2 --seconds 3 > absent.txt
grep -qE "^  B: ${absent#^}" absent.txt || die "compare does not say that a thread had no CPU: $(cat absent.txt)"
! grep -q "^  A: 1 thread" absent.txt || die "compare blames a thread that worked: $(cat absent.txt)"

"${here[@]}" tune "${net[@]}" --ops conv2d --trials 20 --time 40s --plain --json tune.json --html tune.html > tune.txt 2> progress.txt
says_first tune.txt
grep -qE "^busy machine, times are upper bounds; (searching|racing): .* % of the runs disturbed$" progress.txt || die "tune's progress: $(cat progress.txt)"
if grep -qE "[^0-9](1[1-9][0-9]|[2-9][0-9][0-9]) % of its bound" progress.txt; then die "tune shows more than all of a bound: $(cat progress.txt)"; fi

python3 - <<'PY' || die "files of a busy machine"
import csv, json
for name in ("bench", "profile", "explain", "tune"):
    conditions = json.load(open(f"{name}.json"))["conditions"]
    assert conditions["quiet"] == "busy" and conditions["disturbed_share"] > 0.5, (name, conditions)
    assert conditions["best_ms"] > 0 and "upper bound" in conditions["quiet_text"], (name, conditions)
conditions = json.load(open("absent.json"))["conditions"]
assert conditions["took_part"][0] == 1 and conditions["took_part"][1] < 0.5, conditions
assert conditions["absent_threads"].startswith("2 threads requested, 1 took part: thread 1 "), conditions
assert "absent_threads" in open("absent.html").read()
for side in "ab":
    assert json.load(open("compare.json"))[side]["conditions"]["quiet"] == "busy", side
rows = list(csv.DictReader(open("profile.csv")))
assert all(row["quiet"] == "busy" and float(row["disturbed_percent"]) > 50 and float(row["best_run_ms"]) > 0 for row in rows), rows[0]
findings = json.load(open("explain.json"))["explain"]["findings"]
assert findings[0]["kind"] == "first", findings[0]
assert all(f["how"] == "measured" and f["gain_percent_interval"][0] > 0 for f in findings[1:]), findings
for page in ("profile", "explain", "tune"):
    assert '"quiet":"busy"' in open(f"{page}.html").read(), page
PY
echo "busy: all passed"
