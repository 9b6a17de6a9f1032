// Arrays of Python as tensors, and tensors as arrays, without copies where the layout allows.
#pragma once

#include <nanobind/nanobind.h>

#include <string>

#include "base/tensor.h"

namespace kilter::python {

namespace nb = nanobind;

/// Returns a tensor over the memory of an array that has __dlpack__ or the buffer protocol. Arrays with other strides
/// than dense ones are copied; others stay alive as long as the tensor. `what`, such as "input 'x'", begins messages.
/// Throws bad_input for objects that are no arrays on the CPU, and for element types that Kilter does not have.
Tensor tensor_of(nb::handle array, const std::string& what);
/// As tensor_of(), for memory that will be written: throws bad_input for read-only arrays and for other strides.
Tensor writable_tensor(nb::handle array, const std::string& what);

/// Returns a NumPy array over the memory of a tensor, which stays alive as long as the array. Elements of bf16 have the
/// type of ml_dtypes if that can be imported, else uint16. Strings are an array of objects.
nb::object array_of(const Tensor& tensor);

}  // namespace kilter::python
