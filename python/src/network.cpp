#include "network.h"

#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <mutex>
#include <thread>
#include <type_traits>

#include "arrays.h"
#include "base/error.h"
#include "base/float_environment.h"
#include "compile/state.h"
#include "exec/thread_pool.h"
#include "measure/evaluator.h"
#include "ops/support/builder.h"
#include "program.h"
#include "python_console.h"

namespace kilter::python {
namespace {

nb::list dims_of(const std::vector<onnx::Dim>& dims) {
  nb::list out;
  for (const onnx::Dim& d : dims) {
    if (d.size) {
      out.append(*d.size);
    } else {
      out.append(d.symbol.empty() ? nb::none() : nb::cast(d.symbol));
    }
  }
  return out;
}

const char* kind_of(const onnx::Port& port) {
  if (port.is_tensor()) return "tensor";
  if (port.kind == DeclaredType::Kind::map) return "map";
  if (port.kind == DeclaredType::Kind::sequence) return "sequence";
  return port.of_sequence ? "optional sequence" : "optional";
}

/// Returns (name, element type, dimensions or None, kind, type of the keys of maps or None) of each port.
nb::list ports_of(const std::vector<onnx::Port>& ports) {
  nb::list out;
  for (const onnx::Port& p : ports) {
    out.append(nb::make_tuple(p.name, std::string(name(p.type)),
                              p.dims ? nb::object(nb::tuple(dims_of(*p.dims))) : nb::object(nb::none()), kind_of(p),
                              p.key ? nb::cast(std::string(name(*p.key))) : nb::object(nb::none())));
  }
  return out;
}

/// Returns the declared sizes of the inputs by name: for each dimension (low, high, step), or a list of sizes.
nb::dict ranges_of(const ShapeRanges& ranges) {
  nb::dict out;
  for (const ShapeRanges::Input& input : ranges.inputs()) {
    nb::list dims;
    for (const DimRange& dim : input.dims) {
      if (dim.list.empty()) {
        dims.append(nb::make_tuple(dim.low, dim.high, dim.step));
      } else {
        dims.append(nb::cast(dim.list));
      }
    }
    out[input.name.c_str()] = dims;
  }
  return out;
}

/// Returns what `read(value, name, "WHAT 'NAME'")` returns for the values of a dictionary, by name.
template <class Read>
auto read_all(nb::dict values, const std::string& what, Read read) {
  std::map<std::string, decltype(read(nb::handle(), what, what))> all;
  for (const auto& [key, value] : values) {
    if (!nb::isinstance<nb::str>(key))
      fail(ErrorKind::bad_input, "{} {}: its name is not a string", what, nb::cast<std::string>(nb::str(key)));
    const std::string name = nb::cast<std::string>(key);
    all.emplace(name, read(value, name, what + " '" + name + "'"));
  }
  return all;
}

std::shared_ptr<const std::vector<std::string>> names_of(const std::vector<onnx::Port>& ports) {
  std::vector<std::string> names;
  for (const onnx::Port& port : ports) names.push_back(port.name);
  return std::make_shared<const std::vector<std::string>>(std::move(names));
}

/// Returns values that Python may read only, by name.
nb::dict objects_of(const State::Values& values) {
  nb::dict objects;
  for (const auto& [name, value] : values) objects[name.c_str()] = object_of(value, Access::read);
  return objects;
}

std::map<std::string, Tensor> input_tensors(nb::dict feeds) {
  return read_all(feeds, "input", [](nb::handle value, const std::string& /*name*/, const std::string& what) {
    return tensor_of(value, what);
  });
}

/// A session that Python uses: calls from several threads run one after another.
class Network {
 public:
  Network(const std::vector<std::string>& words, std::shared_ptr<MemoryModel> model, nb::object progress)
      : model_(std::move(model)) {
    tool::Console console = watched_by(std::move(progress));
    const nb::gil_scoped_release unlocked;
    const FloatEnvironment standard;
    const tool::UseConsole use(std::move(console));
    session_ = tool::open_network(words);
    if (session_->file_plan() != nullptr) session_->prepare();
    read_ports();
  }
  Network(std::shared_ptr<MemoryModel> model, std::unique_ptr<Session> session)
      : model_(std::move(model)), session_(std::move(session)) {
    read_ports();
  }

