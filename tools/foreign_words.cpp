#include "foreign_words.h"

#include <algorithm>

#include "base/text.h"

namespace kilter::tool {
namespace {

constexpr std::string_view kTrials =
    "--trials ends the search after a number of trials over all tasks, and --time after a time limit";
constexpr std::string_view kHere =
    "candidates run on the machine that tunes, in a process of their own; tune where the network will run";

/// Words of TVM, trtexec, OpenVINO's benchmark_app, onnxruntime_perf_test, and of build tools. A row for a command
/// comes before the row for all commands.
constexpr ForeignWord kWords[] = {
    {"--tuner", "tune", "--searcher chooses the searcher that proposes schedules; `kilter options` lists searchers"},
    {"--parallel", "tune", "--n-parallel sets the threads that compile candidates"},
    {"--tuning-records", "tune", "--records names the file that every trial is kept in"},
    {"--prior-records", "tune",
     "the file of --records is read at the start: records made under the same conditions count as trials, and tasks "
     "begin with the schedules of Kilter's other records; schedules from imported logs are not tried, because they "
     "were not measured against Kilter's default"},
    {"--cooldown-interval", "tune",
     "every trial is paired with the default schedule in the same rounds, so that changes of the clock rate cancel "
     "out; --repeat sets the number of pairs"},
    {"--enable-cpu-cache-flush", "tune",
     "layers are measured inside the network, where weights come from the same places as in normal use; there is "
     "nothing to flush"},
    {"--enable-autoscheduler", "tune", "spaces are those of Kilter's templates; `kilter tasks` shows them"},
    {"--rpc-key --hostname", "tune", kHere},
    {"--n-trial --n-trials --iterations --iters --runs -niter -r --max-trials", "tune", kTrials},
    {"--seconds --duration --budget --timeout-s -t", "tune", "--time sets the time budget, such as --time 5min"},
    {"-t --duration --time", "bench profile explain time compare kernels",
     "--seconds says how long to measure, and --threads with how many threads"},
    {"-t --duration --time --seconds", "",
     "--seconds of `kilter bench` says how long to measure, and --threads with how many threads"},
    {"-j -x -nthreads --nthreads --num-threads --num_threads --intra-op --intra_op_num_threads --cpus", "",
     "--threads sets the number of threads"},
    {"-y -P --inter_op_num_threads -nstreams --streams --infStreams -nireq", "",
     "a network runs one layer after another, each on all threads; --threads sets their number"},
    {"--batch --batch-size --batch_size -b", "zoo", "--batch sets the batch size"},
    {"--batch --batch-size --batch_size -b", "",
     "the batch is a dimension of the inputs: --input NAME=8x3x224x224, or --shapes for several sizes"},
    {"--iterations --iters --runs -niter -r --avgRuns", "bench time",
     "--number sets the runs per measurement, --repeat the number of measurements, and --seconds the time"},
    {"--iterations --iters --runs -niter -r --avgRuns", "",
     "`kilter bench` measures for --seconds, or --repeat measurements of --number runs"},
    {"--warmup --warmUp --warm-up", "",
     "networks are run until their times are steady before anything is measured; `kilter bench --seconds` says how "
     "long to measure"},
    {"--fp16 --half", "",
     "--precision fp16 stores values between layers and weights as fp16; --precision bf16 is faster on most CPUs"},
    {"--bf16", "", "--precision bf16 stores values between layers as bf16"},
    {"--best --dtype -infer_precision", "",
     "--precision chooses bf16 or fp16, and `kilter precision` the fastest mix within a tolerance"},
    {"--int8 --int4", "", "`kilter quantize` writes a model with 8-bit or 4-bit numbers, from samples"},
    {"--minShapes --optShapes --maxShapes -data_shape", "",
     "--shapes declares all sizes of an input: --shapes 'x={1..8}x3x224x224'; --input chooses those of a run"},
    {"-shape --input-shape --input_shape -f -F --shape --shapes", "",
     "--input sets the shape of an input: --input NAME=1x3x224x224"},
    {"-i --loadInputs --inputs --data", "", "--input gives a value: --input NAME=FILE.npy"},
    {"-I --generate_model_input_binding", "",
     "inputs that are not given have seeded random values; --input NAME=SHAPE sets their shape"},
    {"-m --model --onnx --model_path --path_to_model", "",
     "the model is given without an option: `kilter bench model.onnx`"},
    {"-d --device -e --provider", "", "Kilter runs on the CPU; --target chooses the CPU to generate code for"},
    {"--loadEngine -load_from_file --load", "",
     "a compiled file is given in place of the model: `kilter run FILE.kilter`; `kilter compile MODEL -o FILE.kilter` "
     "writes it"},
    {"--saveEngine -u --save -export", "", "`kilter compile MODEL -o FILE.kilter` writes a compiled file"},
    {"-c -cache_dir --timingCacheFile", "",
     "`kilter compile` writes a file that loads without compiling, and `kilter tune` keeps its records by itself; "
     "--records default uses them"},
    {"--dumpProfile -pc -p -pcseq --separateProfileRun --profile", "",
     "`kilter profile MODEL` shows the time of each layer"},
    {"--exportProfile --exportTimes -json_stats -report_type -report_folder -exec_graph_path", "",
     "--json writes everything to a file; `kilter profile MODEL --html FILE` writes a report"},
    {"--dumpOutput --exportOutput --dump-output", "",
     "`kilter run MODEL --output DIR` writes the outputs as .npy files"},
    {"--dumpLayerInfo --exportLayerInfo", "", "`kilter inspect MODEL --schedules` shows each layer and what it runs"},
    {"-hint -api --latency_percentile -latency_percentile", "",
     "`kilter bench` measures the latency of single runs, with mean, median and 90 % quantile"},
    {"--useSpinWait --noDataTransfers --useCudaGraph --skipInference", "", "it has no meaning on a CPU; leave it out"},
    {"--workspace --memPoolSize", "", "--memory limits the memory of packed weights and activations"},
    {"--builderOptimizationLevel -O -O0 -O1 -O2 -O3 --opt-level", "",
     "all optimisations are on; `kilter tune` finds faster schedules, and --disable skips a pass"},
    {"-o --output --out", "bench profile explain time compare tasks kernels tune device check inspect",
     "--json writes the result to a file; `kilter compile MODEL -o FILE` writes a compiled file"},
};

bool contains(std::string_view list, std::string_view word) {
  const auto all = split_words(list);
  return std::ranges::find(all, word) != all.end();
}

}  // namespace

std::span<const ForeignWord> all_foreign_words() { return kWords; }

std::string_view instead_of(std::string_view command, std::string_view word) {
  for (const ForeignWord& row : kWords) {
    if (contains(row.words, word) && (row.commands.empty() || contains(row.commands, command))) return row.instead;
  }
  return {};
}

}  // namespace kilter::tool
