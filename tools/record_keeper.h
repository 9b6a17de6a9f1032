// Keeps what a run measures in a store that cannot always be written: the disk is full, another process holds the file,
// a record is none that the store takes.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "tune/records/store.h"

namespace kilter::tool {

class RecordKeeper {
 public:
  /// `tell` gets one line when writing first fails, and one when a record is first refused.
  RecordKeeper(tune::Store& store, std::function<void(const std::string&)> tell);

  /// Writes what could not be written before, then these; what still cannot be is tried again the next time. Throws
  /// nothing of the store's.
  void keep(std::span<const tune::Record> records);
  /// Tries once more, and waits longer for others that hold the file; why records could not be written, empty when all
  /// are. The file is there from then on, also where a whole run kept nothing.
  std::string finish();

 private:
  void write();
  void make_file();
  /// One by one, as some are refused.
  void write_apart();
  void note(const Error& e);

  tune::Store& store_;
  std::function<void(const std::string&)> tell_;
  std::vector<tune::Record> unwritten_;
  std::string fault_;    ///< why the last try failed
  std::string refused_;  ///< what the store said of a record that it will never take
  bool told_ = false;
};

}  // namespace kilter::tool