  /// Returns a network that shares this one's plans and has threads and working memory of its own. If this one has
  /// state, the other one has its own, which begins with the initial values.
  std::unique_ptr<Network> twin() {
    const nb::gil_scoped_release unlocked;
    const Turn turn(*this);
    auto made = std::make_unique<Network>(model_, session_->twin());
    if (!state_) return made;
    made->state_.emplace(*made->session_, state_->pairs(), state_->initial());
    made->outputs_ = outputs_;
    return made;
  }

  std::string name() const { return session_->name(); }
  std::string note() const { return session_->note(); }
  /// Returns the inputs that are not bound to state.
  nb::list inputs() {
    return ports_of(alone([&] { return state_ ? state_->inputs() : session_->inputs(); }));
  }
  nb::list default_inputs() const { return ports_of(session_->default_inputs()); }
  nb::list outputs() {
    return ports_of(alone([&] { return state_ ? state_->outputs() : session_->outputs(); }));
  }
  nb::dict ranges() const { return ranges_of(session_->ranges()); }
  nb::tuple plans_ahead() const {
    const Session::PlansAhead state = session_->plans_ahead();
    return nb::make_tuple(state.made, state.of, state.ended);
  }

  /// Returns the outputs in order.
  nb::list run(nb::dict feeds, nb::object out, nb::object progress) {
    std::map<std::string, Tensor> given;
    if (!out.is_none()) {
      const auto read = [](nb::handle value, const std::string& /*name*/, const std::string& what) {
        return writable_tensor(value, what);
      };
      given = read_all(nb::cast<nb::dict>(out), "memory for output", read);
    }
    nb::list results;
    std::shared_ptr<const std::vector<std::string>> names;
    const auto add = [&](const auto& made, auto object_for) {
      for (size_t i = 0; i < made.size(); ++i) {
        const std::string& name = names->at(i);
        results.append(given.contains(name) ? nb::object(out[name.c_str()]) : object_for(made[i], Access::write));
      }
    };
    if (plain_) {
      const std::map<std::string, Tensor> inputs = input_tensors(feeds);
      const auto run = [&] {
        names = outputs_;
        return state_ ? state_->run(inputs, given) : session_->run(inputs, given);
      };
      add(work(std::move(progress), run), array_of);
    } else {
      const std::map<std::string, AnyValue> inputs = input_values(feeds, "input");
      const auto run = [&] {
        names = outputs_;
        return state_ ? state_->run_values(inputs, given) : session_->run_values(inputs, given);
      };
      add(work(std::move(progress), run), object_of);
    }
    return results;
  }

  /// Compiles for the declared or given shapes, without running. Returns facts about the plan, or about the program if
  /// the network needs one.
  nb::dict compile(nb::object progress) {
    std::optional<Plan> plan;  // a copy: another thread's run may drop the session's
    double ms = 0;
    size_t functions = 0, segments = 0;
    work(std::move(progress), [&] {
      try {
        const Loaded& loaded = session_->compile();
        plan = loaded.plan(), ms = loaded.compiled.compile_ms;
      } catch (const NeedsProgram&) {
        const vm::Program& program = session_->functions();
        functions = program.functions.size(), segments = program.segments.size();
      }
    });
    nb::dict facts;
    add_conditions(facts, plan);
    if (plan) {
      facts["steps"] = plan->steps.size();
      facts["arena_bytes"] = plan->arena_bytes;
      facts["constants_bytes"] = plan->constants_bytes;
      facts["compile_ms"] = ms;
    } else {
      facts["functions"] = functions;
      facts["segments"] = segments;
    }
    return facts;
  }

  void save(const std::string& file) {
    alone([&] { session_->save(file); });
  }

  std::vector<std::string> save_library(const std::string& file, const std::string& name, const std::string& header,
                                        bool weights_in_file, bool sources, const std::string& compiler) {
    std::vector<std::string> files;
    alone([&] {
      const aot::LibraryOptions options{name, header, weights_in_file, compiler};
      for (const auto& path : session_->save_library(aot::form_of(file, sources), file, options).files)
        files.push_back(path.string());
    });
    return files;
  }

  /// Binds outputs to the inputs whose next values they are, found if no pairs are given. Returns the pairs.
  StatePairs bind_state(const StatePairs& pairs, nb::dict initial) {
    const std::map<std::string, AnyValue> values = input_values(initial, "initial value of input");
    return alone([&] {
      State bound(*session_, pairs, values);
      outputs_ = names_of(bound.outputs());
      return state_.emplace(std::move(bound)).pairs();
    });
  }

