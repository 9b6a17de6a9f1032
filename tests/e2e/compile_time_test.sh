#!/usr/bin/env bash
# Tests the table and the exit codes of bench/compile_time.py. usage: compile_time_test.sh KILTER PYTHON BENCH MODELS
set -euo pipefail
times() { KILTER_NUM_THREADS=wrong "$2" "$3/compile_time.py" --kilter "$1" --models "$4" --networks squeezenet1_1 --repeat 2 "${@:5}" 2>&1; }

# says CODE PATTERN ARGS...: checks the exit code, and that a line of the output matches PATTERN.
places=("$@")
says() {
  local code=$1 pattern=$2 got=0 out
  shift 2
  out=$(times "${places[@]}" "$@") || got=$?
  if [ "$got" != "$code" ] || ! grep -qE -- "$pattern" <<<"$out"; then
    echo "FAILED: compile_time.py $*: expected exit $code and /$pattern/, got exit $got and: $out"
    exit 1
  fi
}

number='[0-9]+\.[0-9]{2}'
says 0 "^\| squeezenet1_1 \| $number \| $number \| $number \| $number \| - \| [0-9]+ \| [0-9]+\.[0-9] \|$"
says 0 '^machine: .* 1 used \(CPU [0-9]+\); kilter .*; untuned, fp32, batch 1; 2 compilations of each, interleaved; ' --limit squeezenet1_1=600
says 1 "^compile_time.py: compiling takes longer than its limit: squeezenet1_1 takes $number s \(CPU time $number s\), limit 0\.001 s$" \
  --limit squeezenet1_1=0.001
says 2 "argument --limit: got 'squeezenet1_1=soon'; expected NAME=SECONDS with seconds above 0 and a NAME of resnet18, " --limit squeezenet1_1=soon
says 2 "argument --limit: got 'alexnet=1'; expected NAME=SECONDS" --limit alexnet=1
says 2 'argument --repeat: got 0; expected 1 or more' --repeat 0
says 2 "argument --networks: invalid choice: 'alexnet'" --networks alexnet
says 1 '^compile_time.py: squeezenet1_1: kilter compile ended with 1: ' --kilter /bin/false
says 1 "^compile_time.py: squeezenet1_1: cannot start '/nowhere/kilter': No such file or directory$" --kilter /nowhere/kilter
echo "compile_time: all passed"
