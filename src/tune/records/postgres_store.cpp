// Records in a database of a PostgreSQL server, one per row of kilter.records (postgres/schema.h).
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <map>
#include <nlohmann/json.hpp>
#include <type_traits>
#include <utility>

#include "base/error.h"
#include "base/json_text.h"
#include "base/text.h"
#include "postgres/schema.h"
#include "postgres/server.h"
#include "postgres/text.h"
#include "tune/records/place.h"
#include "tune/records/row.h"
#include "tune/records/store.h"

namespace kilter::tune {
namespace {

using namespace postgres;

/// The key of the lock that is held while records are added ("KLTS").
constexpr int64_t kAppendLock = 0x4b4c5453;

bool has_nul(const Row& row) {
  return std::ranges::any_of(row.texts,
                             [](const auto& text) { return text && text->find('\0') != std::string::npos; }) ||
         row.device.find('\0') != std::string::npos || row.target.find('\0') != std::string::npos;
}

ArrayText ids_text(const std::set<std::string>& ids) {
  ArrayText all;
  for (const std::string& id : ids) all.add(id);
  return all;
}

/// Rows of one INSERT statement.
class Batch {
 public:
  void add(const Record& record) {
    Row row = row_of(record);
    const std::optional<std::string> line = has_nul(row) ? std::optional(to_line(record)) : std::nullopt;
    size_t at = 0;
    for (const std::optional<std::string>& text : row.texts) add(at++, text ? std::optional(storable(*text)) : text);
    add(at++, row.ms ? std::optional(format_float(*row.ms)) : std::nullopt);
    add(at++, storable(row.device));
    add(at++, storable(row.target));
    add(at++, std::to_string(row.threads));
    add(at, line);
    by_id_.try_emplace(*row.texts.front(), &record);
    ++rows_;
  }
  bool full() const { return rows_ >= kMostRows || bytes_ >= kMostBytes; }
  bool empty() const { return rows_ == 0; }

  /// Inserts the rows whose ids are new. Returns their number, and adds the records of the other ids to `known`.
  int64_t insert_into(Server& server, std::map<std::string, const Record*>& known) const {
    std::vector<Parameter> values;
    for (const ArrayText& column : columns_) values.emplace_back(column.text());
    const Rows added = server.run(statement(), values);
    std::map<std::string, const Record*> left = by_id_;
    for (int i = 0; i < added.count(); ++i) left.erase(added.text(i, 0).value_or(""));
    known.merge(left);
    return added.count();
  }

 private:
  static constexpr size_t kMostRows = 1000, kMostBytes = 4 << 20;
  static constexpr size_t kAll = kColumns + kQueryColumns.size() + 1;

  void add(size_t column, const std::optional<std::string>& text) {
    const size_t before = columns_[column].size();
    columns_[column].add(text);
    bytes_ += columns_[column].size() - before;
  }

  static const std::string& statement() {
    static const std::string kText = [] {
      std::vector<std::string> arrays;
      for (size_t i = 0; i < kAll; ++i) {
        const char* const type = i == kColumns ? "float8" : i == kAll - 2 ? "integer" : "text";
        arrays.push_back(fmt::format("${}::{}[]", i + 1, type));
      }
      // Numbers of the sequence are assigned in the order of the rows.
      return fmt::format(
          "INSERT INTO kilter.records({0}, line) SELECT {0}, line FROM unnest({1}) WITH ORDINALITY AS new({0}, line, "
          "place) ORDER BY place ON CONFLICT (id) DO NOTHING RETURNING id",
          row_columns(), fmt::join(arrays, ", "));
    }();
    return kText;
  }

  std::array<ArrayText, kAll> columns_;
  std::map<std::string, const Record*> by_id_;
  size_t rows_ = 0, bytes_ = 0;
};

class PostgresStore : public Store {
 public:
  PostgresStore(const std::string& url, Mode mode, const StoreOptions& options)
      : Store(shown(url)), server_(url, {.busy_seconds = options.busy_seconds}) {
    if (mode == Mode::write) {
      if (std::string notice = prepare_schema(server_); !notice.empty()) notices_.push_back(std::move(notice));
    }
    inspect(mode);
  }

  void wait_for_others(double seconds) override { server_.wait_for_others(seconds); }

