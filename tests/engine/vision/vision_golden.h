// The tiny random models with vision towers of tests/golden/vision/ (make_vision_golden.py), their pictures and
// prompts. THREAD: tests only.
#pragma once

#include <array>
#include <cstring>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "engine/vision/image_format.h"
#include "engine/vision/image_input.h"
#include "engine/vision/image_tokens.h"
#include "kernels/formats/half.h"
#include "tests/engine/model/model_run.h"

namespace ringside {

inline std::string VisionFolder(const std::string& model) { return GoldenFolder("vision/" + model); }

inline std::vector<uint8_t> ReadBytes(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

/// A picture of a golden model: "fits" has a size that is not resized.
struct GoldenPicture {
  const char* label;
  int64_t width, height;
};
constexpr GoldenPicture kGoldenPictures[] = {{"fits", 40, 24}, {"large", 97, 61}};

inline std::shared_ptr<const Picture> ReadPicture(const std::string& model, const GoldenPicture& golden) {
  Picture picture{.width = golden.width, .height = golden.height, .rgb = {}, .digest = {}};
  picture.rgb = ReadBytes(VisionFolder(model) + "/" + golden.label + ".rgb");
  CHECK_EQ(std::ssize(picture.rgb), picture.width * picture.height * 3);
  // Any distinct digest serves: the file is not decoded.
  for (size_t i = 0; i < picture.rgb.size(); ++i) {
    uint8_t& byte = picture.digest[i % picture.digest.size()];
    byte = static_cast<uint8_t>(byte * 31 + picture.rgb[i]);
  }
  return std::make_shared<const Picture>(std::move(picture));
}

/// A prompt with one picture.
struct ImagePrompt {
  std::vector<TokenId> tokens;
  ImageInput image;
};

/// The golden prompt, with the ids of the picture's rows in place of the placeholder's.
inline ImagePrompt ReadImagePrompt(const Model& model, const std::string& name, const GoldenPicture& golden) {
  ImagePrompt prompt;
  prompt.image.picture = ReadPicture(name, golden);
  const std::vector<uint8_t> bytes = ReadBytes(VisionFolder(name) + "/" + golden.label + ".ids");
  prompt.tokens.resize(bytes.size() / sizeof(TokenId));
  std::memcpy(prompt.tokens.data(), bytes.data(), prompt.tokens.size() * sizeof(TokenId));
  const std::vector<TokenId> image = model.image_format()->Tokens(*prompt.image.picture).value();
  const TokenId row = 3;  // of the golden models
  const auto first = std::ranges::find(prompt.tokens, IsImageToken(image[0]) ? row : image[0]);
  CHECK(prompt.tokens.end() - first >= std::ssize(image));
  prompt.image.position = first - prompt.tokens.begin();
  prompt.image.tokens = std::ssize(image);
  for (size_t i = 0; i < image.size(); ++i) {
    TokenId& place = prompt.tokens[static_cast<size_t>(prompt.image.position) + i];
    CHECK_EQ(place, IsImageToken(image[i]) ? row : image[i]);
    place = image[i];
  }
  return prompt;
}

/// Encodes a picture, about `rows` prompt rows' work at a time.
inline std::shared_ptr<const ImageRows> EncodePicture(Model& model, const Picture& picture, int64_t rows = 1 << 20) {
  std::shared_ptr<const ImageRows> encoded;
  int64_t spent = 0;
  while (encoded == nullptr) encoded = model.EncodeImage(picture, rows, &spent);
  return encoded;
}

/// The inputs of the text network: the first columns of the rows, without what is added after its layers.
inline std::vector<float> InputsOf(const ImageRows& rows, const Model& model) {
  const DType dtype = model.backend().activation_dtype();
  std::vector<float> inputs;
  for (int64_t row = 0; row < rows.rows(); ++row) {
    for (int64_t column = 0; column < model.spec().hidden; ++column) {
      const std::byte* at = rows.Row(row) + StorageBytes(dtype, column);
      float value = 0;
      uint16_t half = 0;
      dtype == DType::kF32 ? std::memcpy(&value, at, sizeof value) : std::memcpy(&half, at, sizeof half);
      if (dtype != DType::kF32) value = dtype == DType::kF16 ? HalfToFloat(half) : Bf16ToFloat(half);
      inputs.push_back(value);
    }
  }
  return inputs;
}

/// Appends tokens to a cache in chunks, with the rows of one image from row `*row` on; returns the logits after each
/// token. A chunk is longer if it would divide an image that the model computes as a whole.
inline std::vector<float> RunWithImage(Model& model, KvCache* cache, std::span<const TokenId> tokens,
                                       const ImageRows& rows, int64_t* row, int64_t chunk) {
  const auto vocab = static_cast<size_t>(model.spec().vocab);
  std::vector<float> out(tokens.size() * vocab);
  const std::vector<ImageGrid> grids = FindImageGrids(tokens);
  const bool whole = model.shape().whole_image_tokens > 0;
  for (size_t at = 0, count = 0; at < tokens.size(); at += count) {
    count = std::min(static_cast<size_t>(chunk), tokens.size() - at);
    while (whole && at + count < tokens.size() && IsImageToken(tokens[at + count]) &&
           IsImageToken(tokens[at + count - 1])) {
      ++count;
    }
    const auto part_tokens = tokens.subspan(at, count);
    std::vector<const std::byte*> pointers;
    for (const TokenId id : part_tokens) {
      if (IsImageToken(id)) pointers.push_back(rows.Row((*row)++));
    }
    const StepPart part{cache, part_tokens, StepPart::Logits::kAll, 0, false, pointers, grids};
    model.Forward({&part, 1}, std::span(out).subspan(at * vocab, count * vocab));
  }
  return out;
}

}  // namespace ringside
