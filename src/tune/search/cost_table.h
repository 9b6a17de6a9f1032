// Measured costs of all points of a task that a search may propose: the ground truth for comparing searchers. The text
// form is JSON lines: a line with the task and the conditions, then one short line per point.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "schedule/schedule.h"

namespace kilter::tune {

struct CostRow {
  Schedule schedule;
  double cost = 0;  ///< time over that of the default schedule; infinity for a failure
  double ms = 0;    ///< time of a trial: compiling and measuring
};

struct CostTable {
  std::string problem;  ///< line of the task
  std::string target;   ///< name of the target
  int threads = 1;
  double prune = 3;        ///< points beyond this many times the best estimate are left out
  std::string conditions;  ///< device, program and date, in words
  std::vector<CostRow> rows;
};

using MeasureAgain = std::function<std::vector<double>(const std::vector<Schedule>&)>;

/// Measures the `front` cheapest rows again, more precisely. If this changes which rows are the cheapest, the new ones
/// are measured again, too, until all of the cheapest have been. Leaves the rows cheapest first. Returns a text that
/// states how well costs repeat: "the 36 cheapest and 4 that were among them earlier were measured again, in 2 passes;
/// half of the costs moved by more than 1.3 %".
std::string settle_front(std::vector<CostRow>& rows, size_t front, const MeasureAgain& measure);

/// Returns the text form, which reads back as the same table, with costs to 4 and times to 3 significant digits.
std::string text(const CostTable& table);
/// Throws bad_input naming `where`, the line, and the expected and the actual text.
CostTable parse_cost_table(std::string_view text, const std::string& where);

}  // namespace kilter::tune
