#include "profile/kernels.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <set>

#include "base/text.h"
#include "base/ticks.h"
#include "measure/loops.h"
#include "profile/kernel_form.h"

namespace kilter::profile {
namespace {

/// Calls row(number, fields) for each line with content. Fields are separated by "|" and trimmed.
void for_each_row(std::string_view text, const std::function<void(size_t, const std::vector<std::string_view>&)>& row) {
  size_t number = 0;
  for (std::string_view line : split(text, '\n')) {
    ++number;
    line = trim(line.substr(0, line.find('#')));
    if (line.empty()) continue;
    std::vector<std::string_view> fields = split(line, '|');
    for (std::string_view& field : fields) field = trim(field);
    row(number, fields);
  }
}

/// A problem compiled in one form, with its figures.
struct Form : KernelForm {
  std::unique_ptr<Replayer> cold, warm;
  KernelTime time;
};

Form compile_with(const Problem& problem, const std::string& line, Accuracy accuracy, const KernelOptions& options,
                  const std::shared_ptr<ThreadPool>& pool) {
  return {compile_form(problem, line, {options.target, accuracy, {}}, pool), {}, {}, {}};
}

/// Whether a step moves elements to other places.
bool moves(const Step& step) {
  return step.role == StepRole::movement || step.role == StepRole::relayout || step.role == StepRole::fused_relayout;
}

void note_work(Form& form, const Peaks& peaks, const KernelOptions& options) {
  const Plan& plan = form.plan();
  const Footprint run{plan.constants_bytes, std::max(options.touched_bytes, footprint(plan).touched_bytes)};
  KernelTime& t = form.time;
  for (size_t s = form.first; s < form.first + form.count; ++s) {
    const Step& step = plan.steps[s];
    t.schedule = step.schedule, t.moves = moves(step), t.multiplies = step.multiplies;
    t.flops += step.flops, t.effective_flops += step.effective_flops, t.bytes += step.bytes;
    const auto add = [](Bound& to, const Bound& more) {
      const double sum = to.ms + more.ms;
      if (more.ms > to.ms) to = more;
      to.ms = sum;
    };
    add(t.bound, bound_of(step, run, peaks, options.threads));
    if (step.kind == StepKind::kernel) add(t.memory, memory_bound_of(step, run, peaks, options.threads));
  }
}

/// Reads a kernel's operands from the same places as the kernel does, with the fastest loop. Each thread reads its part
/// of each operand.
class OperandReader {
 public:
  OperandReader(Replayer& cold, ThreadPool& pool, int threads) : cold_(cold), pool_(pool), threads_(threads) {
    constexpr int kTries = 3;
    double least = 0;
    for (const ReadLoop& loop : read_loops()) {
      double ms = 0;
      for (int i = 0; i < kTries; ++i) ms = i == 0 ? read(loop) : std::min(ms, read(loop));
      if (least == 0 || ms < least) least = ms, best_ = loop;
    }
  }

  /// Returns whether one run() reads about `bytes` bytes, within a factor of 2. It does not if the kernel reads only a
  /// fraction of an operand, such as a few rows of a table.
  bool reads_about(int64_t bytes) const { return 2 * bytes_ >= bytes && bytes_ <= 2 * bytes; }
  /// Reads once with the fastest loop. Returns milliseconds.
  double run() { return read(best_); }
  /// Returns the time to read `bytes` if one run() takes `ms`.
  double scaled(double ms, int64_t bytes) const {
    return ms * static_cast<double>(bytes) / static_cast<double>(bytes_);
  }

 private:
  struct Part {
    const std::byte* from;
    int64_t bytes;
  };
  struct Work {
    const ReadLoop& loop;
    std::vector<Part> parts;  ///< of the first thread; each is followed by the other threads' parts
  };

  double read(const ReadLoop& loop) {
    Work work{loop, {}};
    bytes_ = 0;
    for (const std::span<const std::byte> all : cold_.prepare()) {
      const auto address = reinterpret_cast<uintptr_t>(all.data());
      const uintptr_t skip = (64 - address % 64) % 64;  // loops read aligned vectors
      const int64_t bytes = static_cast<int64_t>(all.size()) - static_cast<int64_t>(skip);
      const int64_t part = bytes / threads_ / kLoopChunk * kLoopChunk;
      if (part <= 0) continue;
      work.parts.push_back({all.data() + skip, part});
      bytes_ += part * threads_;
    }
    const uint64_t start = ticks();
    threads_ == 1 ? read_parts(&work, 0, 1, 0) : pool_.run_on_each(&read_parts, &work);
    return ms_between(start, ticks());
  }
  static int32_t read_parts(void* context, int64_t thread, int64_t /*end*/, int32_t /*worker*/) {
    const auto& work = *static_cast<const Work*>(context);
    for (const Part& part : work.parts) work.loop.run(part.from + thread * part.bytes, part.bytes, 1);
    return 0;
  }

