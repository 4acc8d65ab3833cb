// Request fields as tables: one row per field, with its name, JSON types, limits, destination and policy. A protocol
// lists its rows once; reading, refusals, reports, the field reference and the tests are derived from the table.
// Immutable.
// THREAD: any.
#pragma once

#include <algorithm>
#include <concepts>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/status.h"
#include "session/session_options.h"
#include "ws/fields/field_info.h"
#include "ws/fields/field_readers.h"
#include "ws/fields/ignored_fields.h"
#include "ws/json/json_value.h"
#include "ws/transport/http/http.h"

namespace ringside {

/// Context of all readers of a request.
/// REQUIRES: both members outlive it.
struct FieldContext {
  const SessionTableOptions& options;
  IgnoredFields* ignored;
};

/// Reads a value, not null, into the request R. `param` is its path, for errors and reports.
template <class R>
using FieldReader =
    std::function<Status(const JsonValue& value, const std::string& param, const FieldContext& context, R* out)>;

// Policies of rows without a destination.
struct Hint {
  std::vector<std::string> usual = {};  // strings without effect
  std::string what = "";                // for the error of a strict server; "" = the field's path
  bool even_empty = false;              // even an empty value has an effect
};
struct Silent {};
struct Refuse {
  std::vector<std::string> usual = {};  // strings without effect
  std::string what = "";                // for the error; "" = the field's path
  bool harmless_if_true = false;        // true is the value without effect, in place of an empty one
  bool unknown_if_strict = false;       // a strict server refuses the field as unknown, whatever its value
};
/// Another name of a field of the same table.
struct AliasOf {
  std::string name;
};
/// Limits of an integer, both included.
struct Range {
  int64_t low, high = INT64_MAX;
};

// The readers of those rows.
Status ReadHint(const Hint& hint, const JsonValue& value, const std::string& param, const FieldContext& context);
Status ReadRefused(const Refuse& refuse, const std::string& name, const JsonValue& value, const std::string& param,
                   const FieldContext& context);

// Destinations with a common reader.
inline Status ReadInto(const JsonValue& value, const std::string& param, bool* out) {
  return ReadBool(value, param, out);
}
inline Status ReadInto(const JsonValue& value, const std::string& param, double* out) {
  return ReadNumber(value, param, out);
}
inline Status ReadInto(const JsonValue& value, const std::string& param, std::string* out) {
  return ReadString(value, param, out);
}
template <class T>
Status ReadInto(const JsonValue& value, const std::string& param, std::optional<T>* out) {
  T read{};
  RETURN_IF_ERROR(ReadInto(value, param, &read));
  *out = std::move(read);
  return Status::Ok();
}
constexpr FieldType TypeOf(const bool*) { return FieldType::kBool; }
constexpr FieldType TypeOf(const double*) { return FieldType::kNumber; }
constexpr FieldType TypeOf(const std::string*) { return FieldType::kString; }
template <class T>
constexpr FieldType TypeOf(const std::optional<T>*) {
  return TypeOf(static_cast<const T*>(nullptr));
}

template <class R>
class FieldTable;

/// A row of a table of requests R.
template <class R>
struct Field {
  /// A boolean, a number or a string: the type of `member`.
  template <class B, class T>
  requires std::derived_from<R, B> Field(std::string name, T B::*member)
      : info{std::move(name), TypeOf(static_cast<const T*>(nullptr))},
        read([member](const JsonValue& value, const std::string& param, const FieldContext&, R* out) {
          return ReadInto(value, param, &(out->*member));
        }) {}
  /// An integer: int64_t, or an optional one.
  template <class B, class T>
  requires std::derived_from<R, B> Field(std::string name, T B::*member, Range range)
      : info{std::move(name), FieldType::kInteger, FieldPolicy::kRead, RangeText(range.low, range.high)},
        read([member, range](const JsonValue& value, const std::string& param, const FieldContext&, R* out) {
          int64_t integer = 0;
          RETURN_IF_ERROR(ReadInteger(value, param, range.low, range.high, &integer));
          out->*member = integer;
          return Status::Ok();
        }) {}
  /// A value with a special reader.
  Field(std::string name, FieldType type, FieldReader<R> reader, FieldPolicy policy = FieldPolicy::kRead,
        std::string limits = "")
      : info{std::move(name), type, policy, std::move(limits)}, read(std::move(reader)) {}
  /// An object whose members have a table.
  Field(std::string name, const FieldTable<R>& table);
  /// An object whose members are read into `member`.
  template <class B, class T>
  requires std::derived_from<R, B> Field(std::string name, T B::*member, const FieldTable<T>& table);
  /// A value of one of these types that `reader` reads with a table: its members are part of the reference.
  template <class M>
  Field(std::string name, FieldType type, FieldReader<R> reader, FieldPolicy policy, const FieldTable<M>& table);
  Field(std::string name, Hint hint)
      : info{std::move(name), FieldType::kAny, FieldPolicy::kHint},
        read([hint = std::move(hint)](const JsonValue& value, const std::string& param, const FieldContext& context,
                                      R*) { return ReadHint(hint, value, param, context); }) {}
  Field(std::string name, Silent)
      : info{std::move(name), FieldType::kAny, FieldPolicy::kSilent},
        read([](const JsonValue&, const std::string&, const FieldContext&, R*) { return Status::Ok(); }) {}
  Field(std::string name, Refuse refuse)
      : info{name, FieldType::kAny, FieldPolicy::kRefuse},
        read([refuse = std::move(refuse), name](const JsonValue& value, const std::string& param,
                                                const FieldContext& context,
                                                R*) { return ReadRefused(refuse, name, value, param, context); }) {}
  Field(std::string name, AliasOf other) : info{std::move(name)} { info.alias_of = std::move(other.name); }
  /// A row of a base of R, or of any request (void).
  template <class B>
  requires std::convertible_to<R*, B*> Field(const Field<B>& other)
      : info(other.info), read(other.read), members(other.members) {}

