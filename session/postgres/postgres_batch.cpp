#include "session/postgres/postgres_batch.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/defect.h"
#include "session/journal/journal_format.h"
#include "session/postgres/postgres_names.h"

namespace ringside {
namespace {

namespace format = journal_format;

// $1 server, $2 incarnation, $3 number of the batch. Everything hangs on the row of `me`: without it nothing is
// written. The last division fails, and with it the whole statement, if a session is not this server's.
std::string CommitText(bool deletes) {
  const bool skipped = RINGSIDE_DEFECT("fence_skipped");
  const std::string_view fence = skipped ? "" : " and incarnation = $2 and batch = $3 - 1";
  const std::string_view mine = skipped ? "" : " and s.server = $1 and s.incarnation = $2";
  std::string sql = fmt::format(R"(
with me as (update server set batch = $3 where id = $1{} returning 1),
records as (insert into record (session, seq, value)
            select r.* from me, unnest($4::text[], $5::int8[], $6::bytea[]) as r (session, seq, value)),
settings as (insert into setting (name, value) select n.* from me, unnest($7::text[], $8::bytea[]) as n (name, value)
             on conflict (name) do update set value = excluded.value),
sessions as (update session s
             set head = coalesce(c.head, s.head), summary = coalesce(c.summary, s.summary),
                 data_key = coalesce(c.data_key, s.data_key), owner = coalesce(c.owner, s.owner),
                 conversation = coalesce(c.conversation, s.conversation),
                 created_at = coalesce(c.created_at, s.created_at), used_s = coalesce(c.used_s, s.used_s),
                 stored_bytes = coalesce(c.stored_bytes, s.stored_bytes), seq = coalesce(c.seq, s.seq),
                 server = case when c.released then null else s.server end,
                 incarnation = case when c.released then null else s.incarnation end
             from me, unnest($9::text[], $10::bytea[], $11::bytea[], $12::bytea[], $13::text[], $14::bool[],
                             $15::float8[], $16::float8[], $17::int8[], $18::int8[], $19::bool[])
                      as c (key, head, summary, data_key, owner, conversation, created_at, used_s, stored_bytes, seq,
                            released)
             where s.key = c.key{} returning 1))",
                                fence, mine);
  if (deletes) {
    sql += fmt::format(R"(,
gone as (delete from session s using me, unnest($20::text[]) as d (key) where s.key = d.key{} returning 1),
dropped as (delete from record r using me, unnest($20::text[]) as d (key) where r.session = d.key))",
                       mine);
  }
  return sql + fmt::format(R"(
select (select count(*) from me),
       1 / case when (select count(*) from me) = 0
                  or cardinality($9::text[]) + {} = (select count(*) from sessions) + {} then 1::int8 else 0 end)",
                           deletes ? "cardinality($20::text[])" : "0", deletes ? "(select count(*) from gone)" : "0");
}

Status UnknownChange(std::string_view what) {
  return InvalidArgument(fmt::format("journal: the shared store has no row for {}", what));
}

}  // namespace

Result<PostgresBatch> PostgresBatch::Of(const std::vector<RowChange>& changes, const std::optional<SealKey>& master) {
  PostgresBatch batch;
  for (const RowChange& change : changes) RETURN_IF_ERROR(batch.Add(change, master));
  return batch;
}

Status PostgresBatch::Add(const RowChange& change, const std::optional<SealKey>& master) {
  if (change.key.starts_with(format::kErased)) return Status::Ok();  // bytes are deleted at once
  switch (change.kind) {
    case RowChange::Kind::kPut:
      return AddPut(change, master);
    case RowChange::Kind::kDelete:
    case RowChange::Kind::kDeleteRange:
      return AddDelete(change);
    case RowChange::Kind::kRelease:
      sessions_[change.key].released = true;
      return Status::Ok();
  }
  return UnknownChange("a change");
}

