// Creating and checking a store's tables, with and without the rights to do so, and refusals at the start.
#include <gmock/gmock.h>

#include <thread>

#include "tests/session/postgres/postgres_fixture.h"

namespace ringside {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

class PostgresSchemaTest : public PostgresTest {
 protected:
  SharedStoreOptions WithRole(const std::string& name, const std::string& role) {
    SharedStoreOptions options = Options(name);
    options.url = server_->Url(database_, role);
    return options;
  }
  Status Refusal(const SharedStoreOptions& options) {
    const auto journal = TryOpen(options);
    EXPECT_FALSE(journal.ok());
    return journal.ok() ? Status::Ok() : journal.status();
  }
};

TEST_F(PostgresSchemaTest, ManyServersCreateTheTablesOnce) {
  std::vector<std::thread> threads;
  std::vector<StatusCode> codes(4, StatusCode::kBusy);
  for (size_t i = 0; i < codes.size(); ++i) {
    threads.emplace_back([&, i] { codes[i] = TryOpen(Options("s" + std::to_string(i))).status().code(); });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(codes, testing::Each(StatusCode::kOk));
  EXPECT_THAT(server_->Numbers(database_, "select version from ringside_schema"), ElementsAre(1));
  EXPECT_THAT(server_->Numbers(database_, "select count(*) from cell"), ElementsAre(1));
}

TEST_F(PostgresSchemaTest, ARoleWithoutRightsToCreateTablesUsesThem) {
  const std::string role = "runs_" + database_;
  server_->Execute("postgres", "create role " + role + " login");
  const Status refused = Refusal(WithRole("a", role));
  EXPECT_EQ(refused.code(), StatusCode::kMismatch);
  EXPECT_THAT(refused.message(), AllOf(HasSubstr("no tables yet"), HasSubstr("start a server of this version once")));

  ASSERT_NE(MustOpen("a"), nullptr);  // the owner creates them
  server_->Execute(database_, "grant select, insert, update, delete on all tables in schema public to " + role);
  server_->Execute(database_, "grant usage on sequence incarnation to " + role);
  server_->Execute(database_, "revoke insert, update, delete on ringside_schema from " + role);
  const auto journal = MustOpen(WithRole("a", role));
  ASSERT_NE(journal, nullptr);
  EXPECT_TRUE(Write(*journal, Labelled("conv_1", {"one"}, {.owner = "ada", .conversation = true})).ok());
  EXPECT_TRUE(Write(*journal, Entry("conv_1", {"two"})).ok());
  EXPECT_THAT(Payloads(*journal, "conv_1"), ElementsAre("one", "two"));
  EXPECT_TRUE(Erase(*journal, "conv_1").status.ok());
}

TEST_F(PostgresSchemaTest, ANewerVersionIsRefused) {
  ASSERT_NE(MustOpen("a"), nullptr);
  server_->Execute(database_, "insert into ringside_schema values (2)");
  const Status refused = Refusal(Options("a"));
  EXPECT_EQ(refused.code(), StatusCode::kMismatch);
  EXPECT_THAT(refused.message(), AllOf(HasSubstr("tables of version 2"), HasSubstr("newer server")));
}

TEST_F(PostgresSchemaTest, TablesOfAnotherApplicationAreRefusedAndKept) {
  server_->Execute(database_, "create table session as select 1 as theirs");
  const Status refused = Refusal(Options("a"));
  EXPECT_EQ(refused.code(), StatusCode::kMismatch);
  EXPECT_THAT(refused.message(), HasSubstr("a database or a schema of its own"));
  EXPECT_THAT(server_->Numbers(database_, "select theirs::int8 from session"), ElementsAre(1));
  EXPECT_THAT(server_->Numbers(database_, "select count(*) from pg_class where relname = 'cell'"), ElementsAre(0));
}

TEST_F(PostgresSchemaTest, AStoreCanHaveASchemaOfItsOwn) {
  server_->Execute(database_, "create table session as select 1 as theirs");
  server_->Execute(database_, "create schema chat");
  SharedStoreOptions options = Options("a");
  options.url += "&options=-csearch_path%3Dchat";
  const auto journal = MustOpen(options);
  ASSERT_NE(journal, nullptr);
  EXPECT_TRUE(Write(*journal, Entry("conv_1", {"one"}, true)).ok());
  EXPECT_THAT(server_->Numbers(database_, "select count(*) from chat.session"), ElementsAre(1));
}

TEST_F(PostgresSchemaTest, AnotherEncodingIsRefused) {
  const std::string latin = "latin_" + database_;
  server_->Execute("postgres", "create database " + latin + " encoding 'LATIN1' template template0");
  database_ = latin;
  const Status refused = Refusal(Options("a"));
  EXPECT_EQ(refused.code(), StatusCode::kMismatch);
  EXPECT_THAT(refused.message(), HasSubstr("UTF8"));
}

TEST_F(PostgresSchemaTest, WeakerDurabilityOfTheRoleIsOverridden) {
  server_->Execute(database_, "alter database " + database_ + " set synchronous_commit = off");
  const auto journal = MustOpen("a");
  ASSERT_NE(journal, nullptr);
  const StopSignal never;
  const PostgresTarget target(*PostgresTarget::Parse(Options("a").url, "test"));
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  auto connection = PostgresConnection::Open(target, never, std::chrono::seconds(30), deadline);
  ASSERT_TRUE(connection.ok());
  const auto reply =
      (*connection)
          ->Run({.sql = "select current_setting('synchronous_commit')", .columns = {PostgresType::kText}}, deadline);
  EXPECT_EQ(reply->Text(0, 0), "on");
}

TEST_F(PostgresSchemaTest, ErrorsNeverHoldThePassword) {
  for (const std::string& url :
       {std::string("postgresql://ada:se%cret@host/db"), std::string("host=x password=secret"),
        std::string("postgresql://ada:secret@host/db?nonsense=secret"), std::string("postgresql://ada:secret@[host/db"),
        std::string("mysql://ada:secret@h")}) {
    const Status refused = Refusal({.url = url, .server = "a"});
    EXPECT_EQ(refused.code(), StatusCode::kInvalidArgument) << refused.ToString();
    EXPECT_THAT(refused.message(), AllOf(Not(HasSubstr("cret")), HasSubstr("postgresql://user@host")));
  }
  const Status nowhere = Refusal({.url = "postgresql://ada:secret@localhost:1/db", .server = "a"});
  EXPECT_EQ(nowhere.code(), StatusCode::kUnavailable);
  EXPECT_EQ(nowhere.reason(), "storage_failed");
  EXPECT_THAT(nowhere.message(), Not(HasSubstr("secret")));
}

TEST_F(PostgresSchemaTest, TriesAllHosts) {
  SharedStoreOptions options = Options("a");
  options.url = "postgresql://ringside@/" + database_ + "?host=/nonexistent," + server_->folder() + "&port=1,5432";
  EXPECT_NE(MustOpen(options), nullptr);
}

TEST_F(PostgresSchemaTest, RefusesWrongOptions) {
  for (const char* name : {"", "two words", "a/b", "\xff"})
    EXPECT_EQ(Refusal({.url = server_->Url(database_), .server = name}).code(), StatusCode::kInvalidArgument) << name;
  EXPECT_EQ(Refusal({.url = server_->Url(database_), .server = std::string(65, 'a')}).code(),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(Refusal({.url = server_->Url(database_), .server = "a", .lease_s = 0.1}).code(),
            StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace ringside
