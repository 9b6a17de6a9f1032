#include "postgres/libpq.h"

#include <dlfcn.h>

#include "base/error.h"

namespace kilter::postgres {
namespace {

template <class F>
void find(void* library, const char* name, F& function) {
  function = reinterpret_cast<F>(dlsym(library, name));
  if (function == nullptr) {
    fail(ErrorKind::unsupported, "libpq has no function {}; install the client library of PostgreSQL 13 or newer",
         name);
  }
}

Libpq open_library(const std::string& instead) {
  constexpr const char* kFile = "libpq.so.5";
  void* const library = dlopen(kFile, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    fail(ErrorKind::unsupported,
         "a PostgreSQL server can only be used with its client library {}, which cannot be loaded ({}); install it "
         "(Debian: libpq5){}",
         kFile, dlerror(), instead.empty() ? "" : ", or give " + instead);
  }
  Libpq l{};
#define KILTER_FIND(result, name, parameters) find(library, #name, l.name);
  KILTER_LIBPQ_FUNCTIONS(KILTER_FIND)
#undef KILTER_FIND
  return l;
}

}  // namespace

const Libpq& load_libpq(const std::string& instead) {
  static const Libpq loaded = open_library(instead);
  return loaded;
}

}  // namespace kilter::postgres
