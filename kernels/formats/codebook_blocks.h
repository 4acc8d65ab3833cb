// GGML's formats with codebooks (IQ1, IQ2, IQ3), which decode to codes of code_values.h. A number in the file selects a
// point of a codebook, 8 or 4 codes at once; signs are apart.
// THREAD: any.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/formats/file_formats.h"

namespace ringside {

/// Decodes block j (32 values) of the block or super-block at p.
using BlockReader = void (*)(const uint8_t* p, int64_t j, FileBlock* out);

struct CodebookReader {
  DType dtype;
  BlockReader read;
};
std::span<const CodebookReader> CodebookReaders();

}  // namespace ringside
