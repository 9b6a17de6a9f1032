// The C interface to the compiler.
#include "kilter/compiler.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <map>
#include <string>

#include "api/named_options.h"
#include "api/option_words.h"
#include "base/float_environment.h"
#include "base/text.h"
#include "compile/memory_model.h"
#include "compile/session.h"
#include "compile/several_targets.h"
#include "exec/c_abi/support.h"

struct kilter_options {
  std::map<std::string, std::string, std::less<>> values;  ///< those that were set
};

namespace kilter::c_abi {
namespace {

using Clock = std::chrono::steady_clock;

/// The bytes of a compiled file.
class FileBytes {
 public:
  FileSink sink() {
    return FileSink([this](FileSink::Parts parts) { take(parts); });
  }
  std::span<const std::byte> bytes() const { return {memory_.get(), size_}; }
  std::shared_ptr<std::byte> owner() const { return memory_; }

 private:
  void take(FileSink::Parts parts) {
    for (const std::span<const std::byte> part : parts) size_ += part.size();
    memory_ = file_memory(size_);
    std::byte* to = memory_.get();
    for (const std::span<const std::byte> part : parts) to = std::copy(part.begin(), part.end(), to);
  }

  std::shared_ptr<std::byte> memory_;
  size_t size_ = 0;
};

/// Reports stages as messages.
CompileReport report() {
  CompileReport made;
  made.notice = [](const std::string& line) { log(KILTER_LOG_WARNING, "{}", line); };
  made.progress = [last = std::string()](const CompileStage& stage) mutable {
    if (stage.name.empty() || stage.name == last) return;
    last = stage.name;
    log(KILTER_LOG_DEBUG, "compiling: {}", last);
  };
  return made;
}

GivenOptions given_options(const kilter_options* options) {
  GivenOptions all;
  for (const NamedOption& option : named_options()) {
    std::string value(option.fallback);
    if (options != nullptr) {
      const auto given = options->values.find(option.name);
      if (given != options->values.end()) value = given->second;
    }
    option.apply(value, all);
  }
  Session::Options& made = all.session;
  made.compile.report = report();
  add_sources(all.sources, made.compile.report.notice, made);
  // The session does not run the network; a file with tuned schedules states the number of threads.
  made.threads = made.chooser != nullptr ? all.sources.threads : 1;
  return all;
}

/// Calls `f` and throws its errors with the option names of this interface.
template <class F>
auto with_names(F&& f) {
  try {
    return f();
  } catch (const Error& e) {
    throw Error(e.kind(), with_option_names(e.message()));
  }
}

/// Compiles a model and returns the name of its target, or of its targets.
std::string compile_to(const std::string& model, const kilter_options* options, const FileSink& sink) {
  const FloatEnvironment standard;
  const auto start = Clock::now();
  return with_names([&] {
    const GivenOptions given = given_options(options);
    const std::vector<std::unique_ptr<Session>> sessions = open_for_targets(model, given.session, given.targets);
    const Session& first = *sessions.front();
    if (first.compiled_file())
      fail(ErrorKind::usage, "{} is already a compiled file; load it with kilter_program_load()", printable(model));
    if (sessions.size() == 1) {
      sessions.front()->save(sink);
    } else {
      save_targets(sessions, sink);
    }
    std::vector<std::string> targets;
    for (const auto& session : sessions) targets.push_back(session->options().compile.target.name);
    log(KILTER_LOG_INFO, "{}: compiled for {} in {:.0f} ms", first.name(), join(targets, ", "),
        std::chrono::duration<double, std::milli>(Clock::now() - start).count());
    return join(targets, ",");
  });
}

std::unique_ptr<kilter_program> compile(const std::string& model, const std::string& name,
                                        const kilter_options* options) {
  FileBytes file;
  const std::string target = compile_to(model, options, file.sink());
  try {
    return make_program(file.bytes(), file.owner(), name, false);
  } catch (const Error& e) {
    if (e.kind() != ErrorKind::unsupported) throw;
    fail(e.kind(), "{}; the option 'target' is {}: use a target that this machine can run, or {}", e.message(), target,
         "kilter_compile_to_file() to compile for another");
  }
}

}  // namespace
}  // namespace kilter::c_abi

using kilter::c_abi::guarded;
using kilter::c_abi::not_null;

kilter_status kilter_options_create(kilter_options** options) {
  if (options != nullptr) *options = nullptr;
  return guarded([&] {
    not_null(options, "options");
    *options = new kilter_options;
  });
}

void kilter_options_free(kilter_options* options) { delete options; }

kilter_status kilter_options_set(kilter_options* options, const char* name, const char* value) {
  return guarded([&] {
    not_null(options, "options");
    not_null(name, "name");
    not_null(value, "value");
    kilter::GivenOptions checked;
    kilter::named_option(name).apply(value, checked);
    options->values[name] = value;
  });
}

kilter_status kilter_options_get(const kilter_options* options, const char* name, const char** value) {
  if (value != nullptr) *value = nullptr;
  return guarded([&] {
    not_null(options, "options");
    not_null(name, "name");
    not_null(value, "value");
    const kilter::NamedOption& option = kilter::named_option(name);
    const auto given = options->values.find(option.name);
    *value = given != options->values.end() ? given->second.c_str() : option.fallback;
  });
}

size_t kilter_option_count(void) { return kilter::named_options().size(); }

const char* kilter_option_name(size_t index) {
  return index < kilter::named_options().size() ? kilter::named_options()[index].name : nullptr;
}

const char* kilter_option_help(size_t index) {
  return index < kilter::named_options().size() ? kilter::named_options()[index].summary : nullptr;
}

kilter_status kilter_compile(const char* model, const kilter_options* options, kilter_program** program) {
  if (program != nullptr) *program = nullptr;
  return guarded([&] {
    not_null(model, "model");
    not_null(program, "program");
    *program = kilter::c_abi::compile(model, model, options).release();
  });
}

kilter_status kilter_compile_bytes(const void* bytes, size_t size, const char* folder, const kilter_options* options,
                                   kilter_program** program) {
  if (program != nullptr) *program = nullptr;
  return guarded([&] {
    not_null(bytes, "bytes");
    not_null(program, "program");
    const std::string name = "the model in memory";
    const kilter::MemoryModel model(kilter::onnx::Model::parse({static_cast<const std::byte*>(bytes), size}, name,
                                                               folder == nullptr ? "" : folder));
    *program = kilter::c_abi::compile(model.name(), name, options).release();
  });
}

kilter_status kilter_compile_to_file(const char* model, const kilter_options* options, const char* path) {
  return guarded([&] {
    not_null(model, "model");
    not_null(path, "path");
    kilter::c_abi::compile_to(model, options, std::string(path));
  });
}
