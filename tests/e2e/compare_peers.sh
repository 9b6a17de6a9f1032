#!/usr/bin/env bash
# kilter compare and kilter explain against other runtimes. usage: compare_peers.sh KILTER PYTHON
set -euo pipefail
export KILTER_PYTHON=$2
for runtime in onnxruntime openvino; do
  out=$("$1" compare zoo:squeezenet1_1 $runtime:zoo:squeezenet1_1 --threads 1 --seconds 2 --layers 40)
  for text in "executor         A: kilter   B: $runtime" "B / A = " "interleaved rounds" "conv1 " "fire5.expand3x3"; do
    grep -qF -- "$text" <<<"$out" || { echo "FAILED: no '$text' in: $out"; exit 1; }
  done
  # Every convolution of Kilter's finds its counterpart.
  if grep -A2 -E "^  fire.*(squeeze|expand)" <<<"$out" | grep -q "B: no such layer"; then echo "FAILED: layers without counterpart: $out"; exit 1; fi
done
out=$("$1" explain zoo:squeezenet1_1 --against onnxruntime --threads 1 --seconds 2)
for text in "Where the time goes" "Against onnxruntime" "B / A = " "layers that make the difference"; do
  grep -qF -- "$text" <<<"$out" || { echo "FAILED: no '$text' in: $out"; exit 1; }
done
# An interrupt leaves no temporary files.
scratch=$(mktemp -d)
TMPDIR=$scratch timeout -s INT 6 "$1" compare zoo:squeezenet1_1 onnxruntime:zoo:squeezenet1_1 --threads 1 --seconds 60 > /dev/null || true
rm -f "$scratch/.ses" # ONNX Runtime's own
rmdir "$scratch" || { echo "FAILED: an interrupted compare leaves files: $(ls -A "$scratch")"; exit 1; }
echo "compare_peers: all passed"