  void reset_state(nb::dict given) {
    const std::map<std::string, AnyValue> values = input_values(given, "value of input");
    alone([&] { bound_state(state_, *session_).reset(values); });
  }

  /// Returns the current values by the names of their inputs.
  nb::dict state() {
    return objects_of(alone([&] { return state_ ? state_->values() : State::Values(); }));
  }

  /// Returns what bind_state() takes to bind the same state: the pairs and the initial values; None if there is none.
  nb::object binding() {
    StatePairs pairs;
    State::Values initial;
    alone([&] {
      if (state_) pairs = state_->pairs(), initial = state_->initial();
    });
    return pairs.empty() ? nb::object(nb::none()) : nb::make_tuple(pairs, objects_of(initial));
  }

  /// Times runs on inputs, as kilter bench does, all with the current state, which stays as it is. Returns the samples
  /// in milliseconds and how many were disturbed.
  nb::dict time(nb::dict feeds, int64_t number, int64_t repeat, double min_repeat_ms, bool flush) {
    std::map<std::string, Tensor> tensors;
    std::map<std::string, AnyValue> values;
    if (plain_) {
      tensors = input_tensors(feeds);
    } else {
      values = input_values(feeds, "input");
    }
    EvaluatorOptions how;
    how.number = number, how.repeat = repeat, how.min_repeat_ms = min_repeat_ms;
    how.prepare = [flusher = flush ? cache_flusher() : nullptr] {
      tool::console().progress("");  // not timed: Ctrl-C ends the measurement
      if (flusher) flusher();
    };
    std::optional<Evaluation> measured;
    std::optional<Plan> plan;
    work(nb::none(), [&] {
      if (state_ && plain_) tensors = state_->with(tensors);
      if (state_ && !plain_) values = state_->with(values);
      const auto run = [&] {
        if (plain_) {
          session_->run(tensors);
        } else {
          session_->run_values(values);
        }
      };
      run();
      const auto quiet = session_->pause_background();
      how.warm_up = session_->runs_program() ? ProgramRunner::kRunsUntilCompiled : 0;
      measured.emplace(evaluate(run, how));
      if (!session_->runs_program()) plan = session_->prepare_for(tensors).plan();
    });
    nb::dict out;
    add_conditions(out, plan);
    out["samples_ms"] = measured->samples.ms;
    out["quiet_ms"] = measured->quiet.ms;
    out["estimate_ms"] = measured->estimate();
    out["mean_ms"] = measured->mean();
    out["std_ms"] = measured->std_dev();
    out["median_ms"] = measured->samples.median();
    out["min_ms"] = measured->samples.min();
    out["number"] = measured->number;
    out["disturbed"] = measured->disturbed;
    out["disturbed_by"] = measured->disturbed_by;
    return out;
  }

 private:
  void read_ports() {
    outputs_ = names_of(session_->outputs());
    for (const onnx::Port& port : session_->outputs()) plain_ &= port.plain();
    for (const auto& ports : {session_->inputs(), session_->default_inputs()}) {
      for (const onnx::Port& port : ports) {
        ports_.emplace(port.name, port);
        plain_ &= port.plain();
      }
    }
  }

  std::map<std::string, AnyValue> input_values(nb::dict feeds, const std::string& kind) const {
    return read_all(feeds, kind, [&](nb::handle value, const std::string& name, const std::string& what) {
      const auto port = ports_.find(name);
      return value_of(value, port == ports_.end() ? onnx::Port() : port->second, what);
    });
  }

  /// Like work(), for tasks that report no progress.
  template <class Task>
  std::invoke_result_t<Task&> alone(Task task) {
    const nb::gil_scoped_release unlocked;
    const Turn turn(*this);
    const FloatEnvironment standard;
    return task();
  }

  /// Returns what `task` returns, called without the interpreter's lock when it is this call's turn.
  template <class Task>
  std::invoke_result_t<Task&> work(nb::object progress, Task task) {
    tool::Console console = watched_by(std::move(progress));
    const nb::gil_scoped_release unlocked;
    const Turn turn(*this);
    const FloatEnvironment standard;
    const tool::UseConsole use(std::move(console));
    return task();
  }

  /// Adds the facts on which a time depends besides the network. `plan`: nothing if the network runs as a program.
  void add_conditions(nb::dict& facts, const std::optional<Plan>& plan) const {
    const Session::Options& options = session_->options();
    facts["threads"] = options.threads > 0 ? options.threads : default_threads();
    if (const vm::FileProgram* program = session_->file_program()) {
      facts["target"] = program->file().target;
      facts["precision"] = program->file().precision;
      facts["records"] = program->file().records;
      return;
    }
    facts["target"] = plan ? plan->target : options.compile.target.name;
    facts["precision"] = plan ? plan->precision : std::string(kilter::name(options.compile.precision));
    facts["records"] = plan ? plan->records : std::string();
  }

