#include "aot/library.h"

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <set>
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

/// A file that is to be written.
struct NewFile {
  fs::path path;
  std::span<const std::byte> bytes;
};

/// Writes all files, or none if it is known beforehand that one of them cannot be written.
void write_all(std::span<const NewFile> files) {
  std::set<fs::path> places;
  for (const NewFile& file : files) {
    const fs::path folder = file.path.has_parent_path() ? file.path.parent_path() : fs::path(".");
    std::error_code error;
    if (!places.insert(fs::weakly_canonical(file.path, error)).second)
      fail(ErrorKind::usage, "{}: two files of the library would have this name; give one of them another name",
           file.path.string());
    if (!file.path.has_filename() || fs::is_directory(file.path, error))
      fail(ErrorKind::usage, "{}: a folder; expected the name of a file", file.path.string());
    const bool writable = access(folder.c_str(), W_OK) == 0 || access(file.path.c_str(), W_OK) == 0;
    if (!writable)
      fail(ErrorKind::io, "cannot write file '{}': {}", file.path.string(), std::generic_category().message(errno));
  }
  for (const NewFile& file : files) {
    const std::array parts = {file.bytes};
    write_file_atomically(file.path, parts);
  }
}

std::span<const std::byte> bytes_of(const std::string& text) { return std::as_bytes(std::span(text)); }

/// The sources as files in a folder. `texts` keeps the contents of the generated ones.
std::vector<NewFile> files_of(const Sources& sources, const fs::path& folder, std::array<std::string, 2>& texts) {
  const Network& network = sources.network;
  texts = {header_text(network), source_text(network, sources.header, sources.code, sources.weights)};
  std::vector<NewFile> files = {{folder / sources.source, bytes_of(texts[1])},
                                {folder / sources.header, bytes_of(texts[0])},
                                {folder / sources.code, code_of(network.plan)}};
  if (network.plan.constants_bytes > 0 || network.file_weights)
    files.push_back({folder / sources.weights, weights_of(network.plan)});
  return files;
}

Sources sources_of(const Plan& plan, const std::string& name, bool file_weights) {
  return {describe(plan, name, file_weights), name + ".h", name + ".c", name + ".code", name + ".weights"};
}

/// Returns the prefix of the functions: the option, or one from the name of the file.
std::string name_of(const fs::path& path, const std::string& given) {
  std::string name = given;
  if (name.empty()) {
    const fs::path whole = fs::absolute(path).lexically_normal();
    std::string stem = (whole.has_filename() ? whole : whole.parent_path()).stem().string();
    if (stem.starts_with("lib") && stem.size() > 3) stem.erase(0, 3);
    std::set<std::string> none;
    name = identifier(stem, none);
  }
  if (!is_identifier(name)) {
    fail(ErrorKind::usage,
         "--name '{}': expected a C identifier that is not a keyword: a letter, then up to 99 letters, digits and "
         "single '_'",
         printable(name));
  }
  if (is_taken(name)) {
    fail(ErrorKind::usage,
         "a library cannot be called '{}', which is a name of the C library or of the runtime part; give another name "
         "with --name",
         name);
  }
  return name;
}

/// Compiles and links the sources in a folder. Returns the path of the result. `file` is the final name of the library.
fs::path build(const Sources& sources, Form form, Arch arch, const std::string& given, const std::string& file,
               const fs::path& folder) {
  const Command compiler = find_compiler(arch, given);
  const std::string name = sources.network.name;
  const auto with = [](Command command, std::initializer_list<std::string> more) {
    command.insert(command.end(), more);
    return command;
  };
  run_command(with(compiler, {"-std=gnu11", "-O2", "-fno-lto", "-fPIC", "-fvisibility=hidden", "-pthread", "-Wa,-I,.",
                              "-c", sources.source, "-o", name + ".o"}),
              folder);
  if (form == Form::object) return folder / (name + ".o");
  if (form == Form::shared) {
    run_command(with(compiler, {"-shared", "-fno-lto", "-pthread", "-Wl,-z,defs", "-Xlinker", "-soname", "-Xlinker",
                                file, name + ".o", "-o", name + ".so"}),
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
    fail(ErrorKind::usage, "--header cannot be used with --cmake; the header in the folder is {}.h", name);
  const Sources sources = sources_of(plan, name, options.file_weights);
  const std::string cmake = cmake_text(sources.network, sources.source);
  const fs::path project = path / "CMakeLists.txt";
  if (fs::exists(project) && !read_file(project).starts_with(cmake.substr(0, cmake.find(' ', 3)))) {
    fail(ErrorKind::usage, "{}: exists and does not belong to a library that Kilter generated; give another folder",
         project.string());
  }
  std::error_code error;
  fs::create_directories(path, error);
  if (error) fail(ErrorKind::io, "{}: {}", path.string(), error.message());
  std::array<std::string, 2> texts;
  std::vector<NewFile> files = files_of(sources, path, texts);
  files.push_back({project, bytes_of(cmake)});
  write_all(files);
  Library library{name, {path}, 0, plan.code_bytes, plan.constants_bytes, 0};
  for (const NewFile& file : files) {
    library.files.push_back(file.path);
    library.file_bytes += std::ssize(file.bytes);
  }
  library.other_bytes = library.file_bytes - plan.code_bytes - plan.constants_bytes;
  return library;
}

/// The code model of C compilers supports at most 2 GB.
void check_weights(const Plan& plan, bool file_weights) {
  constexpr int64_t kMost = (int64_t{1} << 31) - (int64_t{1} << 26);
  if (file_weights || plan.constants_bytes <= kMost) return;
  fail(ErrorKind::unsupported,
       "{} bytes of weights do not fit into a library, which can contain {} at most; use --weights file",
       plan.constants_bytes, kMost);
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
  check_weights(plan, options.file_weights);
  if (form == Form::sources) return write_folder(plan, path, options);
  const std::string name = name_of(path, options.name);
  const fs::path header = options.header.empty() ? path.parent_path() / (name + ".h") : options.header;
  const Sources sources = sources_of(plan, name, options.file_weights);
  const BuildFolder folder;
  std::array<std::string, 2> texts;
  write_all(files_of(sources, folder.path(), texts));
  const fs::path made = build(sources, form, plan.arch, options.compiler, path.filename().string(), folder.path());
  if (!fs::exists(made))
    fail(ErrorKind::usage, "the C compiler '{}' did not write {}", options.compiler, made.filename().string());
  const auto library_file = MappedFile::open(made);
  std::vector<NewFile> files = {{header, bytes_of(texts[0])}};
  if (options.file_weights) files.push_back({path.parent_path() / sources.weights, weights_of(plan)});
  files.push_back({path, library_file->bytes()});  // last: if it is new, the others are as well
  write_all(files);
  Library library{name, {path, header}, std::ssize(library_file->bytes()), plan.code_bytes, plan.constants_bytes, 0};
  if (options.file_weights) library.files.push_back(files[1].path);
  library.other_bytes = library.file_bytes - plan.code_bytes - (options.file_weights ? 0 : plan.constants_bytes);
  return library;
}

}  // namespace kilter::aot
