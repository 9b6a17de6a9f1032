#include "sweep.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <map>

#include "exact.h"
#include "guarded_run.h"
#include "task_spaces.h"

namespace kilter {

namespace {

constexpr uint64_t kEnough = 20;  ///< networks after which every template of a kind must have been drawn

uint64_t from_environment(const char* name, uint64_t fallback) {
  const char* text = std::getenv(name);
  return text == nullptr ? fallback : std::strtoull(text, nullptr, 10);
}

/// One way to compile a network.
struct Variation {
  CompileOptions options;
  std::string text() const {
    std::string out = "on " + options.target.name;
    for (const auto& [node, choice] : options.choices) {
      if (choice.schedule) out += fmt::format(" --schedule {}='{}'", node, choice.schedule->text());
      if (choice.fuse == Fusion::before) out += " --fuse " + node;
      if (choice.fuse == Fusion::none) out += " --no-fuse " + node;
      if (choice.plain) out += " --plain-layout " + node;
    }
    return out;
  }
  /// Whether a layer has a schedule or a layout that it would not have by default.
  bool changes_kernels() const {
    return std::ranges::any_of(options.choices, [](const auto& of) { return of.second.schedule || of.second.plain; });
  }
};

std::string tasks_text(const Plan& plan) {
  std::string out;
  for (const Step& step : plan.steps)
    out += fmt::format("\n  {} '{}': {}", step.problem.empty() ? step.ops : step.problem, step.name,
                       step.schedule.empty() ? "no kernel" : step.schedule);
  return out;
}

/// Returns "" if the compiled network gives the right results, otherwise what is wrong, with the tasks.
std::string check(const Graph& graph, const std::vector<Tensor>& inputs, Exact& exact, const Compiled& compiled,
                  size_t shift) {
  try {
    const bool winograd = std::any_of(compiled.plan.steps.begin(), compiled.plan.steps.end(),
                                      [](const Step& step) { return step.schedule.starts_with("conv2d_winograd"); });
    const auto judge = [&](size_t i, const Tensor& got) {
      return exact.judge(i, got, winograd ? Rounding::winograd : Rounding::sums);
    };
    if (compiled.plan.outputs.size() != graph.outputs().size()) return "another number of outputs";
    const auto program = std::make_shared<const Program>(compiled.plan);
    std::string wrong = run_guarded(program, inputs, judge, shift);
    if (wrong.empty()) wrong = check_padding(compiled, program, inputs);
    return wrong.empty() ? wrong
                         : fmt::format("{} ({} bytes off alignment){}", wrong, shift, tasks_text(compiled.plan));
  } catch (const Error& error) {
    return "error: " + error.message() + tasks_text(compiled.plan);
  }
}

/// The tasks of the plan if it runs a reference kernel; "" if it runs none or has an output without elements.
std::string reference_steps(const Plan& plan) {
  const auto empty = [](const PlanTensor& t) { return elems(t.shape) == 0; };
  const auto reference = [](const Step& step) { return step.schedule == "reference"; };
  const bool wrong = std::none_of(plan.outputs.begin(), plan.outputs.end(), empty) &&
                     std::any_of(plan.steps.begin(), plan.steps.end(), reference);
  return wrong ? "a reference kernel runs" + tasks_text(plan) : "";
}

/// The node named by a usage error about a forced schedule.
std::string refused_node(const std::string& message) {
  constexpr std::string_view kStart = "--schedule ";
  if (!message.starts_with(kStart)) return "";
  const std::string rest = message.substr(kStart.size());
  return rest.substr(0, std::min(rest.find(": "), rest.find('=')));
}

/// Compiles; drops schedules that do not apply because operands are placed differently than the draw assumed.
Compiled compile_variation(const Graph& graph, Variation& variation) {
  while (true) {
    try {
      return compile_graph(graph, variation.options);
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::usage) throw;
      const std::string node = refused_node(error.message());
      Choices& choices = variation.options.choices;
      const size_t before = choices.size();
      if (choice_for(choices, node).schedule) {
        take_back(choices, node, &LayerChoice::schedule);
        continue;
      }
      std::erase_if(choices, [](const auto& of) { return !of.second.schedule; });
      bool changed = choices.size() < before;
      for (auto& [layer, choice] : choices) {
        changed = changed || choice.changes_passes();
        choice = *choice.schedule;
      }
      if (!changed) throw;
    }
  }
}

Variation draw_variation(const Graph& graph, const Target& target, Draw& draw) {
  Variation v;
  v.options.target = target;
  const std::vector<TaskSpace> tasks = tasks_of(graph, target);
  if (!tasks.empty()) {
    const auto any = [&] {
      return tasks[static_cast<size_t>(draw.between(0, static_cast<int64_t>(tasks.size()) - 1))].node;
    };
    if (draw.chance(20)) v.options.choices[any()].fuse = Fusion::none;
    if (draw.chance(20)) v.options.choices[any()].plain = true;
  }
  for (const std::string& node : draw_fused(graph, v.options, draw)) v.options.choices[node].fuse = Fusion::before;
  for (const auto& [node, schedule] : draw_schedules(graph, v.options, draw))
    v.options.choices[node].schedule = schedule;
  return v;
}

/// The network up to its node `last`.
Graph head(const Graph& graph, size_t last) {
  Graph out = graph;
  out.clear_outputs();
  for (ValueId v : graph.node(graph.order()[last]).outputs) {
    if (v != kNone) out.add_output(v, graph.value(v).name);
  }
  out.remove_dead();
  return out;
}

/// Describes the shortest head of the network that still gives wrong results, without the forced schedules that the
/// fault does not need.
std::string shrunk(const SweepNet& net, const Variation& variation, size_t shift) {
  const auto wrong_with = [&](const Graph& graph, Variation& v) {
    try {
      const std::vector<TaskSpace> tasks = tasks_of(graph, v.options.target);
      const auto gone = [&](const auto& item) {
        return std::none_of(tasks.begin(), tasks.end(), [&](const TaskSpace& t) { return t.node == item.first; });
      };
      for (auto& choice : v.options.choices) {
        if (gone(choice)) choice.second.schedule.reset();
      }
      Exact exact(graph, net.inputs());
      return check(graph, net.inputs(), exact, compile_variation(graph, v), shift);
    } catch (const Error& error) {
      return std::string();  // does not show the fault
    }
  };
  for (size_t last = 0; last < net.graph().order().size(); ++last) {
    const Graph graph = head(net.graph(), last);
    Variation v = variation;
    std::string wrong = wrong_with(graph, v);
    if (wrong.empty()) continue;
    const Choices all = v.options.choices;
    for (const auto& [node, choice] : all) {
      if (!choice.schedule) continue;
      Variation less = v;
      take_back(less.options.choices, node, &LayerChoice::schedule);
      if (std::string still = wrong_with(graph, less); !still.empty()) v = less, wrong = still;
    }
    return fmt::format("shrunk: {}\n{}\n{}", v.text(), wrong, print(graph));
  }
  return "only the whole network is wrong";
}

class Sweep {
 public:
  explicit Sweep(const NetKind& kind) : kind_(kind) {}

