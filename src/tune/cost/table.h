// Tables of measured schedules in files: what cost models are trained on.
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

/// Rows of one or more files. A row's group is its task on its device: only such costs have the same default.
struct Table {
  TrainingSet set;
  std::vector<std::string> tasks, devices;  ///< names, in the order in which they came first
  std::vector<size_t> task_of, device_of;   ///< of each row
};

constexpr std::string_view kTableFormat = "kilter-cost-table-1";

/// Reads JSON lines. The first line of a file: {"format": kTableFormat, "features": [names]}. Each further
/// line is a row:
///   {"task": text, "device": text, "x": [number or null for one not known], "cost": number or null for a failure,
///    "weight": number}
/// with "device" and "weight" left out for "" and 1, "ms" and "default_ms" in the place of "cost" (null "ms" for a
/// failure). Empty lines are passed over. Throws io when a file cannot be read and bad_input with file, line and field
/// for anything else; all files must have the same features.
Table read_table(const std::vector<std::filesystem::path>& files);
/// The same from text; `where` names it in errors.
Table parse_table(std::string_view text, const std::string& where);

/// What rows are held out by.
enum class HoldOut : uint8_t { task, device };

/// A fold for each row, 0..folds-1: all rows of a task, or of a device, are in the same one; which with which is drawn
/// by `seed`. Throws usage when there are fewer tasks or devices than folds, or fewer than two folds.
std::vector<size_t> folds_of(const Table& table, HoldOut by, size_t folds, uint64_t seed);

using MakeModel = std::function<std::unique_ptr<TrainableModel>()>;
/// Predictions for every row by a model that was trained on the other folds.
std::vector<double> predict_held_out(const Table& table, const std::vector<size_t>& folds, const MakeModel& make);

/// judge() for the rows of each device; in the order of table.devices.
std::vector<Metrics> judge_by_device(const Table& table, const std::vector<double>& predicted);

}  // namespace kilter::tune
