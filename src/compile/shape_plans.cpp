// The declared ranges of a session: plans for their shapes, compiled before the first run or for a compiled file.

#include <algorithm>
#include <system_error>

#include "base/error.h"
#include "compile/session.h"
#include "onnx/bind_ranges.h"
#include "onnx/check_shapes.h"
#include "ops/support/builder.h"

namespace kilter {

/// Inputs with a single shape get it as if it had been given alone.
void Session::fix_single_shapes() {
  for (const ShapeRanges::Input& input : options_.ranges.inputs()) {
    Shape shape;
    for (const DimRange& dim : input.dims) {
      if (!dim.refers && dim.count() == 1) shape.push_back(dim.at(0));
    }
    if (shape.size() == input.dims.size()) options_.shapes.emplace(input.name, std::move(shape));
  }
}

void Session::bind_ranges() {
  if (file_program_ && options_.ranges.empty()) options_.ranges = file_program_->file().ranges;
  options_.ranges = onnx::bind_ranges(std::move(options_.ranges), inputs(), default_inputs(), name_);
  fix_single_shapes();
  if (model_) onnx::check_shapes(options_.shapes, inputs(), default_inputs(), name_);
  options_.ranges.check(options_.shapes, name_);
}

onnx::Model::Shapes Session::example_shapes() const {
  return options_.ranges.empty() ? onnx::Model::Shapes() : options_.ranges.at(0);
}

/// All inputs, those with default values last.
std::vector<onnx::Port> Session::declared_inputs() const {
  std::vector<onnx::Port> declared = inputs();
  for (onnx::Port& p : default_inputs()) declared.push_back(std::move(p));
  return declared;
}

/// Throws bad_input if the shapes of some of these inputs are neither known nor in ranges.
void Session::check_known(const std::vector<onnx::Port>& ports) const {
  if (const std::string open = onnx::open_inputs_text(ports, whole(example_shapes())); !open.empty())
    fail(ErrorKind::bad_input, "{}: {}", name_, open);
}

void Session::for_each_shape(const std::vector<onnx::Model::Shapes>& all,
                             const std::function<void(const onnx::Model::Shapes&)>& each) {
  const auto outer = options_.compile.report.progress;
  struct Restore {
    std::function<void(const CompileStage&)>& progress;
    std::function<void(const CompileStage&)> outer;
    ~Restore() {
      progress = outer;
      if (outer) outer({});
    }
  } const restore{options_.compile.report.progress, outer};
  size_t number = 0;
  if (outer) {
    options_.compile.report.progress = [&](const CompileStage& stage) {
      if (stage.name.empty()) return;  // the end of one shape
      const std::string name = fmt::format("shape {} of {}: {}", number, all.size(), stage.name);
      outer({name, stage.done, stage.of});
    };
  }
  for (const onnx::Model::Shapes& shapes : all) {
    ++number;
    each(shapes);
  }
}

std::vector<vm::KnownType> Session::known_types(const onnx::Model::Shapes& shapes) const {
  const std::vector<onnx::Port> declared = declared_inputs();
  const auto graph = model_->open_graph(program_inputs_);
  std::vector<vm::KnownType> types;
  for (const ValueId v : graph->inputs) {
    types.emplace_back();
    const OpenValue& value = graph->values[static_cast<size_t>(v)];
    const auto port = std::ranges::find(declared, value.name, &onnx::Port::name);
    const auto shape = shapes.find(value.name);
    if (!value.constant && port != declared.end() && port->plain() && shape != shapes.end())
      types.back() = TensorType{port->type, shape->second, {}};
  }
  return types;
}

namespace {

/// Returns whether shapes depend on the values of an input of open size; the network then runs as a program. Throws
/// unsupported if they depend only on the values of inputs of fixed size, since each value needs its own plan.
bool depends_on_data(const onnx::Model& model, const onnx::Model::Shapes& shapes) {
  const std::vector<std::string> names = model.value_inputs(shapes);
  if (names.empty()) return false;
  const auto is_open = [&](const onnx::Port& port) {
    return std::ranges::find(names, port.name) != names.end() && !onnx::declared_shape(port);
  };
  if (std::ranges::any_of(model.inputs(), is_open)) return true;
  fail(ErrorKind::unsupported,
       "{}: plans cannot be compiled before the first run, since shapes also depend on the values of input '{}'; "
       "compile them when they are needed (--specialise never)",
       model.name(), names.front());
}

}  // namespace

/// The shapes of the ranges that get a plan before the first run.
std::vector<onnx::Model::Shapes> Session::shapes_ahead() const {
  if (compiled_file())
    fail(ErrorKind::usage,
         "{} is a compiled file, which has its plans already; plans are compiled in advance for models only", name_);
  check_known(inputs());
  const ShapeRanges& ranges = options_.ranges;
  if (ranges.empty()) return {{}};
  return ranges.count() <= options_.max_shapes ? ranges.all()
                                               : ranges.spread(std::min(kSpreadShapes, options_.max_shapes));
}

Session::Specialised Session::specialise() {
  const std::vector<onnx::Model::Shapes> shapes = shapes_ahead();
  const size_t before = plans();
  for_each_shape(shapes, [&](const onnx::Model::Shapes& one) {
    try {
      if (!needs_program_ && model_ != nullptr) needs_program_ = depends_on_data(*model_, merged(one));
      if (!needs_program_) {
        work_.expect(compile(one).plan());
        return;
      }
    } catch (const NeedsProgram&) {
      needs_program_ = true;
    }
    ProgramRunner& runner = program();
    vm::follow_types(
        runner.program(), known_types(whole(one)),
        [&](int32_t segment, const std::vector<TensorType>& types) { return runner.prepare(segment, types); });
  });
  // Working memory for the largest plan; the other plans use it too.
  if (!plans_.empty() && runs_here(options_.compile.target)) make_ready(plans_.front().loaded);
  if (const auto made = std::ssize(shapes); !needs_program_ && std::ssize(plans_) < made && before == 0) {
    if (options_.compile.report.notice)
      options_.compile.report.notice(
          fmt::format("{}: {} of {} plans compiled in advance were dropped, since they exceed the memory limit for "
                      "plans (--plan-cache)",
                      name_, made - std::ssize(plans_), made));
  }
  return {std::ssize(shapes), std::ssize(shapes) == options_.ranges.count()};
}

void Session::specialise_in_background() {
  std::vector<onnx::Model::Shapes> shapes = shapes_ahead();
  if (model_ != nullptr) needs_program_ |= depends_on_data(*model_, merged(shapes.front()));
  if (needs_program_) return;
  end_background();  // before the data of its tasks are replaced
  ahead_ = std::make_unique<Ahead>();
  for (const Kept& kept : plans_) {
    if (kept.values.empty()) ahead_->planned.insert(kept.shapes);
  }
  ahead_->shapes = std::move(shapes);
  ahead_->compile = options_.compile;
  ahead_->compile.report = {};
  ahead_->compile.threads = 1;
  ahead_->compile.shared = shared_parts();
  if (kernels_ != nullptr && ahead_->shapes.size() > 1) share_kernels();
  try {
    background_ =
        std::make_unique<Background>(name_, [this](const Background::Check& check) { return plan_ahead(check); });
  } catch (const std::system_error& e) {
    ahead_.reset();
    fail(ErrorKind::usage,
         "{}: cannot start the thread that compiles plans in the background: {}; compile them at once (--specialise "
         "now) or when they are needed (never)",
         name_, e.what());
  }
}

/// Compiles the plan of the next shape, and returns whether there are more shapes.
bool Session::plan_ahead(const Background::Check& check) {
  Ahead& a = *ahead_;
  const onnx::Model::Shapes next = whole(a.shapes[a.next++]);
  const auto tell = [&](std::string text) {
    const std::lock_guard lock(a.mutex);
    a.notices.push_back(name_ + ": " + std::move(text));
  };
  try {
    if (a.planned.insert(next).second) {
      a.compile.report.progress = [&](const CompileStage& stage) {
        if (!stage.name.empty()) check();  // the end of a compilation must not throw
      };
      Kept made = make_kept(next, {}, a.compile);
      a.code_bytes += made.loaded.plan().code_bytes;
      const int64_t held = a.code_bytes + constants_.bytes() - made.loaded.constants_bytes();
      {
        const std::lock_guard lock(a.mutex);
        a.made.push_back(std::move(made));
      }
      if (held > options_.plan_cache_bytes && a.next < a.shapes.size()) {
        tell(
            fmt::format("plans were compiled in advance for {} of {} shapes; more would exceed the memory limit for "
                        "plans (--plan-cache)",
                        a.next, a.shapes.size()));
        a.next = a.shapes.size();
      }
    }
  } catch (const NeedsProgram&) {
    return false;  // a run will find this out, too
  } catch (const Error& error) {
    tell(fmt::format("a plan could not be compiled in advance: {}", error.what()));
  }
  ++a.done;
  return a.next < a.shapes.size();
}

/// Takes the plans that were compiled in the background, and treats them as the least recently used ones.
void Session::take_made() {
  if (!ahead_) return;
  std::list<Kept> made;
  std::vector<std::string> notices;
  {
    const std::lock_guard lock(ahead_->mutex);
    made.swap(ahead_->made);
    notices.swap(ahead_->notices);
  }
  for (const Kept& kept : made) work_.expect(kept.loaded.plan());
  plans_.splice(plans_.end(), made);
  if (!options_.compile.report.notice) return;
  for (const std::string& notice : notices) options_.compile.report.notice(notice);
}

int64_t Session::ahead_bytes() const {
  if (!ahead_) return 0;
  const std::lock_guard lock(ahead_->mutex);
  int64_t bytes = 0;
  for (const Kept& kept : ahead_->made) bytes += own_bytes(kept);
  return bytes;
}

std::optional<Background::Pause> Session::pause_background() {
  if (background_ == nullptr || background_->ended()) return std::nullopt;
  return background_->pause();
}

Session::PlansAhead Session::plans_ahead() const {
  if (!ahead_) return {};
  return {ahead_->done, std::ssize(ahead_->shapes), background_ == nullptr || background_->ended()};
}

/// All shapes that a compiled file has plans for.
std::vector<onnx::Model::Shapes> Session::saved_shapes() const {
  const ShapeRanges& ranges = options_.ranges;
  if (ranges.empty()) return {{}};
  if (const int64_t count = ranges.count(); count > options_.max_shapes) {
    fail(ErrorKind::bad_input,
         "{}: --shapes declares {} shapes ({}); a compiled file has a plan for each of them, and at most {}: declare "
         "fewer, such as with a larger step, or raise the limit with --max-shapes",
         name_, count == INT64_MAX ? "more than 2^63" : std::to_string(count), ranges.text(), options_.max_shapes);
  }
  return ranges.all();
}

}  // namespace kilter