  FieldInfo info;
  FieldReader<R> read;             // null = an alias
  std::vector<FieldInfo> members;  // named within the field: "seconds"
};

template <class R>
using Fields = std::vector<Field<R>>;

/// `own` rows, then shared ones, which may be rows of bases of R.
template <class R, class... Shared>
Fields<R> Join(Fields<R> own, const Shared&... shared) {
  (own.insert(own.end(), shared.begin(), shared.end()), ...);
  return own;
}
/// Rows that read into a member of R.
template <class R, class M>
Fields<R> In(M R::*member, const Fields<M>& rows) {
  Fields<R> out;
  for (const Field<M>& row : rows) {
    CHECK(row.read);  // no alias: it names a row of its table
    out.emplace_back(
        row.info.name, row.info.type,
        [member, read = row.read](const JsonValue& value, const std::string& param, const FieldContext& context,
                                  R* request) { return read(value, param, context, &(request->*member)); },
        row.info.policy, row.info.limits);
    out.back().members = row.members;
  }
  return out;
}
/// The rows of these names alone.
template <class R>
Fields<R> Only(const Fields<R>& rows, const std::vector<std::string_view>& names) {
  Fields<R> out;
  for (const Field<R>& row : rows) {
    if (std::ranges::find(names, row.info.name) != names.end()) out.push_back(row);
  }
  return out;
}
/// The rows, with `name` renamed.
template <class R>
Fields<R> Renamed(Fields<R> rows, std::string_view name, std::string_view to) {
  for (Field<R>& row : rows) {
    if (row.info.name == name) row.info.name = to;
  }
  return rows;
}

template <class R>
class FieldTable {
 public:
  /// The first row with a name counts: a protocol's rows precede shared ones.
  explicit FieldTable(Fields<R> rows) {
    for (Field<R>& row : rows) {
      if (Find(row.info.name) == nullptr) Insert(std::move(row));
    }
    for (Field<R>& row : rows_) {
      if (row.info.alias_of.empty()) continue;
      const Field<R>* const named = Find(row.info.alias_of);
      CHECK(named != nullptr && named->read);
      row.read = named->read;
      row.members = named->members;
      row.info = {row.info.name, named->info.type, named->info.policy, named->info.limits, row.info.alias_of};
    }
  }

