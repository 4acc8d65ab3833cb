// jpeglib.h needs the types of the headers before it.
// clang-format off
#include <csetjmp>
#include <cstddef>
#include <cstdio>
#include <jpeglib.h>
#include <jerror.h>
// clang-format on

#include "tools/image_decoder/orientation.h"

namespace ringside::decoder {
namespace {

// Progressive files repeat the whole image in each scan: a small file with many scans takes minutes.
constexpr int kMaxScans = 100;

constexpr int kExifMarker = JPEG_APP0 + 1;
constexpr unsigned kLongestMarker = 0xFFFF;

struct Errors {
  jpeg_error_mgr base;  // first: libjpeg passes a pointer to it
  std::jmp_buf failed;
  bool out_of_memory;
};

[[noreturn]] void Fail(j_common_ptr common) {
  Errors& errors = *reinterpret_cast<Errors*>(common->err);
  errors.out_of_memory = errors.base.msg_code == JERR_OUT_OF_MEMORY;
  std::longjmp(errors.failed, 1);
}
// libjpeg replaces the missing end of a cut file by grey and continues: that is an error here, as in PIL.
void OnMessage(j_common_ptr common, int level) {
  const int code = common->err->msg_code;
  if (level < 0 && (code == JWRN_JPEG_EOF || code == JWRN_HIT_MARKER)) Fail(common);
}
void OnProgress(j_common_ptr common) {
  if (reinterpret_cast<j_decompress_ptr>(common)->input_scan_number > kMaxScans) Fail(common);
}

// Adobe's CMYK is stored inverted.
void CmykToRgb(const uint8_t* row, int64_t width, bool inverted, uint8_t* out) {
  const uint8_t flip = inverted ? 0 : 255;
  for (int64_t x = 0; x < width; ++x, row += 4) {
    for (int c = 0; c < 3; ++c) *out++ = static_cast<uint8_t>((row[c] ^ flip) * (row[3] ^ flip) / 255);
  }
}

// No object with a destructor: errors leave by longjmp.
ImageReply Read(jpeg_decompress_struct* jpeg, Errors* errors, std::span<const uint8_t> file, int64_t max_pixels,
                DecodedImage* out, std::vector<uint8_t>* row) {
  if (setjmp(errors->failed) != 0) {
    return errors->out_of_memory ? ImageReply::kOutOfMemory : ImageReply::kMalformed;
  }
  jpeg_create_decompress(jpeg);
  jpeg_mem_src(jpeg, file.data(), file.size());
  jpeg_save_markers(jpeg, kExifMarker, kLongestMarker);
  jpeg_read_header(jpeg, TRUE);
  const auto width = static_cast<int64_t>(jpeg->image_width), height = static_cast<int64_t>(jpeg->image_height);
  if (width * height > max_pixels) return ImageReply::kTooLarge;
  const bool cmyk = jpeg->jpeg_color_space == JCS_CMYK || jpeg->jpeg_color_space == JCS_YCCK;
  jpeg->out_color_space = cmyk ? JCS_CMYK : JCS_RGB;
  jpeg_start_decompress(jpeg);
  out->rgb.resize(static_cast<size_t>(width * height * kImageChannels));
  row->resize(static_cast<size_t>(width * jpeg->output_components));
  while (jpeg->output_scanline < jpeg->output_height) {
    uint8_t* const to = &out->rgb[static_cast<size_t>(jpeg->output_scanline * width * kImageChannels)];
    JSAMPROW line = cmyk ? row->data() : to;
    jpeg_read_scanlines(jpeg, &line, 1);
    if (cmyk) CmykToRgb(row->data(), width, jpeg->saw_Adobe_marker != 0, to);
  }
  for (auto marker = jpeg->marker_list; marker != nullptr && out->orientation == 1; marker = marker->next) {
    out->orientation = OrientationOf({marker->data, marker->data_length});
  }
  jpeg_finish_decompress(jpeg);  // and forgets the markers
  out->header = {ImageReply::kDecoded, jpeg->image_width, jpeg->image_height};
  return ImageReply::kDecoded;
}

}  // namespace

DecodedImage DecodeJpeg(std::span<const uint8_t> file, int64_t max_pixels) {
  jpeg_decompress_struct jpeg{};
  jpeg_progress_mgr progress{};
  Errors errors{};
  jpeg.err = jpeg_std_error(&errors.base);
  errors.base.error_exit = Fail;
  errors.base.emit_message = OnMessage;
  progress.progress_monitor = OnProgress;
  DecodedImage out;
  std::vector<uint8_t> row;
  jpeg.progress = &progress;
  const ImageReply status = Read(&jpeg, &errors, file, max_pixels, &out, &row);
  jpeg_destroy_decompress(&jpeg);
  return status == ImageReply::kDecoded ? out : Failed(status);
}

}  // namespace ringside::decoder
