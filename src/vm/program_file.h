// The compiled file of a network that runs as a program: its functions, the plans of its segments, and the graphs of
// segments whose shapes are not all known. Loading and running it needs no compiler.
//
// The container is that of a plan (exec/plan_file.h), with the magic "KILTERP1". The meta section has the fields of
// ProgramFile in their order; a plan is stored as write_plan_meta() writes it. The code section has the machine code of
// all plans. The constants section has the packed constants of all plans and the constants of graphs and attributes;
// equal ones are stored once. Equal programs give equal bytes.
//
// As for a plan, the hash detects damage, not malice, and no forged file crashes the loader or the set-up of a runner.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/shape_ranges.h"
#include "exec/file_container.h"
#include "exec/plan.h"
#include "vm/program.h"

namespace kilter::vm {

constexpr uint32_t kProgramFormatVersion = 2;

/// An input or output of the network.
struct FilePort {
  std::string name;
  DeclaredType::Kind kind = DeclaredType::Kind::tensor;
  bool of_sequence = false;   ///< an optional value that is a sequence if it is present
  DType type = DType::f32;    ///< of the tensor, of the tensors in a sequence, or of the values in maps
  std::optional<Shape> dims;  ///< -1: open; nullopt: the rank is open
  std::vector<std::string> symbols =
      {};                         ///< the model's names of the dimensions, as many as `dims` has; or none at all
  std::optional<DType> key = {};  ///< type of the keys if it is a map, or a sequence or an optional value of maps

  bool is_tensor() const { return kind == DeclaredType::Kind::tensor; }
  /// The name of an open dimension; empty if it has none.
  std::string symbol(size_t axis) const { return axis < symbols.size() ? symbols[axis] : std::string(); }
  /// Whether it is a tensor of numbers whose dimensions are all known.
  bool is_fixed() const;
};
/// Returns "f32[1,?]", "f32[n,3]", "f32[...]", "sequence of f32[2]", "optional f32[2]", "optional sequence of
/// f32[...]", "map from str to f32" or "sequence of maps from i64 to f32".
std::string text(const FilePort& port);

/// What a file contains of a segment in addition to its graph.
struct FileSegment {
  std::string name;         ///< for errors: "12 nodes from Conv 'conv1' on"
  bool has_graph = false;   ///< false: the graph in Program::segments has inputs and outputs, but no nodes
  std::vector<Plan> plans;  ///< for different types of the inputs
};

struct ProgramFile {
  std::string model;   ///< name of the network
  std::string target;  ///< name of the target
  std::string precision = "declared";
  std::string records;                    ///< as Plan::records
  int32_t compiled_for = 0;               ///< as Plan::compiled_for
  std::vector<FilePort> inputs, outputs;  ///< of function 0
  ShapeRanges ranges;                     ///< the sizes of inputs that the file is for; those of others are not limited
  /// The nodes of a function are those of its instructions. Values that no instruction refers to have no names.
  Program program;
  std::vector<FileSegment> segments;  ///< for each of Program::segments

  /// Whether its only segment is the whole network, with a plan for each shape of the ranges.
  bool has_whole_network() const {
    return !ranges.empty() && segments.size() == 1 && !segments.front().has_graph && program.functions.size() == 1 &&
           program.functions.front().code.size() == 1;
  }
};

/// Writes a file. Throws what the sink throws.
void save_program(const ProgramFile& program, const FileSink& to);

/// Maps a file. Code and constants are the bytes of the mapping. Throws io when the file cannot be read, bad_input when
/// it is damaged or any field has an illegal value, and unsupported for an operator that this library lacks.
ProgramFile load_program(const std::filesystem::path& path, LoadOptions options = {});

/// Loads a program from bytes that `owner` keeps alive. Errors refer to them as `where`.
ProgramFile parse_program(std::span<const std::byte> bytes, std::shared_ptr<void> owner, std::string_view where,
                          LoadOptions options = {});

/// Returns whether a file starts with the magic of a program; false when it cannot be read.
bool is_program_file(const std::filesystem::path& path);
/// Returns whether these bytes of a file start with the magic of a program.
bool is_program_file(std::span<const std::byte> bytes);

/// Throws bad_input, which names the file as `where`, for the first invariant that a program breaks: ids out of range,
/// instructions that do not fit their segments, nodes that do not fit their operators.
void check_program(const ProgramFile& program, std::string_view where);

}  // namespace kilter::vm
