#include "session/postgres/postgres_connection.h"

#include <fmt/format.h>
#include <libpq-fe.h>
#include <poll.h>

#include <algorithm>

#include "base/log.h"
#include "session/journal/journal_format.h"

namespace ringside {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kHostPatience{3'000};  // if there are other hosts to try
constexpr size_t kMaxReplyBytes = 256 << 20;
constexpr size_t kMaxNotifications = 4096;

// A weaker setting of the role or the database would acknowledge commits that a crash loses.
constexpr std::string_view kSettings = R"(
select set_config('statement_timeout', $1, false),
       set_config('default_transaction_isolation', 'read committed', false),
       set_config('client_min_messages', 'warning', false),
       set_config('synchronous_commit', case when current_setting('synchronous_commit') = 'remote_apply'
                                             then 'remote_apply' else 'on' end, false))";

milliseconds TimeLeft(PostgresDeadline deadline) {
  const auto left = std::chrono::ceil<milliseconds>(deadline - std::chrono::steady_clock::now());
  return std::clamp(left, milliseconds(0), milliseconds(3'600'000));
}

/// libpq's messages on one line; they name hosts, users and databases, never passwords.
std::string OneLine(std::string_view message) {
  std::string line;
  for (const char c : message) {
    const bool space = c == ' ' || c == '\n' || c == '\t';
    if (!space) line.push_back(c);
    if (space && !line.empty() && line.back() != ' ') line.push_back(' ');
  }
  while (!line.empty() && line.back() == ' ') line.pop_back();
  return line;
}

std::string NameOf(std::string_view sql) { return fmt::format("s{:016x}", journal_format::Checksum("", sql)); }

/// A statement's parameters as libpq takes them.
struct Bound {
  explicit Bound(const PostgresParams& params) {
    for (const auto& [type, bytes] : params.values()) {
      types.push_back(static_cast<Oid>(type));
      values.push_back(bytes ? bytes->data() : nullptr);
      lengths.push_back(bytes ? static_cast<int>(bytes->size()) : 0);
      formats.push_back(1);  // binary
    }
  }
  int count() const { return static_cast<int>(types.size()); }
  std::vector<Oid> types;
  std::vector<const char*> values;
  std::vector<int> lengths, formats;
};

std::string_view Field(const PGresult* result, int code) {
  const char* field = PQresultErrorField(result, code);
  return field == nullptr ? std::string_view() : field;
}

void NoteNotice(void* unreplicated, const PGresult* notice) {
  if (Field(notice, PG_DIAG_SOURCE_FUNCTION) == "SyncRepWaitForLSN") *static_cast<bool*>(unreplicated) = true;
  LogWarning("database: {}", OneLine(Field(notice, PG_DIAG_MESSAGE_PRIMARY)));
}

}  // namespace

Status DatabaseUnavailable() {
  return {StatusCode::kUnavailable, "The conversations' database does not answer. Try again later.", "",
          "storage_failed"};
}

Result<std::unique_ptr<PostgresConnection>> PostgresConnection::Open(const PostgresTarget& target,
                                                                     const StopSignal& stop,
                                                                     milliseconds statement_timeout,
                                                                     PostgresDeadline deadline) {
  const std::vector<const PostgresTarget::Settings*> hosts = target.InOrder();
  Status last = Unavailable("the database does not answer");
  for (const PostgresTarget::Settings* host : hosts) {
    if (TimeLeft(deadline) == milliseconds(0)) break;
    PostgresDeadline until = deadline;
    if (hosts.size() > 1) until = std::min(until, std::chrono::steady_clock::now() + kHostPatience);
    std::unique_ptr<PostgresConnection> connection(new PostgresConnection(stop));
    last = connection->Connect(*host, until);
    if (last.ok()) last = connection->Prepare(statement_timeout, until);
    target.Prefer(last.ok() ? host : hosts[hosts.size() > 1 ? 1 : 0]);
    if (last.ok()) return connection;
  }
  return last;
}

PostgresConnection::~PostgresConnection() = default;