  /// The right to use the session: threads wait for each other. A call from inside another one, such as from a progress
  /// function, would wait for itself, so it is refused.
  class Turn {
   public:
    explicit Turn(Network& network) : network_(network) {
      if (network.user_ == std::this_thread::get_id())
        fail(ErrorKind::usage, "{}: the network is in use by the call that made this one", network.session_->name());
      lock();
      network.user_ = std::this_thread::get_id();
    }
    ~Turn() {
      network_.user_ = std::thread::id();
      network_.mutex_.unlock();
    }
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;

   private:
    /// In a forked child, a lock that some thread of the parent held when it forked stays locked for ever. So the first
    /// call in a child waits for a moment only.
    void lock() {
      constexpr int kTries = 100;
      const pid_t process = getpid();
      for (int i = 0; network_.process_ != process; ++i) {
        if (network_.mutex_.try_lock()) {
          network_.process_ = process;
          return;
        }
        if (i == kTries)
          fail(ErrorKind::usage, "{}: the network was in use when this process was forked; create another one here",
               network_.session_->name());
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
      network_.mutex_.lock();
    }

    Network& network_;
  };

  std::shared_ptr<MemoryModel> model_;  ///< must outlive the session's use of its name
  std::unique_ptr<Session> session_;
  std::optional<State> state_;
  std::shared_ptr<const std::vector<std::string>> outputs_;  ///< names of the outputs that a run returns
  std::map<std::string, onnx::Port> ports_;                  ///< of the session's inputs
  bool plain_ = true;                                        ///< all ports are onnx::Port::plain()
  std::mutex mutex_;
  std::atomic<std::thread::id> user_;      ///< the thread that has locked mutex_
  std::atomic<pid_t> process_ = getpid();  ///< the process that has locked mutex_ last
};

std::shared_ptr<MemoryModel> model_of_bytes(nb::bytes bytes, const std::string& name, const std::string& folder) {
  const nb::gil_scoped_release unlocked;
  return std::make_shared<MemoryModel>(onnx::Model::parse({static_cast<const std::byte*>(bytes.data()), bytes.size()},
                                                          name, std::filesystem::path(folder)));
}

}  // namespace

void add_networks(nb::module_& module) {
  nb::class_<MemoryModel>(module, "MemoryModel").def_prop_ro("name", &MemoryModel::name);
  module.def("model_of_bytes", model_of_bytes, nb::arg("bytes"), nb::arg("name"), nb::arg("folder") = "");
  const auto progress = [] { return nb::arg("progress").none() = nb::none(); };
  nb::class_<Network>(module, "Network")
      .def(nb::init<const std::vector<std::string>&, std::shared_ptr<MemoryModel>, nb::object>(), nb::arg("words"),
           nb::arg("model").none() = nb::none(), progress())
      .def_prop_ro("name", &Network::name)
      .def_prop_ro("note", &Network::note)
      .def_prop_ro("inputs", &Network::inputs)
      .def_prop_ro("default_inputs", &Network::default_inputs)
      .def_prop_ro("outputs", &Network::outputs)
      .def_prop_ro("ranges", &Network::ranges)
      .def_prop_ro("plans_ahead", &Network::plans_ahead)
      .def("run", &Network::run, nb::arg("feeds"), nb::arg("out").none() = nb::none(), progress())
      .def("compile", &Network::compile, progress())
      .def("twin", &Network::twin)
      .def("save", &Network::save, nb::arg("file"))
      .def("save_library", &Network::save_library, nb::arg("file"), nb::arg("name"), nb::arg("header"),
           nb::arg("weights_in_file"), nb::arg("sources"), nb::arg("compiler"))
      .def("bind_state", &Network::bind_state, nb::arg("pairs"), nb::arg("initial"))
      .def("reset_state", &Network::reset_state, nb::arg("values"))
      .def_prop_ro("state", &Network::state)
      .def_prop_ro("binding", &Network::binding)
      .def("time", &Network::time, nb::arg("feeds"), nb::arg("number"), nb::arg("repeat"), nb::arg("min_repeat_ms"),
           nb::arg("flush"));
}

}  // namespace kilter::python
