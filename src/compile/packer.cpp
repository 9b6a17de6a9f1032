#include "compile/packer.h"

#include <fmt/format.h>

#include "compile/check_options.h"
#include "graph/values.h"
#include "schedule/emit.h"

namespace kilter {

namespace {

std::string key_of(const Task& task, const Schedule* wanted) {
  return fmt::format("{}|{}|{}", task.node().name, task.layouts(), wanted != nullptr ? wanted->text() : "the default");
}

/// Throws usage if all templates that would take the task are forbidden, so that it has no default.
void check_not_forbidden(const Task& task, const Chosen& chosen) {
  if (chosen.schedule.name != "reference") return;
  for (const auto& [name, rejected] : chosen.rejected) {
    if (rejected.check != kForbid) continue;
    fail(
        ErrorKind::usage,
        "--forbid {}: no other template takes '{}'; allow it, or give --schedule {}=reference for the reference kernel",
        rejected.got, task.node().name, task.node().name);
  }
}

}  // namespace

BufferRef Packer::constant(const Graph& graph, ValueId value) {
  const TensorType& type = graph.type(value);
  BuildCache* cache = options_->cache;
  const std::string layout = text(type);
  if (cache != nullptr) {
    if (const BufferRef* known = cache->value(value, layout)) {
      pool_.count(known->bytes);
      return *known;
    }
  }
  const BufferRef fresh = pack(relay(*constant_of(graph, value), type));
  if (cache != nullptr) cache->keep_value(value, layout, fresh);
  return fresh;
}

bool Packer::knows(const Task& task, const Schedule* wanted) const {
  return options_->cache != nullptr && options_->cache->task(key_of(task, wanted)) != nullptr;
}

std::shared_ptr<const PackedTask> Packer::task(const Task& task, const Schedule* wanted) {
  BuildCache* cache = options_->cache;
  const std::string key = cache != nullptr ? key_of(task, wanted) : std::string();
  if (cache != nullptr) {
    if (auto known = cache->task(key)) {
      for (const BufferRef& ref : known->constants) pool_.count(ref.bytes);
      return known;
    }
  }
  auto packed = std::make_shared<PackedTask>();
  const std::optional<Schedule> forced = wanted != nullptr ? std::optional(*wanted) : std::nullopt;
  try {
    packed->chosen = choose(task, options_->target.limits, forced, options_->accuracy, options_->forbidden);
  } catch (const Error& e) {
    if (!forced) throw;
    fail(e.kind(), "{}: {}", option_text(*options_, "--schedule", task.node().name), e.message());
  }
  if (wanted == nullptr) check_not_forbidden(task, packed->chosen);
  for (Packing& c : packed->chosen.lowered.constants) {
    packed->constants.push_back(pack(c));
    c.make = nullptr;
  }
  if (cache != nullptr) cache->keep_task(key, packed);
  return packed;
}

BufferRef Packer::pack(const Tensor& tensor) {
  if (options_->cache == nullptr) return {Space::constant, pool_.add(tensor), 0, tensor.bytes()};
  pool_.count(tensor.bytes());
  const std::span<const std::byte> bytes(tensor.raw(), static_cast<size_t>(tensor.bytes()));
  return {Space::constant, options_->cache->sink().add(bytes), 0, tensor.bytes()};
}

BufferRef Packer::pack(const Packing& packing) {
  BuildCache* cache = options_->cache;
  const bool shared = cache != nullptr && packing.from != kNone;
  if (shared) {
    if (const auto known = cache->packed(packing.from, packing.form)) {
      pool_.count(known->bytes);
      return *known;
    }
  }
  const BufferRef fresh = pack(packing.make());
  if (shared) cache->keep_packed(packing.from, packing.form, fresh);
  return fresh;
}

void Packer::place(Plan& plan, Block& own) {
  if (options_->cache != nullptr) {
    plan.constants = options_->cache->sink().data();
    plan.constants_bytes = options_->cache->sink().size();
    return;
  }
  own = pool_.join();
  plan.constants = own.data();
  plan.constants_bytes = pool_.bytes();
}

}  // namespace kilter
