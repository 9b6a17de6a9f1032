#include "vm/file_runner.h"

#include <algorithm>

#include "base/error.h"
#include "base/map_value.h"
#include "exec/thread_pool.h"

namespace kilter::vm {
namespace {

bool fits(const PlanTensor& tensor, const AnyValue& value) {
  return value.is_tensor() && value.tensor().dtype() == tensor.type && value.tensor().shape() == tensor.shape;
}

std::string types_of(const std::vector<AnyValue>& values) {
  std::string all;
  for (const AnyValue& value : values) all += (all.empty() ? "" : " ") + text(value);
  return all.empty() ? "none" : all;
}

std::string types_of(const Plan& plan) {
  std::string all;
  for (const PlanTensor& t : plan.inputs) all += (all.empty() ? "" : " ") + text(TensorType{t.type, t.shape, {}});
  return all.empty() ? "none" : all;
}

/// Returns the inputs for which a segment has plans, at most `most` of them.
std::string known_types(const FileProgram& program, size_t segment, size_t most) {
  const auto& plans = program.plans(segment);
  if (plans.empty()) return "none";
  std::string all;
  for (size_t i = 0; i < std::min(plans.size(), most); ++i) all += (i > 0 ? "; " : "") + types_of(plans[i]->plan());
  if (plans.size() > most) all += fmt::format("; and {} more", plans.size() - most);
  return all;
}

bool fits(const FilePort& port, const AnyValue& value) {
  if (value.absent()) return port.kind == DeclaredType::Kind::optional;
  const bool sequence = port.kind == DeclaredType::Kind::sequence || port.of_sequence;
  const auto element_fits = [&](const AnyValue& element) {
    if (!port.key) return element.is_tensor() && element.tensor().dtype() == port.type;
    return is_map(element) && map_keys(element).dtype() == *port.key && map_values(element).dtype() == port.type;
  };
  if (sequence) return is_list(value) && std::ranges::all_of(value.elements(), element_fits);
  if (!element_fits(value)) return false;
  if (port.key) return true;
  const Tensor& tensor = value.tensor();
  if (!port.dims) return true;
  return std::ranges::equal(*port.dims, tensor.shape(), [](int64_t a, int64_t b) { return a < 0 || a == b; });
}

}  // namespace

FileProgram::FileProgram(ProgramFile file) : file_(std::move(file)) {
  for (FileSegment& segment : file_.segments) {
    auto& plans = plans_.emplace_back();
    for (Plan& plan : segment.plans) plans.push_back(std::make_shared<const ::kilter::Program>(std::move(plan)));
    segment.plans.clear();
  }
}

size_t FileProgram::plan_count() const {
  size_t count = 0;
  for (const auto& plans : plans_) count += plans.size();
  return count;
}

std::string FileProgram::codegen() const {
  for (const auto& plans : plans_) {
    if (!plans.empty()) return plans.front()->plan().codegen;
  }
  return {};
}

std::string FileProgram::text() const {
  std::string all;
  for (size_t s = 0; s < plans_.size(); ++s) {
    all += fmt::format("  {} ({}): ", s, file_.segments[s].name);
    for (const auto& program : plans_[s]) {
      const size_t steps = program->plan().steps.size();
      all += fmt::format("{}, {} step{}; ", types_of(program->plan()), steps, steps == 1 ? "" : "s");
    }
    const bool any = file_.segments[s].has_graph;
    all += any ? "other shapes by reference kernels\n" : "no other shapes\n";
  }
  return all;
}

int64_t FileProgram::held_bytes() const {
  int64_t code = 0, constants = 0;  // all plans have the constants of the file
  for (const auto& plans : plans_) {
    for (const auto& program : plans) {
      code += 2 * program->plan().code_bytes;
      constants = program->plan().constants_bytes;
    }
  }
  return code + constants;
}

FileRunner::FileRunner(std::shared_ptr<const FileProgram> program, std::shared_ptr<ThreadPool> pool,
                       CheckInterrupt interrupt, RunnerHooks hooks)
    : hooks_(std::move(hooks)),
      program_(std::move(program)),
      pool_(std::move(pool)),
      fixed_(constant_memory(program_->file().program)),
      machine_(program_->file().program,
               [this](int32_t segment, std::vector<AnyValue> inputs) {
                 return run_segment(static_cast<size_t>(segment), std::move(inputs));
               },
               std::move(interrupt), {.pool = pool_.get()}) {
  const ProgramFile& file = program_->file();
  for (size_t s = 0; s < file.segments.size(); ++s) {
    forms_.emplace_back(program_->plans(s).size());
    for (const auto& loaded : program_->plans(s)) {
      arena_bytes_ = std::max(arena_bytes_, loaded->plan().arena_bytes);
      scratch_stride_ = std::max(scratch_stride_, least_scratch_stride(loaded->plan()));
    }
  }
  arena_ = Block(arena_bytes_, "the arena of '" + file.model + "'", allocator());
  scratch_ = Block(scratch_stride_ * pool_->threads(), "the scratch memory of '" + file.model + "'", allocator());
}

void FileRunner::check_inputs(const std::vector<AnyValue>& inputs) const {
  const std::vector<FilePort>& ports = program_->file().inputs;
  if (inputs.size() != ports.size())
    fail(ErrorKind::bad_input, "{}: {} inputs are given; expected {}", program_->file().model, inputs.size(),
         ports.size());
  for (size_t i = 0; i < ports.size(); ++i) {
    if (fits(ports[i], inputs[i])) continue;
    fail(ErrorKind::bad_input, "{}: input '{}' must be {}, got {}", program_->file().model, ports[i].name,
         vm::text(ports[i]), text(inputs[i]));
  }
  const ShapeRanges& ranges = program_->file().ranges;
  if (ranges.empty()) return;
  ShapeRanges::Shapes shapes;
  for (size_t i = 0; i < ports.size(); ++i) {
    if (inputs[i].is_tensor()) shapes[ports[i].name] = inputs[i].tensor().shape();
  }
  ranges.check(shapes, program_->file().model);
}

std::vector<AnyValue> FileRunner::run(std::vector<AnyValue> inputs) {
  check_inputs(inputs);
  UsedMemory used;
  for (const AnyValue& input : inputs) used.add(input);
  std::vector<AnyValue> outputs = machine_.run(std::move(inputs));
  for (AnyValue& output : outputs) separate(output, fixed_, used);
  return outputs;
}

std::vector<AnyValue> FileRunner::run_segment(size_t segment, std::vector<AnyValue> inputs) {
  const auto& plans = program_->plans(segment);
  const auto found = std::ranges::find_if(plans, [&](const auto& program) {
    return std::ranges::equal(program->plan().inputs, inputs,
                              [](const PlanTensor& t, const AnyValue& v) { return fits(t, v); });
  });
  if (found != plans.end()) return run_plan(segment, static_cast<size_t>(found - plans.begin()), inputs);
  return interpret_segment(segment, std::move(inputs));
}

std::vector<AnyValue> FileRunner::run_plan(size_t segment, size_t plan, const std::vector<AnyValue>& inputs) {
  const auto& program = program_->plans(segment)[plan];
  const std::vector<PlanTensor>& ports = program->plan().outputs;
  Form& form = forms_[segment][plan];
  if (form.instance == nullptr) {
    form.memory.resize(ports.size());
    Placement placement{arena_.data(), scratch_.data(), scratch_stride_};
    if (allocator() != nullptr) {
      form.staging = Block(staging_bytes(program->plan()), "the copies of inputs and outputs", allocator());
      placement.staging = form.staging.data();
    }
    form.instance = std::make_unique<Instance>(program, pool_, placement);
  }
  std::vector<const std::byte*> from;
  std::vector<std::byte*> to;
  std::vector<AnyValue> outputs;
  for (const AnyValue& input : inputs) from.push_back(input.tensor().raw());
  for (size_t i = 0; i < ports.size(); ++i) {
    outputs.emplace_back(form.memory[i].take(ports[i].type, ports[i].shape, allocator()));
    to.push_back(outputs.back().tensor().raw());
  }
  StepObserver watch;
  if (hooks_.before) watch.before = [&](size_t step) { hooks_.before(*program, step); };
  if (hooks_.after) watch.after = [&](size_t step) { hooks_.after(*program, step); };
  form.instance->run(from, to, hooks_.before || hooks_.after ? &watch : nullptr);
  return outputs;
}

std::vector<AnyValue> FileRunner::interpret_segment(size_t segment, std::vector<AnyValue> inputs) {
  const ProgramFile& file = program_->file();
  const std::string wanted = types_of(inputs);
  constexpr size_t kMostShown = 8;
  const auto missing = [&](const std::string& why) {
    fail(ErrorKind::unsupported,
         "{}: segment {} ({}) has inputs {}, for which the file has no code; it has code for: {}. {}. Run the model "
         "itself, or run it with such inputs in Python and then save it (Network.save), which adds their code",
         file.model, segment, file.segments[segment].name, wanted, known_types(*program_, segment, kMostShown), why);
  };
  if (!file.segments[segment].has_graph) missing("Its nodes are not in the file");
  int64_t work = kMostOperations;
  try {
    return interpret(file.program.segments[segment], std::move(inputs), {.pool = pool_.get(), .work_left = &work});
  } catch (const TooMuchWork& much) {
    missing(fmt::format("Reference kernels would take too long: more than {} operations, most recently for {}",
                        kMostOperations, much.node));
  }
  return {};
}

}  // namespace kilter::vm
