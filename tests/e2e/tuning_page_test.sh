#!/usr/bin/env bash
# Runs the commands of doc/tuning.md as written, with a shorter budget. The headings of tables on the page must be those of the real output.
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
  short=$(sed -E "s/--time [0-9]+min/--time 8s/" <<< "$command")
  [[ $short != graph-tune* || $short == *--no-run* ]] || short+=" --measure 1 --race 2"
  read -r -a words <<< "$short"
  echo "kilter ${words[*]}"
  "$kilter" "${words[@]}" > out.txt 2>> said.txt || { echo "FAILED: kilter ${words[*]}" >&2; tail said.txt out.txt >&2; exit 1; }
  cat out.txt >> said.txt
done
mapfile -t headings < <(grep -E "^(task|node) .*[a-z]$" "$page")
[ "${#headings[@]}" -ge 3 ] || { echo "FAILED: ${#headings[@]} headings found in $page" >&2; exit 1; }
for heading in "${headings[@]}"; do
  grep -qxF -- "$heading" said.txt || { echo "FAILED: the page shows '$heading', which no command prints" >&2; exit 1; }
done
# The progress line on the page must be one that is printed, except for its figures.
shape() { sed -E 's/^busy machine, times are upper bounds; //; s/faster than its bound, which is therefore wrong/0 % of its bound/; s/^(preparing|searching|racing): /PHASE: /; s/ [0-9]+(\.[0-9]+)?/ N/g; s/\([0-9.]+/(N/g'; }
mapfile -t lines < <(grep "^searching: " "$page")
[ "${#lines[@]}" = 1 ] || { echo "FAILED: ${#lines[@]} lines of progress found in $page" >&2; exit 1; }
shape < said.txt > shapes.txt
grep -qxF -- "$(shape <<< "${lines[0]}")" shapes.txt || { echo "FAILED: the page shows '${lines[0]}', and no command prints such a line" >&2; exit 1; }
"$kilter" run squeezenet.kilter --threads 1 > /dev/null
[ -s densenet.plan ] || { echo "FAILED: graph-tune --write-plan wrote nothing" >&2; exit 1; }
