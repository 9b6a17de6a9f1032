#include "tune/records/store.h"

#include <gmock/gmock.h>
#include <grp.h>
#include <sqlite3.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>

#include "../base/scratch_folder.h"
#include "base/files.h"
#include "base/text.h"
#include "places.h"
#include "samples.h"
#include "tune/records/import.h"

namespace kilter::tune {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

/// Runs each test with both kinds of file.
class FileTest : public PlaceTest {
 protected:
  std::filesystem::path file() const { return place(); }
};
INSTANTIATE_TEST_SUITE_P(Kinds, FileTest, testing::Values("records.db", "records.jsonl"), kind_name);

TEST_P(FileTest, MissingFileAndFolderHaveDifferentErrors) {
  const std::string name = file().string();
  EXPECT_EQ(error_of([&] { read(); }),
            fmt::format("records {}: no such file; `kilter tune MODEL --records {}` creates it, `kilter records "
                        "import` brings records from elsewhere, or give another file of records",
                        name, name));
  std::filesystem::create_directories(file());
  EXPECT_THAT(error_of([&] { write(); }), HasSubstr("it is a directory; expected a database"));
}

TEST_P(FileTest, IsCreatedWithItsFirstRecord) {
  {
    const auto store = write();
    EXPECT_THAT(store->read().records, IsEmpty());
    EXPECT_EQ(store->remove({numbered(1).id()}), 0);
    EXPECT_THAT(store->check_file(), IsEmpty());
    std::vector<Record> none{numbered(1)};
    none[0].problem.clear();
    EXPECT_EQ(error_of([&] { store->append(none); }), "record: no 'problem'");
    EXPECT_TRUE(std::filesystem::is_empty(folder_.path())) << "what fails before a record leaves nothing";
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder_.path()));
  const auto late = write();
  write()->append(numbered(1));  // another process does this meanwhile
  EXPECT_THAT(late->read().records, SizeIs(1));
  EXPECT_EQ(late->append(numbered(1)), 0);
  EXPECT_EQ(late->append(numbered(2)), 1);
  EXPECT_THAT(read()->read().records, SizeIs(2));
}

/// Returns the permission bits of everything in a folder, by name.
std::map<std::string, int> modes_in(const std::filesystem::path& folder) {
  std::map<std::string, int> modes;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    modes[entry.path().filename().string()] = static_cast<int>(entry.status().permissions());
  return modes;
}

/// Clears the umask during its lifetime, so new files are as permissive as their creator asks.
struct OpenUmask {
  mode_t before = ::umask(0);
  ~OpenUmask() { ::umask(before); }
};

TEST_P(FileTest, IsPrivateToTheUser) {
  const OpenUmask open;
  const auto store = write();
  store->append(numbered(0, 5));
  const auto modes = modes_in(folder_.path());
  EXPECT_EQ(modes.size(), file().extension() == ".db" ? 3U : 1U) << "the database, its log and its index";
  for (const auto& [name, mode] : modes) EXPECT_EQ(mode, 0600) << name;
  store->remove({numbered(1).id()});
  for (const auto& [name, mode] : modes_in(folder_.path())) EXPECT_EQ(mode, 0600) << name;
}

TEST_P(FileTest, ExistingFileKeepsItsMode) {
  const OpenUmask open;
  write()->append(numbered(0));
  std::filesystem::permissions(file(), static_cast<std::filesystem::perms>(0644));
  write()->append(numbered(1));
  EXPECT_EQ(modes_in(folder_.path()).at(file().filename().string()), 0644);
}

/// The folder of the default file is created together with the file and is also private; the folders above are not.
TEST(DefaultStore, FolderIsPrivateToTheUser) {
  const OpenUmask open;
  const ScratchFolder folder;
  const char* before = std::getenv("XDG_DATA_HOME");
  const std::string kept = before != nullptr ? before : "";
  ::setenv("XDG_DATA_HOME", (folder.path() / "share").c_str(), 1);
  {
    const auto store = Store::open(default_records_file(), Store::Mode::write);
    EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
    store->append(numbered(1));
  }
  EXPECT_EQ(modes_in(folder.path()).at("share"), 0777);
  EXPECT_EQ(modes_in(folder.path() / "share").at("kilter"), 0700);
  EXPECT_EQ(modes_in(folder.path() / "share/kilter").at("records.db"), 0600);
  before != nullptr ? ::setenv("XDG_DATA_HOME", kept.c_str(), 1) : ::unsetenv("XDG_DATA_HOME");
}

