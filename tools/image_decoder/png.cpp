#include <png.h>

#include <algorithm>
#include <csetjmp>
#include <cstring>

#include "tools/image_decoder/orientation.h"

namespace ringside::decoder {
namespace {

struct Source {
  std::span<const uint8_t> rest;
};

void ReadBytes(png_structp png, png_bytep out, size_t count) {
  Source& source = *static_cast<Source*>(png_get_io_ptr(png));
  if (count > source.rest.size()) png_error(png, "cut");
  std::memcpy(out, source.rest.data(), count);
  source.rest = source.rest.subspan(count);
}
[[noreturn]] void Fail(png_structp png, png_const_charp) { png_longjmp(png, 1); }
void Ignore(png_structp, png_const_charp) {}

void ConvertToRgb(png_structp png) {
  png_set_expand(png);
  png_set_scale_16(png);
  png_set_gray_to_rgb(png);
  png_set_strip_alpha(png);
}

// No object with a destructor: errors leave by longjmp.
ImageReply Read(png_structp png, png_infop info, Source* source, int64_t max_pixels, DecodedImage* out,
                std::vector<png_bytep>* rows) {
  if (setjmp(png_jmpbuf(png)) != 0) return ImageReply::kMalformed;
  png_set_read_fn(png, source, ReadBytes);
  png_set_user_limits(png, 1 << 20, 1 << 20);
  png_set_chunk_cache_max(png, 128);
  png_set_chunk_malloc_max(png, 8 << 20);  // of a compressed text or colour profile
  png_read_info(png, info);
  const png_uint_32 width = png_get_image_width(png, info), height = png_get_image_height(png, info);
  if (static_cast<int64_t>(width) * height > max_pixels) return ImageReply::kTooLarge;
  png_uint_32 exif_bytes = 0;
  png_bytep exif = nullptr;
  if (png_get_eXIf_1(png, info, &exif_bytes, &exif) != 0) out->orientation = OrientationOf({exif, exif_bytes});
  ConvertToRgb(png);
  png_set_interlace_handling(png);
  png_read_update_info(png, info);
  const size_t row_bytes = size_t{width} * kImageChannels;
  if (png_get_rowbytes(png, info) != row_bytes) return ImageReply::kMalformed;
  out->rgb.resize(row_bytes * height);
  rows->resize(height);
  for (size_t y = 0; y < height; ++y) (*rows)[y] = &out->rgb[y * row_bytes];
  png_read_image(png, rows->data());
  png_read_end(png, nullptr);
  out->header = {ImageReply::kDecoded, width, height};
  return ImageReply::kDecoded;
}

}  // namespace

DecodedImage DecodePng(std::span<const uint8_t> file, int64_t max_pixels) {
  png_structp png = png_create_read_struct(PNG_LIBPNG_VER_STRING, nullptr, Fail, Ignore);
  if (png == nullptr) return Failed(ImageReply::kOutOfMemory);
  png_infop info = png_create_info_struct(png);
  Source source{file};
  DecodedImage out;
  std::vector<png_bytep> rows;
  const ImageReply status =
      info == nullptr ? ImageReply::kOutOfMemory : Read(png, info, &source, max_pixels, &out, &rows);
  png_destroy_read_struct(&png, &info, nullptr);
  return status == ImageReply::kDecoded ? out : Failed(status);
}

}  // namespace ringside::decoder
