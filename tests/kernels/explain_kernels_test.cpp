// The text of `ringside-server --explain-kernels`, and its errors.
#include "kernels/explain_kernels.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace ringside {
namespace {

using ::testing::HasSubstr;

std::string Explained(std::string_view layer) {
  const Result<std::string> text = ExplainKernels(layer);
  EXPECT_TRUE(text.ok()) << text.status().message();
  return text.ok() ? text.value() : "";
}

TEST(ExplainKernels, PrintsKernelTileAndFusions) {
  const std::string text = Explained("32,4096,14336+14336,Q4_K,norm,gate-up");
  EXPECT_THAT(text, HasSubstr("kernel        BlockQuantGemm\n"));
  EXPECT_THAT(text, HasSubstr("norm          separate\n"));
  EXPECT_THAT(text, HasSubstr("epilogue      fused\n"));
  EXPECT_THAT(text, HasSubstr("partner       none\n"));
  EXPECT_THAT(text, HasSubstr("compute capability 9.0, 132 multiprocessors"));
}

TEST(ExplainKernels, KnowsEveryWord) {
  EXPECT_THAT(Explained("1,4096,4096,bf16"), HasSubstr(" Gemv\n"));
  EXPECT_THAT(Explained("32,4096,4096,Q4_K,8.0"), HasSubstr(" Cublas\n"));
  EXPECT_THAT(Explained("8,4096,4096,f16"), HasSubstr("rows of F16"));
  EXPECT_THAT(Explained("8,4096,4096,Q4_K,f16"), HasSubstr("rows of F16"));
  EXPECT_THAT(Explained("8,4096,4096,bf16,gelu"), HasSubstr("epilogue      fused\n"));
  EXPECT_THAT(Explained("8,4096,4096,bf16,gelu-erf"), HasSubstr("epilogue      fused\n"));
  EXPECT_THAT(Explained("8,4096,4096,bf16,gelu,accumulate"), HasSubstr("epilogue      separate\n"));
  EXPECT_THAT(Explained("8,4096,4096,bf16,deterministic"), HasSubstr(" SmallGemm\n"));
  EXPECT_THAT(Explained("1,4096,4096+1024,Q4_K,norm,1024:Q6_K"), HasSubstr("partner       fused\n"));
  EXPECT_THAT(Explained("1,4096,4096,int8"), HasSubstr(" GemvW8\n"));
  EXPECT_THAT(Explained("32,4096,4096,fp8-blocks"), HasSubstr(" BlockQuantGemm\n"));
}

TEST(ExplainKernels, PrintsTheGemmOfQuantizedRows) {
  const std::string text = Explained("32,4096,4096,fp8");
  EXPECT_THAT(text, HasSubstr("kernel        QuantizeRows\n"));
  EXPECT_THAT(text, HasSubstr("kernel        Fp8Gemm\n"));
}

TEST(ExplainKernels, NamesTheWordAtFault) {
  const auto error = [](std::string_view layer) {
    const Result<std::string> text = ExplainKernels(layer);
    EXPECT_EQ(text.status().code(), StatusCode::kInvalidArgument) << layer;
    return text.status().message();
  };
  EXPECT_THAT(error(""), HasSubstr("ROWS,K,N,TYPE"));
  EXPECT_THAT(error("1,4096,4096"), HasSubstr("ROWS,K,N,TYPE"));
  EXPECT_THAT(error("0,4096,4096,bf16"), HasSubstr("\"0\""));
  EXPECT_THAT(error("1,4096x,4096,bf16"), HasSubstr("\"4096x\""));
  EXPECT_THAT(error("1,4096,1+2+3+4,bf16"), HasSubstr("up to 3 matrices"));
  EXPECT_THAT(error("1,4096,4096,Q9_K"), HasSubstr("\"Q9_K\""));
  EXPECT_THAT(error("1,4096,4096,bf16,fast"), HasSubstr("\"fast\""));
  EXPECT_THAT(error("1,4096,4096,bf16,7.5"), HasSubstr("compute capability 7.5"));
  EXPECT_THAT(error("99999999999,4096,4096,bf16"), HasSubstr("1 to 2147483647"));
}

}  // namespace
}  // namespace ringside
