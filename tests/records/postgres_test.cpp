// Records on a PostgreSQL server: what it refuses, roles, lost connections, crashes, and many writers.
#include <gmock/gmock.h>

#include <chrono>
#include <csignal>
#include <cstdlib>

#include "base/files.h"
#include "base/text.h"
#include "places.h"
#include "postgres/server.h"
#include "tune/records/store.h"

namespace kilter::embedded {
extern const std::string_view migration_1;
}  // namespace kilter::embedded

namespace kilter::tune {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

std::unique_ptr<Store> write_to(const std::string& url) { return Store::open(url, Store::Mode::write); }
std::unique_ptr<Store> read_from(const std::string& url) { return Store::open(url, Store::Mode::read); }

double seconds_of(const std::function<void()>& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

class PostgresTest : public ::testing::Test {
 protected:
  std::string url(const std::string& user = "postgres") const { return server().url(database_, user); }
  void sql(const std::string& statement) const { run_on_server(url(), statement); }
  /// Creates a user who may connect, with a name that other tests do not use.
  std::string new_user(const std::string& rest = "") const {
    const std::string user = database_ + "user";
    sql("CREATE ROLE " + user + " LOGIN " + rest);
    return user;
  }

  std::string database_ = new_database();
};

TEST_F(PostgresTest, FailedConnectionIsReported) {
  const std::string wrong = "postgresql://locked:hunter2@/" + database_ + url().substr(url().find('?'));
  const std::string host = wrong.substr(0, wrong.find("&user"));
  sql("CREATE ROLE locked LOGIN PASSWORD 'right'");
  const std::string refused = error_of([&] { read_from(host); });
  EXPECT_THAT(refused, HasSubstr("cannot connect: "));
  EXPECT_THAT(refused, HasSubstr("password authentication failed for user \"locked\""));
  EXPECT_THAT(refused,
              HasSubstr("; check the server, the database, the user and the password (which belongs in a passfile"));
  EXPECT_THAT(refused, Not(HasSubstr("hunter2")));
  EXPECT_THAT(refused, HasSubstr("records postgresql://locked@/" + database_ + "?host="));
  EXPECT_THAT(error_of([&] { read_from(server().url("nowhere")); }),
              HasSubstr("cannot connect: connection to server on socket"));
  EXPECT_THAT(error_of([&] { read_from(server().url("nowhere")); }), HasSubstr("database \"nowhere\" does not exist"));
  EXPECT_THAT(error_of([&] { read_from("postgresql:///db?host=/no/such/folder"); }),
              HasSubstr("Is the server running locally and accepting connections on that socket?"));
  EXPECT_THAT(error_of([&] { read_from("postgresql://?service=no_such_service"); }),
              HasSubstr("definition of service \"no_such_service\" not found"));
  sql("DROP ROLE locked");
}

TEST_F(PostgresTest, MalformedUrlIsAnError) {
  const std::string message = error_of([&] { read_from("postgresql://u:hunter2@host/db?sslmod=require"); });
  EXPECT_EQ(
      message,
      "records postgresql://u@host/db?sslmod=require: not a URL of a PostgreSQL server: invalid URI query parameter: "
      "\"sslmod\"; expected postgresql://USER@HOST:PORT/DATABASE?SETTING=VALUE, where special characters are "
      "written as %XX");
  for (const char* bad :
       {"postgresql://u:hun/ter2@host/db?x=1", "postgresql://u:hunter2%zz@host/db", "postgresql://[hunter2"}) {
    const std::string told = error_of([&] { read_from(bad); });
    EXPECT_THAT(told, HasSubstr("records postgresql://")) << bad;
    if (std::string(bad).find('@') != std::string::npos) {
      EXPECT_THAT(told, Not(HasSubstr("ter2"))) << bad;
    }
  }
}

TEST_F(PostgresTest, DatabaseWithoutRecordsIsAnError) {
  EXPECT_EQ(error_of([&] { read_from(url()); }),
            fmt::format("records {0}: the database has no records; `kilter tune MODEL --records {0}` creates some, and "
                        "`kilter records import FILE --records {0}` imports existing ones",
                        url()));
  EXPECT_THAT(write_to(url())->notices(), ElementsAre(HasSubstr(": created schema 6")));
  EXPECT_THAT(write_to(url())->notices(), IsEmpty());
  EXPECT_THAT(read_from(url())->read().records, IsEmpty());
}

TEST_F(PostgresTest, AnOlderSchemaIsMigratedWithItsRecords) {
  postgres::Server old(url());
  old.run("CREATE SCHEMA kilter");
  old.run_script(std::string(embedded::migration_1));
  old.run("INSERT INTO kilter.schema_version(version) VALUES(1)");
  const std::string line =
      "INSERT INTO kilter.records(id, problem, layouts, schedule, status, error, network, node, "
      "source, foreign_line, samples, conditions) VALUES('x', '', '', '', '', '', '', '', '', '', '', '')";
  old.run(line);
  EXPECT_THAT(read_from(url())->read().damaged, SizeIs(1)) << "an older schema can be read";
  const auto store = write_to(url());
  EXPECT_THAT(store->notices(), ElementsAre(HasSubstr(": migrated from schema 1 to 6")));
  EXPECT_EQ(store->append(numbered(1, 3)), 3);
  EXPECT_THAT(store->read().damaged, SizeIs(1)) << "the row is still there";
}

TEST_F(PostgresTest, ForeignSchemaIsLeftAlone) {
  sql("CREATE SCHEMA kilter");
  sql("CREATE TABLE kilter.records(id text)");
  const std::string words = fmt::format(
      "records {}: the database has a schema \"kilter\" that is not Kilter's; give another database", url());
  EXPECT_EQ(error_of([&] { write_to(url()); }), words);
  EXPECT_EQ(error_of([&] { read_from(url()); }), words);
  sql("CREATE TABLE kilter.schema_version(version integer)");
  sql("INSERT INTO kilter.schema_version VALUES(1)");
  EXPECT_EQ(error_of([&] { write_to(url()); }), words);
}

TEST_F(PostgresTest, ForeignTablesInOtherSchemasAreIgnored) {
  sql("CREATE TABLE public.records(id text)");
  sql("CREATE FUNCTION public.has_table_privilege(text, text) RETURNS boolean LANGUAGE sql AS 'SELECT false'");
  EXPECT_EQ(write_to(url())->append(numbered(0, 3)), 3);
}

TEST_F(PostgresTest, AnotherEncodingIsRefused) {
  const std::string latin = server().url(new_database("ENCODING 'LATIN1' TEMPLATE template0"));
  EXPECT_EQ(error_of([&] { write_to(latin); }),
            fmt::format("records {}: the database's encoding is LATIN1; expected UTF8: give another database, such as "
                        "one made by `createdb --encoding=UTF8 --template=template0`",
                        latin));
}

TEST_F(PostgresTest, MissingRightsErrorNamesTheMigrateCommand) {
  const std::string user = url(new_user());
  EXPECT_EQ(
      error_of([&] { write_to(user); }),
      fmt::format("records {0}: Kilter's schema must be created or migrated first, but the server refuses this user; "
                  "as a user who may create schemas in the database, run `kilter records migrate --records {0}` once",
                  user));
  write_to(url())->append(numbered(0));
  EXPECT_THAT(
      error_of([&] { read_from(user); }),
      HasSubstr("the server refuses this user: permission denied for schema kilter; ask the database's owner for "
                "a role that may do this (the page doc/records.md lists the roles)"));
}

TEST_F(PostgresTest, DocumentedRolesHaveOnlyTheirRights) {
  write_to(url())->append(numbered(1, 10));
  run_sql(url(), first_sql_of(KILTER_RECORDS_PAGE));
  sql("UPDATE kilter.records SET schedule = 'x y=1' WHERE seq = 1");
  const std::string user = new_user(), all = "kilter_read, kilter_measure, kilter_submit";
  for (const std::string role : {"kilter_read", "kilter_submit"}) {
    sql("GRANT " + role + " TO " + user);
    const auto store = write_to(url(user));
    EXPECT_THAT(store->read().records, SizeIs(9)) << role;
    EXPECT_THAT(error_of([&] { store->append(numbered(20)); }),
                HasSubstr("the server refuses this user: permission denied for table records"));
    sql("REVOKE " + all + " FROM " + user);
  }
  sql("GRANT kilter_measure TO " + user);
  const auto store = write_to(url(user));
  EXPECT_EQ(store->append(numbered(1, 12)), 2) << "who may not remove rows cannot replace a damaged one";
  EXPECT_THAT(store->read().damaged, ElementsAre(HasSubstr("row 1: skipped: record: its id is")));
  EXPECT_THAT(error_of([&] { store->remove({numbered(2).id()}); }), HasSubstr("permission denied for table records"));
  EXPECT_THAT(error_of([&] { run_on_server(url(user), "UPDATE kilter.records SET node = 'x'"); }),
              HasSubstr("permission denied for table records"));
  EXPECT_EQ(write_to(url())->append(numbered(1)), 1) << "the owner replaces it";
  EXPECT_THAT(store->read().records, SizeIs(12));
  sql("DROP OWNED BY " + all), sql("DROP ROLE " + all);
}

TEST_F(PostgresTest, ServerErrorsAreReported) {
  const auto store = write_to(url());
  const auto failing_with = [&](const std::string& condition) {
    sql("CREATE OR REPLACE FUNCTION kilter.refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'the "
        "reason' USING ERRCODE = '" +
        condition + "'; END $$");
    sql("CREATE OR REPLACE TRIGGER refuse BEFORE INSERT ON kilter.records EXECUTE FUNCTION kilter.refuse()");
    return error_of([&] { store->append(numbered(0, 3)); });
  };
  EXPECT_EQ(failing_with("disk_full"),
            fmt::format("records {}: no space left to write (the reason); what was stored before is safe, but "
                        "nothing of this was stored: free space and run the same command again",
                        url()));
  EXPECT_EQ(failing_with("read_only_sql_transaction"),
            fmt::format("records {}: cannot be written (the reason); give the URL of the primary server", url()));
  EXPECT_THAT(failing_with("query_canceled"), HasSubstr("a statement took longer than 125 s (the reason); nothing was "
                                                        "written: try again when the server is less busy"));
  EXPECT_EQ(failing_with("data_exception"),
            fmt::format("records {}: the server reports: the reason (SQLSTATE 22000)", url()));
  EXPECT_THAT(store->read().records, IsEmpty());
}

TEST_F(PostgresTest, DuplicateRowsAreFaults) {
  const auto store = write_to(url());
  store->append(numbered(0, 3));
  EXPECT_THAT(store->check_file(), IsEmpty());
  sql("ALTER TABLE kilter.records DROP CONSTRAINT records_id_key");
  sql("UPDATE kilter.records SET id = (SELECT min(id) FROM kilter.records) WHERE seq < 3");
  EXPECT_THAT(store->check_file(), ElementsAre(HasSubstr("kilter.records has no valid unique index of its ids"),
                                               HasSubstr("2 rows have the id ")));
}

TEST_F(PostgresTest, WritersInDifferentOrdersDoNotDeadlock) {
  std::vector<Record> forth = numbered(0, 3000), back(forth.rbegin(), forth.rend());
  write_to(url());
  std::vector<pid_t> all;
  for (const auto* records : {&forth, &back, &forth, &back}) {
    all.push_back(start([=, this] {
      write_to(url())->append(*records);
      return 0;
    }));
  }
  for (const pid_t p : all) EXPECT_EQ(finish(p), 0);
  EXPECT_THAT(read_from(url())->read().records, SizeIs(3000));
}

/// A server for one test only.
class PostgresFaultTest : public ::testing::Test {
 protected:
  std::string url() const { return cluster_.url("postgres"); }
  PostgresCluster cluster_{{"synchronous_commit=off", "wal_writer_delay=10000"}};
};

TEST_F(PostgresFaultTest, ALostConnectionIsReplacedOnce) {
  const auto store = write_to(url());
  store->append(numbered(0, 10));
  cluster_.stop(), cluster_.start();
  EXPECT_THAT(store->read().records, SizeIs(10));
  run_on_server(url(), "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()");
  EXPECT_EQ(store->append(numbered(5, 10)), 5);
  cluster_.stop();
  EXPECT_THAT(error_of([&] { store->append(numbered(20)); }), HasSubstr("cannot connect: "));
  EXPECT_THAT(error_of([&] { store->read(); }), HasSubstr("cannot connect: "));
  EXPECT_THAT(error_of([&] { store->remove({numbered(0).id()}); }),
              HasSubstr("; what was stored before is safe: run the same command again"));
  cluster_.start();
  EXPECT_EQ(store->append(numbered(20)), 1);
}

TEST_F(PostgresFaultTest, AppendedRecordsSurviveACrash) {
  const auto store = write_to(url());
  for (int i = 0; i < 10; ++i) {
    store->append(numbered(10 * i, 10));
    cluster_.crash(), cluster_.start();
    ASSERT_THAT(store->read().records, SizeIs(10 * (i + 1)));
  }
}

TEST_F(PostgresFaultTest, SilentServerTimesOut) {
  const auto store = Store::open(url(), Store::Mode::write, {.busy_seconds = 0.1});
  store->append(numbered(0, 3));
  const auto halted = run_on_server(
      url(), "SELECT pid FROM pg_stat_activity WHERE application_name = 'kilter' AND pid <> pg_backend_pid()");
  ASSERT_EQ(halted.count(), 1);
  ASSERT_EQ(kill(static_cast<pid_t>(halted.number(0, 0)), SIGSTOP), 0);
  const double waited = seconds_of([&] {
    EXPECT_THAT(error_of([&] { store->remove({numbered(0).id()}); }), HasSubstr("was lost (no response for 10.1 s)"));
  });
  EXPECT_GT(waited, 10);
  EXPECT_LT(waited, 30);
  EXPECT_THAT(store->read().records, SizeIs(3)) << "over another connection";
  kill(static_cast<pid_t>(halted.number(0, 0)), SIGKILL);
}

TEST_F(PostgresTest, TwoHundredWritersAtOnce) {
  constexpr int kWriters = 200, kEach = 20;
  const double seconds = seconds_of([&] {
    std::vector<pid_t> all;
    for (int w = 0; w < kWriters; ++w) {
      all.push_back(start([=, this] {
        const auto store = write_to(url());  // the first creates the schema
        int64_t added = 0;
        for (int i = 0; i < kEach; i += 5) added += store->append(numbered(w * kEach + i, 5));
        store->append(numbered(0, 5));
        return added == kEach || w == 0 ? 0 : 1;
      }));
    }
    for (const pid_t p : all) EXPECT_EQ(finish(p), 0);
  });
  const Reading reading = read_from(url())->read();
  EXPECT_THAT(reading.damaged, IsEmpty());
  ASSERT_EQ(reading.records.size(), kWriters * kEach);
  std::set<std::string> nodes;
  for (const Record& r : reading.records) nodes.insert(r.node);
  EXPECT_EQ(nodes.size(), kWriters * kEach);
  fmt::print("{} writers of {} records each: {:.2f} s\n", kWriters, kEach, seconds);
}

TEST_F(PostgresTest, HundredThousandRecordsRoundTrip) {
  constexpr int kCount = 100000;
  const ScratchFolder folder;
  const std::string there = folder.path() / "there.db", back = folder.path() / "back.db";
  const std::vector<Record> all = numbered(0, kCount);
  Reading reading{all, {}, {}};
  for (const std::string& place : {there, url(), back}) {
    const char* kind = is_server(place) ? "PostgreSQL" : "SQLite";
    const double written = seconds_of([&] { EXPECT_EQ(write_to(place)->append(reading.records), kCount); });
    const double read = seconds_of([&] { reading = read_from(place)->read(); });
    fmt::print("{} records: {:.2f} s into {}, {:.2f} s to read them\n", kCount, written, kind, read);
    EXPECT_LT(written, 60) << "seconds, not minutes";
    EXPECT_THAT(reading.damaged, IsEmpty());
  }
  ASSERT_EQ(reading.records.size(), all.size());
  for (size_t i = 0; i < all.size(); ++i) ASSERT_EQ(to_line(reading.records[i]), to_line(all[i])) << i;
}

}  // namespace
}  // namespace kilter::tune
