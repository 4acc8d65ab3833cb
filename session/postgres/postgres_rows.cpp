#include "session/postgres/postgres_rows.h"

#include <algorithm>
#include <limits>

#include "base/log.h"
#include "session/journal/journal_format.h"
#include "session/postgres/postgres_names.h"

namespace ringside {
namespace {

namespace format = journal_format;
using enum PostgresType;

constexpr std::chrono::seconds kPagePatience{10};
constexpr int64_t kPageBytes = 4 << 20;
constexpr int64_t kFirstRows = 512, kMostRows = 8192;  // of a page
constexpr int64_t kMostSettings = 1000;

constexpr std::string_view kBegin = "begin isolation level repeatable read, read only";
// A page ends with the first row that exceeds its bytes.
constexpr std::string_view kRecordsPage = R"(
select p.seq, p.value
from (select seq, value, sum(octet_length(value)) over (order by seq) - octet_length(value) as bytes_before
      from record where session = $1 and seq >= $2 order by seq limit $3) p
where p.bytes_before < $4 order by p.seq)";
constexpr std::string_view kSessionsPage = R"(
select p.key, p.head, p.summary, p.data_key
from (select key, head, summary, data_key,
             sum(coalesce(octet_length(summary), 0)) over (order by octet_length(key), key)
             - coalesce(octet_length(summary), 0) as bytes_before
      from session where head is not null and (octet_length(key), key) >= ($1::int4, $2)
      order by octet_length(key), key limit $3) p
where p.bytes_before < $4 order by octet_length(p.key), p.key)";

/// The smallest key greater than `key`.
std::string After(std::string_view key) { return std::string(key) + '\0'; }

/// True if no rows follow the page.
bool IsLast(const PostgresReply& page, int64_t limit) {
  return static_cast<int64_t>(page.rows()) < limit && static_cast<int64_t>(page.bytes()) < kPageBytes;
}

}  // namespace

void PostgresRows::Seek(std::string_view key) {
  const auto before = [](const auto& row, std::string_view wanted) { return row.first < wanted; };
  const bool within = !rows_.empty() && rows_.front().first <= key && key <= rows_.back().first;
  if (status_.ok() && within) {
    at_ = static_cast<size_t>(std::lower_bound(rows_.begin(), rows_.end(), key, before) - rows_.begin());
    return;
  }
  pages_ = 0;
  status_ = Fetch(key);
  if (at_ == rows_.size()) Next();
}

void PostgresRows::Next() {
  if (at_ < rows_.size()) ++at_;
  while (status_.ok() && at_ == rows_.size() && !next_.empty()) {
    ++pages_;
    status_ = Fetch(std::string(next_));
  }
}

Status PostgresRows::Fetch(std::string_view key) {
  rows_.clear();
  next_.clear();
  at_ = 0;
  Status fetched;
  if (key.starts_with('m')) {
    fetched = FetchSettings();
  } else if (key.starts_with(format::kHeads)) {
    fetched = FetchSessions(key);
  } else if (key.starts_with(format::kRecords)) {
    const auto parsed = format::ParseSessionKey(key);
    const auto seq = parsed ? format::ParseSeq(parsed->rest.substr(0, 8)) : std::nullopt;
    if (!seq) return InvalidArgument("journal: records are read of one session, from a number on");
    constexpr uint64_t kLast = std::numeric_limits<int64_t>::max();
    fetched = FetchRecords(parsed->session, static_cast<int64_t>(std::min(*seq, kLast)));
  }
  RETURN_IF_ERROR(fetched);
  const auto first = std::ranges::find_if(rows_, [&](const auto& row) { return row.first >= key; });
  at_ = static_cast<size_t>(first - rows_.begin());
  return Status::Ok();
}

Result<PostgresReply> PostgresRows::Run(PostgresStatement statement) {
  if (!loan_) {
    ASSIGN_OR_RETURN(auto started, pool_.RunAll({{.sql = kBegin}, std::move(statement)}));
    loan_.emplace(std::move(started.first));
    return std::move(started.second[1]);
  }
  auto reply = (*loan_)->Run(statement, std::chrono::steady_clock::now() + kPagePatience);
  if (reply.ok()) return reply;
  LogError("{}", reply.status().message());
  return DatabaseUnavailable();
}

Status PostgresRows::FetchSettings() {
  PostgresStatement read = {.sql = "select name, value from setting order by name limit $1",
                            .columns = {kText, kBytes}};
  read.params.Int8(kMostSettings);
  ASSIGN_OR_RETURN(const PostgresReply reply, Run(std::move(read)));
  for (size_t row = 0; row < reply.rows(); ++row) rows_.emplace_back('m' + reply.Text(row, 0), reply.Text(row, 1));
  return Status::Ok();
}

/// A whole key asks for one session; further ones are fetched by Next.
Status PostgresRows::FetchSessions(std::string_view key) {
  const auto parsed = format::ParseSessionKey(key);
  const int64_t length = key.size() > 1 ? static_cast<uint8_t>(key[1]) : 0;
  const std::string_view id = parsed ? parsed->session : key.substr(std::min<size_t>(key.size(), 2));
  if (!id.empty() && !IsStoredName(id)) return Status::Ok();
  const int64_t limit = parsed && !parsed->rest.empty() && pages_ == 0 ? 1 : kFirstRows;
  PostgresStatement read = {.sql = kSessionsPage, .columns = {kText, kBytes, kBytes, kBytes}};
  read.params.Int8(length).Text(id).Int8(limit).Int8(kPageBytes);
  ASSIGN_OR_RETURN(const PostgresReply reply, Run(std::move(read)));
  for (size_t row = 0; row < reply.rows(); ++row) {
    const std::string session = reply.Text(row, 0);
    if (!IsStoredName(session)) continue;  // not the journal's
    rows_.emplace_back(format::HeadKey(session), reply.Text(row, 1));
    if (!reply.IsNull(row, 2)) rows_.emplace_back(format::SummaryKey(session), reply.Text(row, 2));
    if (!reply.IsNull(row, 3)) rows_.emplace_back(format::DataKeyKey(session), reply.Text(row, 3));
    next_ = After(format::DataKeyKey(session));
  }
  if (IsLast(reply, limit)) next_.clear();
  return Status::Ok();
}

Status PostgresRows::FetchRecords(std::string_view session, int64_t first) {
  if (!IsStoredName(session)) return Status::Ok();
  const int64_t limit = pages_ == 0 ? kFirstRows : kMostRows;
  PostgresStatement read = {.sql = kRecordsPage, .columns = {kInt8, kBytes}};
  read.params.Text(session).Int8(first).Int8(limit).Int8(kPageBytes);
  ASSIGN_OR_RETURN(const PostgresReply reply, Run(std::move(read)));
  for (size_t row = 0; row < reply.rows(); ++row) {
    const auto seq = static_cast<uint64_t>(reply.Int8(row, 0));
    rows_.emplace_back(format::RecordKey(session, seq), reply.Text(row, 1));
    next_ = format::RecordKey(session, seq + 1);
  }
  if (IsLast(reply, limit)) next_.clear();
  return Status::Ok();
}

}  // namespace ringside
