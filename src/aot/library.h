// A network as a C library that needs no Kilter at run time: its machine code, its weights, and a small runtime part in
// C, which a C compiler of the user's machine compiles and links.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "exec/plan.h"

namespace kilter::aot {

enum class Form : uint8_t {
  shared,   ///< NAME.so
  archive,  ///< NAME.a
  object,   ///< NAME.o
  sources,  ///< a folder with the sources and a CMake file; needs no C compiler
};
/// Returns the form for a file name, by its extension. `sources`: a folder was asked for. Throws usage for any other
/// extension.
Form form_of(const std::filesystem::path& path, bool sources);
/// Returns whether a file's name is that of a library: it ends in .so, .a or .o.
bool is_library_name(const std::filesystem::path& path);

struct LibraryOptions {
  std::string name;              ///< prefix of the functions; empty: that of the file without "lib" and its extension
  std::filesystem::path header;  ///< empty: beside the library, named after the prefix
  bool file_weights = false;     ///< the weights go to a file NAME.weights beside the library
  std::string compiler;  ///< command of a C compiler (GCC or Clang) for the plan's architecture; empty: the one that is
                         ///< found
};

struct Library {
  std::string name;                          ///< prefix of the functions
  std::vector<std::filesystem::path> files;  ///< that were written, the library (or folder) first
  int64_t file_bytes = 0;                    ///< of the library, or of all files in the folder
  int64_t code_bytes = 0;                    ///< machine code of the kernels
  int64_t weight_bytes = 0;
  int64_t other_bytes = 0;  ///< of file_bytes: the tables and the runtime part
};

/// Writes a library. Throws usage if the name is not a C identifier or if there is no C compiler; unsupported for a
/// plan with steps that need Kilter's runtime library, naming their operators; io if a file cannot be written or the
/// compiler fails, with its message. If it fails, existing files stay as they are.
Library write_library(const Plan& plan, Form form, const std::filesystem::path& path, const LibraryOptions& options);

}  // namespace kilter::aot
