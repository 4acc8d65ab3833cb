// Statements over one connection: values in both directions, errors, and replies that are not as expected.
#include <gmock/gmock.h>

#include <limits>

#include "tests/session/postgres/postgres_fixture.h"

namespace ringside {
namespace {

using namespace std::chrono_literals;
using enum PostgresType;
using testing::ElementsAre;
using testing::HasSubstr;

class PostgresConnectionTest : public PostgresTest {
 protected:
  void SetUp() override {
    PostgresTest::SetUp();
    if (server_ == nullptr) return;
    target_.emplace(*PostgresTarget::Parse(server_->Url(database_), "test"));
    auto opened = PostgresConnection::Open(*target_, stop_, 30s, Soon());
    ASSERT_TRUE(opened.ok()) << opened.status().ToString();
    connection_ = std::move(*opened);
  }
  static PostgresDeadline Soon() { return std::chrono::steady_clock::now() + 60s; }
  Result<PostgresReply> Run(PostgresStatement statement) { return connection_->Run(statement, Soon()); }

  StopSignal stop_;
  std::optional<PostgresTarget> target_;
  std::unique_ptr<PostgresConnection> connection_;
};

TEST_F(PostgresConnectionTest, ValuesSurviveTheTrip) {
  PostgresStatement echo = {.sql = "select $1, $2, $3, $4, $5, $6",
                            .columns = {kBool, kInt8, kFloat8, kText, kText, kBytes}};
  const int64_t least = std::numeric_limits<int64_t>::min();
  echo.params.Bool(true).Int8(least).Float8(-0.1).Text("\xC3\xA4").Text(std::nullopt).Bytes(std::string("\0\xff", 2));
  for (int i = 0; i < 2; ++i) {  // prepared, and again
    const auto reply = Run(echo);
    ASSERT_TRUE(reply.ok()) << reply.status().ToString();
    ASSERT_EQ(reply->rows(), 1U);
    EXPECT_TRUE(reply->Bool(0, 0));
    EXPECT_EQ(reply->Int8(0, 1), least);
    EXPECT_EQ(reply->Float8(0, 2), -0.1);
    EXPECT_EQ(reply->Text(0, 3), "\xC3\xA4");
    EXPECT_TRUE(reply->IsNull(0, 4));
    EXPECT_EQ(reply->Text(0, 5), std::string("\0\xff", 2));
  }
}

TEST_F(PostgresConnectionTest, ArraysBecomeRows) {
  PostgresStatement rows = {
      .sql = "select * from unnest($1::text[], $2::int8[], $3::bytea[], $4::bool[], $5::float8[])",
      .columns = {kText, kInt8, kBytes, kBool, kFloat8}};
  rows.params.Texts(std::vector<std::string>{"a", ""}).Int8s({1, std::nullopt}).BytesArray({std::nullopt, "\xff"});
  rows.params.Bools({true, std::nullopt}).Float8s({std::nullopt, 2.5});
  const auto reply = Run(rows);
  ASSERT_TRUE(reply.ok()) << reply.status().ToString();
  EXPECT_THAT(reply->Texts(0), ElementsAre("a", ""));
  EXPECT_TRUE(reply->Int8(0, 1) == 1 && reply->IsNull(1, 1) && reply->IsNull(0, 2) && reply->Bytes(1, 2) == "\xff");
  EXPECT_TRUE(reply->Bool(0, 3) && reply->IsNull(1, 3) && reply->IsNull(0, 4) && reply->Float8(1, 4) == 2.5);
  PostgresStatement none = {.sql = "select unnest($1::text[])", .columns = {kText}};
  none.params.Texts(std::vector<std::string>());
  EXPECT_EQ(Run(none)->rows(), 0U);
}

TEST_F(PostgresConnectionTest, ARefusedStatementUndoesItsTransactionAndKeepsTheConnection) {
  ASSERT_TRUE(Run({.sql = "create table t (n int8 primary key)"}).ok());
  const PostgresStatement insert = {.sql = "insert into t values (1)"};
  const auto twice = connection_->RunAll({insert, insert, {.sql = "insert into t values (2)"}}, Soon());
  EXPECT_EQ(twice.status().code(), StatusCode::kIo);
  EXPECT_EQ(connection_->sqlstate(), "23505");
  EXPECT_THAT(twice.status().message(), HasSubstr("23505"));
  EXPECT_TRUE(connection_->usable());
  const PostgresStatement wrong = {.sql = "selct 1"};
  EXPECT_FALSE(connection_->RunAll({wrong, wrong}, Soon()).ok());
  EXPECT_EQ(connection_->sqlstate(), "42601");
  EXPECT_EQ(Run({.sql = "select count(*) from t", .columns = {kInt8}})->Int8(0, 0), 0);
  EXPECT_EQ(Run(insert)->affected(), 1);
}

TEST_F(PostgresConnectionTest, UnexpectedRepliesEndTheConnection) {
  const PostgresStatement kUnexpected[] = {
      {.sql = "select 1::int4", .columns = {kInt8}},
      {.sql = "select 1::int8, 2::int8", .columns = {kInt8}},
      {.sql = "select 1::int8", .columns = {}},
      {.sql = "select repeat('x', 100000000)::text from generate_series(1, 4)", .columns = {kText}},
  };
  for (const PostgresStatement& statement : kUnexpected) {
    EXPECT_EQ(Run(statement).status().code(), StatusCode::kUnavailable) << statement.sql;
    EXPECT_FALSE(connection_->usable());
    EXPECT_EQ(Run({.sql = "select 1::int8", .columns = {kInt8}}).status().code(), StatusCode::kUnavailable);
    connection_ = std::move(*PostgresConnection::Open(*target_, stop_, 30s, Soon()));
  }
}

TEST_F(PostgresConnectionTest, AReplyThatDoesNotComeInTimeEndsTheConnection) {
  const PostgresStatement slow = {.sql = "select pg_sleep(600)::text", .columns = {kText}};
  const auto late = connection_->Run(slow, std::chrono::steady_clock::now() + 20ms);
  EXPECT_EQ(late.status().code(), StatusCode::kUnavailable);
  EXPECT_EQ(connection_->sqlstate(), "");
  EXPECT_FALSE(connection_->usable());
}

TEST_F(PostgresConnectionTest, AStopEndsAWait) {
  stop_.Request();
  EXPECT_EQ(Run({.sql = "select pg_sleep(600)::text", .columns = {kText}}).status().code(), StatusCode::kUnavailable);
  EXPECT_FALSE(stop_.Sleep(60s));
}

}  // namespace
}  // namespace ringside
