#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "base/error.h"
#include "profile/peer.h"
#include "program.h"
#include "python_console.h"
#include "tool.h"
#include "tune/run/runner.h"

namespace kilter::python {
namespace {

/// A C stream whose text goes, line by line, to a function.
class LineStream {
 public:
  explicit LineStream(std::function<void(const std::string&)> line) : line_(std::move(line)) {
    cookie_io_functions_t functions{};
    functions.write = [](void* self, const char* text, size_t size) -> ssize_t {
      static_cast<LineStream*>(self)->add({text, size});
      return static_cast<ssize_t>(size);
    };
    file_ = fopencookie(this, "w", functions);
    require(file_ != nullptr, "a stream for a command's output cannot be created");
    setvbuf(file_, nullptr, _IOLBF, BUFSIZ);
  }
  ~LineStream() { fclose(file_); }
  LineStream(const LineStream&) = delete;
  LineStream& operator=(const LineStream&) = delete;

  FILE* file() const { return file_; }
  /// Whether the function has thrown; it is not called any more.
  bool failed() const { return thrown_ != nullptr; }
  /// Throws what the function threw.
  void check() const {
    if (thrown_) std::rethrow_exception(thrown_);
  }
  /// Flushes the stream and returns all its text. Throws what the function threw.
  std::string finish() {
    fflush(file_);
    check();
    return std::move(all_);
  }

 private:
  /// Must not throw: C's library calls it.
  void add(std::string_view text) noexcept {
    all_ += text;
    if (!line_ || thrown_) return;
    for (size_t end = all_.find('\n', told_); end != std::string::npos; end = all_.find('\n', told_)) {
      try {
        line_(all_.substr(told_, end - told_));
      } catch (...) {
        thrown_ = std::current_exception();
      }
      told_ = end + 1;
    }
  }

  std::function<void(const std::string&)> line_;
  FILE* file_ = nullptr;
  std::string all_;
  size_t told_ = 0;
  std::exception_ptr thrown_;
};

/// Runs Python's signal handlers; throws what they raise.
void check_signals() {
  const nb::gil_scoped_acquire lock;
  if (PyErr_CheckSignals() != 0) throw nb::python_error();
}

/// A Python function that any thread may call and release.
std::function<void(const std::string&)> caller_of(nb::object function) {
  if (function.is_none()) return nullptr;
  const auto kept = std::shared_ptr<nb::object>(new nb::object(std::move(function)), [](nb::object* object) {
    const nb::gil_scoped_acquire lock;
    delete object;
  });
  return [kept](const std::string& text) {
    const nb::gil_scoped_acquire lock;
    (*kept)(text);
  };
}

/// Runs Python's signal handlers when asked whether a search should end, and ends it at the first exception.
class Stop {
 public:
  bool operator()() {
    if (raised_) return true;
    try {
      check_signals();
    } catch (nb::python_error& error) {
      const nb::gil_scoped_acquire lock;
      error.restore();
      PyErr_Clear();
      raised_ = true;
    }
    return raised_;
  }
  bool raised() const { return raised_; }

 private:
  std::atomic<bool> raised_ = false;
};

int run_words(const std::vector<std::string>& words, bool verbatim) {
  if (!verbatim) return tool::run_command(words);
  try {
    return tool::run_command(words);
  } catch (const Error& error) {
    throw VerbatimError(error);
  }
}

/// Runs a command. Returns its exit code, its output and its messages. `verbatim`: the user wrote the words, so
/// messages keep the options of the command line. An interrupt ends a search, which then reports what it has found; a
/// second one ends the command, as the first one does for other commands. So does an exception of `line`, which is
/// raised again at the end.
nb::tuple run_command(const std::vector<std::string>& words, nb::object progress, nb::object line, bool verbatim) {
  int code = 0;
  std::string out, messages;
  {
    tool::Console console = watched_by(std::move(progress));
    const auto tell = caller_of(std::move(line));
    const nb::gil_scoped_release unlocked;
    LineStream output(tell), errors(nullptr);
    const auto stop = std::make_shared<Stop>();
    console.stopped = [stop, &output] { return output.failed() || (*stop)(); };
    // An interrupt that Python noticed in `line` is a second one if the search was ending already.
    console.progress = [stop, &output, inner = std::move(console.progress)](const std::string& doing) {
      if (stop->raised()) output.check();
      inner(doing);
    };
    console.out = output.file(), console.err = errors.file();
    {
      const tool::UseConsole use(std::move(console));
      code = run_words(words, verbatim);
    }
    messages = errors.finish();
    out = output.finish();
  }
  return nb::make_tuple(code, out, messages);
}

int run_program(std::vector<std::string> words) {
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  const nb::gil_scoped_release unlocked;
  return tool::program(static_cast<int>(words.size()), argv.data());
}

}  // namespace

tool::Console watched_by(nb::object progress) {
  tool::Console console;
  console.progress = [tell = caller_of(std::move(progress))](const std::string& doing) {
    check_signals();
    if (tell) tell(doing);
  };
  // Waiting for the interpreter's lock takes longer than an iteration of a loop.
  constexpr std::chrono::milliseconds kBetweenChecks(20);
  console.interrupt = [kBetweenChecks, last = std::chrono::steady_clock::now()]() mutable {
    const auto now = std::chrono::steady_clock::now();
    if (now - last < kBetweenChecks) return;
    last = now;
    check_signals();
  };
  return console;
}

void add_commands(nb::module_& module) {
  module.def("run_command", run_command, nb::arg("words"), nb::arg("progress").none() = nb::none(),
             nb::arg("line").none() = nb::none(), nb::arg("verbatim") = false);
  module.def("run_program", run_program, nb::arg("words"));
  module.def("version_text", tool::version_text);
  module.def("set_interpreter", profile::set_interpreter, nb::arg("path"));
  module.def("set_worker", [](const std::string& program) { tune::set_worker(program); }, nb::arg("program"));
}

}  // namespace kilter::python