  Replayer& cold_;
  ThreadPool& pool_;
  int threads_;
  ReadLoop best_{};
  int64_t bytes_ = 0;
};

}  // namespace

KernelList kernels_of(const Plan& plan) {
  KernelList list{plan.model, footprint(plan).touched_bytes, {}};
  for (const Step& step : plan.steps) {
    if (step.problem.empty() || step.role != StepRole::contraction) continue;
    const auto same = [&](const KernelLine& line) { return line.problem == step.problem; };
    auto at = std::find_if(list.lines.begin(), list.lines.end(), same);
    if (at == list.lines.end()) at = list.lines.insert(at, {0, step.problem, {}});
    if (!at->layers.empty() && at->layers.back() == step.name) continue;  // another stage of the same task
    ++at->count;
    at->layers.push_back(step.name);
  }
  return list;
}

std::string text(const KernelList& list) {
  std::string out = fmt::format("touches {} bytes\n", list.touched_bytes);
  for (const KernelLine& line : list.lines)
    out += fmt::format("{} | {} | {}\n", line.count, line.problem, fmt::join(line.layers, " "));
  return out;
}

KernelList parse_kernel_list(std::string_view text, const std::string& where) {
  KernelList list;
  list.network = where;
  for_each_row(text, [&](size_t number, const std::vector<std::string_view>& fields) {
    const auto error = [&](std::string_view expected, std::string_view got) {
      fail(ErrorKind::bad_input, "{} line {}: expected {}, got '{}'", where, number, expected, got);
    };
    if (fields.size() == 1) {
      const std::vector<std::string_view> words = split_words(fields[0]);
      const auto bytes = words.size() == 3 ? try_parse_int(words[1]) : std::nullopt;
      if (!bytes || *bytes < 0 || words[0] != "touches" || words[2] != "bytes")
        error("'touches N bytes' or 'COUNT | PROBLEM | LAYERS'", fields[0]);
      list.touched_bytes = *bytes;
      return;
    }
    const auto count = try_parse_int(fields[0]);
    if (!count || *count < 1) error("a count of layers before the first '|'", fields[0]);
    if (fields[1].empty()) error("a problem after the first '|'", fields[1]);
    if (fields.size() > 3) error("COUNT | PROBLEM | LAYERS", fields[3]);
    KernelLine line{*count, std::string(fields[1]), {}};
    if (fields.size() == 3) {
      for (const std::string_view layer : split_words(fields[2])) line.layers.emplace_back(layer);
    }
    list.lines.push_back(std::move(line));
  });
  return list;
}

TimedTask timed_task(const std::string& line) {
  constexpr std::string_view kIn = " in ";
  const size_t in = line.find(kIn);
  if (in == std::string::npos) return {line, line};
  return {std::string(trim(line.substr(0, in))), std::string(trim(line.substr(in + kIn.size())))};
}

KernelFigures measure_kernel(const std::string& problem, const Peaks& peaks, const KernelOptions& options) {
  const TimedTask timed = timed_task(problem);
  const Problem parsed = parse_problem(timed.graph);
  const auto pool = std::make_shared<ThreadPool>(options.threads);
  std::vector<Form> forms;
  forms.push_back(compile_with(parsed, timed.task, Accuracy::normal, options, pool));
  note_work(forms[0], peaks, options);
  const Template* chosen = find_template(parse_schedule(forms[0].time.schedule).name);
  if (chosen != nullptr && chosen->approximates) {
    forms.push_back(compile_with(parsed, timed.task, Accuracy::strict, options, pool));
    note_work(forms[1], peaks, options);
  }
  std::vector<Candidate> candidates;
  for (Form& form : forms) {
    form.cold = replayer(form, Weights::cold, options.threads, options.touched_bytes);
    candidates.push_back(candidate(form.time.schedule, *form.cold, false));
  }
  forms[0].warm = replayer(forms[0], Weights::warm, options.threads, options.touched_bytes);
  candidates.push_back(candidate("warm", *forms[0].warm, true));
  std::optional<OperandReader> reader;
  if (forms[0].time.bound.kind == Bound::memory) {
    reader.emplace(*forms[0].cold, *pool, options.threads);
    if (!reader->reads_about(forms[0].time.bytes)) reader.reset();
    if (reader) candidates.push_back(candidate("read", [&reader] { return reader->run(); }, false));
  }
  CompareOptions how;
  how.max_seconds = options.seconds;
  how.target_half_width = 0.01;
  how.stop_when_different = false;
  how.min_rounds = 8;
  how.slice_ms = 0.2;
  const Comparison c = compare(candidates, how);
  for (size_t i = 0; i < forms.size(); ++i) forms[i].time.cold_ms = c.time_ms(i);
  if (reader) forms[0].time.read_ms = reader->scaled(c.time_ms(candidates.size() - 1).value, forms[0].time.bytes);
  KernelFigures out{forms[0].time, c.time_ms(forms.size()).value, {}, {}, {}};
  Replay conditions;
  forms[0].cold->describe(conditions);
  out.weights = conditions.weights;
  if (forms.size() > 1) out.direct = forms[1].time, out.gain = c.ratio(0, 1);
  return out;
}

Shares shares(const std::vector<double>& all) {
  if (all.empty()) return {};
  return {all.size(), median(all), *std::min_element(all.begin(), all.end())};
}

std::vector<ExpectedGain> parse_expected_gains(std::string_view text, const std::string& where) {
  std::vector<ExpectedGain> out;
  for_each_row(text, [&](size_t number, const std::vector<std::string_view>& fields) {
    const auto gain = try_parse_float(fields[0]);
    if (fields.size() != 2 || !gain || *gain <= 0) {
      fail(ErrorKind::bad_input, "{} line {}: expected 'GAIN | PROBLEM' with a positive gain, got '{}'", where, number,
           fmt::join(fields, " | "));
    }
    out.push_back({std::string(fields[1]), *gain});
  });
  return out;
}

}  // namespace kilter::profile
