#!/usr/bin/env bash
# Tests kilter cost-model as a user sees it. usage: cost_model_test.sh KILTER
set -uo pipefail
kilter=$1
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
# shellcheck source=tests/e2e/expect.sh
. "$(dirname "$0")/expect.sh"
command=(cost-model)

# Eight tasks on two devices: a tile of 6 is best everywhere, the device shifts the costs, and one row in 17 failed.
{
  echo '{"format": "kilter-cost-table-1", "features": ["tile", "size", "noise"]}'
  for task in 1 2 3 4 5 6 7 8; do
    for device in a b; do
      for tile in $(seq 1 30); do
        [ $device = a ] && best=6 || best=9
        d=$((tile > best ? tile - best : best - tile))
        cost=0.$((100 + d * d))
        [ $(((tile + task) % 17)) = 0 ] && cost=null
        echo "{\"task\": \"t$task\", \"device\": \"$device\", \"x\": [$tile, $task, $((tile * 7919 % 31))], \"cost\": $cost}"
      done
    done
  done
} > "$scratch/rows.jsonl"

expect 0 "--held-out" eval --help
expect 2 "" 
expect 2 "--table" train -o "$scratch/m.trees"
expect 3 "$scratch/none.jsonl" train --table "$scratch/none.jsonl" -o "$scratch/m.trees"
expect 2 "depth 99; legal values are 1..16" train --table "$scratch/rows.jsonl" -o "$scratch/m.trees" --depth 99
expect 2 "--trainer" train --table "$scratch/rows.jsonl" -o "$scratch/m.trees" --trainer magic
expect 0 "100 trees from 480 rows of 8 tasks on 2 devices" train --table "$scratch/rows.jsonl" -o "$scratch/m.trees"
expect 0 "100 trees" train --table "$scratch/rows.jsonl" -o "$scratch/again.trees"
cmp -s "$scratch/m.trees" "$scratch/again.trees" || { echo "FAILED: the same table trained twice differs"; failures=$((failures + 1)); }
expect 3 "/dev/full" train --table "$scratch/rows.jsonl" -o /dev/full
expect 0 "device     a" show "$scratch/m.trees"
expect 0 '"splits"' show "$scratch/m.trees" --json -
expect 0 "all rows" eval "$scratch/m.trees" --table "$scratch/rows.jsonl"
expect 0 '"top1_regret"' eval "$scratch/m.trees" --table "$scratch/rows.jsonl" --json -
expect 0 "5 folds, held out by task" eval --table "$scratch/rows.jsonl"
expect 0 "2 folds, held out by device" eval --table "$scratch/rows.jsonl" --held-out device
expect 2 "--held-out" eval "$scratch/m.trees" --table "$scratch/rows.jsonl" --held-out device
expect 0 "150 trees" train --table "$scratch/rows.jsonl" --start "$scratch/m.trees" --trees 50 -o "$scratch/more.trees"
sed '1s/"size"/"width"/' "$scratch/rows.jsonl" > "$scratch/other.jsonl"
expect 3 "was trained on 3 features, of which 1 is not among the 3 given: size" eval "$scratch/m.trees" --table "$scratch/other.jsonl"
head -c 500 "$scratch/m.trees" > "$scratch/cut.trees"
expect 3 "it is cut off" show "$scratch/cut.trees"
expect 2 "pip install xgboost-cpu" train --trainer xgb --xgboost "$scratch/nowhere" --table "$scratch/rows.jsonl" -o "$scratch/x.trees"
# Rows of measured schedules, from a table of costs.
printf '%s\n' '{"problem":"conv2d n1 c32 h14 w14 k32 r1 s1 f32","target":"znver4","threads":1,"prune":1.5,"conditions":"m; k; d","templates":[["conv2d_direct","vectors","rows","tile","prefetch"]]}' \
  '[0,2,1,14,0,1,20]' '[0,2,1,7,0,0.9,20]' > "$scratch/costs.jsonl"
expect 0 "made.jsonl: 2 rows" rows "$scratch/costs.jsonl" -o "$scratch/made.jsonl"
expect 0 "from 2 rows of 1 tasks on 1 device" train --table "$scratch/made.jsonl" -o "$scratch/made.trees"
expect 3 "none.jsonl" rows "$scratch/none.jsonl" -o "$scratch/made.jsonl"
: > "$scratch/empty.jsonl"
expect 3 "no measured schedules to learn from; expected tables written by \`kilter searchers --measure\` or records from \`kilter tune\`" rows "$scratch/empty.jsonl" -o "$scratch/made.jsonl"
# One row in 17 fails without a rule that a model could learn; the rest must be ranked correctly.
regret=$("$kilter" cost-model eval --table "$scratch/rows.jsonl" --json - | python3 -c 'import json, sys; m = json.load(sys.stdin)["all"]; print(m["top1_regret"] < 0.01 and m["pairwise"] > 0.85 and m["spearman"] > 0.7)')
[ "$regret" = True ] || { echo "FAILED: predictions for tasks not seen are poor"; failures=$((failures + 1)); }
finish cost-model
