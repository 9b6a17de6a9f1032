#!/usr/bin/env bash
# Tests kilter compare and kilter explain against other runtimes. usage: compare_peers.sh KILTER PYTHON
set -euo pipefail
export KILTER_PYTHON=$2
for runtime in onnxruntime openvino; do
  out=$("$1" compare zoo:squeezenet1_1 $runtime:zoo:squeezenet1_1 --threads 1 --seconds 2 --layers 40)
  for text in "B's layers come from the profiler of $runtime" "not in the layers" "whole run" "executor         A: kilter   B: $runtime" "B / A = " "interleaved rounds" "conv1 " "fire5.expand3x3"; do
    grep -qF -- "$text" <<<"$out" || { echo "FAILED: no '$text' in: $out"; exit 1; }
  done
  # Each of Kilter's convolutions is matched with its counterpart.
  if grep -A2 -E "^  fire.*(squeeze|expand)" <<<"$out" | grep -q "B: no such layer"; then echo "FAILED: layers without counterpart: $out"; exit 1; fi
done
# If other processes widen the interval so much that it contains 1, no layer is named as making a difference.
for try in 1 2 3; do
  out=$("$1" explain zoo:squeezenet1_1 --against onnxruntime --threads 1 --seconds $((2 * try)))
  for text in "Where the time goes" "Against onnxruntime" "B / A = "; do
    grep -qF -- "$text" <<<"$out" || { echo "FAILED: no '$text' in: $out"; exit 1; }
  done
  if grep -qF "layers that make the difference" <<<"$out"; then break; fi
  grep -qE "^ *layers: (there is no significant difference|their sum)" <<<"$out" || { echo "FAILED: nothing about layers in: $out"; exit 1; }
  [ $try != 3 ] || echo "compare_peers: BUSY, no significant difference in three tries"
done
# An interrupt leaves no temporary files.
scratch=$(mktemp -d)
TMPDIR=$scratch "$1" compare zoo:squeezenet1_1 onnxruntime:zoo:squeezenet1_1 --threads 1 --seconds 60 > /dev/null &
compare=$!
exported() { compgen -G "$scratch/kilter-*/model.onnx" > /dev/null; }
for ((tenth = 0; tenth < 600; ++tenth)); do
  if exported || ! kill -0 $compare; then break; fi
  sleep 0.1
done
exported || { kill -KILL $compare || true; echo "FAILED: compare exports no network within a minute"; exit 1; }
kill -INT $compare
code=0
wait $compare || code=$?
[ $code = 130 ] || { echo "FAILED: an interrupted compare exits with $code, expected 130"; exit 1; }
# ONNX Runtime's process ends a little later and leaves a file of its own, which does not count.
for ((tenth = 0; tenth < 100; ++tenth)); do
  rm -f "$scratch/.ses"
  rmdir "$scratch" 2> /dev/null && break
  sleep 0.1
done
[ ! -e "$scratch" ] || { echo "FAILED: an interrupted compare leaves files: $(ls -A "$scratch")"; exit 1; }
echo "compare_peers: all passed"
