// Keeps what a run measures in a store that cannot always be written: the disk is full, another process holds the file.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "tune/records/store.h"

namespace kilter::tool {

class RecordKeeper {
 public:
  /// `tell` gets one line, when writing first fails.
  RecordKeeper(tune::Store& store, std::function<void(const std::string&)> tell)
      : store_(store), tell_(std::move(tell)) {}

  /// Writes what could not be written before, then these; what still cannot be is tried again the next time. Throws
  /// nothing of the store's.
  void keep(std::span<const tune::Record> records);
  /// Tries once more; why records could not be written, empty when all are.
  std::string finish();

 private:
  void write();

  tune::Store& store_;
  std::function<void(const std::string&)> tell_;
  std::vector<tune::Record> unwritten_;
  std::string fault_;  ///< why the last try failed
  bool told_ = false;
};

}  // namespace kilter::tool
