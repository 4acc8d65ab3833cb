// A journal in a temporary folder, and calls that wait for its replies.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <future>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "session/journal/journal.h"

namespace ringside {

class JournalTest : public testing::Test {
 protected:
  JournalTest() {
    std::string name = (std::filesystem::temp_directory_path() / "journal_test.XXXXXX").string();
    CHECK(mkdtemp(name.data()) != nullptr);
    options_.path = folder_ = name;
    options_.path += "/data";
    options_.min_free_bytes = 0;
  }
  ~JournalTest() override { std::filesystem::remove_all(folder_); }

  std::unique_ptr<Journal> MustOpen() {
    auto journal = Journal::Open(options_);
    EXPECT_TRUE(journal.ok()) << journal.status().ToString();
    return journal.ok() ? std::move(*journal) : nullptr;
  }
  StatusCode OpenCode() {
    const auto journal = Journal::Open(options_);
    return journal.ok() ? StatusCode::kOk : journal.status().code();
  }

  struct Told {
    Status status;
    JournalPosition last;
  };

  static std::future<Told> Append(Journal& journal, JournalEntry entry) {
    auto promise = std::make_shared<std::promise<Told>>();
    const Status accepted =
        journal.Append(std::move(entry), [promise](const Status& status, const JournalPosition& last) {
          promise->set_value({status, last});
        });
    if (!accepted.ok()) promise->set_value({accepted, {}});
    return promise->get_future();
  }
  static Told Erase(Journal& journal, const std::string& session) {
    std::promise<Told> promise;
    const Status accepted = journal.Erase(session, [&](const Status& status, const JournalPosition& last) {
      promise.set_value({status, last});
    });
    return accepted.ok() ? promise.get_future().get() : Told{accepted, {}};
  }

  static JournalEntry Entry(std::string session, std::vector<std::string> payloads, bool create = false) {
    JournalEntry entry{.session = std::move(session), .create = create, .records = {}, .summary = {}};
    for (std::string& payload : payloads) entry.records.push_back({7, std::move(payload)});
    return entry;
  }

  std::filesystem::path folder_;
  JournalOptions options_;
};

}  // namespace ringside