  /// Reads the members of `object` in their order, each with the path `prefix` + name. ERRORS: the first faulty
  /// field's; unknown_parameter for a field without a row, if strict.
  Status Read(const JsonValue& object, const FieldContext& context, R* out, std::string_view prefix = "") const {
    std::string param(prefix);
    for (const auto& [name, value] : object.object()) {
      param.resize(prefix.size());
      RETURN_IF_ERROR(ReadOne(name, value, param += name, context, out));
    }
    return Status::Ok();
  }
  /// As Read, for the query of an HTTP request: every value is a string, an empty one is absence, and the first value
  /// of a repeated parameter counts.
  Status ReadQuery(const HttpRequest& request, const FieldContext& context, R* out) const {
    for (const auto& [name, text] : request.query) {
      if (text.empty() || &request.Query(name).front() != &text.front()) continue;
      RETURN_IF_ERROR(ReadOne(name, JsonValue(text), name, context, out));
    }
    return Status::Ok();
  }

  /// Every field, each followed by its members.
  std::vector<FieldInfo> Describe() const {
    std::vector<FieldInfo> all;
    for (const Field<R>& row : rows_) {
      all.push_back(row.info);
      for (FieldInfo member : row.members) {
        member.name = row.info.name + "." + member.name;
        all.push_back(std::move(member));
      }
    }
    return all;
  }

 private:
  Status ReadOne(std::string_view name, const JsonValue& value, const std::string& param, const FieldContext& context,
                 R* out) const {
    if (value.is_null()) return Status::Ok();
    const Field<R>* const row = Find(name);
    return row == nullptr ? context.ignored->Unknown(param) : row->read(value, param, context, out);
  }
  const Field<R>* Find(std::string_view name) const {
    const auto at = std::ranges::lower_bound(rows_, name, {}, NameOf);
    return at != rows_.end() && at->info.name == name ? &*at : nullptr;
  }
  void Insert(Field<R> row) {
    const auto at = std::ranges::lower_bound(rows_, std::string_view(row.info.name), {}, NameOf);
    rows_.insert(at, std::move(row));
  }
  static std::string_view NameOf(const Field<R>& row) { return row.info.name; }

  Fields<R> rows_;  // sorted by name
};

template <class R>
Field<R>::Field(std::string name, const FieldTable<R>& table)
    : info{std::move(name), FieldType::kObject},
      read([table](const JsonValue& value, const std::string& param, const FieldContext& context, R* out) {
        if (!value.is_object()) return WrongType(value, param, "an object");
        return table.Read(value, context, out, param + ".");
      }),
      members(table.Describe()) {}

template <class R>
template <class B, class T>
requires std::derived_from<R, B> Field<R>::Field(std::string name, T B::*member, const FieldTable<T>& table)
    : info{std::move(name), FieldType::kObject},
      read([table, member](const JsonValue& value, const std::string& param, const FieldContext& context, R* out) {
        if (!value.is_object()) return WrongType(value, param, "an object");
        return table.Read(value, context, &(out->*member), param + ".");
      }),
      members(table.Describe()) {}

template <class R>
template <class M>
Field<R>::Field(std::string name, FieldType type, FieldReader<R> reader, FieldPolicy policy, const FieldTable<M>& table)
    : info{std::move(name), type, policy}, read(std::move(reader)), members(table.Describe()) {}

/// A request of this kind without fields.
struct NoFields {};

/// Fields of other servers' APIs that would change the answer: grammars, templates, documents. Last in the table of
/// every request that is answered by the model.
const Fields<void>& ForeignFields();

}  // namespace ringside
