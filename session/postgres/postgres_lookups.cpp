#include "session/postgres/postgres_lookups.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "session/journal/journal_reader.h"
#include "session/postgres/postgres_names.h"

namespace ringside {
namespace {

using enum PostgresType;

constexpr int kClaimAttempts = 4;  // each fails only if another server was faster

Status SessionIsElsewhere() {
  return {StatusCode::kBusy, "Another server is using this conversation; try again in a moment.", "conversation",
          "conversation_locked"};
}

// $1 session, $2 server, $3 incarnation. An incarnation has ended once its server has a greater one. That comparison
// also holds in the snapshot of a statement that waited for the row: there an incarnation that is newer than the
// snapshot is unknown, and must not be taken for one that has ended.
constexpr std::string_view kClaim = R"(
update session s set server = $2, incarnation = $3, claims = s.claims + 1
where s.key = $1 and s.head is not null
  and (s.server is null or (s.server = $2 and s.incarnation = $3)
       or exists (select 1 from server o where o.id = s.server and o.incarnation > s.incarnation))
  and exists (select 1 from server where id = $2 and incarnation = $3)
returning s.claims)";

// Sessions with their servers: mine, none, ended (taken over already), late (may be taken over).
const std::string& Places() {
  static const std::string kPlaces = fmt::format(R"(
(select s.*, s.server is not null and s.server = $1 and s.incarnation = $2 as mine,
        s.server is null or o.incarnation > s.incarnation as free,
        o.id is not null and {} as late
 from session s left join server o on o.id = s.server where s.head is not null))",
                                                 PostgresLease::kEnded);
  return kPlaces;
}

PostgresStatement ForServer(const std::string& sql, PostgresReply::Columns columns, const PostgresLease& lease) {
  PostgresStatement statement = {.sql = sql, .columns = std::move(columns)};
  statement.params.Text(lease.server()).Int8(lease.incarnation());
  return statement;
}

SharedTotals TotalsOf(const PostgresReply& reply, size_t row) {
  return {reply.Text(row, 0), reply.Int8(row, 1), reply.Int8(row, 2), reply.Int8(row, 3)};
}

}  // namespace

Result<bool> PostgresLookups::TryClaim(const std::string& session) {
  PostgresStatement claim = {.sql = kClaim, .columns = {kInt8}};
  claim.params.Text(session).Text(lease_.server()).Int8(lease_.incarnation());
  ASSIGN_OR_RETURN(const PostgresReply claimed, pool_.Run(claim));
  return claimed.rows() == 1;
}

Status PostgresLookups::MakeFree(const std::string& session) {
  static const std::string kWhere = fmt::format(R"(
select (select count(*) from server where id = $1 and incarnation = $2), p.key, p.server, p.incarnation, p.free, p.late
from (select 1) as one left join {} p on p.key = $3)",
                                                Places());
  PostgresStatement where = ForServer(kWhere, {kInt8, kText, kText, kInt8, kBool, kBool}, lease_);
  where.params.Text(session);
  ASSIGN_OR_RETURN(const PostgresReply found, pool_.Run(where));
  if (found.rows() != 1) return DatabaseUnavailable();
  if (found.Int8(0, 0) != 1) return lease_.Fence();
  if (found.IsNull(0, 1)) return NoSession(session);
  if (found.Bool(0, 4)) return Status::Ok();
  const PostgresStatement take_over = lease_.TakeOver(found.Text(0, 2), found.Int8(0, 3));
  ASSIGN_OR_RETURN(const PostgresReply taken, pool_.Run(take_over));
  return taken.affected() == 1 ? Status::Ok() : SessionIsElsewhere();
}

Status PostgresLookups::Claim(const std::string& session) {
  if (!IsStoredName(session)) return NoSession(session);
  for (int attempt = 0; attempt < kClaimAttempts; ++attempt) {
    ASSIGN_OR_RETURN(const bool claimed, TryClaim(session));
    if (claimed) return Status::Ok();
    RETURN_IF_ERROR(MakeFree(session));
  }
  return SessionIsElsewhere();
}

Status PostgresLookups::AskFor(const std::string& session) {
  if (!IsStoredName(session)) return Status::Ok();
  PostgresStatement ask = {.sql =
                               "select pg_notify('ringside_' || incarnation, key)::text from session"
                               " where key = $1 and server is not null and head is not null",
                           .columns = {kText}};
  ask.params.Text(session);
  return pool_.Run(ask).status();
}

Result<SessionPlace> PostgresLookups::Find(const std::string& session, const std::optional<std::string>& owner) {
  if (!IsStoredName(session)) return NoSession(session);
  static const std::string kFind = "select server, mine, free, late, incarnation from " + Places() +
                                   " p where key = $3 and ($4 is null or owner = $4)";
  PostgresStatement find = ForServer(kFind, {kText, kBool, kBool, kBool, kInt8}, lease_);
  find.params.Text(session).Text(owner ? std::optional(OwnerColumn(master_, *owner)) : std::nullopt);
  ASSIGN_OR_RETURN(const PostgresReply found, pool_.Run(find));
  if (found.rows() == 0) return NoSession(session);
  const bool mine = found.Bool(0, 1);
  const bool live = !found.Bool(0, 2) && (mine || !found.Bool(0, 3));
  return SessionPlace{
      .server = live ? found.Text(0, 0) : "", .mine = mine, .live = live, .incarnation = live ? found.Int8(0, 4) : 0};
}