  int64_t append(std::span<const Record> records) override {
    for (const Record& r : records) check(r);
    if (records.empty()) return 0;
    return repeatedly([&](bool alone) { return append_once(records, alone); });
  }

  Reading read(const Filter& filter) override {
    return repeatedly([&](bool /*alone*/) { return read_once(filter); });
  }

  int64_t remove(const std::set<std::string>& ids) override {
    const std::vector<Parameter> values{ids_text(ids).text()};
    return server_.run("DELETE FROM kilter.records WHERE id = ANY($1::text[])", values).changed();
  }

  std::vector<std::string> check_file() override {
    std::vector<std::string> faults;
    const Rows unique = server_.run(
        "SELECT 1 FROM pg_index JOIN pg_attribute ON attrelid = indrelid AND attnum = indkey[0] WHERE indrelid = "
        "'kilter.records'::regclass AND attname = 'id' AND indisunique AND indisvalid AND indnatts = 1");
    if (unique.count() == 0)
      faults.emplace_back(
          "the table kilter.records has no valid unique index of its ids: restore the constraint "
          "records_id_key");
    const Rows twice =
        server_.run("SELECT id, count(*) FROM kilter.records GROUP BY id HAVING count(*) > 1 ORDER BY id LIMIT 20");
    for (int i = 0; i < twice.count(); ++i) {
      faults.push_back(
          fmt::format("{} rows have the id {}; expected one: remove the others, then REINDEX TABLE "
                      "kilter.records",
                      twice.number(i, 1), twice.text(i, 0).value_or("")));
    }
    return faults;
  }

 private:
  /// Runs work that may be repeated: once on a new connection if the connection was lost, and once, with `alone`, after
  /// a collision with another transaction.
  template <class Work>
  std::invoke_result_t<Work, bool> repeatedly(Work work) {
    bool lost = false, alone = false;
    for (;;) {
      try {
        return work(alone);
      } catch (const ServerError& e) {
        const bool again = e.lost() ? !std::exchange(lost, true) : e.collided() && !std::exchange(alone, true);
        if (!again) throw;
      }
      if (!server_.usable()) server_.reconnect();
    }
  }

  /// `alone`: no other process appends at the same time. If two processes append the same new records in different
  /// orders, they collide, because each waits for the other.
  int64_t append_once(std::span<const Record> records, bool alone) {
    ServerTransaction transaction(server_);
    server_.run(fmt::format("SELECT pg_advisory_xact_lock{}({})", alone ? "" : "_shared", kAppendLock));
    std::map<std::string, const Record*> known;
    int64_t added = 0;
    Batch batch;
    for (const Record& r : records) {
      batch.add(r);
      if (batch.full()) added += std::exchange(batch, Batch()).insert_into(server_, known);
    }
    if (!batch.empty()) added += batch.insert_into(server_, known);
    if (replaces_) added += replace_damaged(known);
    transaction.commit();
    return added;
  }

  /// Replaces the rows whose content does not match their id. `known`: the records of their ids.
  int64_t replace_damaged(const std::map<std::string, const Record*>& known) {
    Batch sound;
    std::set<std::string> damaged;
    std::vector<std::string> ids;
    for (const auto& [id, record] : known) ids.push_back(id);
    for (size_t first = 0; first < ids.size(); first += kRowsAtOnce) {
      const auto end = ids.begin() + static_cast<int64_t>(std::min(first + kRowsAtOnce, ids.size()));
      const std::vector<Parameter> some{ids_text({ids.begin() + static_cast<int64_t>(first), end}).text()};
      const Rows rows =
          server_.run(fmt::format("SELECT {} FROM kilter.records WHERE id = ANY($1::text[])", select_), some);
      for (int i = 0; i < rows.count(); ++i) {
        try {
          record_in(rows, i);
        } catch (const Error&) {
          damaged.insert(rows.text(i, 0).value_or(""));
        }
      }
    }
    if (damaged.empty()) return 0;
    const std::vector<Parameter> all{ids_text(damaged).text()};
    server_.run("DELETE FROM kilter.records WHERE id = ANY($1::text[])", all);
    int64_t added = 0;
    std::map<std::string, const Record*> ignored;
    for (const std::string& id : damaged) {
      sound.add(*known.at(id));
      if (sound.full()) added += std::exchange(sound, Batch()).insert_into(server_, ignored);
    }
    if (!sound.empty()) added += sound.insert_into(server_, ignored);
    return added;
  }

