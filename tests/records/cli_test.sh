#!/usr/bin/env bash
# Tests `kilter records` from the command line. usage: cli_test.sh KILTER DATA
set -uo pipefail
kilter=$1 data=$2
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
export XDG_DATA_HOME=$scratch/share
# shellcheck source=tests/e2e/expect.sh
. "$(dirname "$0")/../e2e/expect.sh"
command=(records)

for sub in list best plans export import merge migrate prune verify explain; do expect 0 "    kilter records $sub" $sub --help; done
expect 2 "a command is required after \`kilter records\`: list, plans, best,"
expect 0 "no records yet; \`kilter tune MODEL\` makes some, and \`kilter records import FILE\` imports others" list
command=(run zoo:squeezenet1_1)
expect 3 "records $scratch/share/kilter/records.db: no such file; \`kilter tune MODEL\` creates it" --records default
command=(records)
expect 3 "no such file" list --records "$scratch/nothing.db"

expect 0 "33 records, 24 different; 24 added" import "$data/tvm_v01.txt" --target znver4
expect 0 "42 records, 40 different; 40 added" import "$data/tvm_v02.txt"
expect 0 "0 added to $scratch/share/kilter/records.db, 40 were already there" import "$data/tvm_v02.txt"
expect 0 "tile_ic=32 has no counterpart" import "$data/tvm_v01.txt" --notes --records "$scratch/other.jsonl"
expect 0 "without counterpart, --notes lists each:" import "$data/tvm_v01.txt"
expect 0 "   12x not translated: cuda -model=unknown is not a CPU; kept as a record of another device" import "$data/tvm_v01.txt"
expect 0 "as a plan: 21 layers over 12 tasks; layers per task: 1,4,1,1,3,1,1,3,1,1,3,1" import "$data/tvm_v01.txt"
expect 0 "64 records, the last 3 shown" list --limit 3
expect 0 "52 records" list --device cuda --limit 100
expect 0 "12 records" list --source "tvm v0.1" --device llvm
expect 2 "status 'fine': unknown; legal values are" list --status fine
expect 0 "0.6671" best --problem "c3 h608 w608" --device cuda
expect 0 "index=45898438" best --records "$data/tvm_v02.txt" --problem "c3 h608"
expect 0 "no record applies" best --for "conv2d n1 c64 h56 w56 k64 r3 s3 pad1 f32"
expect 0 "1 imported record for these problems is not used: other systems did not measure it against Kilter's default" \
  best --for "conv2d n1 c3 h224 w224 k64 r7 s7 stride2,2 pad3 f32"
expect 0 "64 sound, 0 damaged" verify

expect 0 "64 records written" export --output "$scratch/all.jsonl"
sed -i '20s/tile_f/tile_g/; 30s/.*/noise/' "$scratch/all.jsonl"
expect 0 "all.jsonl: line 20: skipped: record: its id is" list --records "$scratch/all.jsonl"
expect 1 "62 sound, 2 damaged" verify --records "$scratch/all.jsonl"
expect 0 "62 added" merge "$scratch/all.jsonl" --records "$scratch/merged.db"
cp "$scratch/all.jsonl" "$scratch/newer.jsonl" && echo '{"kilter_record": 3, "problem": "p", "schedule": "s"}' >> "$scratch/newer.jsonl"
for sub in import merge; do
  expect 0 "newer.jsonl: line 65: skipped: record of version 3; this program reads versions 1 to 2: use a newer one" \
    $sub "$scratch/newer.jsonl" --records "$scratch/newer.db"
  expect 0 "62 records, 62 different; 0 added to $scratch/newer.db, 62 were already there; 2 damaged, 0 without counterpart, 1 of a newer version" \
    $sub "$scratch/newer.jsonl" --records "$scratch/newer.db"
done
expect 1 "62 sound, 2 damaged, 1 that this version cannot read" verify --records "$scratch/newer.jsonl"
expect 0 "2 added" merge "$scratch/share/kilter/records.db" --records "$scratch/merged.db"
expect 0 "0 added" merge "$scratch/share/kilter/records.db" --records "$scratch/merged.db"

expect 0 "would be removed: 10 measured, 0 failed; 54 remain; nothing was changed" prune --keep 1 --records "$scratch/merged.db"
expect 0 "64 records" list --records "$scratch/merged.db" --limit 100
expect 0 "10 of 64 records removed" prune --keep 1 --yes --records "$scratch/merged.db"
expect 0 "54 records" list --records "$scratch/merged.db" --limit 100
# A missing file is not created, a dry run writes nothing, and an invalid date removes nothing.
for yes in "" --yes; do
  # shellcheck disable=SC2086
  expect 3 "records $scratch/typo.db: no such file; \`kilter tune MODEL" prune --records "$scratch/typo.db" $yes
done
[ ! -e "$scratch/typo.db" ] || { echo "FAILED: prune makes a file"; failures=$((failures + 1)); }
expect 2 "--before yesterday: expected a date such as 2026-03-01, or a date and time such as 2026-03-01T12:00:00Z" \
  prune --records "$scratch/merged.db" --keep 1 --before yesterday --yes
for keep in 0 -1 18446744073709551616; do expect 2 "--keep: " prune --records "$scratch/merged.db" --keep $keep --yes; done
for sub in "import $scratch/typo.log" "merge $scratch/typo.db"; do
  # shellcheck disable=SC2086
  expect 3 "no such file; nothing was imported" $sub --records "$scratch/typo2.db"
