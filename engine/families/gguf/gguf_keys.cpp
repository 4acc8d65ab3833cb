#include "engine/families/gguf/gguf_keys.h"

#include <algorithm>

namespace ringside {

const FileTensor* GgufKeys::Tensor(std::string_view name) const {
  const auto found = std::ranges::find(file_.tensors(), name, &FileTensor::name);
  return found == file_.tensors().end() ? nullptr : &*found;
}

Status GgufKeys::NeedPerLayer(std::string_view key, int64_t layers, std::vector<int64_t>* values) const {
  if (file_.Int(Name(key))) {
    values->assign(static_cast<size_t>(layers), *file_.Int(Name(key)));
    return Status::Ok();
  }
  const auto found = file_.Ints(Name(key));
  if (!found || std::ssize(*found) < layers) {
    return InvalidArgument(fmt::format("the file's '{}' is missing or has less than {} integers", Name(key), layers));
  }
  values->assign(found->begin(), found->begin() + layers);
  return Status::Ok();
}

Status GgufKeys::Need(std::string_view key, int64_t* value) const {
  const auto found = file_.Int(Name(key));
  if (!found) return InvalidArgument(fmt::format("the file's '{}' is missing or not an integer", Name(key)));
  *value = *found;
  return Status::Ok();
}

Status GgufKeys::Optional(std::string_view key, double* value) const {
  if (!Has(key)) return Status::Ok();
  const auto found = file_.Float(Name(key));
  if (!found) return InvalidArgument(fmt::format("the file's '{}' is not a number", Name(key)));
  *value = *found;
  return Status::Ok();
}

Status GgufKeys::Optional(std::string_view key, float* value) const {
  double wide = *value;
  RETURN_IF_ERROR(Optional(key, &wide));
  *value = static_cast<float>(wide);
  return Status::Ok();
}

Status GgufKeys::Optional(std::string_view key, bool* value) const {
  if (!Has(key)) return Status::Ok();
  const auto found = file_.Bool(Name(key));
  if (!found) return InvalidArgument(fmt::format("the file's '{}' is neither true nor false", Name(key)));
  *value = *found;
  return Status::Ok();
}

Status GgufKeys::CheckCount(std::string_view key, size_t count, int64_t layers) const {
  if (static_cast<int64_t>(count) == layers) return Status::Ok();
  return InvalidArgument(fmt::format("the file's '{}' has {} values for {} layers", Name(key), count, layers));
}

Status GgufKeys::Optional(std::string_view key, int64_t layers, std::vector<int64_t>* values) const {
  if (!Has(key)) return Status::Ok();
  if (const auto list = file_.Ints(Name(key))) {
    *values = *list;
  } else {
    int64_t one = 0;
    RETURN_IF_ERROR(Need(key, &one));
    values->assign(static_cast<size_t>(layers), one);
  }
  return CheckCount(key, values->size(), layers);
}

Status GgufKeys::Optional(std::string_view key, int64_t layers, std::vector<double>* values) const {
  if (!Has(key)) return Status::Ok();
  if (const auto list = file_.Floats(Name(key))) {
    *values = *list;
  } else {
    double one = 0;
    RETURN_IF_ERROR(Optional(key, &one));
    values->assign(static_cast<size_t>(layers), one);
  }
  return CheckCount(key, values->size(), layers);
}

}  // namespace ringside
