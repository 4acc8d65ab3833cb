// Values of 3- and 4-bit codes in formats with nonuniform quantization, in units of the block's scale.
#pragma once

#include <cstdint>

#include "kernels/tensor.h"

namespace ringside {

/// IQ4_NL and IQ4_XS.
inline constexpr int8_t kIq4Values[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
/// MXFP4 and NVFP4: twice the values of FP4 E2M1 (Open Compute Project 2023, "Microscaling formats"); the scale is
/// halved in return.
inline constexpr int8_t kMxfp4Values[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

/// A form whose integers are codes: a value is d * scale * values[code] * factor.
struct CodeForm {
  DType form;
  bool has_halves;  // a scale per 16 values; otherwise one per 32
  float factor;     // a power of two
  int8_t values[16];
};
inline constexpr CodeForm kIq2Form{DType::kIQ2_S, true, 0.125f, {8, 25, 43, 0, -8, -25, -43, 0}};  // bit 2: sign
/// -1, 0 and 1, all shifted by 1/8, upwards or (bit 2) downwards.
inline constexpr CodeForm kIq1Form{DType::kIQ1_M, true, 0.125f, {-7, 1, 9, 0, -9, -1, 7, 0}};
inline constexpr CodeForm kIq3XxsForm{
    DType::kIQ3_XXS, false, 0.5f, {2, 6, 10, 14, 18, 22, 26, 31, -2, -6, -10, -14, -18, -22, -26, -31}};
inline constexpr CodeForm kIq3SForm{
    DType::kIQ3_S, false, 1, {1, 3, 5, 7, 9, 11, 13, 15, -1, -3, -5, -7, -9, -11, -13, -15}};
inline constexpr const CodeForm* kCodeForms[] = {&kIq1Form, &kIq2Form, &kIq3XxsForm, &kIq3SForm};

/// Null for other forms.
inline const CodeForm* FindCodeForm(DType form) {
  for (const CodeForm* codes : kCodeForms) {
    if (codes->form == form) return codes;
  }
  return nullptr;
}

}  // namespace ringside
