#include "postgres/schema.h"

#include <array>
#include <string_view>

#include "base/error.h"

namespace kilter::embedded {
extern const std::string_view migration_1, migration_2, migration_3, migration_4, migration_5, migration_6;
}  // namespace kilter::embedded

namespace kilter::postgres {
namespace {

/// Migration scripts, in order. The first starts from an empty schema; each brings the schema to the next version.
constexpr std::array kMigrations = {&embedded::migration_1, &embedded::migration_2, &embedded::migration_3,
                                    &embedded::migration_4, &embedded::migration_5, &embedded::migration_6};

/// The key of the lock that is held while the schema is created or migrated ("KLTR").
constexpr int64_t kSchemaLock = 0x4b4c5452;

void make_schema(Server& server) {
  if (const std::string encoding = server.run("SELECT getdatabaseencoding()").text(0, 0).value_or("");
      encoding != "UTF8") {
    fail(ErrorKind::unsupported,
         "{}: the database's encoding is {}; expected UTF8: give another database, such as one made by `createdb "
         "--encoding=UTF8 --template=template0`",
         server.label(), encoding);
  }
  if (server.run("SELECT 1 FROM pg_namespace WHERE nspname = 'kilter'").count() == 0)
    server.run("CREATE SCHEMA kilter");
}

std::string migrate(Server& server) {
  ServerTransaction transaction(server);
  server.run(fmt::format("SELECT pg_advisory_xact_lock({})", kSchemaLock));
  const int64_t version = schema_version(server);  // another process may have prepared it meanwhile
  if (version >= known_schema()) return "";
  if (version == 0) make_schema(server);
  for (int64_t next = version; next < known_schema(); ++next) {
    server.run_script(std::string(*kMigrations[static_cast<size_t>(next)]));
    server.run(fmt::format("INSERT INTO kilter.schema_version(version) VALUES({})", next + 1));
  }
  transaction.commit();
  return version == 0 ? fmt::format("{}: created schema {}", server.label(), known_schema())
                      : fmt::format("{}: migrated from schema {} to {}", server.label(), version, known_schema());
}

}  // namespace

int64_t known_schema() { return std::ssize(kMigrations); }

std::set<std::string> columns_of(Server& server, const std::string& table) {
  const std::vector<Parameter> values{table};
  const Rows rows = server.run(
      "SELECT attname FROM pg_attribute JOIN pg_class ON pg_class.oid = attrelid JOIN pg_namespace ON "
      "pg_namespace.oid = relnamespace WHERE nspname = 'kilter' AND relname = $1 AND relkind IN ('r', 'p') AND "
      "attnum > 0 AND NOT attisdropped",
      values);
  std::set<std::string> columns;
  for (int i = 0; i < rows.count(); ++i) columns.insert(rows.text(i, 0).value_or(""));
  return columns;
}

void refuse_other_schema(const Server& server) {
  fail(ErrorKind::bad_input, "{}: the database has a schema \"kilter\" that is not Kilter's; give another database",
       server.label());
}

int64_t schema_version(Server& server) {
  // Counts all tables first: they are created in one transaction, so if any are visible, the version is as well.
  const Rows all = server.run(
      "SELECT count(*) FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace WHERE nspname = 'kilter'");
  if (columns_of(server, "schema_version").contains("version"))
    return server.run("SELECT max(version) FROM kilter.schema_version").number(0, 0);
  if (all.number(0, 0) > 0) refuse_other_schema(server);
  return 0;
}

std::string prepare_schema(Server& server) {
  if (schema_version(server) >= known_schema()) return "";
  try {
    return migrate(server);
  } catch (const ServerError& e) {
    if (!e.is("42501")) throw;
    fail(ErrorKind::io,
         "{}: Kilter's schema must be created or migrated first, but the server refuses this user; as a user who may "
         "create schemas in the database, run `kilter records migrate --records {}` once",
         server.label(), server.name());
  }
}

}  // namespace kilter::postgres
