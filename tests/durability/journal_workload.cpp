#include "tests/durability/journal_workload.h"

#include <functional>
#include <utility>

namespace ringside {

JournalRecord ExpectedRecord(const std::string& session, uint64_t seq) {
  std::mt19937 random(static_cast<uint32_t>(std::hash<std::string>()(session) * 31 + seq));
  JournalRecord record;
  record.type = static_cast<uint8_t>(random());
  record.payload.resize(random() % 40);
  if (random() % 100 == 0) record.payload.resize(5000 + random() % 40'000);  // spans blocks of the log
  for (char& byte : record.payload) byte = static_cast<char>(random());
  return record;
}

std::string ExpectedSummary(const std::string& session) { return "summary of " + session; }

JournalWorkload::JournalWorkload(Journal& journal, std::string prefix, uint32_t seed,
                                 std::function<void(const JournalEvent&)> tell)
    : journal_(journal), prefix_(std::move(prefix)), random_(seed), tell_(std::move(tell)) {
  const Status status =
      journal_.ForEachHead([&](const JournalHead& head) { issued_[std::string(head.session)] = head.last.seq; });
  CHECK(status.ok());
}

void JournalWorkload::Append(const std::string& session, bool create) {
  JournalEntry entry;
  entry.session = session;
  entry.create = create;
  if (create) entry.summary = ExpectedSummary(session);
  uint64_t& issued = issued_[session];
  for (uint32_t n = random_() % 4; n > 0; --n) entry.records.push_back(ExpectedRecord(session, ++issued));
  const Status accepted =
      journal_.Append(std::move(entry), [this, session](const Status& status, const JournalPosition& last) {
        if (status.ok()) tell_({JournalEvent::Kind::kAcknowledged, last.seq, session});
      });
  if (!accepted.ok()) issued_.erase(session);  // its sequence numbers are no longer known
}

void JournalWorkload::Run(int changes) {
  for (; changes > 0; --changes) {
    const uint32_t dice = random_() % 100;
    if (issued_.empty() || dice < 8) {
      Append(prefix_ + std::to_string(made_++), true);
      continue;
    }
    auto session = issued_.lower_bound(prefix_ + std::to_string(random_() % (made_ + 1)));
    if (session == issued_.end() || random_() % 4 == 0) {
      session = issued_.begin();
      std::advance(session, random_() % issued_.size());
    }
    if (dice < 92) {
      Append(session->first, false);
      continue;
    }
    const std::string name = session->first;
    issued_.erase(session);
    tell_({JournalEvent::Kind::kEraseAsked, 0, name});
    const Status accepted = journal_.Erase(name, [this, name](const Status& status, const JournalPosition&) {
      if (status.ok()) tell_({JournalEvent::Kind::kErased, 0, name});
    });
    if (!accepted.ok()) return;
  }
}

void JournalOracle::Hear(const JournalEvent& event) {
  Fate& fate = fates_[event.session];
  fate.touched = true;
  switch (event.kind) {
    case JournalEvent::Kind::kAcknowledged:
      fate.seq = std::max(fate.seq, event.seq);
      ++acknowledged_;
      break;
    case JournalEvent::Kind::kEraseAsked:
      fate.erase_asked = true;
      break;
    case JournalEvent::Kind::kErased:
      fate.erased = true;
      ++acknowledged_;
      break;
  }
}

std::string JournalOracle::Check(const Journal& journal, std::mt19937& random, int sample) {
  std::set<std::string> present;
  const Status listed = journal.ForEachHead([&](const JournalHead& head) { present.emplace(head.session); });
  if (!listed.ok()) return listed.ToString();
  for (const std::string& session : present) fates_.try_emplace(session);  // created, but not acknowledged
  std::map<std::string, Fate> after;
  for (auto& [session, fate] : fates_) {
    const bool there = present.contains(session);
    if (there && fate.erased) return session + " was erased and is back";
    if (!there && !fate.erase_asked) return session + " is lost, acknowledged up to " + std::to_string(fate.seq);
    if (!there) continue;
    if (!fate.touched && random() % static_cast<uint32_t>(sample) != 0) {
      after[session] = fate;
      continue;
    }
    const auto read = journal.Read(session);
    if (!read.ok()) return read.status().ToString();
    if (read->last.seq < fate.seq) {
      return session + " has " + std::to_string(read->last.seq) + " records, acknowledged are " +
             std::to_string(fate.seq);
    }
    for (uint64_t seq = 1; seq <= read->records.size(); ++seq) {
      if (!(read->records[seq - 1] == ExpectedRecord(session, seq))) {
        return session + ": record " + std::to_string(seq) + " is another one";
      }
    }
    if (read->summary != ExpectedSummary(session)) return session + ": another summary";
    after[session] = {read->last.seq, false, false, false};
  }
  fates_ = std::move(after);
  return "";
}

}  // namespace ringside
