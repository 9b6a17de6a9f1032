#!/usr/bin/env bash
# Makes doc/operators.md from the table of operators. usage: scripts/make_operator_table.sh [--check]
#   --check  writes nothing; exit 1 when doc/operators.md is not what `build/kilter ops --markdown` says
# KILTER names another program than build/kilter.
set -euo pipefail
cd "$(dirname "$0")/.."
kilter=${KILTER:-build/kilter}
file=doc/operators.md
check=0
case "${1:-}" in
  "") ;;
  --check) check=1 ;;
  -h|--help) sed -n '2,4s/^# //p' "$0"; exit 0 ;;
  *) echo "make_operator_table.sh: unknown option '$1'; legal is --check" >&2; exit 2 ;;
esac
[ -x "$kilter" ] || { echo "make_operator_table.sh: no program $kilter; build it first: cmake --preset release && cmake --build --preset release" >&2; exit 2; }

made=$(mktemp)
trap 'rm -f "$made"' EXIT
{
  echo "# Operators"
  echo "What Kilter knows of ONNX, made by \`scripts/make_operator_table.sh\` from the files of \`src/ops/\`; *runs as* is the family of templates that can lower the operator, and operators of the family \`reference\` run their reference kernel."
  echo
  "$kilter" ops --markdown
} > "$made"
if [ $check = 1 ]; then
  cmp -s "$made" "$file" && exit 0
  echo "$file is not current; run scripts/make_operator_table.sh. It differs from what $kilter says:" >&2
  diff "$file" "$made" >&2 || true
  exit 1
fi
cat "$made" > "$file"
