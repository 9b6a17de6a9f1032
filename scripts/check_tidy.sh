#!/usr/bin/env bash
# clang-tidy as .clang-tidy says. usage: scripts/check_tidy.sh core|all   (core: without the operator files and tests)
set -euo pipefail
cd "$(dirname "$0")/.."
files=$(git ls-files 'src/*.cpp' 'tools/*.cpp')
[ "${1:-core}" = core ] && files=$(echo "$files" | grep -v -e '^src/ops/' -e '^src/codegen/' -e '^src/onnx/')
echo "$files" | xargs -P 2 -n 4 clang-tidy-19 -p build --quiet --extra-arg=-w --warnings-as-errors='*' 2>/dev/null
echo "clang-tidy: $(echo "$files" | wc -l) files are fine"