Status PostgresConnection::Connect(const PostgresTarget::Settings& settings, PostgresDeadline deadline) {
  std::vector<const char*> names, values;
  for (const auto& [name, value] : settings) {
    names.push_back(name.c_str());
    values.push_back(value.c_str());
  }
  names.push_back(nullptr);
  values.push_back(nullptr);
  connection_ = {PQconnectStartParams(names.data(), values.data(), 0), &PQfinish};
  if (connection_ == nullptr) return Lost("out of memory");
  PQsetNoticeReceiver(connection_.get(), NoteNotice, &unreplicated_);
  for (auto state = PGRES_POLLING_WRITING; state != PGRES_POLLING_OK; state = PQconnectPoll(connection_.get())) {
    if (state == PGRES_POLLING_FAILED || PQstatus(connection_.get()) == CONNECTION_BAD)
      return Lost(PQerrorMessage(connection_.get()));
    if (!Poll(state == PGRES_POLLING_READING ? POLLIN : POLLOUT, deadline)) return Lost("it does not answer in time");
  }
  if (PQsetnonblocking(connection_.get(), 1) != 0 || PQenterPipelineMode(connection_.get()) != 1)
    return Lost(PQerrorMessage(connection_.get()));
  return Status::Ok();
}

Status PostgresConnection::Prepare(milliseconds statement_timeout, PostgresDeadline deadline) {
  using enum PostgresType;
  PostgresStatement statement = {kSettings, {}, {kText, kText, kText, kText}, false};
  statement.params.Text(std::to_string(statement_timeout.count()));
  return Run(statement, deadline).status();
}

bool PostgresConnection::in_transaction() const { return PQtransactionStatus(connection_.get()) != PQTRANS_IDLE; }

bool PostgresConnection::Poll(short events, PostgresDeadline deadline) const {
  pollfd wait[] = {{PQsocket(connection_.get()), events, 0}, {stop_.fd(), POLLIN, 0}};
  int ready = 0;
  do {
    ready = poll(wait, 2, static_cast<int>(TimeLeft(deadline).count()));
  } while (ready < 0 && errno == EINTR);
  return ready > 0 && wait[1].revents == 0;
}

Status PostgresConnection::Lost(std::string_view why) {
  usable_ = false;
  sqlstate_.clear();
  return {StatusCode::kUnavailable, "the database does not answer: " + OneLine(why), "", "storage_failed"};
}

Status PostgresConnection::Await(PostgresDeadline deadline) {
  PGconn* const connection = connection_.get();
  for (;;) {
    const int unsent = PQflush(connection);
    if (unsent < 0) return Lost(PQerrorMessage(connection));
    if (PQisBusy(connection) == 0) return Status::Ok();
    if (!Poll(static_cast<short>(unsent > 0 ? POLLIN | POLLOUT : POLLIN), deadline))
      return Lost(stop_.requested() ? "the server is stopping" : "no reply in time");
    if (PQconsumeInput(connection) == 0) return Lost(PQerrorMessage(connection));
  }
}

bool PostgresConnection::Send(const std::vector<PostgresStatement>& statements, std::vector<std::string>* prepares) {
  PGconn* const connection = connection_.get();
  for (const PostgresStatement& statement : statements) {
    const Bound bound(statement.params);
    prepares->emplace_back();
    const std::string sql(statement.sql);
    if (!statement.prepared) {
      if (PQsendQueryParams(connection, sql.c_str(), bound.count(), bound.types.data(), bound.values.data(),
                            bound.lengths.data(), bound.formats.data(), 1) == 0)
        return false;
      continue;
    }
    const std::string name = NameOf(sql);
    if (!prepared_.contains(sql) && std::ranges::count(*prepares, sql) == 0) {
      if (PQsendPrepare(connection, name.c_str(), sql.c_str(), bound.count(), bound.types.data()) == 0) return false;
      prepares->back() = sql;
    }
    if (PQsendQueryPrepared(connection, name.c_str(), bound.count(), bound.values.data(), bound.lengths.data(),
                            bound.formats.data(), 1) == 0)
      return false;
  }
  return PQpipelineSync(connection) == 1;
}