TEST(Stores, UnwritablePlaceFailsOnOpen) {
  const ScratchFolder folder;
  EXPECT_EQ(error_of([&] { Store::open(folder.path() / "no/r.db", Store::Mode::write); }),
            fmt::format("records {0}/no/r.db: there is no folder {0}/no; create it, or give another file",
                        folder.path().string()));
  write_file_atomically(folder.path() / "file", "");
  EXPECT_THAT(error_of([&] { Store::open(folder.path() / "file/r.db", Store::Mode::write); }),
              HasSubstr(fmt::format("there is no folder {}/file; create it", folder.path().string())));
}

TEST(JsonStore, EveryTenthLineDamaged) {
  const ScratchFolder folder;
  const auto file = folder.path() / "records.jsonl";
  std::ofstream out(file);
  for (int i = 1; i <= 100; ++i) {
    std::string line = to_line(numbered(i));
    if (i % 10 == 0) {  // cuts a line off, changes it, replaces it by noise, or by JSON of another type
      if (i % 40 == 10) line.resize(line.size() / 2);
      if (i % 40 == 20) line.replace(line.find("tile=14"), 7, "tile=13");
      if (i % 40 == 30) line = "\x01\x02 noise";
      if (i % 40 == 0) line = "[1, 2]";
    }
    out << line << "\n";
  }
  out.close();
  const Reading reading = Store::open(file, Store::Mode::read)->read();
  EXPECT_THAT(reading.records, SizeIs(90));
  ASSERT_THAT(reading.damaged, SizeIs(10));
  EXPECT_THAT(reading.damaged[0], HasSubstr("records.jsonl: line 10: skipped: not JSON"));
  EXPECT_THAT(reading.damaged[1], HasSubstr("line 20: skipped: record: its id is"));
  EXPECT_THAT(reading.damaged[3], HasSubstr("line 40: skipped: record: expected a JSON object, got array"));
  // Damaged records can be added again.
  const auto store = Store::open(file, Store::Mode::write);
  EXPECT_EQ(store->append(numbered(1, 100)), 10);
  EXPECT_THAT(store->read().records, SizeIs(100));
}

TEST(JsonStore, NewerLineIsReportedAndSkipped) {
  const ScratchFolder folder;
  const auto file = folder.path() / "records.jsonl";
  nlohmann::json newer = to_json(numbered(2));
  newer["kilter_record"] = kRecordVersion + 1;
  std::ofstream(file) << to_line(numbered(1)) << "\n" << newer.dump() << "\n" << to_line(numbered(3)) << "\n";
  const auto store = Store::open(file, Store::Mode::write);
  EXPECT_THAT(store->read().records, SizeIs(2));
  EXPECT_THAT(store->read().damaged, IsEmpty());
  EXPECT_THAT(store->read().newer,
              ElementsAre(HasSubstr("records.jsonl: line 2: skipped: record of version 3; this program reads versions "
                                    "1 to 2: use a newer one")));
  EXPECT_EQ(store->append(numbered(4, 1)), 1);
  EXPECT_NE(read_file(file).find(newer.dump()), std::string::npos) << "the newer program still has its record";
}

TEST(JsonStore, TruncatedLineDoesNotBreakTheNext) {
  const ScratchFolder folder;
  const auto file = folder.path() / "records.jsonl";
  std::ofstream(file) << to_line(numbered(1)) << "\n" << to_line(numbered(2)).substr(0, 50);
  const auto store = Store::open(file, Store::Mode::write);
  EXPECT_THAT(store->check_file(), SizeIs(1));
  EXPECT_EQ(store->append(numbered(1, 3)), 2);
  const Reading reading = store->read();
  EXPECT_THAT(reading.records, SizeIs(3));
  EXPECT_THAT(reading.damaged, ElementsAre(HasSubstr("line 2: skipped: not JSON")));
}

