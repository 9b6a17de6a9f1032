// kilter check: runs cases in the ONNX test layout. Each case runs in its own process, so that a case that crashes or
// hangs does not stop the rest. With --on, that process compiles the case, and an agent of a fleet runs it.

#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/text.h"
#include "measure/clock.h"
#include "on_agent.h"
#include "onnx/value_file.h"
#include "terminal.h"
#include "tool.h"

namespace kilter::tool {
namespace {

namespace fs = std::filesystem;

enum class Verdict : char {
  passed = 'P',
  failed = 'F',
  skipped = 'S',
  ended = 'E',  ///< the fleet ran nothing, so the check ends
};

struct Outcome {
  Verdict verdict = Verdict::passed;
  std::string reason;
};

std::string word_of(Verdict verdict) {
  return verdict == Verdict::passed ? "passed" : verdict == Verdict::failed ? "failed" : "skipped";
}

struct CheckOptions {
  OnOptions on;
  std::vector<std::string> folders;
  std::string target = "native", json;
  int threads = 1;
  int seconds = 60;
  bool list = false;
};

struct Tolerances {
  double rtol = 1e-3, atol = 1e-7;
};

Tolerances tolerances(const fs::path& folder) {
  Tolerances t;
  const fs::path file = folder / "tol.txt";
  if (!fs::exists(file)) return t;
  std::ifstream in(file);
  std::string text((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  const auto words = split_words(text);
  if (words.size() != 2) fail(ErrorKind::bad_input, "{}: expected 'rtol atol', got '{}'", file.string(), trim(text));
  t.rtol = parse_float(words[0], "rtol in " + file.string());
  t.atol = parse_float(words[1], "atol in " + file.string());
  return t;
}

/// Returns the files PREFIX_0.pb, PREFIX_1.pb, ... of a data set.
std::vector<fs::path> numbered(const fs::path& folder, const std::string& prefix) {
  std::vector<fs::path> files;
  while (fs::exists(folder / fmt::format("{}_{}.pb", prefix, files.size())))
    files.push_back(folder / fmt::format("{}_{}.pb", prefix, files.size()));
  return files;
}

std::string mismatch(const std::string& name, const Tensor& got, const Tensor& want, const Tolerances& t) {
  if (got.dtype() != want.dtype())
    return fmt::format("output '{}': expected {}, got {}", name, kilter::name(want.dtype()), kilter::name(got.dtype()));
  if (got.shape() != want.shape())
    return fmt::format("output '{}': expected shape {}, got {}", name, text(want.shape()), text(got.shape()));
  if (want.dtype() == DType::string)
    return got.strings() == want.strings() ? "" : fmt::format("output '{}': strings differ", name);
  // As in the standard's own runner: rtol is less than the distance between two neighbouring bfloat16 values.
  const double rtol = want.dtype() == DType::bf16 ? std::max(t.rtol, 0x1p-6) : t.rtol;
  for (int64_t i = 0; i < want.elems(); ++i) {
    const double g = got.as_double(i), w = want.as_double(i);
    if (std::isnan(g) && std::isnan(w)) continue;
    if (g == w || std::abs(g - w) <= t.atol + rtol * std::abs(w)) continue;
    return fmt::format("output '{}': element {} is {:g}, expected {:g} (rtol {:g}, atol {:g})", name, i, g, w, rtol,
                       t.atol);
  }
  return "";
}

std::string mismatch(const std::string& name, const AnyValue& got, const AnyValue& want, const Tolerances& t) {
  if (got.is_tensor() && want.is_tensor()) return mismatch(name, got.tensor(), want.tensor(), t);
  if (got.is_sequence() && want.is_sequence() && got.elements().size() == want.elements().size()) {
    for (size_t i = 0; i < got.elements().size(); ++i) {
      const std::string wrong = mismatch(fmt::format("{}[{}]", name, i), got.elements()[i], want.elements()[i], t);
      if (!wrong.empty()) return wrong;
    }
    return "";
  }
  if (got.absent() && want.absent()) return "";
  return fmt::format("output '{}': expected {}, got {}", name, text(want), text(got));
}

std::map<std::string, AnyValue> inputs_of(const fs::path& data, const std::vector<onnx::Port>& ports) {
  std::map<std::string, AnyValue> inputs;
  const auto files = numbered(data, "input");
  for (size_t i = 0; i < files.size() && i < ports.size(); ++i)
    inputs[ports[i].name] = onnx::load_value(files[i], ports[i].kind);
  return inputs;
}

std::string mismatch(const fs::path& data, const std::vector<AnyValue>& outputs, const std::vector<onnx::Port>& ports,
                     const Tolerances& t) {
  const auto expected = numbered(data, "output");
  if (expected.size() > outputs.size())
    return fmt::format("expected {} outputs, got {}", expected.size(), outputs.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    const AnyValue want = onnx::load_value(expected[i], ports[i].kind);
    std::string wrong = mismatch(ports[i].name, outputs[i], want, t);
    if (!wrong.empty()) return wrong;
  }
  return "";
}

std::string mismatch_here(const fs::path& model, const std::vector<fs::path>& sets, const Tolerances& t,
                          const CheckOptions& options) {
  Session::Options session_options;
  session_options.compile.target = parse_target(options.target);
  session_options.threads = options.threads;
  const auto session = Session::open(model.string(), session_options);
  for (const fs::path& data : sets) {
    const std::vector<AnyValue> outputs = session->run_values(inputs_of(data, session->inputs()));
    std::string wrong = mismatch(data, outputs, session->outputs(), t);
    if (!wrong.empty()) return wrong;
  }
  return "";
}

/// Returns the inputs of a data set as tensors of numbers. Throws unsupported for any other input.
std::map<std::string, Tensor> tensors_of(const fs::path& data, const Session& session) {
  std::map<std::string, Tensor> tensors;
  for (auto& [name, value] : inputs_of(data, session.inputs())) {
    if (!value.is_tensor() || value.tensor().dtype() == DType::string)
      fail(ErrorKind::unsupported, "input '{}' is {}; --on runs networks of tensors of numbers", name, text(value));
    tensors.emplace(name, value.tensor());
  }
  return tensors;
}

std::string mismatch_there(const fs::path& model, const std::vector<fs::path>& sets, const Tolerances& t,
                           const CheckOptions& options) {
  ModelOptions how;
  how.model = model.string(), how.target = options.target, how.threads = options.threads;
  for (const fs::path& data : sets) {
    AgentNetwork network(how, options.on, [&](const Session& session) { return tensors_of(data, session); });
    std::vector<AnyValue> outputs;
    for (Tensor& output : network.outputs()) outputs.emplace_back(std::move(output));
    std::string wrong = mismatch(data, outputs, network.session().outputs(), t);
    if (!wrong.empty()) return wrong;
  }
  return "";
}

Outcome run_case(const fs::path& folder, const CheckOptions& options) {
  try {
    const Tolerances t = tolerances(folder);
    std::vector<fs::path> sets;
    while (fs::exists(folder / fmt::format("test_data_set_{}", sets.size())))
      sets.push_back(folder / fmt::format("test_data_set_{}", sets.size()));
    const auto run = options.on.given ? mismatch_there : mismatch_here;
    const std::string wrong = run(folder / "model.onnx", sets, t, options);
    return {wrong.empty() ? Verdict::passed : Verdict::failed, wrong};
  } catch (const AgentError& e) {
    return {Verdict::ended, e.message()};
  } catch (const Error& e) {
    if (e.kind() == ErrorKind::internal) return {Verdict::failed, "internal error: " + e.message()};
    return {e.kind() == ErrorKind::unsupported ? Verdict::skipped : Verdict::failed, e.message()};
  } catch (const std::exception& e) {
    return {Verdict::failed, fmt::format("internal error: {}", e.what())};
  }
}

/// Reads the child's output until the child ends or the time is up.
Outcome watch(pid_t child, int from, int seconds) {
  std::string text;
  const int64_t end = now_ns() + int64_t{seconds} * 1'000'000'000;
  bool timed_out = false;
  while (true) {
    pollfd waiting{from, POLLIN, 0};
    const auto left = static_cast<int>((end - now_ns()) / 1'000'000);
    if (left <= 0 || poll(&waiting, 1, left) == 0) {
      timed_out = true;
      kill(child, SIGKILL);
      break;
    }
    char buffer[4096];
    const ssize_t got = read(from, buffer, sizeof buffer);
    if (got <= 0) break;
    text.append(buffer, static_cast<size_t>(got));
  }
  int status = 0;
  waitpid(child, &status, 0);
  if (timed_out) return {Verdict::failed, fmt::format("did not end within {} s", seconds)};
  if (WIFSIGNALED(status)) return {Verdict::failed, fmt::format("crashed: {}", strsignal(WTERMSIG(status)))};
  if (text.empty())
    return {Verdict::failed, fmt::format("ended with status {} and printed nothing", WEXITSTATUS(status))};
  return {static_cast<Verdict>(text[0]), text.substr(1)};
}

Outcome run_apart(const fs::path& folder, const CheckOptions& options) {
  int ends[2];
  if (pipe(ends) != 0) fail(ErrorKind::internal, "check: cannot create a pipe");
  std::fflush(console().out);
  const pid_t child = fork();
  if (child < 0) fail(ErrorKind::internal, "check: cannot start a process");
  if (child == 0) {
    close(ends[0]);
    const Outcome outcome = run_case(folder, options);
    std::string text(1, static_cast<char>(outcome.verdict));
    text += outcome.reason;
    for (size_t at = 0; at < text.size();) {
      const ssize_t put = write(ends[1], text.data() + at, text.size() - at);
      if (put <= 0) break;
      at += static_cast<size_t>(put);
    }
    _exit(0);
  }
  close(ends[1]);
  const Outcome outcome = watch(child, ends[0], options.seconds);
  close(ends[0]);
  return outcome;
}

std::vector<fs::path> cases_in(const std::string& folder) {
  const fs::path root(folder);
  if (!fs::is_directory(root)) fail(ErrorKind::io, "check: {} is not a folder", folder);
  if (fs::exists(root / "model.onnx")) return {root};
  std::vector<fs::path> cases;
  for (const auto& entry : fs::directory_iterator(root)) {
    if (entry.is_directory() && fs::exists(entry.path() / "model.onnx")) cases.push_back(entry.path());
  }
  std::sort(cases.begin(), cases.end());
  if (cases.empty())
    fail(ErrorKind::bad_input, "check: {} contains no case; expected model.onnx, or folders that contain one", folder);
  return cases;
}

/// Returns the folder's name however it was given: "relu" for "cases/relu/", and the name of the working folder for
/// ".".
std::string case_name(const fs::path& folder) {
  const fs::path whole = fs::absolute(folder / "").lexically_normal();
  return printable(whole.parent_path().filename().string());
}

/// A case that was run.
struct Ran {
  std::string name;
  Outcome outcome;
};

int64_t count(const std::vector<Ran>& all, Verdict verdict) {
  return std::ranges::count_if(all, [&](const Ran& r) { return r.outcome.verdict == verdict; });
}

nlohmann::json to_json(const std::vector<Ran>& all) {
  nlohmann::json cases = nlohmann::json::array();
  for (const Ran& r : all) {
    cases.push_back({{"name", r.name}, {"outcome", word_of(r.outcome.verdict)}});
    if (!r.outcome.reason.empty()) cases.back()["reason"] = r.outcome.reason;
  }
  return {{"cases", cases},
          {"passed", count(all, Verdict::passed)},
          {"failed", count(all, Verdict::failed)},
          {"skipped", count(all, Verdict::skipped)}};
}

void print(const Ran& r) {
  const std::string word = word_of(r.outcome.verdict);
  const std::string shown = r.outcome.verdict == Verdict::failed ? styled(Style::bad, word) : word;
  say("{}{} {}{}{}\n", shown, std::string(7 - word.size(), ' '), r.name, r.outcome.reason.empty() ? "" : ": ",
      r.outcome.reason);
}

int check(CheckOptions options) {
  check_writable("--json", options.json);
  options.on.settle();
  if (options.on.given)
    (void)target_on(machine_of_class(options.on.fleet.url, options.on.fleet.device_class),
                    options.target);  // so that errors come early, and only once
  std::vector<fs::path> cases;
  for (const std::string& folder : options.folders) {
    for (fs::path& path : cases_in(folder)) cases.push_back(std::move(path));
  }
  std::vector<Ran> all;
  {
    Progress progress("check");
    for (const fs::path& path : cases) {
      progress.show(fmt::format("{} of {}", all.size() + 1, cases.size()));
      Outcome outcome = run_apart(path, options);
      if (outcome.verdict == Verdict::ended) fail(ErrorKind::unsupported, "{}", outcome.reason);
      std::replace(outcome.reason.begin(), outcome.reason.end(), '\n', ' ');
      outcome.reason = printable(outcome.reason);
      all.push_back({case_name(path), std::move(outcome)});
      if (options.json != "-" && (options.list || all.back().outcome.verdict != Verdict::passed)) print(all.back());
    }
  }
  const int64_t failed = count(all, Verdict::failed);
  if (!options.json.empty()) write_json(options.json, to_json(all));
  if (options.json != "-") {
    const std::string text = fmt::format("{} failed", failed);
    say("{} passed, {}, {} skipped\n", count(all, Verdict::passed), failed > 0 ? styled(Style::bad, text) : text,
        count(all, Verdict::skipped));
  }
  return failed == 0 ? kDone : kCheckFailed;
}

}  // namespace

void add_check(Command app, Context& context) {
  auto options = std::make_shared<CheckOptions>();
  Command sub = app.subcommand(
      "check",
      "Run cases in the ONNX test layout: model.onnx, test_data_set_*/{input,output}_*.pb, tol.txt ('rtol atol')");
  sub.group("Run and deploy");
  sub.option("DIR", options->folders, "case folders, or folders that contain cases").folder().required();
  sub.option("--target", options->target, "CPU to generate code for")
      .value("CPU")
      .suggests(target_names())
      .shows_default();
  sub.option("--threads", options->threads, "threads per case").range(1, 1024).shows_default();
  sub.option("--timeout", options->seconds, "time limit of a case, in seconds").range(1, 86400).shows_default();
  options->on.add_to(sub);
  sub.heading("Output");
  sub.flag("--list-passed", options->list, "also print the cases that pass");
  sub.json(options->json, "the outcome of each case");
  sub.example("kilter check models/onnx_cases/test_relu", "One case of the ONNX standard");
  sub.example("kilter check models/onnx_cases/test_relu --on board --sign-key team.secret",
              "The same on the machine of an agent that trusts team.public, in the fleet of KILTER_FLEET");
  sub.callback([=, &context] { context.exit = check(*options); });
}

}  // namespace kilter::tool
