// Files with tables of measured schedules, on which cost models are trained.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tune/cost/metrics.h"
#include "tune/cost/model.h"

namespace kilter::tune {

/// Rows of one or more files. A row's group is its task on its device, since only costs with the same default are
/// comparable.
struct Table {
  TrainingSet set;
  std::vector<std::string> tasks, devices;  ///< names in order of first appearance
  std::vector<size_t> task_of, device_of;   ///< by row
};

constexpr std::string_view kTableFormat = "kilter-cost-table-1";

/// Reads JSON lines. The first line of a file: {"format": kTableFormat, "features": [names]}. Each further
/// line is a row:
///   {"task": text, "device": text, "x": [number, or null for an unknown one], "cost": number or null for a failure,
///    "weight": number}
/// "device" and "weight" may be left out, which means "" and 1. "ms" and "default_ms" may replace "cost" (null "ms" for
/// a failure). Empty lines are skipped. Throws io if a file cannot be read, and bad_input with file, line and field for
/// any other fault. All files must have the same features.
Table read_table(const std::vector<std::filesystem::path>& files);
/// Parses a table from text. Errors refer to it as `where`.
Table parse_table(std::string_view text, const std::string& where);

/// The unit by which rows are held out.
enum class HoldOut : uint8_t { task, device };

/// Returns a fold for each row, 0..folds-1. All rows of a task, or of a device, are in the same fold; `seed` determines
/// the grouping. Throws usage if there are fewer tasks or devices than folds, or fewer than two folds.
std::vector<size_t> folds_of(const Table& table, HoldOut by, size_t folds, uint64_t seed);

using MakeModel = std::function<std::unique_ptr<TrainableModel>()>;
/// Returns predictions for every row by a model trained on the other folds.
std::vector<double> predict_held_out(const Table& table, const std::vector<size_t>& folds, const MakeModel& make);

/// Applies judge() to the rows of each device, in the order of table.devices.
std::vector<Metrics> judge_by_device(const Table& table, const std::vector<double>& predicted);

}  // namespace kilter::tune