TEST(JsonStore, AppendWorksAfterAnotherWriterRemoves) {
  const ScratchFolder folder;
  const auto file = folder.path() / "records.jsonl";
  const auto a = Store::open(file, Store::Mode::write), b = Store::open(file, Store::Mode::write);
  a->append(numbered(0, 10));
  b->append(numbered(10, 10));
  EXPECT_EQ(b->remove({numbered(3).id(), numbered(12).id()}), 2);
  EXPECT_EQ(a->append(numbered(0, 25)), 7);
  EXPECT_THAT(b->read().records, SizeIs(25));
}

/// Writes a file with version 1 of the schema but today's ids.
void write_version_1(const std::filesystem::path& file, const std::vector<Record>& records) {
  std::string sql =
      "CREATE TABLE records(seq INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, problem TEXT NOT NULL, layouts TEXT NOT "
      "NULL, schedule TEXT NOT NULL, status TEXT NOT NULL, error TEXT NOT NULL, samples TEXT NOT NULL, conditions TEXT "
      "NOT NULL, network TEXT NOT NULL, node TEXT NOT NULL, source TEXT NOT NULL, foreign_line TEXT NOT NULL);"
      "PRAGMA user_version = 1;";
  for (const Record& r : records) {
    const nlohmann::json j = to_json(r);
    sql += fmt::format(
        "INSERT INTO records(id, problem, layouts, schedule, status, error, samples, conditions, network, node, "
        "source, "
        "foreign_line) VALUES('{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '');",
        r.id(), r.problem, r.layouts, r.schedule, name(r.status), r.error,
        j.value("samples_ms", nlohmann::json::array()).dump(), j.at("conditions").dump(), r.network, r.node, r.source);
  }
  run_sql(file, sql);
}

TEST(SqliteStore, Version1IsReadAsItIsAndMigratedForWriting) {
  const ScratchFolder folder;
  const auto file = folder.path() / "old.db";
  std::vector<Record> old = numbered(0, 20);
  old.push_back(failed(Status::crash, "a b=1"));
  write_version_1(file, old);
  run_sql(file, "UPDATE records SET samples = 'damaged' WHERE seq = 7");
  EXPECT_THAT(Store::open(file, Store::Mode::read)->read().records, SizeIs(20));
  {
    const auto store = Store::open(file, Store::Mode::write);
    EXPECT_THAT(store->notices(), ElementsAre(HasSubstr("old.db: migrated from schema 1 to 2")));
    Record paired = numbered(50);
    paired.versus = {{0.9, 0.85, 0.95}, "conv2d_direct vectors=1 rows=1 tile=28 prefetch=0"};
    EXPECT_EQ(store->append(std::vector<Record>{numbered(3), paired}), 1);
    const Reading reading = store->read();
    EXPECT_THAT(reading.records, SizeIs(21));
    EXPECT_THAT(reading.damaged, ElementsAre(HasSubstr("row 7: skipped")));
    EXPECT_EQ(reading.records.back().versus->ratio.low, 0.85);
    EXPECT_THAT(store->check_file(), IsEmpty());
  }
  const auto again = Store::open(file, Store::Mode::write);
  EXPECT_THAT(again->notices(), IsEmpty());
  run_sql(file, "CREATE TABLE seen AS SELECT count(*) AS n FROM records WHERE ms IS NOT NULL AND device LIKE 'AMD%'");
  sqlite3* db = nullptr;
  sqlite3_open(file.c_str(), &db);
  sqlite3_stmt* statement = nullptr;
  sqlite3_prepare_v2(db, "SELECT n FROM seen", -1, &statement, nullptr);
  ASSERT_EQ(sqlite3_step(statement), SQLITE_ROW);
  EXPECT_EQ(sqlite3_column_int(statement, 0), 20);  // of 22 rows, all but the damaged one and the crash
  sqlite3_finalize(statement);
  sqlite3_close(db);
}

