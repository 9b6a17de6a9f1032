#include "tune/tuner/plans/sources.h"

#include <algorithm>
#include <regex>
#include <utility>

#include "base/error.h"
#include "base/files.h"
#include "base/other_threads.h"
#include "exec/schedule_source.h"
#include "measure/device.h"
#include "tune/records/place.h"
#include "tune/records/store.h"
#include "tune/tuner/plans/choices_file.h"

namespace kilter::tune {
namespace {

/// Returns the number of threads named by the first line of a layer plan, "# NET for TARGET on 1 thread, tuned ...", or
/// 0 if it names none.
int threads_of(const std::string& plan) {
  static const std::regex kOn(" on ([0-9]{1,4}) threads?[,;]");
  const std::string line = plan.substr(0, plan.find('\n'));
  std::smatch made;
  return line.starts_with('#') && std::regex_search(line, made, kOn) ? std::stoi(made.str(1)) : 0;
}

/// Describes a layer plan, whose choices are among the options.
class LayerPlanInUse : public Chooser {
 public:
  LayerPlanInUse(Choices choices, std::string name, int made_for, int used_at)
      : choices_(std::move(choices)), name_(std::move(name)), made_for_(made_for), used_at_(used_at) {}
  std::vector<Offer> offers(const Graph& /*graph*/, const CompileOptions& /*options*/) const override {
    Offer offer;
    offer.settle = [this](const Compiled& /*plan*/, const CompileOptions& compile) {
      const Choices used = allowed(choices_, compile.forbidden);  // a task may be forbidden for a graph alone
      Recorded told;
      if (!used.empty()) told.tuned_at = made_for_;
      const std::string note = other_threads_text(told.tuned_at, used_at_, "made", "used");
      told.summary = fmt::format("{}: {} layers{}{}", name_, used.size(), note.empty() ? "" : "; ", note);
      return told;
    };
    return {offer};
  }

 private:
  Choices choices_;
  std::string name_;
  int made_for_, used_at_;
};

}  // namespace

std::shared_ptr<const Chooser> use_records(const RecordsUse& use) {
  const auto tell = [&](const std::vector<std::string>& lines) {
    if (use.notice) std::ranges::for_each(lines, use.notice);
  };
  const auto store = Store::open(use.file, Store::Mode::read);
  Reading reading = store->read();
  tell(store->notices());
  tell(reading.damaged);
  tell(reading.newer);
  if (use.edit) use.edit(reading.records);
  TunedSource source;
  source.records = std::make_shared<const Matcher>(std::move(reading.records));
  auto plans = std::make_shared<const KeptPlans>(read_plans(plans_file(use.file)));
  tell(plans->damaged);
  source.plans = std::move(plans);
  source.apply = {.file = use.shipped ? base_name(use.file) : shown(use.file),
                  .device = describe_device().fingerprint(),
                  .threads = use.threads,
                  .tune = use.tune,
                  .shipped = use.shipped};
  source.choose = use.choose;
  source.notice = use.notice;
  return std::make_shared<TunedChooser>(std::move(source));
}

std::shared_ptr<const Chooser> use_layer_plan(const std::string& file, int threads, CompileOptions& options,
                                              bool shipped) {
  const std::string words = read_file(file);
  LayerPlan plan = parse_layer_plan(words, file);
  const std::string shown = shipped ? base_name(file) : file;
  for (auto& [node, choice] : plan.choices) {
    std::string& origin = choice.schedule_from.words;
    if (origin.starts_with(file)) origin = shown + origin.substr(file.size());
  }
  if (plan.precision) {
    if (options.precision != Precision::declared && options.precision != *plan.precision) {
      fail(ErrorKind::usage, "precision {}: the layer plan {} sets precision {}; give only one of them",
           name(options.precision), file, name(*plan.precision));
    }
    options.precision = *plan.precision;
  }
  options.keep_float.insert(plan.keep_float.begin(), plan.keep_float.end());
  Choices choices = allowed(plan.choices, options.forbidden);
  if (plan.precision && plan.choices.empty()) return nullptr;
  add(choices, options.choices);
  return std::make_shared<LayerPlanInUse>(std::move(choices), std::string(kFromLayerPlan) + shown, threads_of(words),
                                          threads);
}

}  // namespace kilter::tune