  void run() {
    const uint64_t count = from_environment("KILTER_SWEEP", kind_.count);
    const uint64_t from = from_environment("KILTER_SWEEP_FROM", 0);
    for (uint64_t seed = from; seed < from + count && !testing::Test::HasFatalFailure(); ++seed) network(seed);
    EXPECT_LE(2 * illegal_, count) << kind_.name << ": too many networks were drawn that are illegal";
    if (count < kEnough || only_target() != nullptr) return;
    for (const std::string_view name : kind_.templates)
      EXPECT_GT(drawn_[std::string(name)], 0U) << kind_.name << ": no random schedule came from " << name;
    std::string used;
    for (const auto& [name, steps] : drawn_) used += fmt::format(" {} {}", name, steps);
    std::cout << kind_.name << ": " << problems_ << " problems; random schedules:" << used << "\n";
  }

 private:
  static const char* only_target() { return std::getenv("KILTER_SWEEP_TARGET"); }

  /// Returns the targets for a network.
  static std::vector<Target> targets_of(uint64_t seed) {
    std::vector<Target> all = targets_here();
    if (only_target() != nullptr) {
      std::erase_if(all, [](const Target& target) { return target.name != only_target(); });
    } else if (std::getenv("KILTER_SWEEP") == nullptr && all.size() > 2) {
      return {all[seed % (all.size() - 1)], all.back()};
    }
    return all;
  }

  void network(uint64_t seed) {
    SweepNet net(seed ^ hash_text(kind_.name));
    try {
      kind_.make(net);
    } catch (const Error& error) {
      ASSERT_EQ(error.kind(), ErrorKind::bad_model) << error.message();
      ++illegal_;
      return;
    }
    Exact exact(net.graph(), net.inputs());
    for (const Target& target : targets_of(seed)) {
      Draw draw(hash_combine(seed, hash_text(target.name)));
      Variation defaults;
      defaults.options.target = target;
      problem(net, exact, defaults, seed);
      problem(net, exact, draw_variation(net.graph(), target, draw), seed);
    }
  }

  void problem(const SweepNet& net, Exact& exact, Variation variation, uint64_t seed) {
    const size_t shift = seed % 2 * 8;
    std::string wrong;
    try {
      const Compiled compiled = compile_variation(net.graph(), variation);
      for (const auto& [node, choice] : variation.options.choices) {
        if (choice.schedule) ++drawn_[choice.schedule->name];
      }
      wrong = check(net.graph(), net.inputs(), exact, compiled, shift);
      if (wrong.empty() && kind_.by_templates && !variation.changes_kernels()) wrong = reference_steps(compiled.plan);
    } catch (const Error& error) {
      wrong = "error: " + error.message();
    }
    ++problems_;
    if (wrong.empty()) return;
    const auto* test = testing::UnitTest::GetInstance()->current_test_info();
    ADD_FAILURE() << kind_.name << ", seed " << seed << " " << variation.text() << "\n"
                  << wrong << "\n"
                  << shrunk(net, variation, shift) << "\n"
                  << print(net.graph()) << "run it alone: KILTER_SWEEP=1 KILTER_SWEEP_FROM=" << seed
                  << " KILTER_SWEEP_TARGET=" << variation.options.target.name
                  << " build/tests/compile/test_compile --gtest_filter=" << test->test_suite_name() << "."
                  << test->name();
  }

  const NetKind& kind_;
  uint64_t illegal_ = 0, problems_ = 0;
  std::map<std::string, uint64_t> drawn_;  ///< random schedules that ran, by template
};

}  // namespace

void sweep(const NetKind& kind) { Sweep(kind).run(); }

}  // namespace kilter
