#include "exec/device.h"

#include <array>
#include <mutex>
#include <vector>

#include "base/error.h"
#include "base/text.h"
#include "exec/cpu_device.h"

namespace kilter {
namespace {

struct Rows {
  std::mutex mutex;
  std::array<DeviceRow, 8> rows = {kCpuDevice};
  size_t count = 1;
};

Rows& rows() {
  static Rows all;
  return all;
}

}  // namespace

void add_device(const DeviceRow& row) {
  Rows& all = rows();
  const std::lock_guard lock(all.mutex);
  for (size_t i = 0; i < all.count; ++i) {
    if (all.rows[i].name == row.name) return;
  }
  require(all.count < all.rows.size(), "device '{}' cannot be added: the limit is {}", row.name, all.rows.size());
  all.rows[all.count++] = row;
}

const DeviceRow& find_device(const std::string& name) {
  Rows& all = rows();
  const std::lock_guard lock(all.mutex);
  std::vector<std::string> names;
  for (size_t i = 0; i < all.count; ++i) {
    if (all.rows[i].name == name) return all.rows[i];
    names.emplace_back(all.rows[i].name);
  }
  fail(ErrorKind::unsupported, "the plan is for device '{}'; this program has {}", name, join(names, ", "));
}

}  // namespace kilter
