#include "session/postgres/postgres_schema.h"

#include <fmt/format.h>

#include <string>
#include <string_view>

namespace ringside {
namespace {

using enum PostgresType;

constexpr std::chrono::seconds kPatience{60};

// Each row brings the tables to the next version. Text is compared by bytes, so that rows sort as the journal's keys
// do.
constexpr std::string_view kMigrations[][19] = {{
    "create sequence incarnation",
    "create table setting (name text collate \"C\" primary key, value bytea not null)",
    "create table server (id text collate \"C\" primary key, incarnation int8 not null, batch int8 not null,"
    " alive_until timestamptz not null, ended bool not null) with (fillfactor = 50)",
    "create table cell (id int8 primary key check (id = 1), uptime_ms int8 not null, noted_at timestamptz not null,"
    " grace_until timestamptz not null) with (fillfactor = 50)",
    "insert into cell values (1, 0, now(), '-infinity')",
    "create table session (key text collate \"C\" primary key, owner text collate \"C\","
    " conversation bool not null default false, created_at float8 not null default 0,"
    " used_s float8 not null default 0, stored_bytes int8 not null default 0, seq int8 not null default 0,"
    " head bytea, summary bytea, data_key bytea, server text collate \"C\", incarnation int8,"
    " claims int8 not null default 0) with (fillfactor = 80)",
    "create index session_order on session (octet_length(key), key) where head is not null",
    "create index session_list on session (owner, created_at, key) where conversation and head is not null",
    "create index session_chains on session (owner, used_s, key) where not conversation and head is not null",
    "create index session_used on session (used_s) where head is not null",
    "create index session_reserved on session (server) where head is null",
    "create table record (session text collate \"C\", seq int8, value bytea not null, primary key (session, seq))"
    " partition by hash (session)",
}};

constexpr int kParts = 16;

Status Execute(PostgresConnection& connection, std::string_view sql, PostgresDeadline deadline) {
  return connection.Run({.sql = sql, .prepared = false}, deadline).status();
}

/// 0 = no tables.
Result<int64_t> ReadVersion(PostgresConnection& connection, PostgresDeadline deadline) {
  // Not by to_regclass, which remembers that there was no table when another server was faster.
  const PostgresStatement exists = {
      .sql = "select count(*) > 0 from pg_class where relname = 'ringside_schema' and pg_table_is_visible(oid)",
      .columns = {kBool}};
  ASSIGN_OR_RETURN(const PostgresReply there, connection.Run(exists, deadline));
  if (there.rows() != 1 || !there.Bool(0, 0)) return 0;
  const PostgresStatement read = {.sql = "select max(version) from ringside_schema", .columns = {kInt8}};
  ASSIGN_OR_RETURN(const PostgresReply version, connection.Run(read, deadline));
  return version.rows() == 1 ? version.Int8(0, 0) : 0;
}

Status CheckEncoding(PostgresConnection& connection, PostgresDeadline deadline) {
  const PostgresStatement read = {.sql = "select current_setting('server_encoding'), current_setting('fsync')",
                                  .columns = {kText, kText}};
  ASSIGN_OR_RETURN(const PostgresReply reply, connection.Run(read, deadline));
  if (reply.rows() != 1 || reply.Bytes(0, 0) != "UTF8")
    return Mismatch("the store's database must have the encoding UTF8");
  return Status::Ok();
}

Status Migrate(PostgresConnection& connection, int64_t version, const std::vector<RowChange>& initial,
               PostgresDeadline deadline) {
  if (version == 0) {
    RETURN_IF_ERROR(Execute(connection, "create table ringside_schema (version int8 primary key)", deadline));
  }
  for (; version < kPostgresSchema; ++version) {
    for (const std::string_view sql : kMigrations[version]) {
      if (!sql.empty()) RETURN_IF_ERROR(Execute(connection, sql, deadline));
    }
    for (int part = 0; version == 0 && part < kParts; ++part) {
      const std::string sql = fmt::format(
          "create table record_{} partition of record for values with (modulus {}, remainder {})", part, kParts, part);
      RETURN_IF_ERROR(Execute(connection, sql, deadline));
    }
    PostgresStatement note = {.sql = "insert into ringside_schema values ($1)"};
    note.params.Int8(version + 1);
    RETURN_IF_ERROR(connection.Run(note, deadline).status());
  }
  for (const RowChange& row : initial) {
    PostgresStatement insert = {.sql = "insert into setting values ($1, $2) on conflict do nothing"};
    insert.params.Text(row.key.substr(1)).Bytes(row.value);
    RETURN_IF_ERROR(connection.Run(insert, deadline).status());
  }
  return Execute(connection, "commit", deadline);
}

Status Explained(const PostgresConnection& connection, const Status& failed, int64_t version) {
  const std::string& code = connection.sqlstate();
  if (code == "42501") {
    const std::string_view has = version == 0 ? "no tables yet" : "tables of an older version";
    return Mismatch(fmt::format(
        "the store's database has {}, and this role may not change that: start a server of this version once with a "
        "role that may create tables there ({})",
        has, failed.message()));
  }
  if (code == "42P07") {
    return Mismatch(fmt::format(
        "the store needs a database or a schema of its own: this one has tables of another application ({})",
        failed.message()));
  }
  return failed;
}

}  // namespace

Status MigratePostgres(PostgresConnection& connection, const std::vector<RowChange>& initial) {
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  RETURN_IF_ERROR(CheckEncoding(connection, deadline));
  ASSIGN_OR_RETURN(int64_t version, ReadVersion(connection, deadline));
  if (version < kPostgresSchema) {
    RETURN_IF_ERROR(Execute(connection, "begin", deadline));
    // A fixed number, for the servers of all stores in this database.
    const PostgresStatement lock = {.sql = "select pg_advisory_xact_lock(5238219411045)::text", .columns = {kText}};
    RETURN_IF_ERROR(connection.Run(lock, deadline).status());
    ASSIGN_OR_RETURN(version, ReadVersion(connection, deadline));  // another server may have been first
    if (version >= kPostgresSchema) {
      RETURN_IF_ERROR(Execute(connection, "commit", deadline));
    } else if (const Status migrated =
                   Migrate(connection, version, version == 0 ? initial : std::vector<RowChange>(), deadline);
               !migrated.ok()) {
      return Explained(connection, migrated, version);
    }
  }
  if (version > kPostgresSchema) {
    return Mismatch(
        fmt::format("the store's database has tables of version {}, and this server knows versions up to "
                    "{}: it was used by a newer server",
                    version, kPostgresSchema));
  }
  return Status::Ok();
}

}  // namespace ringside
