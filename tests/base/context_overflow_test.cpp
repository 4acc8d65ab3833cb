#include "base/refusals/context_overflow.h"

#include <gtest/gtest.h>

namespace ringside {
namespace {

TEST(ContextOverflow, UsesTheWordingClientsRecognise) {
  const Status status = ContextOverflow{.limit = 2069, .tokens = 12031}.ToStatus("messages");
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(status.reason(), "context_length_exceeded");
  EXPECT_EQ(status.param(), "messages");
  EXPECT_EQ(status.message(),
            "This model's maximum context length is 2069 tokens. However, your messages resulted in 12031 tokens.");
  const ContextOverflow bounded{
      .limit = 200, .tokens = 201, .at_least = true, .prompt = true, .advice = "See --max-input-tokens."};
  EXPECT_EQ(bounded.ToStatus().message(),
            "This model's maximum context length is 200 tokens. However, your prompt resulted in at least 201 tokens. "
            "See --max-input-tokens.");
}

TEST(ContextOverflow, NumbersRoundTrip) {
  for (const bool at_least : {false, true}) {
    for (const bool prompt : {false, true}) {
      for (const char* advice : {"", "See --memory-len."}) {
        const ContextOverflow overflow{
            .limit = 7, .tokens = 123456789012, .at_least = at_least, .prompt = prompt, .advice = advice};
        const auto read = ReadContextOverflow(overflow.ToStatus());
        ASSERT_TRUE(read);
        EXPECT_EQ(read->limit, overflow.limit);
        EXPECT_EQ(read->tokens, overflow.tokens);
        EXPECT_EQ(read->at_least, at_least);
        EXPECT_EQ(read->prompt, prompt);
        EXPECT_EQ(read->advice, advice);
      }
    }
  }
}

TEST(ContextOverflow, OtherErrorsAreNotOverflow) {
  const std::string whole = ContextOverflow{.limit = 7, .tokens = 8}.ToStatus().message();
  EXPECT_FALSE(ReadContextOverflow(Status::Ok()));
  EXPECT_FALSE(ReadContextOverflow(InvalidArgument(whole, "input", "invalid_value")));
  for (size_t cut = 0; cut < whole.size(); ++cut) {
    EXPECT_FALSE(ReadContextOverflow(InvalidArgument(whole.substr(0, cut), "input", "context_length_exceeded"))) << cut;
  }
}

}  // namespace
}  // namespace ringside
