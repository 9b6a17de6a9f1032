#!/usr/bin/env bash
# usage: scripts/sanitize.sh thread [TEST...]   ThreadSanitizer over the thread pool, the executor and the C interface, or
#                                               the unit tests named
#        scripts/sanitize.sh address [TEST...]  AddressSanitizer and UndefinedBehaviorSanitizer over the unit tests base,
#                                               exec, ir, loop, ops, onnx, cost, graph_tuner and c_interface, or those
#                                               named. c_compiler is the C interface with the compiler
#        scripts/sanitize.sh fuzz [SECONDS]     each fuzzer (importer, compiled files) under both sanitizers, all at
#                                               once; a minute by default
# Builds into build-tsan/ and build-fuzz/. Exit codes: 0 no finding, 1 findings or a failed build, 2 usage,
# 130 interrupted.
set -euo pipefail
cd "$(dirname "$0")/.."
usage() { sed -n '2,10s/^# //p' "$0"; }

# The unit tests share the build tree of the fuzzers, so that the libraries are compiled only once. Warnings are left to
# the release build.
configure_fuzz_tree() {
  cmake -S . -B build-fuzz -G Ninja -DCMAKE_BUILD_TYPE=None -DCMAKE_CXX_FLAGS="-O1 -g1 -w" \
    -DCMAKE_CXX_COMPILER=clang++-19 -DCMAKE_C_COMPILER=clang-19 -DKILTER_FUZZ=ON \
    -DKILTER_SANITIZE=address,undefined > build-fuzz-configure.log 2>&1 ||
    { cat build-fuzz-configure.log; exit 1; }
  mv build-fuzz-configure.log build-fuzz/configure.log
}

# run_test TREE NAME: runs a test program, and shows its report if it fails or has not ended after ten minutes.
run_test() {
  local log="$1/test_$2.log" status=0 folder=$2
  [ "$folder" != c_compiler ] || folder=c_interface
  timeout --kill-after=10 600 "$1/tests/$folder/test_$2" > "$log" 2>&1 || status=$?
  if [ $status = 0 ]; then
    grep "^\[==========\] .* ran" "$log"
    return
  fi
  tail -100 "$log" >&2
  [ $status != 124 ] || echo "test_$2 did not end within 600 s; the last test above had not ended" >&2
  return 1
}

# run_tests TREE NAME...
run_tests() {
  local tree=$1 name
  shift
  for name in "$@"; do
    echo "test_$name"
    run_test "$tree" "$name"
  done
}

kThread=(exec c_interface)
thread() {
  local tests=("$@")
  [ $# != 0 ] || tests=("${kThread[@]}")
  cmake --preset tsan -DCMAKE_CXX_FLAGS_RELWITHDEBINFO="-O1 -g1 -DNDEBUG" > /dev/null  # the preset has -O2 -g
  cmake --build build-tsan --target "${tests[@]/#/test_}" -- --quiet
  run_tests build-tsan "${tests[@]}"
}

kAddress=(base exec ir loop ops onnx cost graph_tuner c_interface)
address() {
  local tests=("$@")
  [ $# != 0 ] || tests=("${kAddress[@]}")
  configure_fuzz_tree
  cmake --build build-fuzz --target "${tests[@]/#/test_}" -- --quiet
  run_tests build-fuzz "${tests[@]}"
}

pids=()
stop_fuzzers() {
  [ ${#pids[@]} = 0 ] || kill "${pids[@]}" 2> /dev/null || true
}

fuzz() {
  local seconds=$1 targets=(fuzz_plan fuzz_program fuzz_targets fuzz_onnx) target i failed=0
  configure_fuzz_tree
  cmake --build build-fuzz --target "${targets[@]}" -- --quiet
  trap stop_fuzzers EXIT
  trap 'exit 130' INT TERM
  for target in "${targets[@]}"; do
    mkdir -p "build-fuzz/corpus/$target"
    # 64 MiB in one block is far more than an input of 64 KiB may request, since sizes are checked before allocation.
    "build-fuzz/tests/fuzz/$target" -max_total_time="$seconds" -max_len=65536 -len_control=0 -timeout=20 \
      -rss_limit_mb=4096 -malloc_limit_mb=64 -artifact_prefix="build-fuzz/$target-" "build-fuzz/corpus/$target" \
      > "build-fuzz/$target.log" 2>&1 &
    pids+=($!)
  done
  for i in "${!targets[@]}"; do
    target=${targets[$i]}
    if wait "${pids[$i]}"; then
      echo "$target: no finding in $(sed -n 's/^Done \([0-9]*\) runs in \([0-9]*\).*/\1 inputs, \2 s/p' "build-fuzz/$target.log")"
    else
      failed=1
      tail -60 "build-fuzz/$target.log" >&2
      echo "$target: a finding; build-fuzz/$target.log has the report and names the input, which" \
        "build-fuzz/tests/fuzz/$target runs again when given as its argument" >&2
    fi
  done
  pids=()
  return $failed
}

case "${1:-}" in
  thread | address)
    legal=("${kThread[@]}" c_compiler)
    [ "$1" = thread ] || legal=("${kAddress[@]}" c_compiler)
    for name in "${@:2}"; do
      [[ " ${legal[*]} " = *" $name "* ]] || {
        echo "scripts/sanitize.sh $1: there are no tests '$name'; legal values are ${legal[*]}" >&2
        exit 2
      }
    done
    "$@"
    ;;
  fuzz)
    [[ $# -le 2 && ${2:-60} =~ ^[1-9][0-9]*$ ]] || { usage >&2; exit 2; }
    fuzz "${2:-60}"
    ;;
  -h | --help) usage ;;
  *)
    usage >&2
    exit 2
    ;;
esac
