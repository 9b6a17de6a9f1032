#include "tune/run/checker.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

#include "base/error.h"
#include "exec/plan_check.h"
#include "exec/trace.h"
#include "tune/run/crash_handler.h"
#include "tune/run/fences.h"

namespace kilter::tune {

/// The memory of one checking run and the checks after each of its steps.
class Checker::Run {
 public:
  Run(Checker& checker, const WorkerVariant& variant)
      : checker_(checker),
        variant_(variant),
        plan_(variant.plan()),
        arena_(plan_.arena_bytes, 1, "the arena of '" + plan_.model + "'"),
        scratch_(plan_.scratch_bytes, checker.pool_->threads(), "the scratch memory of '" + plan_.model + "'") {
    mark(Region::arena, arena_);
    mark(Region::scratch, scratch_);
    const auto place = [&](const std::vector<PlanTensor>& tensors, Region region, std::vector<Fenced>& out) {
      for (const PlanTensor& t : tensors) {
        out.emplace_back(*tensor_bytes(t.type, t.shape), 1, std::string(name(region)));
        mark(region, out.back());
      }
    };
    place(plan_.inputs, Region::input, inputs_);
    place(plan_.outputs, Region::output, outputs_);
    for (size_t i = 0; i < inputs_.size(); ++i) {
      std::memcpy(inputs_[i].data(), checker.inputs_[i], static_cast<size_t>(inputs_[i].bytes()));
      inputs_[i].protect();
    }
    instance_.emplace(variant.program, checker.pool_, Placement{arena_.data(), scratch_.data(), scratch_.stride()});
  }

  /// Runs once, calling `after` after each step.
  Checked run(const std::set<size_t>& skip, const std::function<void(size_t)>& before,
              const std::function<void(size_t)>& after) {
    StepObserver observer;
    observer.before = [&](size_t step) {
      if (before) before(step);
      checker_.publisher_.phase(Phase::checking);
      checker_.publisher_.step(static_cast<int64_t>(step));
    };
    observer.after = [&](size_t step) {
      checker_.publisher_.phase(Phase::comparing);
      checker_.publisher_.step(static_cast<int64_t>(step));
      after(step);
    };
    observer.leaves_out = [&](size_t step) { return skip.contains(step); };
    std::vector<const std::byte*> from;
    std::vector<std::byte*> to;
    for (const Fenced& f : inputs_) from.push_back(f.data());
    for (const Fenced& f : outputs_) to.push_back(f.data());
    RunTrace trace(std::max<size_t>(plan_.steps.size(), 1), checker_.pool_->threads());
    instance_->run(from, to, &observer, &trace);
    for (size_t i = 0; i < trace.size(); ++i) {
      out_.step_ms.push_back(ms_between(trace.region(i).wall.begin, trace.region(i).wall.end));
    }
    return std::move(out_);
  }

  std::byte* address(const BufferRef& buffer) const { return instance_->address(buffer); }
  std::byte* address(const StepValue& value) const { return address(value.buffer); }

  void find(size_t step, std::string words) {
    if (!out_.findings.empty() && out_.findings.back().step == step) return;
    out_.findings.push_back({step, std::move(words)});
  }

  /// Checks that the memory around the buffers is unchanged.
  void check_fences(size_t step) {
    const auto look = [&](Fenced& fenced, Region region) {
      if (const auto at = fenced.damage()) {
        find(step, fmt::format("wrote byte {} of {}, which has {} bytes", *at, name(region), fenced.bytes()));
      }
    };
    look(arena_, Region::arena);
    look(scratch_, Region::scratch);
    for (Fenced& f : outputs_) look(f, Region::output);
  }

  void check_values(size_t step) {
    for (size_t i : variant_.values_of[step]) check_value(step, variant_.values[i]);
  }

  void lay_trusted(size_t step) {
    for (size_t i : variant_.values_of[step]) {
      const StepValue& v = variant_.values[i];
      const Trusted* want = trusted(v);
      if (want != nullptr) copy_value(want->layout, want->data.data(), v.layout, address(v));
    }
  }

  // --- careful ---

  void remember_arena() {
    shadow_.resize(static_cast<size_t>(plan_.arena_bytes));
    std::memcpy(shadow_.data(), arena_.data(), shadow_.size());
  }

  /// Finds and repairs changes that the step made outside its own buffers.
  void mend_arena(size_t step) {
    std::vector<std::pair<int64_t, int64_t>> own;
    for (const BufferRef& ref : plan_.steps[step].args) {
      if (ref.space == Space::arena) own.emplace_back(ref.offset, ref.offset + ref.bytes);
    }
    std::sort(own.begin(), own.end());
    own.emplace_back(plan_.arena_bytes, plan_.arena_bytes);
    int64_t at = 0;
    for (const auto& [begin, end] : own) {
      if (begin > at) mend(step, at, begin);
      at = std::max(at, end);
    }
  }

