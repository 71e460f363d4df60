// Errors as values. A Status that reaches a person names the place, what was expected, what was found and
// one thing to try; `ExitCode` maps it to the process exit codes that scripts rely on.
#pragma once

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

#include <string>
#include <string_view>

namespace sluice {

using absl::Status;
using absl::StatusOr;

namespace detail {
/// Debian's Abseil has a string_view of its own, so a std::string_view is converted on the way in.
inline absl::string_view concatPart(std::string_view text) {
  return {text.data(), text.size()};
}
inline absl::string_view concatPart(const std::string &text) {
  return text;
}
inline absl::string_view concatPart(const char *text) {
  return text;
}
template <typename Part> const Part &concatPart(const Part &part) {
  return part;
}
} // namespace detail

/// The parts as one text: strings of any kind and numbers (absl::StrCat that knows std::string_view).
template <typename... Parts> std::string concat(const Parts &...parts) {
  return absl::StrCat(detail::concatPart(parts)...);
}

/// Process exit codes, the same for every program of the project.
enum class ExitCode : int {
  Done = 0,
  Failure = 1,
  Usage = 2,       // a flag, a spec or a configuration is wrong
  BadInput = 3,    // a file from outside is damaged or foreign
  Diverged = 4,    // the loss or the gradient norm is not finite
  Interrupted = 5, // stopped by a signal, with a good checkpoint
};

/// A wrong flag, spec or configuration (exit code 2).
template <typename... Parts> Status usageError(const Parts &...parts) {
  return absl::InvalidArgumentError(concat(parts...));
}
/// A damaged or foreign file (exit code 3).
template <typename... Parts> Status badInputError(const Parts &...parts) {
  return absl::DataLossError(concat(parts...));
}
/// A training run whose loss or gradient is not finite (exit code 4).
template <typename... Parts> Status divergedError(const Parts &...parts) {
  return absl::OutOfRangeError(concat(parts...));
}
/// Stopped on request, with everything saved (exit code 5).
template <typename... Parts> Status interruptedError(const Parts &...parts) {
  return absl::CancelledError(concat(parts...));
}
/// Anything else that failed: the system, the disk, a library (exit code 1).
template <typename... Parts> Status failure(const Parts &...parts) {
  return absl::InternalError(concat(parts...));
}

inline ExitCode exitCode(const Status &status) {
  switch (status.code()) {
  case absl::StatusCode::kOk:
    return ExitCode::Done;
  case absl::StatusCode::kInvalidArgument:
    return ExitCode::Usage;
  case absl::StatusCode::kDataLoss:
    return ExitCode::BadInput;
  case absl::StatusCode::kOutOfRange:
    return ExitCode::Diverged;
  case absl::StatusCode::kCancelled:
    return ExitCode::Interrupted;
  default:
    return ExitCode::Failure;
  }
}

} // namespace sluice

/// Returns the status of `expression` from the enclosing function when it is an error.
#define SLUICE_RETURN_IF_ERROR(expression)                                                                   \
  do {                                                                                                       \
    if (::absl::Status sluiceStatus = (expression); !sluiceStatus.ok())                                      \
      return sluiceStatus;                                                                                   \
  } while (false)

#define SLUICE_CONCAT_INNER(a, b) a##b
#define SLUICE_CONCAT(a, b) SLUICE_CONCAT_INNER(a, b)
#define SLUICE_ASSIGN_OR_RETURN_IMPL(name, declaration, expression)                                          \
  auto name = (expression);                                                                                  \
  if (!name.ok())                                                                                            \
    return name.status();                                                                                    \
  declaration = std::move(name).value()
/// `SLUICE_ASSIGN_OR_RETURN(auto x, f())`: x = *f(), or returns f()'s error from the enclosing function.
#define SLUICE_ASSIGN_OR_RETURN(declaration, expression)                                                     \
  SLUICE_ASSIGN_OR_RETURN_IMPL(SLUICE_CONCAT(sluiceOr, __LINE__), declaration, expression)
