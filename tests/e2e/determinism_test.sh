#!/usr/bin/env bash
# Tests that a network compiled for a named target gives the same file, byte by byte, in every process and on every processor.
# usage: determinism_test.sh KILTER processes|processors
#   processes   different numbers of compiling threads, addresses in memory, folders and environments
#   processors  the compiler itself runs on emulated processors, one of them older; exit 77 without qemu-x86_64
set -uo pipefail
kilter=$(realpath "$1")
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
failures=0

# same NETWORK TARGET FILE WHAT: checks that FILE equals the first process's file, and removes it.
same() {
  cmp "$scratch/$1.$2" "$3" && rm "$3" && return
  echo "FAILED: $1 for $2, $4: other bytes than from the first process"
  failures=$((failures + 1))
}

compile() { "$kilter" compile "zoo:$1" --target "$2" -o "$3" > /dev/null; }

processes() {
  for network in squeezenet1_1 mobilenet_v1; do
    for target in x86-64-v3 znver4; do
      compile $network $target "$scratch/$network.$target"
      for threads in 1 3; do
        KILTER_NUM_THREADS=$threads compile $network $target "$scratch/again"
        same $network $target "$scratch/again" "$threads compiling threads"
      done
      mkdir -p "$scratch/elsewhere"
      (cd "$scratch/elsewhere" && env -i PATH="$PATH" MALLOC_PERTURB_=85 setarch -R "$kilter" compile zoo:$network --target $target -o ../again > /dev/null)
      same $network $target "$scratch/again" "fixed addresses, memory filled with another value, empty environment"
    done
  done
}

processors() {
  command -v qemu-x86_64 > /dev/null || { echo "qemu-x86_64 is not installed (package qemu-user); nothing was compared"; exit 77; }
  compile squeezenet1_1 x86-64-v3 "$scratch/squeezenet1_1.x86-64-v3"
  qemu-x86_64 -cpu max "$kilter" compile zoo:squeezenet1_1 --target x86-64-v3 -o "$scratch/again" > /dev/null
  same squeezenet1_1 x86-64-v3 "$scratch/again" "compiled on an emulated processor"
  # Schedules, kernel keys and hashes of the loop IR, for a target far more capable than the processor.
  "$kilter" inspect zoo:squeezenet1_1 --target znver4 --schedules --json - > "$scratch/squeezenet1_1.znver4"
  qemu-x86_64 -cpu Nehalem "$kilter" inspect zoo:squeezenet1_1 --target znver4 --schedules --json - > "$scratch/again"
  same squeezenet1_1 znver4 "$scratch/again" "lowered on an emulated Nehalem"
}

"$2"
[ $failures = 0 ] && echo "determinism, $2: all passed"
exit $((failures > 0))