done
[ ! -e "$scratch/typo2.db" ] || { echo "FAILED: nothing is imported into a new file"; failures=$((failures + 1)); }
expect 3 "records $scratch/typo.db: there is neither this file nor typo.db.plans.jsonl next to it; \`kilter tune MODEL\` creates both" \
  plans --records "$scratch/typo.db"
echo "a letter" > "$scratch/letter.txt"
for sub in list best export; do
  expect 3 "letter.txt: it contains no record; expected a Kilter database (SQLite), JSON lines, or text with records from TVM" \
    $sub --records "$scratch/letter.txt"
done
expect 0 "54 records" list --records "$scratch/merged.db" --limit 100
schema() { python3 -c 'import sqlite3, sys; sqlite3.connect(sys.argv[1]).execute("PRAGMA user_version = " + sys.argv[2])' "$scratch/merged.db" "$1"; }
schema 3
expect 0 "54 remain; nothing was changed" prune --records "$scratch/merged.db"
expect 0 "written by a newer version of Kilter (schema 3, this program knows 2); it is read as far as" verify --records "$scratch/merged.db"
expect 0 "written by a newer version of Kilter (schema 3, this program knows 2); it is read as far as" merge "$scratch/merged.db" --records "$scratch/x.db"
expect 3 "written by a newer version of Kilter" prune --records "$scratch/merged.db" --yes
schema 2
# A filter does not hide failures: a schedule that was wrong with any number of threads is never the best. Schedules
# that were not faster than the default are marked.
device=$("$kilter" records best --for "relu(f32[4,16])" 2> /dev/null | sed -n 's/^  for [^,]*, \(.*\), at .*/\1/p')
row() { # SCHEDULE THREADS REST
  echo '{"problem": "relu(f32[4,16])", "schedule": "map item='"$1"'", "conditions": {"device": "'"$device"'", "target": "znver4", "threads": '"$2"'}, '"$3"'}'
}
{
  row 1024 1 '"samples_ms": [1], "versus": {"ratio": 0.5, "low": 0.4, "high": 0.6}'
  row 1024 2 '"status": "wrong", "error": "differs"'
  row 2048 1 '"samples_ms": [2], "versus": {"ratio": 0.9, "low": 0.8, "high": 1.01}'
  row 4096 1 '"samples_ms": [3], "versus": {"ratio": 0.9, "low": 0.8, "high": 0.99}'
  row 8192 1 '"samples_ms": [9]'
} > "$scratch/bars.jsonl"
for filter in "--status ok" "--threads 1"; do
  # shellcheck disable=SC2086
  expect 0 "map item=4096" best --records "$scratch/bars.jsonl" $filter
done
for_relu=(best --records "$scratch/bars.jsonl" --for "relu(f32[4,16])" --target znver4)
expect 0 "(an estimate); not faster than the default: not used" "${for_relu[@]}" --threads 2
expect 0 "; not measured against the default: not used" "${for_relu[@]}" --threads 1
"$kilter" records "${for_relu[@]}" --threads 1 --status ok > "$scratch/for_relu"
[ "$(grep -c "not faster than the default: not used" "$scratch/for_relu")" = 1 ] && ! grep -q "item=1024" "$scratch/for_relu" ||
  { echo "FAILED: best --for: $(cat "$scratch/for_relu")"; failures=$((failures + 1)); }

expect 0 "predicted: 19.136 ms in the 55 of" explain "$data/tvm_v02.txt" zoo:centernet_dla34_tvm --measured-ms 108
expect 3 "none of the 42 records in the log is ok and from device 'opencl'" explain "$data/tvm_v02.txt" zoo:squeezenet1_1 --device opencl

# Files of other kinds give one line of error each, and no crash.
head -c 100000 /dev/urandom > "$scratch/noise.db"
for args in "verify --records" "list --records" "import"; do
  # shellcheck disable=SC2086
  expect 3 "noise.db: not an SQLite database, or its header is damaged" $args "$scratch/noise.db"
done
cp "$scratch/noise.db" "$scratch/noise.txt"
expect 0 "0 records" import "$scratch/noise.txt"
expect 3 "it is a directory" import "$data/tvm_v01.txt" --records "$scratch"
(ulimit -f 40 && "$kilter" records import "$data/tvm_v01.txt" "$data/tvm_v02.txt" --records "$scratch/small.db" > /dev/null 2> "$scratch/full")
[ $? = 3 ] && grep -qF "no space left to write" "$scratch/full" && [ "$(wc -l < "$scratch/full")" = 1 ] ||
  { echo "FAILED: a limit of the file size: $(cat "$scratch/full")"; failures=$((failures + 1)); }

expect 3 "problem 'garbage', column 1: expected conv2d or an operator in lower case" best --for garbage
expect 3 "records $scratch/nowhere/x.jsonl: there is no folder $scratch/nowhere; create it, or give another file" \
  export --records "$scratch/merged.db" -o "$scratch/nowhere/x.jsonl"
[ ! -e "$scratch/nowhere" ] || { echo "FAILED: a folder was made"; failures=$((failures + 1)); }

# With `--json -`, standard output is JSON and nothing else.
for args in "list" "best" "best --for relu(f32[4,16])" "verify" "migrate" "prune" "import $data/tvm_v01.txt" "explain $data/tvm_v02.txt zoo:centernet_dla34_tvm"; do
  # shellcheck disable=SC2086
  "$kilter" records $args --json - 2> /dev/null | python3 -c 'import json, sys; json.load(sys.stdin)' ||
    { echo "FAILED: kilter records $args --json - is no JSON"; failures=$((failures + 1)); }
done
finish records