Status PostgresConnection::Accept(const PGresult& result, const PostgresReply::Columns& columns, PostgresReply* reply) {
  const ExecStatusType status = PQresultStatus(&result);
  if (status == PGRES_COMMAND_OK) {
    const std::string_view affected = PQcmdTuples(const_cast<PGresult*>(&result));
    if (reply != nullptr && !affected.empty()) reply->set_affected(std::strtoll(affected.data(), nullptr, 10));
    return Status::Ok();
  }
  if (status == PGRES_PIPELINE_ABORTED) return IoError("an earlier statement failed");
  if (status != PGRES_SINGLE_TUPLE && status != PGRES_TUPLES_OK) {
    const std::string_view severity = Field(&result, PG_DIAG_SEVERITY_NONLOCALIZED);
    if (PQstatus(connection_.get()) == CONNECTION_BAD || severity != "ERROR")
      return Lost(PQresultErrorMessage(&result));
    sqlstate_ = Field(&result, PG_DIAG_SQLSTATE);
    return IoError(fmt::format("the database refuses a statement: {} ({})",
                               OneLine(Field(&result, PG_DIAG_MESSAGE_PRIMARY)), sqlstate_));
  }
  bool sound = reply != nullptr && PQnfields(&result) == std::ssize(columns);
  for (int i = 0; sound && i < PQnfields(&result); ++i)
    sound = PQftype(&result, i) == static_cast<Oid>(columns[static_cast<size_t>(i)]) && PQfformat(&result, i) == 1;
  if (!sound) return Lost("its reply has unexpected columns");
  for (int row = 0; row < PQntuples(&result); ++row) {
    PostgresReply::Row cells;
    for (int i = 0; i < PQnfields(&result); ++i) {
      if (PQgetisnull(&result, row, i) != 0) {
        cells.emplace_back();
      } else {
        cells.emplace_back(std::string(PQgetvalue(&result, row, i), static_cast<size_t>(PQgetlength(&result, row, i))));
      }
    }
    if (Status added = reply->Add(columns, std::move(cells)); !added.ok()) return Lost(added.message());
    if (reply->bytes() > kMaxReplyBytes) return Lost("its reply is too large");
  }
  return Status::Ok();
}

Status PostgresConnection::Receive(const PostgresReply::Columns& columns, PostgresReply* reply,
                                   PostgresDeadline deadline) {
  PGconn* const connection = connection_.get();
  if (reply != nullptr) PQsetSingleRowMode(connection);  // rows are counted while they arrive
  Status status;
  for (;;) {
    RETURN_IF_ERROR(Await(deadline));
    const std::unique_ptr<PGresult, decltype(&PQclear)> result(PQgetResult(connection), &PQclear);
    if (result == nullptr) return status;
    Status accepted = Accept(*result, columns, reply);
    if (!usable_) return accepted;
    if (status.ok()) status = std::move(accepted);
  }
}

Result<std::vector<PostgresReply>> PostgresConnection::RunAll(const std::vector<PostgresStatement>& statements,
                                                              PostgresDeadline deadline) {
  if (!usable_) return Lost("the connection was lost");
  PGconn* const connection = connection_.get();
  sqlstate_.clear();
  unreplicated_ = false;
  std::vector<std::string> prepares;  // the text that is prepared before each statement; "" = none
  if (!Send(statements, &prepares)) return Lost(PQerrorMessage(connection));
  std::vector<PostgresReply> replies(statements.size());
  Status failed;
  for (size_t i = 0; i < statements.size(); ++i) {
    if (!prepares[i].empty()) {
      Status prepared = Receive({}, nullptr, deadline);
      if (!usable_) return prepared;
      if (prepared.ok()) prepared_.insert(prepares[i]);
      if (failed.ok()) failed = std::move(prepared);
    }
    Status ran = Receive(statements[i].columns, &replies[i], deadline);
    if (!usable_) return ran;
    if (failed.ok()) failed = std::move(ran);
  }
  RETURN_IF_ERROR(Await(deadline));
  const std::unique_ptr<PGresult, decltype(&PQclear)> sync(PQgetResult(connection), &PQclear);
  // An error of the commit itself, after the statements' answers.
  if (sync != nullptr && PQresultStatus(sync.get()) == PGRES_FATAL_ERROR) {
    Status refused = Accept(*sync, {}, nullptr);
    usable_ = false;
    return refused;
  }
  if (sync == nullptr || PQresultStatus(sync.get()) != PGRES_PIPELINE_SYNC) return Lost("its reply has no end");
  CollectNotifications();
  if (!failed.ok()) return failed;
  return replies;
}

Result<PostgresReply> PostgresConnection::Run(const PostgresStatement& statement, PostgresDeadline deadline) {
  ASSIGN_OR_RETURN(std::vector<PostgresReply> replies, RunAll({statement}, deadline));
  return std::move(replies[0]);
}

void PostgresConnection::CollectNotifications() {
  struct Free {
    void operator()(PGnotify* notify) const { PQfreemem(notify); }
  };
  while (const std::unique_ptr<PGnotify, Free> notify{PQnotifies(connection_.get())}) {
    if (notifications_.size() < kMaxNotifications) notifications_.emplace_back(notify->extra);
  }
}

bool PostgresConnection::WaitForNotifications(PostgresDeadline deadline) {
  if (usable_ && notifications_.empty() && Poll(POLLIN, deadline) && PQconsumeInput(connection_.get()) == 0)
    usable_ = false;
  if (usable_) CollectNotifications();
  return usable_;
}

std::vector<std::string> PostgresConnection::TakeNotifications() { return std::exchange(notifications_, {}); }

}  // namespace ringside