  Reading read_once(const Filter& filter) {
    Reading reading;
    // Rows are fetched in parts, so that the time limit applies to each part. All parts show the same state of the
    // table.
    ServerTransaction transaction(server_, "BEGIN READ ONLY");
    std::vector<Parameter> values;
    std::string where;
    const auto only = [&](const char* column, const std::string& text) {
      if (text.empty()) return;
      values.emplace_back(storable(text));
      where += fmt::format(" {} ({} = ${}{})", where.empty() ? "WHERE" : "AND", column, values.size(),
                           has_line_ ? " OR line IS NOT NULL" : "");
    };
    only("problem", filter.problem), only("network", filter.network);
    if (filter.status) only("status", std::string(kilter::tune::name(*filter.status)));
    server_.run(
        fmt::format("DECLARE rows NO SCROLL CURSOR FOR SELECT {} FROM kilter.records{} ORDER BY seq", select_, where),
        values);
    const std::string fetch = fmt::format("FETCH {} FROM rows", kRowsAtOnce);
    for (;;) {
      const Rows rows = server_.run(fetch);
      for (int i = 0; i < rows.count(); ++i) take(rows, i, filter, reading);
      if (rows.count() < static_cast<int>(kRowsAtOnce)) return reading;
    }
  }

  Record record_in(const Rows& rows, int row) const {
    RowTexts texts;
    for (size_t i = 0; i < kColumns; ++i) texts[i] = rows.text(row, static_cast<int>(i));
    const auto line = rows.text(row, kLine);
    if (!line) return record_of(texts, ids_);
    Record record = record_from_json(try_parse_json(*line), ids_);
    if (ids_ == IdCheck::content && record.id() != texts.front())
      fail(ErrorKind::bad_input, "record: its line is the record {}", record.id());
    return record;
  }

  void take(const Rows& rows, int row, const Filter& filter, Reading& reading) const {
    try {
      Record record = record_in(rows, row);
      if (filter.admits(record)) reading.records.push_back(std::move(record));
    } catch (const Error& e) {
      auto& list = e.kind() == ErrorKind::unsupported ? reading.newer : reading.damaged;
      list.push_back(fmt::format("{}: row {}: skipped: {}", name(), rows.number(row, kSeq), e.message()));
    }
  }

  /// Finds out which columns can be read, and whether damaged rows can be replaced.
  void inspect(Mode mode) {
    const int64_t version = schema_version(server_);
    if (mode == Mode::write && version > known_schema()) fail_newer_schema(name(), version, known_schema());
    if (version == 0) {
      fail(ErrorKind::io,
           "records {}: the database has no records; `kilter tune MODEL --records {}` creates some, and `kilter "
           "records import FILE --records {}` imports existing ones",
           name(), name(), name());
    }
    const std::set<std::string> have = columns_of(server_, "records");
    const bool all = std::all_of(kRecordColumns.begin(), kRecordColumns.begin() + kColumnsNeeded,
                                 [&](const char* c) { return have.contains(c); });
    if (!all && version > known_schema()) fail_newer_schema(name(), version, known_schema());
    if (!all) refuse_other_schema(server_);
    for (const char* column : kRecordColumns) select_ += have.contains(column) ? fmt::format("{}, ", column) : "NULL, ";
    has_line_ = have.contains("line");
    select_ += has_line_ ? "line, seq" : "NULL, seq";
    if (version > known_schema()) {
      ids_ = IdCheck::none;
      notices_.push_back(newer_schema_notice(name(), version, known_schema()));
    }
    if (mode == Mode::write)
      replaces_ = server_.run("SELECT has_table_privilege('kilter.records', 'DELETE')").text(0, 0) == "t";
  }

  static constexpr int kLine = kColumns, kSeq = kLine + 1;  ///< columns after those of a record
  static constexpr size_t kRowsAtOnce = 2000;

  Server server_;
  std::string select_;
  bool has_line_ = false;
  bool replaces_ = false;
  IdCheck ids_ = IdCheck::content;
};

}  // namespace

std::unique_ptr<Store> open_postgres_store(const std::string& url, Store::Mode mode, const StoreOptions& options) {
  return std::make_unique<PostgresStore>(url, mode, options);
}

}  // namespace kilter::tune