Result<std::vector<std::string>> PostgresLookups::Existing(const std::string& owner,
                                                           const std::vector<std::string>& sessions) {
  PostgresStatement find = {
      .sql = "select key from session where key = any($2::text[]) and owner = $1 and head is not null",
      .columns = {kText}};
  PostgresParams::Column<std::string_view> names;
  std::ranges::copy_if(sessions, std::back_inserter(names), IsStoredName);
  find.params.Text(OwnerColumn(master_, owner)).Texts(names);
  ASSIGN_OR_RETURN(const PostgresReply found, pool_.Run(find));
  return found.Texts(0);
}

Result<std::vector<SharedRow>> PostgresLookups::List(const std::string& owner, const std::string& after,
                                                     int64_t limit) {
  const std::string name = OwnerColumn(master_, owner);
  PostgresStatement page = {.sql =
                                "select key, head, summary, data_key from session"
                                " where owner = $1 and conversation and head is not null"
                                " order by created_at desc, key desc limit $2",
                            .columns = {kText, kBytes, kBytes, kBytes}};
  page.params.Text(name).Int8(limit);
  if (!after.empty()) {
    if (!IsStoredName(after)) return NoSession(after);
    PostgresStatement place = {.sql =
                                   "select created_at from session"
                                   " where key = $1 and owner = $2 and conversation and head is not null",
                               .columns = {kFloat8}};
    place.params.Text(after).Text(name);
    ASSIGN_OR_RETURN(const PostgresReply found, pool_.Run(place));
    if (found.rows() == 0) return NoSession(after);
    page.sql =
        "select key, head, summary, data_key from session"
        " where owner = $1 and conversation and head is not null and (created_at, key) < ($3, $4)"
        " order by created_at desc, key desc limit $2";
    page.params.Float8(found.Float8(0, 0)).Text(after);
  }
  ASSIGN_OR_RETURN(const PostgresReply found, pool_.Run(page));
  std::vector<SharedRow> rows;
  for (size_t row = 0; row < found.rows(); ++row)
    rows.push_back({found.Text(row, 0), found.Text(row, 1), found.Text(row, 2), found.Text(row, 3)});
  return rows;
}

Result<SharedTotals> PostgresLookups::Totals(const std::string& owner) {
  PostgresStatement sum = {.sql =
                               "select min(key), count(*) filter (where conversation),"
                               " count(*) filter (where not conversation), coalesce(sum(stored_bytes), 0)::int8"
                               " from session where owner = $1 and head is not null",
                           .columns = {kText, kInt8, kInt8, kInt8}};
  sum.params.Text(OwnerColumn(master_, owner));
  ASSIGN_OR_RETURN(const PostgresReply reply, pool_.Run(sum));
  return reply.rows() == 1 ? TotalsOf(reply, 0) : SharedTotals();
}

Result<std::vector<SharedTotals>> PostgresLookups::AllTotals() {
  const PostgresStatement sum = {.sql =
                                     "select min(key), count(*) filter (where conversation),"
                                     " count(*) filter (where not conversation), coalesce(sum(stored_bytes), 0)::int8"
                                     " from session where owner is not null and head is not null group by owner",
                                 .columns = {kText, kInt8, kInt8, kInt8}};
  ASSIGN_OR_RETURN(const PostgresReply reply, pool_.Run(sum));
  std::vector<SharedTotals> totals;
  for (size_t row = 0; row < reply.rows(); ++row) totals.push_back(TotalsOf(reply, row));
  return totals;
}

Result<std::vector<std::string>> PostgresLookups::OldChains(const std::string& owner, int64_t keep, int64_t limit) {
  static const std::string kOld =
      "select key from (select * from " + Places() +
      " p where owner = $3 and not conversation order by used_s, key limit greatest(0, (select count(*) from session"
      " where owner = $3 and not conversation and head is not null) - $4)) as old"
      " where mine or free or late order by used_s, key limit $5";
  PostgresStatement find = ForServer(kOld, {kText}, lease_);
  find.params.Text(OwnerColumn(master_, owner)).Int8(keep).Int8(limit);
  ASSIGN_OR_RETURN(const PostgresReply found, pool_.Run(find));
  return found.Texts(0);
}

Result<std::vector<std::string>> PostgresLookups::UnusedSince(double used_s, int64_t limit) {
  static const std::string kUnused =
      "select key from " + Places() + " p where used_s < $3 and (mine or free or late) order by used_s limit $4";
  PostgresStatement find = ForServer(kUnused, {kText}, lease_);
  find.params.Float8(used_s).Int8(limit);
  ASSIGN_OR_RETURN(const PostgresReply found, pool_.Run(find));
  return found.Texts(0);
}

}  // namespace ringside
