#!/usr/bin/env bash
# Every C++ file as clang-format wants it; prints the files that are not. usage: scripts/check_format.sh [--fix]
set -euo pipefail
cd "$(dirname "$0")/.."
files=$(git ls-files '*.cpp' '*.h')
[ -z "$files" ] && exit 0
if [ "${1:-}" = --fix ]; then
  echo "$files" | xargs -P 2 -n 20 clang-format-19 -i
  exit 0
fi
bad=$(echo "$files" | xargs -P 2 -n 20 clang-format-19 --dry-run 2>&1 | sed -n 's/^\(.*\):[0-9]*:[0-9]*: warning.*/\1/p' | sort -u)
if [ -n "$bad" ]; then
  echo "clang-format would change these files (scripts/check_format.sh --fix does it):" >&2
  echo "$bad" >&2
  exit 1
fi
echo "clang-format: $(echo "$files" | wc -l) files are fine"
