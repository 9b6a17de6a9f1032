#!/usr/bin/env bash
# Tests the command line as a user sees it: exit codes, texts, files. usage: cli_test.sh KILTER
set -uo pipefail
kilter=$1
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
export XDG_CACHE_HOME=$scratch/cache
# shellcheck source=tests/e2e/expect.sh
. "$(dirname "$0")/expect.sh"

expect 0 "LLVM" --version
expect 0 "Run and deploy:" --help
for sub in run bench kernels profile time explain compare device compile check inspect ops targets options zoo records tune tasks cost-model searchers quantize precision; do expect 0 "--help" $sub --help; done
expect 2 "Run and deploy:"
expect 0 "GFLOP/s" device
expect 0 '"gflops"' device --json -
expect 3 "/nowhere/device.json" device --json /nowhere/device.json
expect 2 "no network 'nothing'" run zoo:nothing
expect 3 "$scratch/none.onnx" run "$scratch/none.onnx"
head -c 1000 /dev/urandom > "$scratch/noise.onnx"
expect 3 "noise.onnx" run "$scratch/noise.onnx"
expect 2 "expected NAME=VALUE" run zoo:squeezenet1_1 --input nonsense
expect 2 "--input x=1x3x22Ox224: '1x3x22Ox224' is neither a shape such as 1x3x224x224 nor a file; expected NAME=SHAPE, NAME=FILE.npy, NAME=FILE.pb, for a sequence also NAME=FILE.npz or NAME=[], for maps NAME=FILE.json" run zoo:squeezenet1_1 --input x=1x3x22Ox224
expect 3 "none.npy" run zoo:squeezenet1_1 --input "input=$scratch/none.npy"
for words in "bench --json" "profile --json" "profile --csv" "profile --trace" "profile --html" "explain --json" "explain --html" "time --json" "kernels --json"; do
  sub=${words% *} option=${words#* }
  expect 3 "$option $scratch/none/x: cannot write the file: No such file or directory; choose a writable path" $sub zoo:nothing $option "$scratch/none/x"
done
for words in zoo "records list --records $scratch/none.jsonl" options; do
  : > "$scratch/none.jsonl"
  got=0
  # shellcheck disable=SC2086
  "$kilter" $words > /dev/full 2> "$scratch/full" || got=$?
  [ $got = 3 ] && grep -q "^kilter: cannot write to standard output: No space left on device$" "$scratch/full" ||
    { echo "FAILED: kilter $words with a full standard output: exit $got, $(cat "$scratch/full")"; failures=$((failures + 1)); }
done
"$kilter" device --json - > /dev/full 2> "$scratch/full" && { echo "FAILED: a full standard output is no error"; failures=$((failures + 1)); }
grep -qF -- "--json -: cannot write to standard output: No space left on device" "$scratch/full" || { echo "FAILED: a full standard output is not named"; failures=$((failures + 1)); }
expect 2 "no pass 'nothing'" run zoo:squeezenet1_1 --disable nothing
expect 2 "pass 'canonicalise' has no rewrite 'nothing'; legal values are gemm, " run zoo:squeezenet1_1 --disable canonicalise.nothing
expect 0 "Mul(x, Sigmoid(x)) => Swish(x)" options
expect 2 "z80" run zoo:squeezenet1_1 --target z80
expect 2 "--layer-threads conv1=2: 'conv1' already has a number of threads; give only one of them" run zoo:squeezenet1_1 --layer-threads conv1=1 --layer-threads conv1=2
expect 2 "--fuse conv1: --no-fuse names the same node; give only one of them" run zoo:squeezenet1_1 --fuse conv1 --no-fuse conv1
expect 2 "--schedule conv1=direct: 'conv1' already has a schedule; give only one of them" run zoo:squeezenet1_1 --schedule conv1=winograd --schedule conv1=direct
expect 2 "--no-fuse nothing: no task has this name; legal values are" run zoo:squeezenet1_1 --no-fuse nothing
expect 2 "--fuse nothing: no task has this name; legal values are" run zoo:squeezenet1_1 --fuse nothing
for node in conv1 pool1; do
  expect 2 "--fuse $node: this node cannot join a preceding convolution's kernel: it is not a depthwise convolution" run zoo:squeezenet1_1 --fuse $node
done
# A copy to the output, which is added when values are placed in memory, is a task like any other.
expect 0 "1 thread" bench zoo:squeezenet1_1 --input input=1x3x64x64 --threads 1 --seconds 0.1 --schedule "pool10.flatten.output=map item=1024"
expect 2 "--plain-layout nothing: no node has this name; legal values are" run zoo:squeezenet1_1 --plain-layout nothing
expect 2 "expected a whole number from 1 to 1024, got 'x'" run zoo:squeezenet1_1 --layer-threads conv1=x
expect 0 "verify: passed" run zoo:squeezenet1_1 --verify --no-fuse conv1 --layer-threads conv1=1 --plain-layout pool1
expect 0 "verify: passed" run zoo:squeezenet1_1 --verify
expect 0 ", each layer on its own operands; tolerance 0.005 of" run zoo:squeezenet1_1 --target x86-64-v3 --precision fp16 --verify
expect 0 "output 'output', by the errors of all layers: differs by at most" run zoo:squeezenet1_1 --target x86-64-v3 \
  --precision fp16 --verify
# tasks prints a line for each node, then the tasks with their layers; nodes and tasks refer to each other.
"$kilter" tasks zoo:squeezenet1_1 --ops conv2d --threads 2 --json "$scratch/tasks.json" > "$scratch/tasks"
python3 - "$scratch/tasks" "$scratch/tasks.json" <<'PY' || failures=$((failures + 1))
import json, re, sys
said, listed = open(sys.argv[1]).read().splitlines(), json.load(open(sys.argv[2]))
at = said.index("")
assert said[0].split() == ["node", "operator", "becomes"], said[0]
nodes = {line[:40].strip(): line[66:] for line in said[1:at]}
assert nodes == {n["node"]: n["becomes"] for n in listed["nodes"]}, nodes
for node, becomes in {"conv1": "task 1", "conv1.relu": "fused into task 1", "fire2.concat": "free view", "pool1": "left out by --ops",
                      "fire3.expand1x1": "task 4"}.items():
    assert nodes[node] == becomes, (node, nodes[node])
assert re.match(r"18 tasks; 18 different problems, not counting fused nodes$", said[at + 1]), said[at + 1]
assert said[at + 2].split() == "task layers MFLOP now ms best ms share points worth problem | schedule, then its layers".split(), said[at + 2]
rows, layers = said[at + 3:-3:2], said[at + 4:-3:2]
tasks = {t["task"]: t for t in listed["tasks"]}
assert [int(row.split()[0]) for row in rows] == sorted(tasks) and 2 not in tasks, rows
for row, of in zip(rows, layers):
    words, task = row.split(), tasks[int(row.split()[0])]
    assert of.strip().split(", ") == task["nodes"] and int(words[1]) == len(task["nodes"]) == task["count"], (row, of)
    assert task["problem"] in row and row.endswith(f"| {task['schedule']}"), row
    assert words[3] == f"{task['present_ms']:.4f}" and words[4] == f"{task['best_ms']:.4f}" and words[5] == f"{100 * task['share']:.1f}", (row, task)
    assert all(nodes[node] == f"task {task['task']}" for node in task["nodes"]), task
assert abs(sum(t["share"] for t in tasks.values()) - 1) < 1e-6
for n in listed["nodes"]:
    assert ("task" in n) == n["becomes"].startswith(("task ", "fused into task ")), n
    assert "task" not in n or n["problem"] == tasks[n["task"]]["problem"], n
assert listed["cores"] == 1 and f"on one core at {listed['ghz']:.2f} GHz, whatever --threads" in said[-2], said[-3:]
PY
expect 0 "points; ruled out: " tasks zoo:squeezenet1_1 --spaces
"$kilter" tasks zoo:squeezenet1_1 --no-nodes > "$scratch/tasks"
grep -q "^conv1 " "$scratch/tasks" && { echo "FAILED: --no-nodes lists nodes"; failures=$((failures + 1)); }
winograd=(inspect zoo:squeezenet1_1 --schedules --node fire4.expand3x3 --target znver4)
expect 0 "schedule    conv2d_winograd" "${winograd[@]}"
expect 0 "schedule    conv2d_direct" "${winograd[@]}" --forbid winograd@fire4.expand3x3
expect 0 "applies; --forbid: limit allowed schedules, got conv2d_winograd@fire4.expand3x3" "${winograd[@]}" --forbid winograd@fire4.expand3x3
expect 0 "schedule    conv2d_winograd" "${winograd[@]}" --forbid winograd@fire5.expand3x3
expect 0 "schedule    conv2d_direct" "${winograd[@]}" --schedule fire4.expand3x3=direct
expect 2 "--schedule conv1: 'conv2d_winograd' does not apply: strides and dilations: limit 1, got more; legal values are conv2d_direct, reference" run zoo:squeezenet1_1 --schedule conv1=conv2d_winograd
expect 0 "schedule    conv2d_winograd" "${winograd[@]}" --schedule "*=direct" --forbid direct@fire4.expand3x3
expect 2 "--schedule fire4.expand3x3=conv2d_direct: --forbid conv2d_direct excludes it from this layer; give only one of them" \
  "${winograd[@]}" --schedule fire4.expand3x3=direct --forbid direct
expect 2 "--records r.db: expected after the subcommand, as in \`kilter records list --records r.db\`" records --records r.db list
expect 2 "--forbid winogrand: expected TEMPLATE, TEMPLATE@NODE or SCHEDULE@NODE; templates are" run zoo:squeezenet1_1 --forbid winogrand
expect 2 "--forbid conv2d_winograd@conv1: 'conv2d_winograd' does not apply here anyway: strides and dilations: limit 1, got more; leave it out" run zoo:squeezenet1_1 --forbid winograd@conv1
# A task's number, as `kilter tasks` shows it, selects all of its layers.
task=$("$kilter" tasks zoo:squeezenet1_1 --target znver4 --json - | python3 -c '
import json, sys
print(next(t["task"] for t in json.load(sys.stdin)["tasks"] if "fire4.expand3x3" in t["nodes"]))')
expect 0 "schedule    conv2d_direct" "${winograd[@]}" --forbid "winograd@task:$task"
expect 0 "schedule    conv2d_direct" "${winograd[@]}" --schedule "task:$task=direct"
expect 0 "schedule    conv2d_direct" "${winograd[@]}" --schedule "*=direct"
expect 0 "verify: passed" run zoo:squeezenet1_1 --verify --schedule "*=conv2d_direct" --schedule fire4.expand3x3=reference
relayout=(zoo:squeezenet1_1 --input input=1x3x64x64)  # a layout change has no reference kernel
expect 0 "verify: passed" run "${relayout[@]}" --verify --schedule "*=reference"
expect 2 "--schedule pool10.flatten.output=reference: the layer changes a layout, for which there is no reference kernel; leave the option out" \
  run "${relayout[@]}" --schedule pool10.flatten.output=reference
expect 2 "--schedule *=winogrand: no template 'winogrand'; legal values are" run zoo:squeezenet1_1 --schedule "*=winogrand"
expect 2 "--forbid conv2d_winograd@task:999: expected a task from task:1 to task:" "${winograd[@]}" --forbid winograd@task:999
expect 2 "--forbid record:0123abcd: no records are in use; give --records" run zoo:squeezenet1_1 --forbid record:0123abcd
expect 2 "--choose graph-best: no records are in use to choose from; give --records, or leave --choose out" run zoo:squeezenet1_1 --choose graph-best
"$kilter" run zoo:squeezenet1_1 --forbid recurrent_steps 2> "$scratch/idle" > /dev/null
grep -qxF -- "--forbid recurrent_steps: this has no effect, since it applies to no layer of this network" "$scratch/idle" || { echo "FAILED: a --forbid without effect is not reported: $(cat "$scratch/idle")"; failures=$((failures + 1)); }
# Compiling with the plan in use, written to a file, gives the same code; errors name the file's lines.
expect 0 "used.plan: settings of 31 layers" inspect zoo:squeezenet1_1 --schedules --layer-threads conv1=1 --write-plan "$scratch/used.plan"
grep -q "^conv1 = conv2d_direct .* threads=1$" "$scratch/used.plan" || { echo "FAILED: no conv1 in $(head -3 "$scratch/used.plan")"; failures=$((failures + 1)); }
"$kilter" compile zoo:squeezenet1_1 --layer-plan "$scratch/used.plan" -o "$scratch/a.kilter" > /dev/null 2>&1
"$kilter" compile zoo:squeezenet1_1 --layer-threads conv1=1 -o "$scratch/b.kilter" > /dev/null
cmp -s <("$kilter" run "$scratch/a.kilter") <("$kilter" run "$scratch/b.kilter") || { echo "FAILED: a plan written and read is another one"; failures=$((failures + 1)); }
# A pair of convolutions that is fused only because of an option stays fused if the plan is written and read back.
# Editing its line separates the pair.
pair=(inspect zoo:mobilenet_v2 --input input=1x3x64x64 --schedules)
lines() { grep -v '^#' "$scratch/$1.plan"; }
expect 0 "joined.plan: settings of " "${pair[@]}" --fuse features.2.depthwise --write-plan "$scratch/joined.plan"
expect 0 "again.plan: settings of " "${pair[@]}" --layer-plan "$scratch/joined.plan" --write-plan "$scratch/again.plan"
cmp -s <(lines joined) <(lines again) || { echo "FAILED: a pair read from a plan: $(diff <(lines joined) <(lines again))"; failures=$((failures + 1)); }
grep -q "^features.2.depthwise = conv2d_then_depthwise " "$scratch/again.plan" || { echo "FAILED: no pair in $(lines again | head -9)"; failures=$((failures + 1)); }
sed 's/= conv2d_then_depthwise .*/= conv2d_depthwise/' "$scratch/joined.plan" > "$scratch/edited.plan"
expect 0 "apart.plan: settings of " "${pair[@]}" --layer-plan "$scratch/edited.plan" --write-plan "$scratch/apart.plan"
if ! grep -q "^features.2.expand = conv2d_direct " "$scratch/apart.plan" || grep -q "conv2d_then_depthwise" "$scratch/apart.plan"; then
  echo "FAILED: an edited plan takes no pair apart: $(lines apart | head -9)"
  failures=$((failures + 1))
fi
expect 0 "verify: passed" run zoo:mobilenet_v2 --input input=1x3x64x64 --layer-plan "$scratch/joined.plan" --verify
printf '# mine\nnothing = threads=1\n' > "$scratch/bad.plan"
expect 2 "$scratch/bad.plan line 2, 'nothing': no task has this name; legal values are conv1, " run zoo:squeezenet1_1 --layer-plan "$scratch/bad.plan"
expect 2 "--forbid conv2d_direct@nothing: no task has this name; legal values are" run zoo:squeezenet1_1 --forbid direct@nothing
expect 0 "resnet18" zoo
expect 0 "" run zoo:squeezenet1_1 --output "$scratch/out"
[ -f "$scratch/out/output.npy" ] || { echo "FAILED: --output wrote no output.npy"; failures=$((failures + 1)); }
expect 0 "steps" compile zoo:squeezenet1_1 -o "$scratch/net.kilter"
expect 0 "output" run "$scratch/net.kilter"
cmp -s <("$kilter" run "$scratch/net.kilter") <("$kilter" run zoo:squeezenet1_1) || { echo "FAILED: compiled file and model differ"; failures=$((failures + 1)); }
"$kilter" compile zoo:squeezenet1_1 -o "$scratch/again.kilter" > /dev/null
cmp -s "$scratch/net.kilter" "$scratch/again.kilter" || { echo "FAILED: the same model compiled twice differs"; failures=$((failures + 1)); }
expect 0 "steps for neoverse-n1" compile zoo:squeezenet1_1 --target neoverse-n1 -o "$scratch/arm.kilter"
expect 3 "was compiled for target neoverse-n1, so its code is for AArch64; this machine" run "$scratch/arm.kilter"
expect 3 "run it on an AArch64 machine, or compile it for this one" run zoo:squeezenet1_1 --target aarch64
expect 0 "verify: passed" run zoo:squeezenet1_1 --input input=1x3x32x32 --target opencl --verify
expect 0 "steps for opencl" compile zoo:squeezenet1_1 --input input=1x3x32x32 --target opencl -o "$scratch/opencl.kilter"
OCL_ICD_VENDORS=/nowhere expect 3 "target opencl: this system has no OpenCL device; install the OpenCL driver of your device" run "$scratch/opencl.kilter"
expect 0 "output: f32[1x1000]" run "$scratch/opencl.kilter"
expect 2 "its code runs on the device 'opencl', and only code for CPUs is tuned" tune zoo:squeezenet1_1 --target opencl --time 5s
expect 3 "'squeezenet1_1' runs on 'opencl'; a library can contain code for CPUs only" compile zoo:squeezenet1_1 --target opencl -o "$scratch/opencl.so"
expect 0 "for neoverse-n1 (LLVM" inspect "$scratch/arm.kilter"
expect 3 "/dev/full" compile zoo:squeezenet1_1 -o /dev/full
expect 0 "" zoo squeezenet1_1 -o "$scratch/net.onnx"
expect 0 "Conv" inspect "$scratch/net.onnx"
# relu_model HEX: writes a model of one Relu from x: f32[2,3] to y, whose last dimension is declared as HEX.
relu_model() {
  printf '\x08\x08\x3a\x3b\x0a\x0c\x0a\x01x\x12\x01y\x22\x04Relu\x12\x01g'
  printf '\x5a\x13\x0a\x01x\x12\x0e\x0a\x0c\x08\x01\x12\x08\x0a\x02\x08\x02\x0a\x02\x08\x03'
  printf '\x62\x13\x0a\x01y\x12\x0e\x0a\x0c\x08\x01\x12\x08\x0a\x02\x08\x02\x0a\x02\x08%b\x42\x02\x10\x11' "\\x$1"
}
# Ranges of shapes: a model of one Relu from x: f32[n,3] to y.
{
  printf '\x08\x08\x3a\x3d\x0a\x0c\x0a\x01x\x12\x01y\x22\x04Relu\x12\x01g'
  for port in '\x5a\x14\x0a\x01x' '\x62\x14\x0a\x01y'; do
    printf '%b\x12\x0f\x0a\x0d\x08\x01\x12\x09\x0a\x03\x12\x01n\x0a\x02\x08\x03' "$port"
  done
  printf '\x42\x02\x10\x11'
} > "$scratch/open.onnx"
open=("$scratch/open.onnx" --shapes 'x={2..8:2}x3')
expect 0 "  x: f32[n,3], n = {2..8:2}" inspect "${open[@]}"
expect 0 "  y: f32[n,3], n = {2..8:2}" inspect "${open[@]}"
expect 0 "shapes: 4" inspect "${open[@]}"
expect 0 "give the shape, e.g. \`--input x=2x3\`" inspect "${open[@]}"
expect 0 "tasks (1):" inspect "${open[@]}" --input x=4x3
# Open dimensions are shown by name, with everything that does not depend on them.
expect 0 "  x: f32[n,3]" inspect "$scratch/open.onnx"
expect 0 "operators (1 nodes):" inspect "$scratch/open.onnx"
expect 0 "plan: not compiled, because a plan is for one shape: input 'x' f32[n,3]: no size for dimension 0 ('n'); give the shape, e.g. \`--input x=1x3\`" inspect "$scratch/open.onnx"
expect 0 '"nodes": 1' inspect "$scratch/open.onnx" --json -
expect 3 "open.onnx: the model has no input 'q'; its inputs are: 'x' f32[n,3]" inspect "$scratch/open.onnx" --input q=2x3
expect 3 "give the shape, e.g. \`--input x=1x3\`" inspect "$scratch/open.onnx" --schedules
expect 0 "y: f32[4x3]" run "${open[@]}" --input x=4x3
expect 0 "y: f32[4x3]" run "$scratch/open.onnx" --shapes x=4x3
for sub in run bench profile inspect explain time tasks; do
  expect 3 "open.onnx: input 'x': dimension 0 ('n') is 5; expected {2..8:2}, of which 4 and 6 are the nearest; give the input such a size, or declare 5 as well (--shapes) when the network is compiled" $sub "${open[@]}" --input x=5x3
done
expect 3 "give the shape, e.g. \`--input x=2x3\`" run "${open[@]}"
expect 3 "open.onnx: input 'x' (f32[n,3]): --shapes declares {1..4}x{1..4}; dimension 1 is 3 in the model, got {1..4}: give 3 there" run "$scratch/open.onnx" --shapes "x={1..4}x{1..4}"
expect 2 "--shapes x=2x3: input 'x' already has the shape 1x3; give all its sizes in one value, and put the value in quotes, since shells expand braces" run "$scratch/open.onnx" --shapes x={1,2}x3
expect 2 "--shapes nonsense: expected NAME=SHAPE, such as 'x=1x3x{320..960:32}x{320..960:32}'" run "${open[@]}" --shapes nonsense
expect 0 "y: f32[8x3]" run "${open[@]}" --input x=8x3 --specialise now
expect 0 "y: f32[8x3]" run "${open[@]}" --input x=8x3 --specialise auto
expect 2 "--specialise: later not in {auto,never,now}" run "${open[@]}" --input x=8x3 --specialise later
expect 0 "open.kilter: plans for 4 shapes, for " compile "${open[@]}" -o "$scratch/open.kilter"
expect 0 "  x: f32[n,3], n = {2..8:2}" inspect "$scratch/open.kilter"
expect 0 "plans for 4 shapes, for " inspect "$scratch/open.kilter"
expect 0 "  x=8x3: 1 step" inspect "$scratch/open.kilter"
expect 0 "y: f32[6x3]" run "$scratch/open.kilter" --input x=6x3
expect 0 "1 thread" bench "$scratch/open.kilter" --input x=6x3 --threads 1 --seconds 0.1
expect 3 "open.kilter: input 'x': dimension 0 ('n') is 10; expected {2..8:2}, of which 8 is the nearest" run "$scratch/open.kilter" --input x=10x3
expect 2 "open.kilter is a compiled file, which has its plans already" run "$scratch/open.kilter" --input x=2x3 --specialise now
expect 3 "--shapes declares 999 shapes (x={n=1..999}x3); a compiled file has a plan for each of them, and at most 64: declare fewer, such as with a larger step, or raise the limit with --max-shapes" compile "$scratch/open.onnx" --shapes 'x={1..999}x3' -o "$scratch/many.kilter"
expect 0 "plans for 66 shapes" compile "$scratch/open.onnx" --shapes 'x={1..66}x3' --max-shapes 66 -o "$scratch/many.kilter"
relu_model 09 > "$scratch/contradiction.onnx"
expect 0 "  y is f32[2,3] according to its nodes, unlike the model's declaration" inspect "$scratch/contradiction.onnx"
relu_model 03 > "$scratch/relu.onnx"
expect 0 "  y: f32[2,3]" inspect "$scratch/relu.onnx"
"$kilter" inspect "$scratch/relu.onnx" | grep -F "not what the model declares" && { echo "FAILED: inspect calls a right declaration wrong"; failures=$((failures + 1)); }
expect 0 "applies, but ranks behind the chosen template" inspect zoo:squeezenet1_1 --schedules --node fire4.expand3x3
expect 0 '"format": "kilter-schedules-1"' inspect zoo:squeezenet1_1 --schedules --json -
expect 0 "" inspect zoo:squeezenet1_1 --schedules --json "$scratch/schedules.json"
grep -qF '"standing": "rejected"' "$scratch/schedules.json" || { echo "FAILED: inspect --schedules wrote no reasons"; failures=$((failures + 1)); }
expect 3 "/dev/full" inspect zoo:squeezenet1_1 --schedules --json /dev/full
expect 2 "--node nothing: no layer has this name; legal values are conv1, conv10" inspect zoo:squeezenet1_1 --schedules --node nothing
expect 2 "--json -: machine code is shown as text only; leave out --json or --asm" inspect zoo:squeezenet1_1 --asm conv1 --json -
expect 2 "--node and --write-plan require --schedules; add it, or leave them out" inspect zoo:squeezenet1_1 --node conv1
expect 2 "is a compiled file, which contains no alternatives; give the model itself" inspect "$scratch/net.kilter" --schedules
expect 0 "multiply-adds" inspect zoo:squeezenet1_1 --asm conv1 --target x86-64-v3
expect 0 "vfmadd231ps" inspect zoo:squeezenet1_1 --asm fire4.expand3x3 --target x86-64-v4
expect 0 "ret" inspect "$scratch/net.kilter" --asm conv1
expect 0 "'conv1.relu' runs in conv1" inspect zoo:squeezenet1_1 --asm conv1.relu
expect 0 "MatMul+Add 'fc' " inspect zoo:resnet18 --schedules --node fc
expect 2 "--asm nothing: no layer of this name has machine code; legal values are conv1, conv10" inspect zoo:squeezenet1_1 --asm nothing
expect 2 "--asm conv1" inspect zoo:squeezenet1_1 --asm conv1 --schedule conv1=reference
expect 2 "--asm" inspect zoo:squeezenet1_1 --asm conv1 --schedules
# A compiled file runs as it was compiled: an option that asks for something else is refused by name.
fixed="$scratch/net.kilter is a compiled file, which runs as it was compiled; compile the original model again with this option, or leave the option out"
for option in "--records k.db" "--choose history-best" "--layer-plan k.plan" "--target znver4" "--accuracy strict" "--memory 1MB" \
  "--dump-ir ir" "--stop-after fuse" "--schedule conv1=direct" "--forbid winograd" "--no-fuse conv1" "--fuse conv1" "--layer-threads conv1=1" \
  "--plain-layout conv1" "--disable fuse" "--max-rewrites 1" "--time-passes"; do
  read -ra words <<< "$option"
  expect 2 "$option: $fixed" run "$scratch/net.kilter" "${words[@]}"
done
for sub in bench profile time explain inspect; do expect 2 "--forbid winograd: $fixed" $sub "$scratch/net.kilter" --forbid winograd; done
expect 2 "--records-b k.db: $fixed" compare zoo:squeezenet1_1 "$scratch/net.kilter" --records-b k.db
expect 2 "--schedule-a conv1=direct: $fixed" compare "$scratch/net.kilter" zoo:squeezenet1_1 --schedule-a conv1=direct
expect 2 "--forbid winograd: $fixed" compare "$scratch/net.kilter" zoo:squeezenet1_1 --forbid winograd
expect 0 "output" run "$scratch/net.kilter" --records none --accuracy default --threads 1
expect 2 "net.kilter is already a compiled file: copy it, or give the original model" compile "$scratch/net.kilter" -o "$scratch/again.kilter"
# If a layer plan (by its first line) or a compiled file was made for another number of threads, the output says so,
# with the loss. A compiled file names the plan without its folder.
made="layer plan $scratch/tuned.plan: 1 layers" kept="layer plan tuned.plan: 1 layers" loss="expected loss about 4 % (an estimate)"
printf '# squeezenet1_1 for znver4 on 1 thread, tuned 2026-11-24 in 60 s\nconv1 = conv2d_direct vectors=1 rows=1 tile=4 prefetch=0\n' > "$scratch/tuned.plan"
tuned=(zoo:squeezenet1_1 --layer-plan "$scratch/tuned.plan")
expect 0 "records: $kept; compiled for 1 thread" compile "${tuned[@]}" --threads 1 -o "$scratch/one.kilter"
expect 0 "records: $made; made for 1 thread, used on 2; $loss" run "${tuned[@]}" --threads 2
expect 0 "records: $kept; compiled for 1 thread, run on 2; $loss" run "$scratch/one.kilter" --threads 2
grep -qaF "$scratch" "$scratch/one.kilter" && { echo "FAILED: a compiled file has the folder of its layer plan"; failures=$((failures + 1)); }
expect 0 "A: $kept   B: $kept; compiled for 1 thread, run on 2; $loss" compare "$scratch/one.kilter" --seconds 0.3 --threads-a 1 --threads-b 2
expect 0 "again.plan: settings of " inspect "${tuned[@]}" --threads 2 --schedules --write-plan "$scratch/again.plan"
expect 0 "layers; made for 1 thread, used on 2; $loss" run zoo:squeezenet1_1 --layer-plan "$scratch/again.plan" --threads 2
expect 0 "records: $made; made for 1 thread, used on 2; $loss" inspect "${tuned[@]}" --threads 2 --schedules --node conv1
expect 0 "records: $made; made for 1 thread, used on 2; $loss" tasks "${tuned[@]}" --threads 2
for what in "$scratch/one.kilter" "${tuned[*]}"; do
  read -ra words <<< "$what"
  said=$("$kilter" run "${words[@]}" --threads 1 2>&1)
  [ "$what" = "$scratch/one.kilter" ] && wanted=$kept || wanted=$made
  grep -xqF "records: $wanted" <<< "$said" || { echo "FAILED: run $what on as many threads: more or less than '$wanted'"; failures=$((failures + 1)); }
done
expect 0 "median_ms" bench zoo:squeezenet1_1 --seconds 0.2 --json -
expect 0 "7 measurements of 3 runs, caches flushed before each" bench zoo:squeezenet1_1 --number 3 --repeat 7 --min-repeat-ms 0 --flush
expect 0 "conv2d_winograd" profile zoo:squeezenet1_1 --seconds 0.2 --wide
"$kilter" profile zoo:squeezenet1_1 --seconds 0.2 --wide --accuracy strict | grep -q winograd && { echo "FAILED: --accuracy strict takes Winograd"; failures=$((failures + 1)); }
expect 2 "--accuracy" run zoo:squeezenet1_1 --accuracy sloppy
expect 2 "--memory 12parsec: expected a size of at least 1 byte in B, kB, MB, GB, KiB, MiB or GiB, such as 1.5GiB" inspect zoo:squeezenet1_1 --memory 12parsec
expect 2 "--memory 1000000: 'squeezenet1_1' needs" inspect zoo:squeezenet1_1 --memory 1MB
[ -z "$("$kilter" inspect zoo:squeezenet1_1 --memory 1MB 2> /dev/null)" ] || { echo "FAILED: inspect prints half a report before its error"; failures=$((failures + 1)); }
expect 0 "layers run kernels with smaller weights" inspect zoo:squeezenet1_1 --memory 10.2MB
expect 0 "    memory      --memory ruled out conv2d_winograd m=" inspect zoo:squeezenet1_1 --schedules --memory 10.2MB
expect 0 '"now_weight_bytes":' inspect zoo:squeezenet1_1 --schedules --memory 10.2MB --json -
expect 2 "--number" bench zoo:squeezenet1_1 --number 0
# A file with one flipped bit, in the code or in the constants, is refused by every command unless the check is turned off.
for at in $(($(stat -c %s "$scratch/net.kilter") / 2)) $(($(stat -c %s "$scratch/net.kilter") - 5)); do
  cp "$scratch/net.kilter" "$scratch/bad.kilter"
  byte=$(od -An -tu1 -j "$at" -N 1 "$scratch/bad.kilter")
  # shellcheck disable=SC2059
  printf "\\x$(printf %x $((byte ^ 16)))" | dd of="$scratch/bad.kilter" bs=1 seek="$at" conv=notrunc 2> /dev/null
  for sub in run inspect bench profile; do
    expect 3 "compiled file '$scratch/bad.kilter': damaged: its $(stat -c %s "$scratch/net.kilter") bytes are not those that were written: expected hash" $sub "$scratch/bad.kilter"
  done
done
expect 0 "output" run "$scratch/bad.kilter" --no-verify-file
expect 0 "output" run zoo:squeezenet1_1 --plan-cache 20MB
expect 2 "--plan-cache much: expected a size of at least 1 byte in B, kB, MB, GB, KiB, MiB or GiB, such as 1.5GiB" run zoo:squeezenet1_1 --plan-cache much
head -c 5000 "$scratch/net.kilter" > "$scratch/cut.kilter"
expect 3 "cut.kilter" run "$scratch/cut.kilter"
expect 0 "Sum" profile zoo:squeezenet1_1 --seconds 0.2 --by task --sort time --top 5 --json "$scratch/a.json" --csv "$scratch/a.csv" --trace "$scratch/a.trace"
for file in a.json a.csv a.trace; do [ -s "$scratch/$file" ] || { echo "FAILED: profile wrote no $file"; failures=$((failures + 1)); }; done
expect 2 "legal values are layer, operator, task" profile zoo:squeezenet1_1 --by colour
expect 0 "alone - in network" time zoo:squeezenet1_1 --node conv1 --repeat 5 --in-network --seconds 0.2
expect 2 "no layer has this name" time zoo:squeezenet1_1 --node nothing
conv="conv2d n1 c64 h28 w28 k64 r3 s3 pad1 f32 +bias +relu"
expect 0 "conv2d_winograd" kernels "$conv" "matmul(f32[4,64] f32[64,32])" --threads 1 --seconds 0.05 --json "$scratch/kernels.json"
grep -q '"winograd_gain"' "$scratch/kernels.json" || { echo "FAILED: kernels --json has no gain"; failures=$((failures + 1)); }
expect 0 "lists/net.txt: 18 problems" kernels "$scratch/net.onnx" --write "$scratch/lists"
expect 0 "bound by memory" kernels "$scratch/lists/"*.txt --only "^conv1$" --threads 1 --seconds 0.05
expect 2 "--only nothing: no problem is left to measure" kernels "$conv" --only nothing
expect 2 "expected a regular expression" kernels "$conv" --only "("
expect 3 "column 8: expected one of n, c, h, w" kernels "conv2d q1 f32"
echo "many | $conv" > "$scratch/bad.txt"
expect 3 "bad.txt line 1: expected a count of layers" kernels "$scratch/bad.txt"
small="conv2d n1 c32 h10 w13 k32 r3 s3 g32 pad1 f32 +bias"
mkdir "$scratch/tables"
expect 0 "trials in" searchers --measure "$scratch/tables" "$small"
expect 0 "already exists" searchers --measure "$scratch/tables" "$small"
expect 0 "regret" searchers "$scratch/tables/"*.jsonl --seeds 2 --searcher model --searcher ga --searcher-option population=4
expect 0 '"regret_at"' searchers "$scratch/tables/"*.jsonl --seeds 2 --json -
# The curves as a page and as a picture: one line per searcher over trials, and one over seconds.
"$kilter" searchers "$scratch/tables/"*.jsonl --seeds 2 --searcher model --searcher ga --json "$scratch/curves.json" > /dev/null
for kind in html svg; do
  "$(dirname "$0")/../../bench/searchers.py" "$scratch/curves.json" "$scratch/curves.$kind" || { echo "FAILED: no searchers.$kind"; failures=$((failures + 1)); }
  [ "$(grep -o "<polyline" "$scratch/curves.$kind" | wc -l)" = 4 ] || { echo "FAILED: searchers.$kind: $(head -c 2000 "$scratch/curves.$kind")"; failures=$((failures + 1)); }
done
python3 -c 'import sys, xml.dom.minidom; xml.dom.minidom.parse(sys.argv[1])' "$scratch/curves.svg" || { echo "FAILED: searchers.svg is no XML"; failures=$((failures + 1)); }
expect 2 "'population' is used by ga, not by --searcher random" searchers "$scratch/tables/"*.jsonl --searcher random --searcher-option population=4
expect 2 "expected a whole number from 2 to 4096, got '1'" searchers "$scratch/tables/"*.jsonl --searcher ga --searcher-option population=1
KILTER_XGBOOST=$scratch/nowhere expect 2 "pip install xgboost-cpu" searchers "$scratch/tables/"*.jsonl --searcher xgb
expect 3 "bad.txt line 1: expected {" searchers "$scratch/bad.txt"
expect 0 "population" options
# Every environment variable that the program reads is listed.
for variable in KILTER_NUM_THREADS KILTER_SPIN_US KILTER_XGBOOST KILTER_PYTHON; do expect 0 "  $variable " options; done
slow=(--schedule conv1=reference --seconds 1)
expect 0 "conv1: reference kernel" explain zoo:squeezenet1_1 "${slow[@]}" --json "$scratch/why.json" --html "$scratch/why.html"
for file in why.json why.html; do grep -qF "reference kernel" "$scratch/$file" || { echo "FAILED: explain's $file does not tell"; failures=$((failures + 1)); }; done
expect 0 '"explain":' explain zoo:squeezenet1_1 --seconds 0.5 --json -
# If the default records cannot be read, the command still runs and shows the reason in place of their results. Damage
# is reported.
small=(zoo:squeezenet1_1 --input input=1x3x64x64 --seconds 0.1)
mkdir -p "$scratch/broken/kilter" "$scratch/folder/kilter/records.db"
echo "not a database" > "$scratch/broken/kilter/records.db"
XDG_DATA_HOME=$scratch/broken expect 0 "  The gain of tuning is not known: records $scratch/broken/kilter/records.db: not an SQLite database, or its header is damaged" explain "${small[@]}"
XDG_DATA_HOME=$scratch/folder expect 0 "kilter/records.db: it is a directory; expected a database" explain "${small[@]}"
HOME='' XDG_DATA_HOME='' expect 0 "is not known: records: neither XDG_DATA_HOME nor HOME is set; give the file of records" explain "${small[@]}"
rm "$scratch/broken/kilter/records.db"
XDG_DATA_HOME=$scratch/broken expect 0 "21 with a Kilter schedule" records import "$(dirname "$0")/../records/data/tvm_v01.txt"
sed -i 's/conv2d_direct vectors/conv2d_direct vectXrs/' "$scratch/broken/kilter/records.db"
XDG_DATA_HOME=$scratch/broken expect 0 "broken/kilter/records.db: row 4: skipped: record: its id is " explain "${small[@]}"
expect 0 "runner-up" explain zoo:squeezenet1_1 --seconds 0.5 --node fire5.expand3x3
# A gain of 87.5 % per item would mean that a single item ran in place of the batch of 8.
"$kilter" explain zoo:mobilenet_v2 --threads 1 --seconds 0.5 > "$scratch/batch.txt" 2> /dev/null
if grep -B1 "a batch of 8" "$scratch/batch.txt" | grep -q -- ", -8[5-9]\."; then
  echo "FAILED: explain's batch of 8 has the time of one item"; failures=$((failures + 1))
fi
expect 0 "A compiled file contains no graph" explain "$scratch/net.kilter" --seconds 0.5
expect 2 "--node nothing: no layer has this name; legal values are" explain zoo:squeezenet1_1 --seconds 0.5 --node nothing
expect 2 "--against" explain zoo:squeezenet1_1 --against tensorrt
expect 2 "a compiled file runs in Kilter only" explain "$scratch/net.kilter" --against onnxruntime
expect 3 "/dev/full" explain zoo:squeezenet1_1 --seconds 0.5 --html /dev/full
expect 0 "conditions that differ: none" compare zoo:squeezenet1_1 --seconds 0.5
expect 0 "threads          A: 1   B: 2" compare zoo:squeezenet1_1 --seconds 0.5 --threads-a 1 --threads-b 2
echo "conv1 = conv2d_direct vectors=1 rows=1 tile=4 prefetch=0" > "$scratch/one.plan"
expect 0 "tuning records   A: none   B: layer plan $scratch/one.plan: 1 layers" compare zoo:squeezenet1_1 --seconds 0.5 --threads 1 --layer-plan-b "$scratch/one.plan"
TMPDIR=/nowhere expect 3 "kilter: cannot create a temporary folder in /nowhere: No such file or directory; set TMPDIR to use another folder" compare onnxruntime:zoo:squeezenet1_1
expect 0 "tuning records of both: layer plan $scratch/one.plan: 1 layers" compare zoo:squeezenet1_1 --seconds 0.5 --threads 1 --layer-plan "$scratch/one.plan"
expect 0 "A: layer plan $scratch/one.plan: 1 layers   B: none" compare zoo:squeezenet1_1 --seconds 0.5 --threads 1 --layer-plan "$scratch/one.plan" --records-b none
expect 2 "--choose-b: worst not in {accepted,history-best,graph-best}" compare zoo:squeezenet1_1 --choose-b worst
expect 3 "$scratch/nothing.db" compare zoo:squeezenet1_1 --records-a "$scratch/nothing.db"
# Every network option applies to both sides, or to one side only if it ends in that side's letter.
tiny=(zoo:squeezenet1_1 --seconds 0.2 --threads 1)
expect 0 "per item, in batches of 1 and 2" compare "${tiny[@]}" --input input=1x3x64x64 --input-b input=2x3x64x64
expect 0 "by CPU time  B / A = " compare "${tiny[@]}" --input input=1x3x64x64 --no-fuse conv1 --accuracy-a strict --disable-b fuse
expect 0 "Options for B only" compare --help-all
expect 2 "--accuracy-b: sloppy not in {default,strict}" compare "${tiny[@]}" --accuracy-b sloppy
expect 2 "--layer-threads: expected NAME=VALUE, got 'conv1'" compare "${tiny[@]}" --layer-threads-a conv1
"$kilter" bench zoo:squeezenet1_1 --seconds 0.2 --threads 1 --json "$scratch/b.json" > /dev/null
expect 0 "not interleaved, so no interval" compare "$scratch/a.json" "$scratch/b.json"
cp "$scratch/a.csv" "$scratch/a.csv.json"
expect 2 "give two .json files" compare "$scratch/a.json" zoo:squeezenet1_1
expect 3 "not JSON" compare "$scratch/a.csv.json" "$scratch/b.json"
"$kilter" bench zoo:squeezenet1_1 --seconds 60 > /dev/null 2>&1 &
interrupted=$!
# A background job ignores SIGINT until the program installs a handler.
for _ in $(seq 600); do
  (( 0x$(sed -n 's/^SigCgt:\t//p' "/proc/$interrupted/status") & 2 )) && break
  sleep 0.1
done
kill -INT $interrupted
wait $interrupted
got=$?
[ $got = 130 ] || { echo "FAILED: an interrupted bench exits with $got, expected 130"; failures=$((failures + 1)); }
finish cli
