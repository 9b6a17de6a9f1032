// Keeps the records of a run even while the store cannot be written because the disk is full, because another process
// has locked the file, or because the store refuses a record.
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
  /// `tell` gets one line when writing first fails, and one when the store first refuses a record.
  RecordKeeper(tune::Store& store, std::function<void(const std::string&)> tell);

  /// Writes the records that earlier calls could not write, then `records`. Records that still cannot be written are
  /// kept for the next call. Catches the store's errors.
  void keep(std::span<const tune::Record> records);
  /// Tries once more, waiting longer for other processes that have locked the file. Returns why records could not be
  /// written, or an empty string if all were. Creates the file even if the run kept no record.
  std::string finish();

 private:
  void write();
  void make_file();
  /// Writes the records one by one, because the store refuses some of them.
  void write_apart();
  void note(const Error& e);

  tune::Store& store_;
  std::function<void(const std::string&)> tell_;
  std::vector<tune::Record> unwritten_;
  std::string fault_;    ///< why the last try failed
  std::string refused_;  ///< why the store will never accept a record
  bool told_ = false;
};

}  // namespace kilter::tool
