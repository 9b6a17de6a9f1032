// What the files of the C interface share. No exception leaves a function; every error becomes a status and a text.
#pragma once

#include <new>

#include "base/any_value.h"
#include "base/error.h"
#include "kilter/runtime.h"

struct kilter_value {
  kilter::AnyValue value;
};

namespace kilter::c_abi {

/// Keeps the text for kilter_last_error() and returns `status`.
kilter_status failed(kilter_status status, const char* text) noexcept;
kilter_status status_of(ErrorKind kind);

template <class F>
kilter_status guarded(F&& f) noexcept {
  try {
    f();
    return KILTER_OK;
  } catch (const Error& e) {
    return failed(status_of(e.kind()), e.what());
  } catch (const std::bad_alloc&) {
    return failed(KILTER_ERROR_MEMORY, "out of memory");
  } catch (const std::exception& e) {
    return failed(KILTER_ERROR_INTERNAL, e.what());
  } catch (...) {
    return failed(KILTER_ERROR_INTERNAL, "unknown error");
  }
}

inline void not_null(const void* pointer, const char* what) {
  if (pointer == nullptr) fail(ErrorKind::usage, "argument '{}' is a null pointer", what);
}

/// Fills in a description of a tensor, which must live as long as it is used. `shape`: null for an unknown rank.
void describe(const char* name, DType type, const Shape* shape, kilter_tensor_info* info);

}  // namespace kilter::c_abi
