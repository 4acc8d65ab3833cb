// The functions of libfmt, from its headers: compiled with -fkeep-inline-functions.
#define FMT_HEADER_ONLY
#include <fmt/format.h>

#include <locale>

template std::locale fmt::detail::locale_ref::get<std::locale>() const;
