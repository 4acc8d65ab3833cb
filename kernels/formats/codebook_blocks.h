// GGML's formats with codebooks (IQ1, IQ2, IQ3): decodes block j (32 values) of the super-block of 256 at p. q: a code
// of code_values.h. Each code selects 8 or 4 values at once; signs are apart. As ReadFileBlock (file_formats.h), for
// its dispatch. THREAD: any.
#pragma once

#include <cstdint>

#include "kernels/formats/file_formats.h"

namespace ringside {

void ReadIq2Xxs(const uint8_t* p, int64_t j, FileBlock* out);
void ReadIq2Xs(const uint8_t* p, int64_t j, FileBlock* out);
void ReadIq2S(const uint8_t* p, int64_t j, FileBlock* out);
void ReadIq3Xxs(const uint8_t* p, int64_t j, FileBlock* out);
void ReadIq3S(const uint8_t* p, int64_t j, FileBlock* out);
void ReadIq1S(const uint8_t* p, int64_t j, FileBlock* out);
void ReadIq1M(const uint8_t* p, int64_t j, FileBlock* out);
/// The float16 scale of a super-block of IQ1_M: four bits in each of four words.
uint16_t Iq1MHalf(const uint8_t* p);

}  // namespace ringside
