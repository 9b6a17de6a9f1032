#include "profile/edges.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "base/text.h"

namespace kilter::profile {
namespace {

/// The elements of the operands on one side of "f32[1,64,56,56] f32[64,64,3,3] -> f32[1,64,56,56]".
std::vector<int64_t> elements(std::string_view shapes) {
  std::vector<int64_t> out;
  for (const std::string_view operand : split_words(shapes)) {
    const size_t open = operand.find('[');
    if (open == std::string_view::npos || !operand.ends_with(']')) continue;
    int64_t count = 1;
    const std::string_view extents = operand.substr(open + 1, operand.size() - open - 2);
    if (!extents.empty()) {
      for (const std::string_view extent : split(extents, ',')) count *= try_parse_int(extent).value_or(0);
    }
    out.push_back(count);
  }
  return out;
}

struct Operands {
  explicit Operands(const std::string& shapes) {
    const size_t arrow = shapes.find("->");
    if (arrow == std::string::npos) return;
    inputs = elements(std::string_view(shapes).substr(0, arrow));
    const std::vector<int64_t> outputs = elements(std::string_view(shapes).substr(arrow + 2));
    if (outputs.size() == 1) output = outputs.front();
  }
  std::vector<int64_t> inputs;
  int64_t output = 0;  ///< 0: unknown, or several
};

/// A buffer of the arena (its index in Plan::arena) or a network output.
struct Buffer {
  Space space;
  size_t index;
  auto operator<=>(const Buffer&) const = default;
};

/// What is known about a buffer's contents.
struct Contents {
  struct Part {
    size_t step;
    int64_t elements;
  };
  std::map<int64_t, Part> parts;  ///< by offset
  std::optional<size_t> halo;     ///< the step that zeroes its border
};

class Reads {
 public:
  explicit Reads(const Plan& plan) : plan_(plan), starts_(plan.steps.size()) {
    for (size_t i = 0; i < plan.arena.size(); ++i) {
      const int64_t first = plan.arena[i].first_step;
      if (first >= 0 && first < std::ssize(starts_)) starts_[static_cast<size_t>(first)].push_back(i);
    }
  }

  std::vector<StepReads> run() {
    std::vector<StepReads> out;
    for (size_t s = 0; s < plan_.steps.size(); ++s) {
      // Buffers that are live at the same time do not overlap, so one that starts now replaces those below it.
      for (const size_t span : starts_[s]) begin(span);
      out.push_back(visit(s));
    }
    return out;
  }

 private:
  void begin(size_t span) {
    const ArenaSpan& fresh = plan_.arena[span];
    auto at = live_.lower_bound(fresh.offset);
    if (at != live_.begin() && end_of(std::prev(at)->second) > fresh.offset) --at;
    while (at != live_.end() && at->first < fresh.offset + std::max<int64_t>(fresh.bytes, 1)) at = live_.erase(at);
    live_[fresh.offset] = span;
  }

  int64_t end_of(size_t span) const { return plan_.arena[span].offset + plan_.arena[span].bytes; }

  /// The buffer of an argument and its offset there; nothing for constants, network inputs and unused arguments.
  std::optional<std::pair<Buffer, int64_t>> place(const BufferRef& ref) const {
    if (ref.space == Space::output) return std::pair(Buffer{ref.space, static_cast<size_t>(ref.index)}, ref.offset);
    if (ref.space != Space::arena) return std::nullopt;
    auto at = live_.upper_bound(ref.offset);
    if (at == live_.begin()) return std::nullopt;
    --at;
    if (ref.offset > at->first && ref.offset >= end_of(at->second)) return std::nullopt;
    return std::pair(Buffer{Space::arena, at->second}, ref.offset - at->first);
  }