TEST(SqliteStore, OtherFilesAreRefused) {
  const ScratchFolder folder;
  const auto text = folder.path() / "log.db", other = folder.path() / "other.db";
  std::ofstream(text) << "not a database, but long enough to have had the header of one: " << std::string(200, '.');
  EXPECT_THAT(error_of([&] { Store::open(text, Store::Mode::write); }),
              HasSubstr("log.db: not an SQLite database, or its header is damaged"));
  std::filesystem::rename(text, folder.path() / "log.txt");
  EXPECT_THAT(
      error_of([&] { Store::open(folder.path() / "log.txt", Store::Mode::write); }),
      HasSubstr("log.txt: not an SQLite database; if it is a text file of records, run `kilter records import "));
  run_sql(other, "CREATE TABLE things(a)");
  for (const auto mode : {Store::Mode::read, Store::Mode::write}) {
    EXPECT_THAT(error_of([&] { Store::open(other, mode); }),
                HasSubstr("other.db: an SQLite database, but not one of tuning records"));
  }
}

TEST(SqliteStore, DamagedFileIsReportedAndSalvaged) {
  const ScratchFolder folder;
  const auto file = folder.path() / "hurt.db";
  Store::open(file, Store::Mode::write)->append(numbered(0, 400));
  const auto size = std::filesystem::file_size(file);
  ASSERT_GT(size, 40U * 4096);
  std::fstream bytes(file, std::ios::binary | std::ios::in | std::ios::out);
  bytes.seekp(static_cast<std::streamoff>(size / 4096 / 2 * 4096));
  bytes << std::string(8192, '\xa5');
  bytes.close();
  const auto store = Store::open(file, Store::Mode::read);
  EXPECT_THAT(store->check_file(), testing::Not(IsEmpty()));
  const Reading reading = store->read();
  EXPECT_GT(reading.records.size(), 300U);
  EXPECT_LT(reading.records.size(), 400U);
  std::set<std::string> nodes;
  for (const Record& r : reading.records) nodes.insert(r.node);
  EXPECT_EQ(nodes.size(), reading.records.size());
  ASSERT_THAT(reading.damaged, testing::Not(IsEmpty()));
  EXPECT_THAT(reading.damaged.back(), testing::AllOf(HasSubstr("rows after"), HasSubstr("cannot be read")));
}

TEST(SqliteStore, DestroyedFirstBytesAreReported) {
  const ScratchFolder folder;
  for (const char* name : {"hurt.db", "hurt.records"}) {
    const auto file = folder.path() / name;
    Store::open(file, Store::Mode::write)->append(numbered(0, 40));
    std::fstream(file, std::ios::binary | std::ios::in | std::ios::out) << std::string(100, '\xa5');
    if (file.extension() != ".db") std::ofstream(file.string() + "-wal") << "x";
    const std::string words = fmt::format(
        "records {}: not an SQLite database, or its header is damaged. Restore a copy, or move the file and {}-wal "
        "away and tune again (`kilter records import {}` reads the file if it is a text file of records)",
        file.string(), name, file.string());
    EXPECT_EQ(error_of([&] { import_file(file, parse_target("znver4")); }), words);
    for (const auto mode : {Store::Mode::read, Store::Mode::write})
      EXPECT_EQ(error_of([&] { Store::open(file, mode)->append(numbered(50)); }), words);
  }
  // A text file is read even if its name is that of a database.
  std::ofstream(folder.path() / "log.db") << to_line(numbered(1)) << "\n";
  EXPECT_THAT(import_file(folder.path() / "log.db", parse_target("znver4")).entries, SizeIs(1));
}

TEST(SqliteStore, DamagedHeaderGivesOneLine) {
  const ScratchFolder folder;
  const auto file = folder.path() / "hurt.db";
  Store::open(file, Store::Mode::write)->append(numbered(0, 40));
  std::fstream bytes(file, std::ios::binary | std::ios::in | std::ios::out);
  bytes.seekp(100);
  bytes << std::string(3900, '\xa5');
  bytes.close();
  const std::string message = error_of([&] { Store::open(file, Store::Mode::write)->append(numbered(50)); });
  EXPECT_THAT(message, HasSubstr("hurt.db: the database is damaged ("));
  EXPECT_THAT(message, HasSubstr("kilter records export"));
  EXPECT_EQ(message.find('\n'), std::string::npos);
}

