#include "exec/plan_file.h"

#include "base/files.h"
#include "exec/plan_check.h"
#include "exec/plan_meta.h"

namespace kilter {
namespace {

constexpr FileFormat kFormat{"KILTERC1", kPlanFormatVersion};

}  // namespace

void save_plan(const Plan& plan, const FileSink& to) {
  check_plan(plan, ErrorKind::internal);
  const std::string meta = write_plan_meta(plan);
  const FileSections sections{std::as_bytes(std::span(meta)),
                              {plan.code, static_cast<size_t>(plan.code_bytes)},
                              {plan.constants, static_cast<size_t>(plan.constants_bytes)}};
  write_sections(kFormat, sections, to);
}

Plan parse_plan(std::span<const std::byte> bytes, std::shared_ptr<void> owner, std::string_view where,
                LoadOptions options) {
  const FileSections sections = read_sections(kFormat, bytes, where, options, owner);
  Plan plan = read_plan_meta(sections.meta, where);
  plan.code = sections.code.data();
  plan.code_bytes = static_cast<int64_t>(sections.code.size());
  plan.constants = sections.constants.data();
  plan.constants_bytes = static_cast<int64_t>(sections.constants.size());
  plan.owner = std::move(owner);
  check_plan(plan, ErrorKind::bad_input);
  return plan;
}

Plan load_plan(const std::filesystem::path& path, LoadOptions options) {
  const auto file = MappedFile::open(path);
  // The owner keeps the mapping alive; nothing writes through it.
  return parse_plan(file->bytes(), std::const_pointer_cast<MappedFile>(file), path.string(), options);
}

bool is_plan_file(const std::filesystem::path& path) { return is_file_of(kFormat, path); }

}  // namespace kilter
