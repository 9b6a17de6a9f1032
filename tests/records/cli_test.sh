#!/usr/bin/env bash
# `kilter records` as a user meets it. usage: cli_test.sh KILTER DATA
set -uo pipefail
kilter=$1 data=$2
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
export XDG_DATA_HOME=$scratch/share
# shellcheck source=tests/e2e/expect.sh
. "$(dirname "$0")/../e2e/expect.sh"
command=(records)

for sub in list best export import merge prune verify explain; do expect 0 "Example:" $sub --help; done
expect 2 "subcommand is required"
expect 0 "there are none yet" list
expect 3 "no such file" list --records "$scratch/nothing.db"

expect 0 "33 records, 24 different; 24 added" import "$data/tvm_v01.txt" --target znver4
expect 0 "42 records, 40 different; 40 added" import "$data/tvm_v02.txt"
expect 0 "0 added to $scratch/share/kilter/records.db, 40 were there" import "$data/tvm_v02.txt"
expect 0 "tile_ic=32 has no counterpart" import "$data/tvm_v01.txt" --notes --records "$scratch/other.jsonl"
expect 0 "as a plan: 21 layers over 12 tasks, layers of each 1,4,1,1,3,1,1,3,1,1,3,1" import "$data/tvm_v01.txt"
expect 0 "64 records, the last 3 shown" list --limit 3
expect 0 "52 records" list --device cuda --limit 100
expect 0 "12 records" list --source "tvm v0.1" --device llvm
expect 2 "status 'fine': unknown; legal are" list --status fine
expect 0 "0.6671" best --problem "c3 h608 w608" --device cuda
expect 0 "index=45898438" best --records "$data/tvm_v02.txt" --problem "c3 h608"
expect 0 "no record serves it" best --for "conv2d n1 c64 h56 w56 k64 r3 s3 pad1 f32"
expect 0 "64 sound, 0 damaged" verify

expect 0 "64 records written" export --output "$scratch/all.jsonl"
sed -i '20s/tile_f/tile_g/; 30s/.*/noise/' "$scratch/all.jsonl"
expect 0 "all.jsonl: line 20: skipped: record: its id is" list --records "$scratch/all.jsonl"
expect 1 "62 sound, 2 damaged" verify --records "$scratch/all.jsonl"
expect 0 "62 added" merge "$scratch/all.jsonl" --records "$scratch/merged.db"
expect 0 "2 added" merge "$scratch/share/kilter/records.db" --records "$scratch/merged.db"
expect 0 "0 added" merge "$scratch/share/kilter/records.db" --records "$scratch/merged.db"

expect 0 "would go: 10 measured, 0 failed; 54 stay; nothing was changed" prune --keep 1 --records "$scratch/merged.db"
expect 0 "64 records" list --records "$scratch/merged.db" --limit 100
expect 0 "10 of 64 records went" prune --keep 1 --yes --records "$scratch/merged.db"
expect 0 "54 records" list --records "$scratch/merged.db" --limit 100

expect 0 "predicted: 19.136 ms in 55 of" explain "$data/tvm_v02.txt" zoo:centernet_dla34_tvm --measured-ms 108
expect 3 "none of the 42 records of the log is ok and of device 'opencl'" explain "$data/tvm_v02.txt" zoo:squeezenet1_1 --device opencl

# One line each, and no crash, for files that are something else.
head -c 100000 /dev/urandom > "$scratch/noise.db"
expect 3 "no SQLite database" verify --records "$scratch/noise.db"
expect 0 "0 records" import "$scratch/noise.db"
expect 3 "it is a directory" import "$data/tvm_v01.txt" --records "$scratch"
(ulimit -f 40 && "$kilter" records import "$data/tvm_v01.txt" "$data/tvm_v02.txt" --records "$scratch/small.db" > /dev/null 2> "$scratch/full")
[ $? = 3 ] && grep -qF "no space left to write" "$scratch/full" && [ "$(wc -l < "$scratch/full")" = 1 ] ||
  { echo "FAILED: a limit of the file size: $(cat "$scratch/full")"; failures=$((failures + 1)); }

expect 3 "problem 'garbage', column 1: expected conv2d or an operator in small letters" best --for garbage
expect 3 "records $scratch/nowhere/x.jsonl: there is no folder $scratch/nowhere; make it, or give another file" \
  export --records "$scratch/merged.db" -o "$scratch/nowhere/x.jsonl"
[ ! -e "$scratch/nowhere" ] || { echo "FAILED: a folder was made"; failures=$((failures + 1)); }

# --json - is JSON and nothing else.
for args in "list" "best" "best --for relu(f32[4,16])" "verify" "prune" "import $data/tvm_v01.txt" "explain $data/tvm_v02.txt zoo:centernet_dla34_tvm"; do
  # shellcheck disable=SC2086
  "$kilter" records $args --json - 2> /dev/null | python3 -c 'import json, sys; json.load(sys.stdin)' ||
    { echo "FAILED: kilter records $args --json - is no JSON"; failures=$((failures + 1)); }
done
finish records
