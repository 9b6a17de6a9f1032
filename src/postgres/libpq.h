// The functions of libpq that Kilter calls. They are declared here, not included, because the library is loaded at run
// time: builds need neither its header nor the library. Types and values are those of libpq's stable ABI (libpq.so.5).
#pragma once

#include <string>

struct pg_conn;
struct pg_result;

namespace kilter::postgres {

/// PQconninfoOption.
struct ConnectionSetting {
  char *keyword, *environment, *compiled, *value, *label, *shown;
  int shown_size;
};

/// The first fields of PGnotify.
struct Notification {
  char* channel;
  int process;
  char* payload;
};

/// Values of ConnStatusType and ExecStatusType.
constexpr int kConnectionOk = 0, kCommandOk = 1, kTuplesOk = 2;
/// Fields of an error: PG_DIAG_SQLSTATE, PG_DIAG_MESSAGE_PRIMARY.
constexpr int kSqlState = 'C', kPrimaryMessage = 'M';

using NoticeProcessor = void (*)(void*, const char*);

/// X(result, name, parameters) for each function.
#define KILTER_LIBPQ_FUNCTIONS(X)                                                                   \
  X(void, PQclear, (pg_result*))                                                                    \
  X(char*, PQcmdTuples, (pg_result*))                                                               \
  X(pg_conn*, PQconnectdbParams, (const char* const*, const char* const*, int))                     \
  X(pg_conn*, PQconnectStartParams, (const char* const*, const char* const*, int))                  \
  X(ConnectionSetting*, PQconninfo, (pg_conn*))                                                     \
  X(void, PQconninfoFree, (ConnectionSetting*))                                                     \
  X(ConnectionSetting*, PQconninfoParse, (const char*, char**))                                     \
  X(int, PQconsumeInput, (pg_conn*))                                                                \
  X(char*, PQerrorMessage, (const pg_conn*))                                                        \
  X(void, PQfinish, (pg_conn*))                                                                     \
  X(int, PQflush, (pg_conn*))                                                                       \
  X(void, PQfreemem, (void*))                                                                       \
  X(int, PQgetisnull, (const pg_result*, int, int))                                                 \
  X(int, PQgetlength, (const pg_result*, int, int))                                                 \
  X(pg_result*, PQgetResult, (pg_conn*))                                                            \
  X(char*, PQgetvalue, (const pg_result*, int, int))                                                \
  X(int, PQisBusy, (pg_conn*))                                                                      \
  X(Notification*, PQnotifies, (pg_conn*))                                                          \
  X(int, PQntuples, (const pg_result*))                                                             \
  X(char*, PQresultErrorField, (const pg_result*, int))                                             \
  X(int, PQresultStatus, (const pg_result*))                                                        \
  X(int, PQsendQuery, (pg_conn*, const char*))                                                      \
  X(int, PQsendQueryParams,                                                                         \
    (pg_conn*, const char*, int, const unsigned*, const char* const*, const int*, const int*, int)) \
  X(int, PQserverVersion, (const pg_conn*))                                                         \
  X(int, PQsetnonblocking, (pg_conn*, int))                                                         \
  X(NoticeProcessor, PQsetNoticeProcessor, (pg_conn*, NoticeProcessor, void*))                      \
  X(int, PQsocket, (const pg_conn*))                                                                \
  X(int, PQstatus, (const pg_conn*))

struct Libpq {
#define KILTER_MEMBER(result, name, parameters) result(*name) parameters;
  KILTER_LIBPQ_FUNCTIONS(KILTER_MEMBER)
#undef KILTER_MEMBER
};

/// Loads the library when it is first called. Throws unsupported if it is missing or too old. `instead`: what the
/// message suggests that the user give instead of a server, or empty.
const Libpq& load_libpq(const std::string& instead);

}  // namespace kilter::postgres
