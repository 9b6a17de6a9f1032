#include "aot/library.h"

#include <fmt/format.h>

#include <array>
#include <span>
#include <system_error>
#include <utility>

#include "aot/c_compiler.h"
#include "aot/names.h"
#include "aot/source.h"
#include "base/error.h"
#include "base/files.h"
#include "base/text.h"

namespace kilter::aot {
namespace {

namespace fs = std::filesystem;

constexpr std::array<std::pair<std::string_view, Form>, 3> kEndings = {
    {{".so", Form::shared}, {".a", Form::archive}, {".o", Form::object}}};

/// A temporary folder that the destructor removes with its contents.
class BuildFolder {
 public:
  BuildFolder() : path_(make_temporary_folder("kilter-library-")) {}
  ~BuildFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  BuildFolder(const BuildFolder&) = delete;
  BuildFolder& operator=(const BuildFolder&) = delete;
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

/// The files of one library by their names in a folder.
struct Sources {
  Network network;
  std::string header, source, code, weights;
};

std::span<const std::byte> code_of(const Plan& plan) { return {plan.code, static_cast<size_t>(plan.code_bytes)}; }
std::span<const std::byte> weights_of(const Plan& plan) {
  return {plan.constants, static_cast<size_t>(plan.constants_bytes)};
}

void write_bytes(const fs::path& path, std::span<const std::byte> bytes) {
  const std::array parts = {bytes};
  write_file_atomically(path, parts);
}

/// Writes the sources into a folder. Returns their names.
std::vector<std::string> write_sources(const Sources& sources, const fs::path& folder) {
  const Network& network = sources.network;
  write_file_atomically(folder / sources.header, header_text(network));
  write_file_atomically(folder / sources.source, source_text(network, sources.header, sources.code, sources.weights));
  write_bytes(folder / sources.code, code_of(network.plan));
  std::vector<std::string> names = {sources.source, sources.header, sources.code};
  if (network.plan.constants_bytes > 0) {
    write_bytes(folder / sources.weights, weights_of(network.plan));
    names.push_back(sources.weights);
  }
  return names;
}

Sources sources_of(const Plan& plan, const std::string& name, const std::string& header, bool file_weights) {
  return {describe(plan, name, file_weights), header, name + ".c", name + ".code", name + ".weights"};
}

/// Returns the prefix of the functions: the option, or what the file is called.
std::string name_of(const fs::path& path, const std::string& given) {
  std::string name = given;
  if (name.empty()) {
    std::string stem = (path.has_filename() ? path : path.parent_path()).stem().string();
    if (stem.starts_with("lib") && stem.size() > 3) stem.erase(0, 3);
    std::set<std::string> none;
    name = identifier(stem, none);
  }
  if (is_identifier(name)) return name;
  fail(ErrorKind::usage,
       "--name '{}': expected an identifier of C: a letter, then letters, digits and single '_'; no keyword",
       printable(name));
}

int64_t size_of(const fs::path& path) { return static_cast<int64_t>(fs::file_size(path)); }

/// Compiles and links the sources in a folder. Returns what was made, which is to be called `file`.
fs::path build(const Sources& sources, Form form, Arch arch, const std::string& given, const std::string& file,
               const fs::path& folder) {
  const Command compiler = find_compiler(arch, given);
  const std::string name = sources.network.name;
  const auto with = [](Command command, std::initializer_list<std::string> more) {
    command.insert(command.end(), more);
    return command;
  };
  run_command(with(compiler, {"-std=gnu11", "-O2", "-fPIC", "-fvisibility=hidden", "-pthread", "-Wa,-I,.", "-c",
                              sources.source, "-o", name + ".o"}),
              folder);
  if (form == Form::object) return folder / (name + ".o");
  if (form == Form::shared) {
    run_command(
        with(compiler, {"-shared", "-pthread", "-Wl,-z,defs", "-Wl,-soname," + file, name + ".o", "-o", name + ".so"}),
        folder);
    return folder / (name + ".so");
  }
  const std::string archiver(trim(run_command(with(compiler, {"-print-prog-name=ar"}), folder)));
  run_command({archiver, "rcs", name + ".a", name + ".o"}, folder);
  return folder / (name + ".a");
}

Library write_folder(const Plan& plan, const fs::path& path, const LibraryOptions& options) {
  const std::string name = name_of(path, options.name);
  if (!options.header.empty())
    fail(ErrorKind::usage, "--header is not for a folder of sources, which has its header {}.h", name);
  const Sources sources = sources_of(plan, name, name + ".h", options.file_weights);
  std::error_code error;
  fs::create_directories(path, error);
  if (error) fail(ErrorKind::io, "{}: {}", path.string(), error.message());
  Library library{name, {path}, 0, plan.code_bytes, plan.constants_bytes, 0};
  for (const std::string& file : write_sources(sources, path)) library.files.push_back(path / file);
  library.files.push_back(path / "CMakeLists.txt");
  write_file_atomically(library.files.back(), cmake_text(sources.network, sources.source));
  for (size_t i = 1; i < library.files.size(); ++i) library.file_bytes += size_of(library.files[i]);
  library.other_bytes = library.file_bytes - plan.code_bytes - plan.constants_bytes;
  return library;
}

}  // namespace

bool is_library_name(const fs::path& path) {
  for (const auto& [ending, form] : kEndings) {
    if (path.extension() == ending) return true;
  }
  return false;
}

Form form_of(const fs::path& path, bool sources) {
  if (sources) return Form::sources;
  for (const auto& [ending, form] : kEndings) {
    if (path.extension() == ending) return form;
  }
  fail(ErrorKind::usage,
       "{}: expected a name that ends in .so (shared library), .a (static library) or .o (object file)", path.string());
}

Library write_library(const Plan& plan, Form form, const fs::path& path, const LibraryOptions& options) {
  if (form == Form::sources) return write_folder(plan, path, options);
  const std::string name = name_of(path, options.name);
  const fs::path header = options.header.empty() ? path.parent_path() / (name + ".h") : options.header;
  const Sources sources = sources_of(plan, name, header.filename().string(), options.file_weights);
  const BuildFolder folder;
  write_sources(sources, folder.path());
  const fs::path made = build(sources, form, plan.arch, options.compiler, path.filename().string(), folder.path());
  Library library{name, {path, header}, size_of(made), plan.code_bytes, plan.constants_bytes, 0};
  library.other_bytes = library.file_bytes - plan.code_bytes - (options.file_weights ? 0 : plan.constants_bytes);
  write_bytes(path, MappedFile::open(made)->bytes());
  write_file_atomically(header, header_text(sources.network));
  if (options.file_weights) {
    library.files.push_back(path.parent_path() / sources.weights);
    write_bytes(library.files.back(), weights_of(plan));
  }
  return library;
}

}  // namespace kilter::aot
