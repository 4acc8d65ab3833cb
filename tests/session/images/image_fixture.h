// A table whose model reads images, on a scripted engine and a journal; files that are their own description instead of
// a decoder.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "base/base64.h"
#include "engine/vision/image_tokens.h"
#include "session/pictures/picture_reader.h"
#include "tests/session/durable_fixture.h"

namespace ringside {

/// A tokenizer with a further special token, "<|image|>".
class ImageTokenizer final : public ByteTokenizer {
 public:
  static constexpr TokenId kImage = 258;
  std::string_view TokenName(TokenId id) const override {
    return id == kImage ? std::string_view("<|image|>") : ByteTokenizer::TokenName(id);
  }
  std::optional<TokenId> FindSpecial(std::string_view name) const override {
    return name == "<|image|>" ? std::optional(kImage) : ByteTokenizer::FindSpecial(name);
  }
  int64_t vocab_size() const override { return kImage + 1; }
};

/// A token for each 16 x 16 pixels, no markers, this text on both sides.
inline std::shared_ptr<const ImageFormat> TestFormat(const std::string& around = "") {
  VisionSpec spec;
  spec.markers.around = around;
  spec.patch = 16;
  spec.preprocessing.edge = 1024;
  spec.placeholder = ImageTokenizer::kImage;
  TokenizerData data;
  data.tokens.resize(ImageTokenizer::kImage + 1);
  return std::make_shared<const ImageFormat>(ImageFormat::Make(spec, data).value());
}

/// "PNG" of a size and a name.
inline std::string FileOf(int width, int height, const std::string& name = "") {
  return "\x89PNG\r\n\x1A\n" + std::to_string(width) + "x" + std::to_string(height) + " " + name;
}

/// Decodes FileOf; other files are damaged.
class FakeDecoder {
 public:
  Result<Picture> Decode(std::string_view file, const ChargePicture& charge) {
    ++calls;
    int width = 0, height = 0;
    if (std::sscanf(std::string(file).c_str() + 8, "%dx%d", &width, &height) != 2) {
      return InvalidArgument("Invalid image: it is damaged or cut.", "", "invalid_value");
    }
    RETURN_IF_ERROR(charge(int64_t{3} * width * height));
    ++allocated;
    Picture picture{.width = width, .height = height};
    picture.rgb.resize(static_cast<size_t>(3 * width * height));
    return picture;
  }
  int calls = 0, allocated = 0;
};

inline NewImage ImageOf(const std::string& file) {
  return {.source = "data:image/png;base64," + EncodeBase64(file),
          .param = "image_url",
          .refusal = InvalidArgument("no images", "type", "unsupported_value")};
}

/// A question: texts, with an image of one of `files` after each but the last.
inline TurnSpec AskWith(const std::vector<std::string>& texts, const std::vector<std::string>& files,
                        const std::string& conversation = "") {
  TurnSpec spec = Ask("", conversation);
  NewItem& item = spec.input.front();
  for (size_t i = 0; i < texts.size(); ++i) {
    if (i > 0) AddImage(ImageOf(files[i - 1]), &item);
    if (!texts[i].empty()) AddPart(texts[i], &item);
  }
  return spec;
}

class ImageSessionTest : public ::testing::Test {
 protected:
  void SetUp() override {
    path = std::filesystem::temp_directory_path() / ("ringside_images_" + std::to_string(getpid()));
    std::filesystem::remove_all(path);
    options = TableFixture::Options();
    options.images = TestFormat();
    Open();
  }
  void TearDown() override {
    Close();
    std::filesystem::remove_all(path);
  }
  void Open() {
    JournalOptions log;
    log.path = path;
    log.clock = &clock;
    auto opened = Journal::Open(log);
    ASSERT_TRUE(opened.ok()) << opened.status().ToString();
    journal = std::move(*opened);
    engine = std::make_unique<ScriptedEngine>();
    if (options.images != nullptr) {
      options.pictures =
          std::make_shared<PictureReader>([this](const std::string&, std::string_view file,
                                                 const ChargePicture& charge) { return decoder.Decode(file, charge); },
                                          fetch);
    }
    table = std::make_unique<SessionTable>(options, tokenizer, *chat, *engine, journal.get(), clock);
    ASSERT_TRUE(table->Open().ok());
  }
  void Close() {
    if (table) table->Flush();
    table.reset();
    engine.reset();
    journal.reset();
  }
  void Restart() {
    Close();
    Open();
  }
  std::string NewConversation() { return table->CreateSession(me, {}, {}, {}).value().id; }
  /// Asks and answers.
  TurnRequest Turn(TurnSpec spec, std::string_view answer = "yes") {
    const Result<TurnTicket> ticket = table->StartTurn(me, std::move(spec), sink);
    if (!ticket.ok()) {
      ADD_FAILURE() << ticket.status().ToString();
      return {};
    }
    TurnRequest request = engine->last();
    engine->AnswerLast(answer);
    table->Flush();
    return request;
  }
  Status Refusal(TurnSpec spec) { return table->StartTurn(me, std::move(spec), sink).status(); }
  /// The prompt, with "#" for each token of an image.
  std::string Prompt(const TurnRequest& request) const {
    std::string text;
    for (const TokenId id : request.tokens) text += IsImageToken(id) ? "#" : std::string(tokenizer.TokenName(id));
    return text;
  }

  const Caller me{"me", 7};
  std::filesystem::path path;
  SessionTableOptions options;
  ManualClock clock;
  ImageTokenizer tokenizer;
  std::unique_ptr<ChatTemplate> chat = std::make_unique<ChatTemplate>(ChatTemplate::Named("chatml").value());
  FakeDecoder decoder;
  FetchImage fetch;  // of the next Open; null: URLs are refused
  std::unique_ptr<Journal> journal;
  std::unique_ptr<ScriptedEngine> engine;
  std::unique_ptr<SessionTable> table;
  std::shared_ptr<RecordingSink> sink = std::make_shared<RecordingSink>(7);
};

}  // namespace ringside
