#!/usr/bin/env bash
# ThreadSanitizer over the thread pool and the executor; the fuzzers under AddressSanitizer and UndefinedBehaviorSanitizer
# for a minute each. usage: scripts/sanitize.sh [SECONDS]
set -euo pipefail
cd "$(dirname "$0")/.."
seconds=${1:-60}
echo "== ThreadSanitizer: thread pool and executor"
cmake --preset tsan > /dev/null
cmake --build build-tsan --target test_exec
build-tsan/tests/exec/test_exec --gtest_brief=1
echo "== fuzzing for $seconds s each (AddressSanitizer, UndefinedBehaviorSanitizer)"
cmake -S . -B build-fuzz -G Ninja -DCMAKE_BUILD_TYPE=RelWithDebInfo -DCMAKE_CXX_COMPILER=clang++-19 -DCMAKE_C_COMPILER=clang-19 -DKILTER_FUZZ=ON -DKILTER_SANITIZE=address,undefined > /dev/null
cmake --build build-fuzz --target fuzz_plan fuzz_onnx
for target in fuzz_plan fuzz_onnx; do
  mkdir -p build-fuzz/corpus/$target
  build-fuzz/tests/fuzz/$target -max_total_time="$seconds" -timeout=20 -rss_limit_mb=3000 -print_final_stats=0 -verbosity=0 build-fuzz/corpus/$target > build-fuzz/$target.log 2>&1 ||
    { tail -50 build-fuzz/$target.log; exit 1; }
  echo "$target: no finding"
done
