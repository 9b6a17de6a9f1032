#!/usr/bin/env bash
# The command line as a user meets it: exit codes, texts, files. usage: cli_test.sh KILTER
set -uo pipefail
kilter=$1
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
failures=0

# expect CODE TEXT ARGS...: the exit code, and TEXT somewhere in the output.
expect() {
  local code=$1 text=$2 got out
  shift 2
  out=$("$kilter" "$@" 2>&1)
  got=$?
  if [ "$got" != "$code" ] || ! grep -qF -- "$text" <<<"$out"; then
    echo "FAILED: kilter $*: expected exit $code and '$text', got exit $got and: $out" | head -5
    failures=$((failures + 1))
  fi
}

expect 0 "LLVM" --version
expect 0 "Example:" --help
for sub in run bench compile check inspect ops targets options zoo; do expect 0 "--help" $sub --help; done
expect 2 "" 
expect 2 "" frobnicate
expect 2 "no network 'nothing'" run zoo:nothing
expect 3 "$scratch/none.onnx" run "$scratch/none.onnx"
head -c 1000 /dev/urandom > "$scratch/noise.onnx"
expect 3 "noise.onnx" run "$scratch/noise.onnx"
expect 2 "expected NAME=VALUE" run zoo:squeezenet1_1 --input nonsense
expect 2 "no pass 'nothing'" run zoo:squeezenet1_1 --disable nothing
expect 2 "z80" run zoo:squeezenet1_1 --target z80
expect 0 "verify: passed" run zoo:squeezenet1_1 --verify
expect 0 "resnet18" zoo
expect 0 "" run zoo:squeezenet1_1 --output "$scratch/out"
[ -f "$scratch/out/output.npy" ] || { echo "FAILED: --output wrote no output.npy"; failures=$((failures + 1)); }
expect 0 "steps" compile zoo:squeezenet1_1 -o "$scratch/net.kilter"
expect 0 "output" run "$scratch/net.kilter"
cmp -s <("$kilter" run "$scratch/net.kilter") <("$kilter" run zoo:squeezenet1_1) || { echo "FAILED: compiled file and model differ"; failures=$((failures + 1)); }
"$kilter" compile zoo:squeezenet1_1 -o "$scratch/again.kilter" > /dev/null
cmp -s "$scratch/net.kilter" "$scratch/again.kilter" || { echo "FAILED: the same model compiled twice differs"; failures=$((failures + 1)); }
expect 3 "/dev/full" compile zoo:squeezenet1_1 -o /dev/full
expect 0 "" zoo squeezenet1_1 -o "$scratch/net.onnx"
expect 0 "Conv" inspect "$scratch/net.onnx"
expect 0 "median_ms" bench zoo:squeezenet1_1 --seconds 0.2 --json -
head -c 5000 "$scratch/net.kilter" > "$scratch/cut.kilter"
expect 3 "cut.kilter" run "$scratch/cut.kilter"
"$kilter" bench zoo:squeezenet1_1 --seconds 60 > /dev/null 2>&1 &
interrupted=$!
sleep 1
kill -INT $interrupted
wait $interrupted
got=$?
[ $got = 130 ] || { echo "FAILED: an interrupted bench exits with $got, expected 130"; failures=$((failures + 1)); }
[ $failures = 0 ] && echo "cli: all passed"
exit $((failures > 0))
