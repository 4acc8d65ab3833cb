#include "ws/config/setting_advice.h"

#include <gtest/gtest.h>

#include "ws/config/config.h"
#include "ws/config/config_options.h"

namespace ringside {
namespace {

std::string Refusal(const std::vector<std::string>& args) { return ParseConfig(args, {}).status().message(); }
std::string RefusalOf(const char* flag) { return Refusal({"-m", "m", flag, "5"}); }

TEST(SettingAdvice, NamesTheNearestSetting) {
  EXPECT_EQ(RefusalOf("--memroy-len"),
            "command line: --memroy-len is no setting of the server; did you mean --memory-len?");
  EXPECT_EQ(RefusalOf("--unheard-of"), "command line: --unheard-of is no setting of the server");
}

TEST(SettingAdvice, TranslatesOtherServersSettings) {
  EXPECT_EQ(RefusalOf("-ngl"),
            "command line: -ngl is no setting of the server; llama.cpp's -ngl is --device cuda here: all layers run "
            "there");
  EXPECT_EQ(RefusalOf("-c"), "command line: -c is no setting of the server; llama.cpp's -c is --memory-len here");
  EXPECT_EQ(RefusalOf("--max-model-len"),
            "command line: --max-model-len is no setting of the server; vLLM's --max-model-len is --memory-len here");
  EXPECT_EQ(Refusal({"-m", "m", "--num_ctx=4096"}),
            "command line: --num_ctx is no setting of the server; Ollama's --num-ctx is --memory-len here");
  EXPECT_EQ(SettingAdvice("n_gpu_layers"), "; llama.cpp's --n-gpu-layers is --device cuda here: all layers run there");
}

TEST(SettingAdvice, TranslatesMisspeltSettingsOfOtherServers) {
  EXPECT_EQ(SettingAdvice("gpu-layer"), "; llama.cpp's --gpu-layers is --device cuda here: all layers run there");
  EXPECT_EQ(SettingAdvice("max-modle-len"), "; vLLM's --max-model-len is --memory-len here");
}

// A setting that the server has is never translated.
TEST(SettingAdvice, KnowsNoSettingOfOurs) {
  for (const ConfigOption& option : ConfigOptions()) {
    for (const std::string& name : option.Spellings()) {
      EXPECT_EQ(SettingAdvice(name).find("here"), std::string::npos) << name;
    }
  }
}

}  // namespace
}  // namespace ringside
