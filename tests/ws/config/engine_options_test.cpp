// The engine options derived from the configuration and the model.
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "engine/families/model_spec.h"
#include "ws/config/config.h"

namespace ringside {
namespace {

ModelSpec Spec(int64_t trained, int64_t sliding = 0, bool learned = false) {
  ModelSpec spec;
  spec.trained_context = trained;
  spec.layers = 2;
  if (sliding > 0) spec.layer_traits.assign(2, {.window = sliding});
  spec.learned_positions = learned;
  return spec;
}

TEST(EngineOptionsOfConfig, FitsWindowsToTheModel) {
  ServerConfig config;
  EngineOptions options = ResolveEngineOptions(config, Spec(8192)).value();
  EXPECT_EQ(options.memory_len, 8192 - 256);
  EXPECT_TRUE(options.fits_window);
  EXPECT_EQ(options.pinned_max, 256);
  EXPECT_EQ(options.session_len, 1 << 20);
  EXPECT_EQ(ResolveEngineOptions(config, Spec(4 << 20))->session_len, 4 << 20) << "at least a window";

  options = ResolveEngineOptions(config, Spec(512)).value();
  EXPECT_EQ(options.pinned_max, 128);
  EXPECT_EQ(options.memory_len, 384);

  // Every layer has a window: no more than that is kept, including the pinned prefix.
  EXPECT_EQ(ResolveEngineOptions(config, Spec(8192, 1000))->pinned_max, 250);
  EXPECT_EQ(ResolveEngineOptions(config, Spec(8192, 1000))->memory_len, 750);
  ModelSpec mixed = Spec(8192, 1000);
  mixed.layer_traits[1].window = 0;
  EXPECT_EQ(ResolveEngineOptions(config, mixed)->memory_len, 8192 - 256);
  ModelSpec stretched = Spec(32768);
  stretched.scaled_context = 131072;
  EXPECT_EQ(ResolveEngineOptions(config, stretched)->memory_len, 131072 - 256);
  EXPECT_EQ(ResolveEngineOptions(config, Spec(1024, 0, true))->session_len, 1024);
  EXPECT_EQ(ResolveEngineOptions(config, Spec(0))->memory_len, 2048);

  config.memory_len = 4000;
  EXPECT_EQ(ResolveEngineOptions(config, Spec(8192))->memory_len, 4000);
  EXPECT_FALSE(ResolveEngineOptions(config, Spec(8192))->fits_window);
  EXPECT_NE(ResolveEngineOptions(config, Spec(4096)).status().message().find("--memory-len: 4000"), std::string::npos);
  EXPECT_FALSE(ResolveEngineOptions(config, Spec(8192, 1000)).ok());
  config.memory_len.reset();
  config.pinned_max = 600;
  EXPECT_NE(ResolveEngineOptions(config, Spec(512)).status().message().find("--pinned-max: 600"), std::string::npos);
  config.pinned_max.reset();
  config.session_len = 2000;
  EXPECT_NE(ResolveEngineOptions(config, Spec(1024, 0, true)).status().message().find("--session-len"),
            std::string::npos);
}

TEST(EngineOptionsOfConfig, PinsTheEncoderInput) {
  ServerConfig config;
  ModelSpec spec = Spec(512);
  spec.encoder_layers = 2;
  EXPECT_EQ(ResolveEngineOptions(config, spec)->pinned_max, 512);
  EXPECT_EQ(ResolveEngineOptions(config, spec)->memory_len, 2048);
  config.pinned_max = 3000;  // only distances are learned, and from some distance on all are equal
  EXPECT_EQ(ResolveEngineOptions(config, spec)->pinned_max, 3000);
}

TEST(EngineOptionsOfConfig, GpuStepsHaveMoreRows) {
  ServerConfig config;
  const EngineOptions cpu = ResolveEngineOptions(config, Spec(8192)).value();
  config.cuda = true;
  const EngineOptions gpu = ResolveEngineOptions(config, Spec(8192)).value();
  EXPECT_EQ(cpu.prefill_chunk, 256);
  EXPECT_EQ(cpu.target_itl_ms, 100);
  EXPECT_EQ(cpu.row_tile, 1);
  EXPECT_EQ(gpu.prefill_chunk, 4096) << "as the window of 7,936 allows";
  EXPECT_EQ(gpu.step_tokens, 4096);
  EXPECT_EQ(gpu.target_itl_ms, 50);
  EXPECT_EQ(gpu.row_tile, 256);
  config.memory_len = 3000;
  EXPECT_EQ(ResolveEngineOptions(config, Spec(8192))->prefill_chunk, 2048);
  EXPECT_EQ(ResolveEngineOptions(config, Spec(8192))->step_tokens, 2048);
  config.prefill_chunk = 64, config.target_itl_ms = 16;
  EXPECT_EQ(ResolveEngineOptions(config, Spec(8192))->prefill_chunk, 64);
  EXPECT_EQ(ResolveEngineOptions(config, Spec(8192))->target_itl_ms, 16);
}

TEST(EngineOptionsOfConfig, SpeculatesOnAGpuOrOnRequest) {
  const auto speculation = [](std::vector<std::string> args) -> std::optional<Speculation> {
    args.insert(args.begin(), {"-m", "m"});
    const auto parsed = ParseConfig(args, {});
    if (!parsed.ok()) {
      EXPECT_NE(parsed.status().message().find("--speculate"), std::string::npos);
    }
    return parsed.ok() ? std::optional(ResolveEngineOptions(parsed->config, Spec(8192))->speculation) : std::nullopt;
  };
  EXPECT_EQ(speculation({}), Speculation::kOff);
  EXPECT_EQ(speculation({"--speculate", "off"}), Speculation::kOff);
  EXPECT_EQ(speculation({"--speculate", "ngram"}), Speculation::kNgram);
  EXPECT_EQ(speculation({"--device", "cuda", "--speculate", "off"}), Speculation::kOff);
  EXPECT_EQ(speculation({"--speculate", "mtp"}), Speculation::kMtp);
  EXPECT_EQ(speculation({"--device", "cuda", "--speculate", "ngram"}), Speculation::kNgram);
  EXPECT_EQ(speculation({"--device", "cuda"}), Speculation::kMtp);
  EXPECT_EQ(speculation({"--device", "cuda", "--tensor-parallel-size", "2"}), Speculation::kOff);
  EXPECT_EQ(speculation({"--tensor-parallel-size", "2", "--speculate", "ngram"}), std::nullopt);
  EXPECT_EQ(speculation({"--speculate", "eagle"}), std::nullopt);
}

TEST(EngineOptionsOfConfig, RepetitionGuardIsOnByDefault) {
  EXPECT_FALSE(ParseConfig({"-m", "m"}, {})->config.no_repetition_guard);
  EXPECT_TRUE(ParseConfig({"-m", "m", "--no-repetition-guard"}, {})->config.no_repetition_guard);
}

TEST(EngineOptionsOfConfig, PredictedWaitHasNoLimitByDefault) {
  const auto limit_s = [](const std::vector<std::string>& args) -> std::optional<double> {
    std::vector<std::string> all{"-m", "m"};
    all.insert(all.end(), args.begin(), args.end());
    const auto parsed = ParseConfig(all, {});
    if (parsed.ok()) return ResolveEngineOptions(parsed->config, Spec(8192))->max_wait_s;
    EXPECT_NE(parsed.status().message().find("--max-wait-s"), std::string::npos);
    return std::nullopt;
  };
  EXPECT_EQ(limit_s({}), 0);
  EXPECT_EQ(limit_s({"--max-wait-s", "0"}), 0);
  EXPECT_EQ(limit_s({"--max-wait-s", "0.15"}), 0.15);
  EXPECT_EQ(limit_s({"--max-wait-s", "3600"}), 3600);
  for (const char* wrong : {"-1", "3600.5", "nan", "inf", "2s", ""}) {
    EXPECT_EQ(limit_s({"--max-wait-s", wrong}), std::nullopt) << wrong;
  }
}

TEST(EngineOptionsOfConfig, StepHoldsAWholeChunk) {
  ServerConfig config;
  config.prefill_chunk = 512;
  EXPECT_EQ(ResolveEngineOptions(config, Spec(8192))->step_tokens, 512);
  config.prefill_chunk.reset();
  config.step_tokens = 32;
  const EngineOptions options = ResolveEngineOptions(config, Spec(8192)).value();
  EXPECT_EQ(options.prefill_chunk, 32);
  const auto refused = ParseConfig({"-m", "m", "--prefill-chunk", "64", "--step-tokens", "32"}, {});
  EXPECT_NE(refused.status().message().find("--step-tokens"), std::string::npos);
}

}  // namespace
}  // namespace ringside
