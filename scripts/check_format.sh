#!/usr/bin/env bash
# Checks that every C++ file is formatted by clang-format, and names those that are not. usage: scripts/check_format.sh [--fix]
#   --fix  rewrite them instead
# Exit codes: 0 fine, 1 files to rewrite, 2 usage, or clang-format cannot run.
set -euo pipefail
cd "$(dirname "$0")/.."
fix=0
case "${1:-}" in
  "") ;;
  --fix) fix=1 ;;
  -h|--help) sed -n '2,4s/^# //p' "$0"; exit 0 ;;
  *) echo "check_format.sh: unknown option '$1'; expected --fix" >&2; exit 2 ;;
esac
command -v clang-format-19 > /dev/null || { echo "check_format.sh: clang-format-19 is missing; ./test installs it" >&2; exit 2; }
mapfile -t files < <(git ls-files --cached --others --exclude-standard '*.cpp' '*.h')
[ ${#files[@]} -gt 0 ] || { echo "check_format.sh: git lists no C++ file here" >&2; exit 2; }
run() { printf '%s\0' "${files[@]}" | xargs -0 -P "$(nproc)" -n 20 clang-format-19 "$@"; }
if [ $fix = 1 ]; then
  run -i
  exit 0
fi
report=$(run --dry-run 2>&1) || { echo "$report" >&2; exit 2; }
bad=$(sed -n 's/^\(.*\):[0-9]*:[0-9]*: warning.*/\1/p' <<< "$report" | sort -u)
if [ -n "$bad" ]; then
  echo "clang-format would change these files (scripts/check_format.sh --fix does it):" >&2
  echo "$bad" >&2
  exit 1
fi
echo "clang-format: ${#files[@]} files are fine"