Status PostgresBatch::AddPut(const RowChange& change, const std::optional<SealKey>& master) {
  if (change.key.starts_with('m')) {
    settings_.emplace_back(std::string_view(change.key).substr(1), change.value);
    return Status::Ok();
  }
  const auto key = format::ParseSessionKey(change.key);
  if (!key) return UnknownChange("a key");
  Session& session = sessions_[key->session];
  if (session.deleted) return UnknownChange("a session that was deleted in this batch");
  if (change.key.starts_with(format::kRecords)) {
    const auto seq = format::ParseSeq(key->rest);
    if (!seq) return UnknownChange("a record without a number");
    records_.push_back({key->session, static_cast<int64_t>(*seq), change.value});
  } else if (key->rest == format::kHeadRest) {
    session.head = change.value;
    if (const auto head = format::DecodeHead(change.key, change.value)) {
      session.seq = static_cast<int64_t>(head->last.seq);
      session.stored_bytes = static_cast<int64_t>(head->last.bytes);
    }
  } else if (key->rest == format::kSummaryRest) {
    session.summary = change.value;
    if (change.label) {
      session.label = &*change.label;
      session.owner = OwnerColumn(master, change.label->owner);
    }
  } else if (key->rest == format::kDataKeyRest) {
    session.data_key = change.value;
  } else {
    return UnknownChange("a key");
  }
  return Status::Ok();
}

/// A session's rows are deleted together: its head is named first.
Status PostgresBatch::AddDelete(const RowChange& change) {
  const auto key = format::ParseSessionKey(change.key);
  if (!key) return UnknownChange("a key");
  Session& session = sessions_[key->session];
  if (change.kind == RowChange::Kind::kDelete && key->rest == format::kHeadRest) {
    session = {};
    session.deleted = true;
    std::erase_if(records_, [&](const Record& record) { return record.session == key->session; });
  }
  return session.deleted ? Status::Ok() : UnknownChange("a part of a session that is deleted alone");
}

PostgresStatement PostgresBatch::Statement(const std::string& server, int64_t incarnation, int64_t number) const {
  PostgresParams::Column<std::string_view> sessions, heads, summaries, data_keys, owners, deleted, of, values, names,
      numbers;
  PostgresParams::Column<bool> conversations, released;
  PostgresParams::Column<double> created, used;
  PostgresParams::Column<int64_t> bytes, seqs, last;
  for (const auto& [key, session] : sessions_) {
    if (session.deleted) {
      deleted.emplace_back(key);
      continue;
    }
    const SessionLabel* const label = session.label;
    sessions.emplace_back(key);
    heads.push_back(session.head);
    summaries.push_back(session.summary);
    data_keys.push_back(session.data_key);
    owners.push_back(session.owner);
    conversations.push_back(label ? std::optional(label->conversation) : std::nullopt);
    created.push_back(label ? std::optional(label->created_at) : std::nullopt);
    used.push_back(label ? std::optional(label->used_s) : std::nullopt);
    bytes.push_back(session.stored_bytes);
    last.push_back(session.seq);
    released.emplace_back(session.released);
  }
  for (const Record& record : records_) {
    of.emplace_back(record.session);
    seqs.emplace_back(record.seq);
    values.emplace_back(record.value);
  }
  for (const auto& [name, value] : settings_) {
    names.emplace_back(name);
    numbers.emplace_back(value);
  }
  static const std::string kCommit = CommitText(false), kCommitWithDeletes = CommitText(true);
  PostgresStatement statement = {.sql = deleted.empty() ? kCommit : kCommitWithDeletes,
                                 .columns = {PostgresType::kInt8, PostgresType::kInt8}};
  statement.params.Text(server).Int8(incarnation).Int8(number).Texts(of).Int8s(seqs).BytesArray(values);
  statement.params.Texts(names).BytesArray(numbers).Texts(sessions).BytesArray(heads).BytesArray(summaries);
  statement.params.BytesArray(data_keys).Texts(owners).Bools(conversations).Float8s(created).Float8s(used);
  statement.params.Int8s(bytes).Int8s(last).Bools(released);
  if (!deleted.empty()) statement.params.Texts(deleted);
  return statement;
}

}  // namespace ringside
