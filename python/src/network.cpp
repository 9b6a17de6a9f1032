#include "network.h"

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

#include "arrays.h"
#include "base/error.h"
#include "base/float_environment.h"
#include "exec/plan_file.h"
#include "exec/thread_pool.h"
#include "measure/evaluator.h"
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

/// Returns (name, element type, dimensions or None) of each port.
nb::list ports_of(const std::vector<onnx::Port>& ports) {
  nb::list out;
  for (const onnx::Port& p : ports) {
    out.append(nb::make_tuple(p.name, std::string(name(p.type)),
                              p.dims ? nb::object(nb::tuple(dims_of(*p.dims))) : nb::object(nb::none())));
  }
  return out;
}

/// Returns tensors over the arrays of a dictionary. `what` and the key begin messages; `read` is tensor_of() or
/// writable_tensor().
std::map<std::string, Tensor> tensors_of(nb::dict arrays, const char* what,
                                         Tensor (*read)(nb::handle, const std::string&)) {
  std::map<std::string, Tensor> tensors;
  for (const auto& [key, value] : arrays) {
    if (!nb::isinstance<nb::str>(key))
      fail(ErrorKind::bad_input, "{} {}: its name is no text", what, nb::cast<std::string>(nb::str(key)));
    const std::string name = nb::cast<std::string>(key);
    tensors.emplace(name, read(value, std::string(what) + " '" + name + "'"));
  }
  return tensors;
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
    if (session_->compiled_file()) session_->prepare();
    for (const onnx::Port& port : session_->outputs()) outputs_.push_back(port.name);
  }
  Network(std::shared_ptr<MemoryModel> model, std::unique_ptr<Session> session, std::vector<std::string> outputs)
      : model_(std::move(model)), session_(std::move(session)), outputs_(std::move(outputs)) {}

  /// Returns a network that shares this one's plans and has threads and working memory of its own.
  std::unique_ptr<Network> twin() {
    const nb::gil_scoped_release unlocked;
    const Turn turn(*this);
    return std::make_unique<Network>(model_, session_->twin(), outputs_);
  }

  std::string name() const { return session_->name(); }
  std::string note() const { return session_->note(); }
  nb::list inputs() const { return ports_of(session_->inputs()); }
  nb::list default_inputs() const { return ports_of(session_->default_inputs()); }
  nb::list outputs() const { return ports_of(session_->outputs()); }

  /// Returns the outputs in order.
  nb::list run(nb::dict feeds, nb::object out, nb::object progress) {
    const std::map<std::string, Tensor> inputs = tensors_of(feeds, "input", tensor_of);
    std::map<std::string, Tensor> given;
    if (!out.is_none()) given = tensors_of(nb::cast<nb::dict>(out), "memory for output", writable_tensor);
    std::vector<Tensor> results;
    {
      tool::Console console = watched_by(std::move(progress));
      const nb::gil_scoped_release unlocked;
      const Turn turn(*this);
      const FloatEnvironment standard;
      const tool::UseConsole use(std::move(console));
      results = session_->run(inputs, given);
    }
    nb::list arrays;
    for (size_t i = 0; i < results.size(); ++i) {
      arrays.append(given.contains(outputs_[i]) ? nb::object(out[outputs_[i].c_str()]) : array_of(results[i]));
    }
    return arrays;
  }

  /// Compiles for the declared or given shapes, without running. Returns facts about the plan.
  nb::dict compile(nb::object progress) {
    Plan plan;  // a copy: another thread's run may drop the session's
    double ms = 0;
    {
      tool::Console console = watched_by(std::move(progress));
      const nb::gil_scoped_release unlocked;
      const Turn turn(*this);
      const FloatEnvironment standard;
      const tool::UseConsole use(std::move(console));
      const Loaded& loaded = session_->compile();
      plan = loaded.plan(), ms = loaded.compiled.compile_ms;
    }
    nb::dict facts;
    add_conditions(facts, plan);
    facts["steps"] = plan.steps.size();
    facts["arena_bytes"] = plan.arena_bytes;
    facts["constants_bytes"] = plan.constants_bytes;
    facts["compile_ms"] = ms;
    return facts;
  }

  void save(const std::string& file) {
    const nb::gil_scoped_release unlocked;
    const Turn turn(*this);
    const FloatEnvironment standard;
    save_plan(session_->compile().own_plan(), file);
  }

  /// Times runs on inputs, as kilter bench does. Returns the samples in milliseconds and how many were disturbed.
  nb::dict time(nb::dict feeds, int64_t number, int64_t repeat, double min_repeat_ms, bool flush) {
    const std::map<std::string, Tensor> inputs = tensors_of(feeds, "input", tensor_of);
    EvaluatorOptions how;
    how.number = number, how.repeat = repeat, how.min_repeat_ms = min_repeat_ms;
    const tool::Console console = watched_by(nb::none());
    how.prepare = [flusher = flush ? cache_flusher() : nullptr, &console] {
      console.progress("");  // not timed: Ctrl-C ends the measurement
      if (flusher) flusher();
    };
    std::optional<Evaluation> measured;
    Plan plan;
    {
      const nb::gil_scoped_release unlocked;
      const Turn turn(*this);
      const FloatEnvironment standard;
      measured.emplace(evaluate([&] { session_->run(inputs); }, how));
      plan = session_->prepare_for(inputs).plan();
    }
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
  /// Adds what a time depends on besides the network.
  void add_conditions(nb::dict& facts, const Plan& plan) const {
    const int threads = session_->options().threads;
    facts["threads"] = threads > 0 ? threads : default_threads();
    facts["target"] = plan.target;
    facts["precision"] = plan.precision;
    facts["records"] = plan.records;
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
    /// In a forked child, a lock that some thread of the parent held when it forked is held for ever. So the first call
    /// in a child waits for a moment only.
    void lock() {
      constexpr int kTries = 100;
      const pid_t process = getpid();
      for (int i = 0; network_.process_ != process; ++i) {
        if (network_.mutex_.try_lock()) {
          network_.process_ = process;
          return;
        }
        if (i == kTries)
          fail(ErrorKind::usage, "{}: the network was in use when this process was forked; make another one here",
               network_.session_->name());
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
      network_.mutex_.lock();
    }

    Network& network_;
  };

  std::shared_ptr<MemoryModel> model_;  ///< must outlive the session's use of its name
  std::unique_ptr<Session> session_;
  std::vector<std::string> outputs_;
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
      .def("run", &Network::run, nb::arg("feeds"), nb::arg("out").none() = nb::none(), progress())
      .def("compile", &Network::compile, progress())
      .def("twin", &Network::twin)
      .def("save", &Network::save, nb::arg("file"))
      .def("time", &Network::time, nb::arg("feeds"), nb::arg("number"), nb::arg("repeat"), nb::arg("min_repeat_ms"),
           nb::arg("flush"));
}

}  // namespace kilter::python