  /// The arguments that a step writes.
  std::set<size_t> written(const Step& step) const {
    std::set<size_t> out;
    if (step.kind == StepKind::copy) return {1};
    if (step.kind == StepKind::reference) {
      const auto present = std::ranges::count_if(step.reference.inputs, &ReferenceCall::Operand::present);
      for (size_t a = static_cast<size_t>(present); a < step.args.size(); ++a) out.insert(a);
      return out;
    }
    std::optional<size_t> part, again;
    for (size_t a = 0; a < step.args.size(); ++a) {
      const auto at = place(step.args[a]);
      if (!at) continue;
      const auto known = contents_.find(at->first);
      if (known == contents_.end() || known->second.parts.empty()) {
        out.insert(a);
        continue;
      }
      const auto owner = known->second.parts.find(at->second);
      if (owner == known->second.parts.end())
        part = a;
      else if (plan_.steps[owner->second.step].name == step.name)
        again = a;
    }
    if (!out.empty()) return out;
    // No new buffer: the step writes a new part of one, or continues what an earlier step of the same layer began. The
    // result is the last argument of a kernel.
    if (part) return {*part};
    if (again) return {*again};
    return {};
  }

  StepReads visit(size_t s) {
    const Step& step = plan_.steps[s];
    if (step.kind == StepKind::halo) {
      for (const BufferRef& ref : step.args) {
        if (const auto at = place(ref)) contents_[at->first].halo = s;
      }
      return {};
    }
    const std::set<size_t> writes = written(step);
    const Operands operands(step.shapes);
    StepReads reads;
    std::set<size_t> from;
    for (size_t a = 0; a < step.args.size(); ++a) {
      const BufferRef& ref = step.args[a];
      if (ref.space == Space::input) add_input(ref, reads);
      const auto at = place(ref);
      if (!at || writes.contains(a)) continue;
      if (const auto known = contents_.find(at->first); known != contents_.end())
        add_parts(known->second, at->second, operands, from);
    }
    for (const size_t a : writes) {
      if (a >= step.args.size()) continue;
      const auto at = place(step.args[a]);
      if (!at) continue;
      const auto [owner, fresh] =
          contents_[at->first].parts.try_emplace(at->second, Contents::Part{s, operands.output});
      if (!fresh) from.insert(owner->second.step), owner->second = {s, operands.output};
    }
    reads.steps.assign(from.begin(), from.end());
    return reads;
  }

  void add_input(const BufferRef& ref, StepReads& reads) const {
    const auto index = static_cast<size_t>(ref.index);
    if (index >= plan_.inputs.size()) return;
    const std::string& name = plan_.inputs[index].name;
    if (std::ranges::find(reads.inputs, name) == reads.inputs.end()) reads.inputs.push_back(name);
  }

  /// Adds the writers of a value that begins at `offset`: those of the parts that together have the size of an operand
  /// of the reader, or those of all parts if no operand has the size of several parts.
  static void add_parts(const Contents& contents, int64_t offset, const Operands& reader, std::set<size_t>& from) {
    if (contents.halo) from.insert(*contents.halo);
    auto at = contents.parts.upper_bound(offset);
    if (at == contents.parts.begin()) return;
    --at;
    from.insert(at->second.step);
    if (at->first != offset) return;  // a part of a part
    std::vector<size_t> steps;
    size_t kept = 0;
    bool all_known = true, matched = false;
    int64_t sum = 0;
    for (; at != contents.parts.end(); ++at) {
      steps.push_back(at->second.step);
      all_known &= at->second.elements > 0;
      sum += at->second.elements;
      if (!all_known || std::ranges::find(reader.inputs, sum) == reader.inputs.end()) continue;
      kept = steps.size(), matched = true;
    }
    if (!matched) kept = steps.size();
    from.insert(steps.begin(), steps.begin() + static_cast<std::ptrdiff_t>(kept));
  }

  const Plan& plan_;
  std::vector<std::vector<size_t>> starts_;  ///< by step: the buffers of the arena that begin there
  std::map<int64_t, size_t> live_;           ///< by offset: the buffers that were touched last
  std::map<Buffer, Contents> contents_;
};

}  // namespace

std::vector<StepReads> reads_of(const Plan& plan) { return Reads(plan).run(); }

}  // namespace kilter::profile
