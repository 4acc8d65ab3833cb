// Journals of several servers over one database, and calls that wait for their replies.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "session/journal/shared_log.h"
#include "session/postgres/postgres_log.h"
#include "tests/session/journal/journal_fixture.h"
#include "tests/session/postgres/postgres_server.h"

namespace ringside {

class PostgresTest : public JournalTest {
 protected:
  void SetUp() override {
    server_ = PostgresServer::Get();
    if (server_ == nullptr) GTEST_SKIP() << "PostgreSQL is not installed";
    database_ = server_->MakeDatabase();
  }

  /// Options of a server whose lease does not end while a test runs, and is not renewed either.
  SharedStoreOptions Options(const std::string& name) const {
    return {.url = server_->Url(database_), .server = name, .lease_s = 3600};
  }
  Result<std::unique_ptr<Journal>> TryOpen(const SharedStoreOptions& store) const {
    JournalOptions options = options_;
    options.open_log = [&](const std::vector<RowChange>& initial, std::optional<int64_t>) {
      return OpenPostgresLog(store, options.master_key, initial);
    };
    return Journal::Open(options);
  }
  std::unique_ptr<Journal> MustOpen(const SharedStoreOptions& store) const {
    auto journal = TryOpen(store);
    EXPECT_TRUE(journal.ok()) << journal.status().ToString();
    return journal.ok() ? std::move(*journal) : nullptr;
  }
  std::unique_ptr<Journal> MustOpen(const std::string& name) const { return MustOpen(Options(name)); }

  /// An entry with a summary and a label, as the session layer writes them.
  static JournalEntry Labelled(std::string session, std::vector<std::string> payloads, SessionLabel label,
                               bool create = true) {
    JournalEntry entry = Entry(std::move(session), std::move(payloads), create);
    entry.summary = "summary of " + entry.session;
    entry.label = std::move(label);
    return entry;
  }
  static Status Write(Journal& journal, JournalEntry entry) { return Append(journal, std::move(entry)).get().status; }
  static Status Release(Journal& journal, const std::string& session) {
    auto promise = std::make_shared<std::promise<Status>>();
    const Status accepted = journal.Release(
        session, [promise](const Status& status, const JournalPosition&) { promise->set_value(status); });
    return accepted.ok() ? promise->get_future().get() : accepted;
  }
  static std::vector<std::string> Payloads(const Journal& journal, const std::string& session) {
    const auto read = journal.Read(session);
    EXPECT_TRUE(read.ok()) << read.status().ToString();
    std::vector<std::string> payloads;
    if (read.ok()) {
      for (const JournalRecord& record : read->records) payloads.push_back(record.payload);
    }
    return payloads;
  }

  /// Ends a server's lease, as if it had not renewed it.
  void EndLease(const std::string& name) {
    server_->Execute(database_,
                     "update server set alive_until = now() - interval '1 second' where id = '" + name + "'");
  }

  PostgresServer* server_ = nullptr;
  std::string database_;
};

/// Two servers, "a" and "b", of one database.
class PostgresPairTest : public PostgresTest {
 protected:
  void SetUp() override {
    PostgresTest::SetUp();
    if (server_ == nullptr) return;
    a_ = MustOpen("a");
    b_ = MustOpen("b");
    ASSERT_TRUE(a_ != nullptr && b_ != nullptr);
  }

  std::unique_ptr<Journal> a_, b_;
};

}  // namespace ringside
