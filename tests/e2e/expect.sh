# Sourced by tests of the command line, which set `kilter` (the program) and may set `command` (words before all arguments).
# shellcheck shell=bash
# `failures` counts failures; `finish NAME` reports the result and ends the test.
failures=0
command=()

# expect CODE TEXT ARGS...: checks the exit code, and that the output contains TEXT.
expect() {
  local code=$1 text=$2 got=0 out
  shift 2
  set -- ${command[@]+"${command[@]}"} "$@"
  out=$("$kilter" "$@" 2>&1) || got=$?
  if [ "$got" != "$code" ] || ! grep -qF -- "$text" <<<"$out"; then
    echo "FAILED: kilter $*: expected exit $code and '$text', got exit $got and: $out" | head -8
    failures=$((failures + 1))
  fi
}

finish() {
  [ $failures = 0 ] && echo "$1: all passed"
  exit $((failures > 0))
}