/// Runs `action` while the folder of `file` is read-only. Root, who could write all the same, becomes another user
/// first.
int in_a_fixed_folder(const std::filesystem::path& file, const std::function<int()>& action) {
  using std::filesystem::perms;
  const perms look = perms::owner_read | perms::owner_exec | perms::others_read | perms::others_exec;
  const std::filesystem::path folder = file.parent_path();
  std::filesystem::permissions(folder.parent_path(), look | perms::owner_write);
  for (const auto& one : std::filesystem::directory_iterator(folder))
    std::filesystem::permissions(one.path(), perms::owner_read | perms::others_read);
  std::filesystem::permissions(folder, look);
  const int code = finish(start([&] {
    if (geteuid() == 0 && (setgroups(0, nullptr) != 0 || setgid(65534) != 0 || setuid(65534) != 0)) return 99;
    return action();
  }));
  std::filesystem::permissions(folder, perms::owner_all);
  return code;
}

TEST(SqliteStore, IsReadableInAReadOnlyFolder) {
  const ScratchFolder folder;
  const auto file = folder.path() / "fixed" / "records.db";
  std::filesystem::create_directories(file.parent_path());
  Store::open(file, Store::Mode::write)->append(numbered(0, 5));
  EXPECT_EQ(in_a_fixed_folder(file,
                              [&] {
                                const auto store = Store::open(file, Store::Mode::read);
                                return store->notices().empty() ? static_cast<int>(store->read().records.size()) : 50;
                              }),
            5);
}

TEST(SqliteStore, UnreadableRestOfAStoppedWriterIsReported) {
  const ScratchFolder folder;
  const auto file = folder.path() / "fixed" / "records.db";
  std::filesystem::create_directories(file.parent_path());
  const pid_t writer = start([&] {
    const auto store = Store::open(file, Store::Mode::write);
    store->append(numbered(0, 5));
    _exit(0);
    return 1;
  });
  ASSERT_EQ(finish(writer), 0);
  ASSERT_GT(std::filesystem::file_size(file.string() + "-wal"), 0U);
  std::filesystem::remove(file.string() + "-shm");
  const auto told = [&] {
    const auto store = Store::open(file, Store::Mode::read);
    if (!store->read().records.empty()) return 1;
    const std::string words = fmt::format(
        "records {}: {}-wal contains records of a writer that was stopped; they are left out, because nothing can be "
        "written here: copy both files to a folder of your own and give --records the copy",
        file.string(), file.string());
    return store->notices() == std::vector{words} ? 0 : 2;
  };
  EXPECT_EQ(in_a_fixed_folder(file, told), 0);
  // As the message says, the records can be read from copies in a folder that can be written.
  const auto copy = folder.path() / "copy.db";
  std::filesystem::copy(file, copy);
  std::filesystem::copy(file.string() + "-wal", copy.string() + "-wal");
  std::filesystem::permissions(copy, std::filesystem::perms::owner_all);
  std::filesystem::permissions(copy.string() + "-wal", std::filesystem::perms::owner_all);
  EXPECT_THAT(Store::open(copy, Store::Mode::read)->read().records, SizeIs(5));
}

TEST(Store, DefaultFileFollowsTheEnvironment) {
  const char* before = getenv("XDG_DATA_HOME");
  const std::string kept = before == nullptr ? "" : before;
  setenv("XDG_DATA_HOME", "/data", 1);
  EXPECT_EQ(default_records_file(), "/data/kilter/records.db");
  unsetenv("XDG_DATA_HOME");
  EXPECT_THAT(default_records_file().string(), HasSubstr("/.local/share/kilter/records.db"));
  if (before != nullptr) setenv("XDG_DATA_HOME", kept.c_str(), 1);
}

}  // namespace
}  // namespace kilter::tune
