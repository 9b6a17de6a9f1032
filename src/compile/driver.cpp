#include "compile/driver.h"

#include <fstream>
#include <system_error>

#include "base/error.h"

namespace kilter {

void write_dump(const std::filesystem::path& file, const std::string& text) {
  std::error_code error;  // ignored: if there is no folder, writing the file fails
  std::filesystem::create_directories(file.parent_path(), error);
  std::ofstream out(file);
  out << text;
  if (!out.flush()) fail(ErrorKind::io, "--dump-ir: cannot write {}", file.string());
}

double ms_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace kilter
