#!/usr/bin/env bash
# Trains the cost model shipped with Kilter from the tables in bench/searchers. usage: scripts/train_cost_model.sh [KILTER]
# Writes src/tune/tuner/shipped.trees; rebuild to embed it. To get more tables: `kilter searchers --measure` on any machine.
set -euo pipefail
cd "$(dirname "$0")/.."
kilter=${1:-build/kilter}
rows=$(mktemp --suffix .jsonl)
trap 'rm -f "$rows"' EXIT
find bench/searchers -name '*.jsonl' | LC_ALL=C sort | xargs "$kilter" cost-model rows --out "$rows"
"$kilter" cost-model train --table "$rows" --out src/tune/tuner/shipped.trees --trees 60 --depth 4
