// A non-owning reference to a callable: std::function without the allocation.
#pragma once

#include <memory>
#include <type_traits>
#include <utility>

namespace ringside {

template <class Signature>
class FunctionRef;

/// REQUIRES: the function outlives the reference.
template <class R, class... Args>
class FunctionRef<R(Args...)> {
 public:
  template <class F>
  requires(!std::is_same_v<std::remove_cvref_t<F>, FunctionRef>)
      FunctionRef(const F& function)  // NOLINT: implicit, as std::function
      : function_(std::addressof(function)), call_([](const void* f, Args... args) -> R {
          return (*static_cast<const F*>(f))(std::forward<Args>(args)...);
        }) {}

  R operator()(Args... args) const { return call_(function_, std::forward<Args>(args)...); }

 private:
  const void* function_;
  R (*call_)(const void*, Args...);
};

}  // namespace ringside
