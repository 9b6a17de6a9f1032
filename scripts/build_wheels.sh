#!/usr/bin/env bash
# Builds the Python wheels of kilter and kilter-runtime, and repairs them to the oldest manylinux tag that they can have.
# usage: scripts/build_wheels.sh [FOLDER]   FOLDER: where the wheels go, default build/wheels
# KILTER_WHEEL_PYTHON is the interpreter, default that of .venv; from 3.12 on, one wheel serves all later versions.
# KILTER_WHEEL_AARCH64=1 also cross-builds kilter-runtime for AArch64 (Debian's g++-aarch64-linux-gnu).
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=scripts/setup.sh
. scripts/setup.sh
folder=$(realpath -m "${1:-build/wheels}")
python=${KILTER_WHEEL_PYTHON:-.venv/bin/python}
raw=$(mktemp -d)
trap 'rm -rf "$raw"' EXIT
mkdir -p "$folder"
# build FOLDER [pip options...]: one wheel, with the build tools of the interpreter.
build() {
  say "building the wheel of $1"
  "$python" -m pip wheel "$1" --no-deps --no-build-isolation -q -w "$raw" "${@:2}"
}
build .
build ./python/runtime
if [ "${KILTER_WHEEL_AARCH64:-}" = 1 ]; then
  build ./python/runtime -C cmake.define.CMAKE_TOOLCHAIN_FILE="$PWD/cmake/aarch64-linux-gnu.cmake" \
    -C wheel.tags=py3-none-linux_aarch64 -C build-dir=../../build-runtime-wheel/aarch64
fi
PATH=$(dirname "$(realpath -s "$python")"):$PATH "$python" -m auditwheel repair -w "$folder" "$raw"/*.whl
say "wheels, in $folder"
(cd "$folder" && stat -c '%s %n' ./*.whl | awk '{printf "%8.1f MB  %s\n", $1 / 1e6, $2}')
