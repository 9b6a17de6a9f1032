#!/usr/bin/env bash
# Runs the commands of doc/tuning.md as they stand there, with a shorter budget.
# Usage: tuning_page_test.sh KILTER PAGE
set -euo pipefail
kilter=$(realpath "$1")
page=$(realpath "$2")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
export XDG_DATA_HOME=$work/data
mapfile -t commands < <(sed -n '/^```sh$/,/^```$/p' "$page" | sed -n 's/^kilter \([^#]*\).*/\1/p')
[ "${#commands[@]}" -ge 8 ] || { echo "FAILED: ${#commands[@]} commands found in $page" >&2; exit 1; }
for command in "${commands[@]}"; do
  short=${command/--time 1min/--time 10s}
  [[ $short != graph-tune* || $short == *--no-run* ]] || short+=" --measure 1 --race 2"
  read -r -a words <<< "$short"
  echo "kilter ${words[*]}"
  "$kilter" "${words[@]}" > out.txt || { echo "FAILED: kilter ${words[*]}" >&2; cat out.txt >&2; exit 1; }
done
"$kilter" run squeezenet.kilter --threads 1 > /dev/null
[ -s densenet.plan ] || { echo "FAILED: graph-tune --write-plan wrote nothing" >&2; exit 1; }
