#!/usr/bin/env bash
# usage: scripts/sanitize.sh thread          ThreadSanitizer over the thread pool and the executor
#        scripts/sanitize.sh fuzz [SECONDS]  each fuzzer (importer, compiled files) under AddressSanitizer and
#                                            UndefinedBehaviorSanitizer, a minute unless told
set -euo pipefail
cd "$(dirname "$0")/.."
case "${1:-}" in
  thread)
    echo "== ThreadSanitizer: thread pool and executor"
    cmake --preset tsan > /dev/null
    cmake --build build-tsan --target test_exec
    build-tsan/tests/exec/test_exec --gtest_brief=1
    ;;
  fuzz)
    seconds=${2:-60}
    echo "== fuzzing for $seconds s each (AddressSanitizer, UndefinedBehaviorSanitizer)"
    # Warnings are the release build's business.
    cmake -S . -B build-fuzz -G Ninja -DCMAKE_BUILD_TYPE=None -DCMAKE_CXX_FLAGS="-O1 -g1 -w" -DCMAKE_CXX_COMPILER=clang++-19 \
      -DCMAKE_C_COMPILER=clang-19 -DKILTER_FUZZ=ON -DKILTER_SANITIZE=address,undefined > /dev/null
    cmake --build build-fuzz --target fuzz_plan fuzz_onnx
    for target in fuzz_plan fuzz_onnx; do
      mkdir -p build-fuzz/corpus/$target
      build-fuzz/tests/fuzz/$target -max_total_time="$seconds" -timeout=20 -rss_limit_mb=4096 -verbosity=0 \
        build-fuzz/corpus/$target > build-fuzz/$target.log 2>&1 || { tail -50 build-fuzz/$target.log; exit 1; }
      echo "$target: no finding"
    done
    ;;
  *)
    sed -n '2,4s/^# //p' "$0" >&2
    exit 2
    ;;
esac