 private:
  void mark(Region region, const Fenced& fenced) {
    for (int i = 0; i < fenced.count(); ++i) {
      marks_.push_back(std::make_unique<MarkedRegion>(region, fenced.data(i), fenced.bytes()));
    }
  }

  const Trusted* trusted(const StepValue& v) const {
    const auto it = checker_.trusted_.find(v.name);
    return it != checker_.trusted_.end() && same_value(it->second.layout, v.layout) ? &it->second : nullptr;
  }

  void check_value(size_t step, const StepValue& v) {
    const Trusted* want = trusted(v);
    if (want == nullptr) return;
    const ValueDifference d = compare_values(want->layout, want->data.data(), v.layout, address(v));
    if (d.unlike > 0) {
      find(step,
           fmt::format("value '{}': {} of {} elements are NaN or infinite where the trusted variant's are not, or "
                       "the reverse",
                       v.name, d.unlike, d.elems));
    } else if (d.most > v.tolerance * want->largest) {
      find(step, fmt::format("value '{}' differs by {:.3g} from the trusted variant's, whose largest magnitude is "
                             "{:.3g}; expected at most {:g} of that",
                             v.name, d.most, want->largest, v.tolerance));
    }
    if (std::string damage = padding_damage(v.layout, address(v)); !damage.empty()) {
      find(step, fmt::format("value '{}': {}", v.name, damage));
    }
    copy_value(want->layout, want->data.data(), v.layout, address(v));
  }

  void mend(size_t step, int64_t begin, int64_t end) {
    std::byte* now = arena_.data() + begin;
    const std::byte* was = shadow_.data() + begin;
    const auto size = static_cast<size_t>(end - begin);
    if (std::memcmp(now, was, size) == 0) return;
    const auto at = std::mismatch(now, now + size, was).first - now + begin;
    find(step, fmt::format("wrote byte {} of the arena, which belongs to none of its buffers", at));
    std::memcpy(now, was, size);
  }

  Checker& checker_;
  const WorkerVariant& variant_;
  const Plan& plan_;
  Fenced arena_, scratch_;
  std::vector<Fenced> inputs_, outputs_;
  std::vector<std::unique_ptr<MarkedRegion>> marks_;
  std::optional<Instance> instance_;
  std::vector<std::byte> shadow_;
  Checked out_;
};

Checker::Checker(std::vector<const std::byte*> inputs, std::shared_ptr<ThreadPool> pool, Publisher& publisher)
    : inputs_(std::move(inputs)), pool_(std::move(pool)), publisher_(publisher) {}

Checked Checker::trust(const WorkerVariant& variant) {
  publisher_.enter(Phase::checking, variant.id);
  Run run(*this, variant);
  std::map<std::string, Trusted> values;
  const auto keep = [&](size_t step) {
    for (size_t i : variant.values_of[step]) {
      const StepValue& v = variant.values[i];
      if (std::string damage = padding_damage(v.layout, run.address(v)); !damage.empty()) {
        run.find(step, fmt::format("value '{}': {}", v.name, damage));
      }
      Trusted kept{packed(v.layout), {}, 0};
      const int64_t bytes = packed_elems(v.layout) * size_bytes(v.layout.type);
      kept.data = Block(bytes, "the values of '" + variant.plan().model + "'");
      copy_value(v.layout, run.address(v), kept.layout, kept.data.data());
      kept.largest = largest_magnitude(kept.layout, kept.data.data());
      values.emplace(v.name, std::move(kept));
    }
    run.check_fences(step);
  };
  Checked checked = run.run({}, {}, keep);
  if (checked.findings.empty()) {
    trusted_ = std::move(values);
    has_trusted_ = true;
  }
  return checked;
}

Checked Checker::compare(const WorkerVariant& variant, const std::set<size_t>& skip, bool careful) {
  publisher_.enter(Phase::checking, variant.id);
  Run run(*this, variant);
  const auto before = [&](size_t) { run.remember_arena(); };
  const auto after = [&](size_t step) {
    if (skip.contains(step)) return run.lay_trusted(step);
    if (careful) run.mend_arena(step);
    run.check_values(step);
    run.check_fences(step);
  };
  return run.run(skip, careful ? before : std::function<void(size_t)>(), after);
}

void Checker::trace(const WorkerVariant& variant, std::span<const Tap> taps, std::byte* to) {
  publisher_.enter(Phase::checking, variant.id);
  Run run(*this, variant);
  std::multimap<size_t, std::pair<BufferRef, std::byte*>> places;  // by step
  for (const Tap& tap : taps) {
    places.emplace(tap.step, std::pair{tap.buffer, to});
    to += tap.buffer.bytes;
  }
  const auto copy = [&](size_t step) {
    for (auto [it, end] = places.equal_range(step); it != end; ++it) {
      const auto& [buffer, place] = it->second;
      if (buffer.bytes > 0) std::memcpy(place, run.address(buffer), static_cast<size_t>(buffer.bytes));
    }
  };
  run.run({}, {}, copy);
}

}  // namespace kilter::tune
