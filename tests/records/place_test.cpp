#include "tune/records/place.h"

#include <gmock/gmock.h>

#include "../base/scratch_folder.h"
#include "postgres/url.h"
#include "samples.h"
#include "tune/records/store.h"

namespace kilter::tune {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(Place, ServersAndFilesAreDistinguished) {
  EXPECT_TRUE(is_server("postgresql://host/db") && is_server("postgres://") &&
              is_server("postgresql://?service=fleet"));
  for (const char* file : {"", "records.db", "postgresql", "postgresql:/host", "/postgresql://host", "POSTGRESQL://h"})
    EXPECT_FALSE(is_server(file)) << file;
  const ScratchFolder folder;
  EXPECT_TRUE(is_absent((folder.path() / "none.db").string()));
  EXPECT_FALSE(is_absent(folder.path().string()));
  EXPECT_FALSE(is_absent("postgresql://host/none"));
}

TEST(Place, PasswordsAreNotShown) {
  const std::pair<const char*, const char*> cases[] = {
      {"postgresql://u@host:5433/db?sslmode=require", "postgresql://u@host:5433/db?sslmode=require"},
      {"postgresql://u:secret@host/db", "postgresql://u@host/db"},
      {"postgres://u:secret@host", "postgres://u@host"},
      {"postgresql://:secret@/db", "postgresql://@/db"},
      {"postgresql://u:sec%40ret@a,b:5433/db?target_session_attrs=primary",
       "postgresql://u@a,b:5433/db?target_session_attrs=primary"},
      {"postgresql:///db?user=u&password=secret&host=/run/x", "postgresql:///db?user=u&host=/run/x"},
      {"postgresql:///db?password=secret", "postgresql:///db"},
      {"postgresql:///db?p%61ssword=secret&user=u", "postgresql:///db?user=u"},
      {"postgresql://h/db?sslpassword=secret&passfile=/etc/pass", "postgresql://h/db?passfile=/etc/pass"},
      {"postgresql://h/db?user=a@b", "postgresql://h/db?user=a@b"},
      {"postgresql://h:secret?user=a@b", "postgresql://h@b"},  // libpq takes everything before @ for the user, too
      // Malformed, because special characters of the password are not encoded.
      {"postgresql://u:sec@ret@host/db", "postgresql://u@host/db"},
      {"postgresql://u:sec/ret@host/db", "postgresql://u@host/db"},
      {"postgresql://u:sec?ret@host/db", "postgresql://u@host/db"},
      {"some/file:secret@x.db", "some/file:secret@x.db"}};
  for (const auto& [place, expected] : cases) EXPECT_EQ(shown(place), expected);
}

TEST(Place, PasswordsAreRemovedFromLibraryTexts) {
  const std::string url = "postgresql://u:sec%20ret@host/db?sslpassword=other";
  const std::string text =
      postgres::without_passwords("bad URL \"" + url + "\":\n\tuser \"u\", 'sec ret', sec%20ret, other\n", url);
  EXPECT_EQ(text, "bad URL \"postgresql://u@host/db\":; user \"u\", '***', ***, ***");
}

TEST(Place, FilesBesideServerRecordsAreLocal) {
  EXPECT_EQ(beside("a/records.db"), "a/records.db");
  const std::string here = beside("postgresql://u:secret@host/db");
  EXPECT_EQ(here, beside("postgresql://u@host/db")) << "with and without the password it is the same server";
  EXPECT_NE(here, beside("postgresql://u@host/other"));
  EXPECT_THAT(here, HasSubstr(default_records_file().parent_path().string() + "/postgresql-"));
  EXPECT_THAT(here, Not(HasSubstr("secret")));
  const pid_t homeless = start([] {
    ::unsetenv("HOME"), ::unsetenv("XDG_DATA_HOME");
    return error_of([] { beside("postgresql://u:secret@host/db"); }) ==
                   "records postgresql://u@host/db: accepted plans are kept on this machine, but neither XDG_DATA_HOME "
                   "nor "
                   "HOME is set: set one of them"
               ? 0
               : 1;
  });
  EXPECT_EQ(finish(homeless), 0);
}

TEST(Place, BaseNameHidesFolderAndServer) {
  EXPECT_EQ(base_name("/home/me/tuning/some.db"), "some.db");
  EXPECT_EQ(base_name("some.jsonl"), "some.jsonl");
  EXPECT_EQ(base_name("postgresql://me:secret@host/tunes"), "a PostgreSQL server");
}

}  // namespace
}  // namespace kilter::tune
