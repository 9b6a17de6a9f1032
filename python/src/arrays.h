// Arrays of Python as tensors, and tensors as arrays, without copies where the layout allows.
#pragma once

#include <nanobind/nanobind.h>

#include <string>

#include "base/any_value.h"
#include "onnx/model.h"

namespace kilter::python {

namespace nb = nanobind;

/// Returns a tensor over the memory of an array that has __dlpack__ or the buffer protocol. Arrays that are not dense
/// are copied; others stay alive as long as the tensor. NumPy arrays of str, of bytes, and of objects that are one of
/// these, become tensors of strings. `what`, such as "input 'x'", begins messages. Throws bad_input for objects that
/// are not arrays on the CPU, and for element types that Kilter does not have.
Tensor tensor_of(nb::handle array, const std::string& what);
/// Like tensor_of(), for memory that will be written: throws bad_input for arrays that are read-only or not dense.
Tensor writable_tensor(nb::handle array, const std::string& what);

/// Whether Python may write to an array over Kilter's memory.
enum class Access { write, read };
/// Returns a NumPy array over the memory of a tensor, which stays alive as long as the array. Elements of bf16 have the
/// type of ml_dtypes if that can be imported, otherwise uint16. Strings are an array of objects, a copy.
nb::object array_of(const Tensor& tensor, Access access = Access::write);

/// Returns the value of an input: a tensor of an array, a sequence of a list or tuple, a map of a dict, an absent
/// optional value of None. Throws the errors of tensor_of(), and bad_input for keys and values that are not of the
/// port's types.
AnyValue value_of(nb::handle object, const onnx::Port& port, const std::string& what);
/// Returns the array of a tensor, a list of the elements of a sequence, a dict of Python's own numbers and texts for a
/// map, or None for an absent optional value.
nb::object object_of(const AnyValue& value, Access access = Access::write);

}  // namespace kilter::python
