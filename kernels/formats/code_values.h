// Values of 3- and 4-bit codes in formats with nonuniform quantization, in units of the block's scale.
#pragma once

#include <cstdint>

namespace ringside {

/// IQ4_NL and IQ4_XS.
inline constexpr int8_t kIq4Values[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
/// MXFP4 and NVFP4: twice the values of FP4 E2M1 (Open Compute Project 2023, "Microscaling formats"); the scale is
/// halved in return.
inline constexpr int8_t kMxfp4Values[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};
/// IQ2 types, times 8. Bit 2 is the sign.
inline constexpr int8_t kIq2Values[16] = {8, 25, 43, 0, -8, -25, -43, 0};
inline constexpr float kIq2Factor = 0.125f;
/// IQ1 types, times 8: -1, 0 and 1, all shifted by 1/8, upwards or (bit 2) downwards.
inline constexpr int8_t kIq1Values[16] = {-7, 1, 9, 0, -9, -1, 7, 0};
inline constexpr float kIq1Factor = 0.125f;
/// IQ3_XXS, times 2. Bit 3 is the sign.
inline constexpr int8_t kIq3XxsValues[16] = {2, 6, 10, 14, 18, 22, 26, 31, -2, -6, -10, -14, -18, -22, -26, -31};
inline constexpr float kIq3XxsFactor = 0.5f;
/// IQ3_S. Bit 3 is the sign.
inline constexpr int8_t kIq3SValues[16] = {1, 3, 5, 7, 9, 11, 13, 15, -1, -3, -5, -7, -9, -11, -13, -15};

}  // namespace ringside
