#include "vm/compiled_file.h"

#include <algorithm>
#include <set>

#include "base/error.h"
#include "base/files.h"
#include "base/text.h"
#include "exec/plan_file.h"
#include "exec/signature.h"
#include "vm/file_fields.h"

namespace kilter::vm {
namespace {

constexpr FileFormat kFormat{"KILTERM1", kTargetsFormatVersion};
constexpr uint8_t kLastArch = static_cast<uint8_t>(Arch::aarch64);
enum class ContentKind : uint8_t { plan, program };

/// One target as it is in the file.
struct Row {
  TargetPart part;
  ContentKind kind = ContentKind::plan;
  uint64_t hash = 0;                      ///< UsedBytes::hash()
  std::vector<StoredConstant> constants;  ///< of a small file
  std::string content;                    ///< fields of a plan or a program
};

template <class Io, class R>
void row_fields(Io& io, R& row) {
  io.text(row.part.target, "target");
  io.enumeration(row.part.arch, kLastArch, "architecture");
  io.list(row.part.features, 8, "features", [&](auto& feature) { io.text(feature, "feature"); });
  io.number(row.part.code_bytes, "bytes of code");
  io.number(row.part.constants_bytes, "bytes of constants");
  io.number(row.part.own_bytes, "bytes of constants of its own");
  io.enumeration(row.kind, static_cast<uint8_t>(ContentKind::program), "kind of a network");
  io.number(row.hash, "hash of a target");
  io.text(row.content, "network");
  io.flag(row.part.small, "whether a file is small");
  io.number(row.part.memory_bytes, "bytes of constants in memory");
  io.list(row.constants, 25, "constants", [&](auto& constant) { stored_constant_fields(io, constant); });
}

/// The plans of a network.
std::vector<const Plan*> plans_of(const Content& content) {
  if (const Plan* plan = std::get_if<Plan>(&content)) return {plan};
  std::vector<const Plan*> plans;
  for (const FileSegment& segment : std::get<ProgramFile>(content).segments) {
    for (const Plan& plan : segment.plans) plans.push_back(&plan);
  }
  return plans;
}

const std::string& target_of(const Content& content) {
  const Plan* plan = std::get_if<Plan>(&content);
  return plan != nullptr ? plan->target : std::get<ProgramFile>(content).target;
}

/// Writes a network's fields. Its code and constants go to the pools. `sources`: null if the file is not small.
Row row_of(const Content& content, FilePools& pools, const Sources* sources) {
  Row row;
  row.part.target = target_of(content);
  row.part.arch = parse_target(row.part.target).arch;
  for (const Plan* plan : plans_of(content)) {
    for (const std::string& feature : plan->required_features) {
      if (std::ranges::count(row.part.features, feature) == 0) row.part.features.push_back(feature);
    }
  }
  const size_t before = pools.constants.bytes().size();
  Writer io(pools);
  io.sources = sources;
  if (const Plan* plan = std::get_if<Plan>(&content)) {
    plan_fields(io, *plan);
  } else {
    row.kind = ContentKind::program;
    program_fields(io, std::get<ProgramFile>(content));
  }
  row.content = io.take();
  row.part.small = sources != nullptr;
  for (const StoredConstant& constant : io.stored) row.part.memory_bytes += constant.bytes;
  row.constants = std::move(io.stored);
  row.hash = io.used.hash(pools.code.bytes(), pools.constants.bytes());
  row.part.code_bytes = UsedBytes::total(io.used.code);
  row.part.constants_bytes = UsedBytes::total(io.used.constants);
  row.part.own_bytes = static_cast<int64_t>(pools.constants.bytes().size() - before);
  return row;
}

std::vector<std::string> lacks(const TargetPart& part, const CpuIdentity& cpu) {
  if (part.arch != cpu.arch) return {fmt::format("the architecture {}", name(part.arch))};
  std::vector<std::string> missing;
  for (const std::string& feature : part.features) {
    if (std::ranges::count(cpu.features, feature) == 0) missing.push_back(feature);
  }
  return missing;
}

Content content_of(const Row& row, FileSections sections, const std::shared_ptr<void>& owner, std::string_view where,
                   bool verify) {
  sections.meta = std::as_bytes(std::span(row.content));
  Reader io(sections, owner, where);
  if (row.part.small) {
    io.unpacked = unpack(row.constants, sections.constants, where);
    for (const StoredConstant& c : row.constants) io.used.constants.emplace(c.stored_at, c.stored_bytes);
  }
  Content content;
  if (row.kind == ContentKind::plan) {
    plan_fields(io, content.emplace<Plan>());
    io.finish();
  } else {
    content = program_fields(io);
  }
  if (verify) {
    if (const uint64_t got = io.used.hash(sections.code, sections.constants); got != row.hash)
      fail(
          ErrorKind::bad_input,
          "compiled file '{}': the network for {}: expected hash {:016x}, got {:016x}; nothing in it was run; copy the "
          "file again or compile the model again",
          where, row.part.target, row.hash, got);
  }
  return content;
}

CompiledFile parse_targets(std::span<const std::byte> bytes, std::shared_ptr<void> owner, const std::string& where,
                           const LoadOptions& options, const CpuIdentity& cpu) {
  // The hash of the whole file would read the code and constants of all targets.
  const FileSections sections =
      read_sections(kFormat, bytes, where, {.verify = false, .check_meta_hash = options.check_meta_hash}, owner);
  FieldReader io(sections.meta, where);
  std::vector<Row> rows;
  io.list(rows, 64, "targets", [&](Row& row) { row_fields(io, row); });
  io.finish();
  CompiledFile loaded;
  for (const Row& row : rows) loaded.targets.push_back(row.part);
  const int64_t chosen = choose_target(loaded.targets, cpu);
  if (chosen < 0) {
    std::vector<std::string> reasons;
    for (const TargetPart& part : loaded.targets)
      reasons.push_back(fmt::format("{} needs {}", part.target, join(lacks(part, cpu), ", ")));
    fail(ErrorKind::unsupported, "'{}' has no code for this machine ({}): {}; compile it for this machine as well",
         where, cpu_brand(), join(reasons, "; "));
  }
  loaded.chosen = static_cast<size_t>(chosen);
  loaded.content = content_of(rows[loaded.chosen], sections, owner, where, options.verify);
  return loaded;
}

}  // namespace

void save_compiled(const Content& content, const FileSink& to) {
  if (const Plan* plan = std::get_if<Plan>(&content)) return save_plan(*plan, to);
  save_program(std::get<ProgramFile>(content), to);
}

std::vector<TargetPart> save_targets(std::span<const Content> contents, const FileSink& to, FileSize size) {
  FilePools pools;
  std::optional<Sources> sources;
  if (size == FileSize::small) {
    std::vector<const Plan*> plans;
    for (const Content& content : contents) std::ranges::copy(plans_of(content), std::back_inserter(plans));
    sources.emplace(plans);
  }
  std::vector<Row> rows;
  for (const Content& content : contents) rows.push_back(row_of(content, pools, sources ? &*sources : nullptr));
  FieldWriter io;
  io.list(rows, 64, "targets", [&](const Row& row) { row_fields(io, row); });
  const std::string meta = io.take();
  write_sections(kFormat, {std::as_bytes(std::span(meta)), pools.code.bytes(), pools.constants.bytes()}, to);
  std::vector<TargetPart> parts;
  for (Row& row : rows) parts.push_back(std::move(row.part));
  return parts;
}

CompiledFile load_compiled(const std::filesystem::path& path, const LoadOptions& options, const CpuIdentity& cpu) {
  const auto file = MappedFile::open(path);
  const std::span<const std::byte> bytes = file->bytes();
  if (!options.signed_by.empty()) check_signature(path, bytes, options.signed_by);
  // The owner keeps the mapping alive; nothing writes through it.
  return parse_compiled(bytes, std::const_pointer_cast<MappedFile>(file), path.string(), options, cpu);
}

CompiledFile parse_compiled(std::span<const std::byte> bytes, std::shared_ptr<void> owner, const std::string& where,
                            const LoadOptions& options, const CpuIdentity& cpu) {
  if (is_file_of(kFormat, bytes)) return parse_targets(bytes, std::move(owner), where, options, cpu);
  if (is_program_file(bytes)) return {parse_program(bytes, std::move(owner), where, options)};
  return {parse_plan(bytes, std::move(owner), where, options)};
}

int64_t choose_target(std::span<const TargetPart> targets, const CpuIdentity& cpu) {
  const auto runs = [&](const TargetPart& part) { return lacks(part, cpu).empty(); };
  for (const std::string_view name : targets_of(cpu)) {
    const auto at = std::ranges::find(targets, name, &TargetPart::target);
    if (at != targets.end() && runs(*at)) return at - targets.begin();
  }
  int64_t best = -1;
  for (int64_t i = 0; i < std::ssize(targets); ++i) {
    const TargetPart& part = targets[static_cast<size_t>(i)];
    if (runs(part) && (best < 0 || part.features.size() > targets[static_cast<size_t>(best)].features.size())) best = i;
  }
  return best;
}

bool is_compiled_file(const std::filesystem::path& path) {
  return is_plan_file(path) || is_program_file(path) || is_file_of(kFormat, path);
}

}  // namespace kilter::vm
