#include "kernels/tensor.h"

#include "base/check.h"
#include "kernels/backend.h"

namespace ringside {

const DTypeTraits& Traits(DType type) {
  static constexpr DTypeTraits kTraits[] = {{"F32", 1, 4},
                                            {"F16", 1, 2},
                                            {"BF16", 1, 2},
                                            {"Q8_0", 32, 34},
                                            {"Q4_0", 32, 18},
                                            {"Q4_1", 32, 20},
                                            {"Q5_0", 32, 22},
                                            {"Q5_1", 32, 24},
                                            {"Q4_K", 256, 144},
                                            {"Q5_K", 256, 176},
                                            {"Q6_K", 256, 210},
                                            {"Q2_K", 256, 84},
                                            {"Q3_K", 256, 110},
                                            {"IQ4_NL", 32, 18},
                                            {"IQ4_XS", 256, 136},
                                            {"MXFP4", 32, 17},
                                            {"4 bits with zero points", 32, 19},
                                            {"fp8_e4m3 with scales", 32, 36},
                                            {"int8", 1, 1},
                                            {"fp8_e4m3", 1, 1},
                                            {"2 bits", 1024, 512},
                                            {"3 bits", 1024, 512},
                                            {"4 bits", 1024, 640},
                                            {"5 bits", 1024, 768},
                                            {"6 bits", 1024, 896},
                                            {"8 bits", 1024, 1088},
                                            {"fp4_e2m1 with scales", 1024, 576}};
  return kTraits[static_cast<size_t>(type)];
}

Buffer::~Buffer() {
  if (data_ != nullptr) owner_->Free(data_, bytes_);
}

}  // namespace ringside
