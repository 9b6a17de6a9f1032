#!/usr/bin/env bash
# Cross-builds the runtime and its runner, then runs the AArch64 tests with them under qemu-user.
# usage: run.sh SOURCE TEST [GTEST OPTIONS...]   SOURCE: the source tree, TEST: the program test_aarch64
# KILTER_AARCH64_BIN, when set, is a folder with the programs of tests/aarch64/runner, and nothing is built;
# KILTER_AARCH64_RUN is the command that runs one of them: an emulator, "ssh board" for a board that shares /tmp, or
# an empty string. Exit codes: those of the tests, or 77 if a package is missing.
set -euo pipefail
[ $# -ge 2 ] || { sed -n '3s/^# //p' "$0" >&2; exit 2; }
source=$1 test=$2
shift 2
if [ -z "${KILTER_AARCH64_BIN:-}" ]; then
  for program in aarch64-linux-gnu-g++ qemu-aarch64; do
    command -v $program > /dev/null && continue
    echo "aarch64: skipped: no $program; install Debian's g++-aarch64-linux-gnu and qemu-user (./test does)"
    exit 77
  done
  log=$source/build-aarch64.log
  (cd "$source" && cmake --preset aarch64 && cmake --build --preset aarch64) > "$log" 2>&1 ||
    { tail -n 40 "$log" >&2; echo "aarch64: the cross build failed" >&2; exit 1; }
  mv "$log" "$source/build-aarch64/build.log"
  export KILTER_AARCH64_RUN="qemu-aarch64 -L /usr/aarch64-linux-gnu"
  export KILTER_AARCH64_BIN=$source/build-aarch64/tests/aarch64/runner
fi
exec "$test" "$@"
