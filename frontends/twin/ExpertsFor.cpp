#include "frontends/twin/ExpertsFor.h"

#include "frontends/twin/Budget.h"
#include "runtime/train/Count.h"

#include "absl/strings/str_split.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <tuple>

namespace sluice {
namespace {

constexpr double widthPerLayer = 88, ffnPerWidth = 2.77, studyMu = 22; // the shape that the study settles on
constexpr int64_t maximumExperts = 1024;

/// Layers and dense MLP of a width where the request leaves them open.
ExpertsRequest withShape(ExpertsRequest request, int64_t width) {
  request.width = width;
  if (request.layers == 0)
    request.layers =
        std::max<int64_t>(std::llround(static_cast<double>(width) / widthPerLayer), request.denseLayers + 1);
  if (request.ffn == 0)
    request.ffn = std::llround(ffnPerWidth * static_cast<double>(width) / 8) * 8;
  return request;
}

/// Equation 4 at the study's mu: what a model of this width would hold.
double parametersAt(const ExpertsRequest &request) {
  const double d2 = static_cast<double>(request.width) * static_cast<double>(request.width);
  const double alpha = static_cast<double>(request.ffn) / static_cast<double>(request.width);
  return (4 + 3 * studyMu) * d2 * static_cast<double>(request.layers - request.denseLayers) +
         (4 + 3 * alpha) * d2 * static_cast<double>(request.denseLayers);
}

ExpertsRequest withWidth(const ExpertsRequest &request) {
  if (request.width > 0)
    return withShape(request, request.width);
  ExpertsRequest best;
  double distance = INFINITY;
  for (int64_t width = request.headDim; width <= 256 * request.headDim; width += request.headDim) {
    ExpertsRequest candidate = withShape(request, width);
    double off = std::abs(parametersAt(candidate) - static_cast<double>(request.parameters));
    if (off < distance)
      distance = off, best = candidate;
  }
  return best;
}

PublishedShape shapeOf(const ExpertsRequest &request, int64_t experts, int64_t topK, int64_t expertFfn) {
  auto count = [](int64_t value) { return static_cast<Count>(value); };
  PublishedShape shape;
  shape.layers = count(request.layers), shape.width = count(request.width),
  shape.headDim = count(request.headDim);
  shape.heads = count(request.width / request.headDim), shape.ffn = count(request.ffn);
  shape.experts = count(experts), shape.topK = count(topK), shape.expertFfn = count(expertFfn);
  shape.sharedFfn = request.shared ? count(topK * expertFfn) : 0;
  shape.denseLayers = count(request.denseLayers), shape.vocabulary = count(request.vocabulary);
  shape.sequence = count(request.sequence);
  return shape;
}

double relative(double value, double target) {
  return std::abs(value / target - 1);
}

ExpertsCandidate candidateOf(const ExpertsRequest &request, int64_t experts, int64_t topK,
                             int64_t expertFfn) {
  ExpertsCandidate candidate;
  candidate.shape = shapeOf(request, experts, topK, expertFfn);
  ConventionQuantities q = quantitiesOf(candidate.shape);
  candidate.parameters = q.matrices, candidate.active = q.activeMatrices;
  const Count router = request.routerCounted ? q.routerWeights : 0;
  candidate.activeRate =
      static_cast<double>(q.activeMatrices + router) / static_cast<double>(q.matrices + router);
  candidate.distance =
      std::max(relative(static_cast<double>(q.matrices), static_cast<double>(request.parameters)),
               relative(candidate.activeRate, request.activeRate));
  const double width = static_cast<double>(request.width),
               shared = static_cast<double>(candidate.shape.sharedFfn);
  candidate.mu = (shared + static_cast<double>(experts * expertFfn)) / width;
  candidate.beta = (shared + static_cast<double>(topK * expertFfn)) / width;
  candidate.trainingPerToken = 3 * (q.layers + q.router + q.attentionFull) / q.tokens;
  if (request.compute > 0)
    candidate.tokens = tokensForCompute(request.compute, candidate.trainingPerToken, 1).tokens;
  if (request.unique > 0)
    candidate.epochs = static_cast<double>(candidate.tokens) / static_cast<double>(request.unique);
  return candidate;
}

/// The granularity's width on the grid, or the one that was asked for.
int64_t askedExpertFfn(const ExpertsRequest &request) {
  if (request.expertFfn > 0 || request.granularity == 0)
    return request.expertFfn;
  const double width = static_cast<double>(request.ffn) / request.granularity;
  return std::max<int64_t>(std::llround(width / static_cast<double>(request.multipleOf)), 1) *
         request.multipleOf;
}

} // namespace

StatusOr<ExpertsRequest> parseExpertsRequest(const std::string &text) {
  ExpertsRequest request;
  using Setter = std::function<Status(const std::string &, const std::string &)>;
  auto integer = [](int64_t &target) -> Setter {
    return [&target](const std::string &value, const std::string &what) -> Status {
      SLUICE_ASSIGN_OR_RETURN(target, parseCount(value, what));
      return target > 0 ? absl::OkStatus() : usageError(what, ": expected at least 1, found '", value, "'");
    };
  };
  auto large = [](Count &target) -> Setter {
    return [&target](const std::string &value, const std::string &what) -> Status {
      SLUICE_ASSIGN_OR_RETURN(target, parseLargeCount(value, what));
      return target > 0 ? absl::OkStatus() : usageError(what, ": expected more than 0, found '", value, "'");
    };
  };
  auto share = [](double &target) -> Setter {
    return [&target](const std::string &value, const std::string &what) -> Status {
      SLUICE_ASSIGN_OR_RETURN(target, parseShare(value, what));
      return absl::OkStatus();
    };
  };
  auto boolean = [](bool &target) -> Setter {
    return [&target](const std::string &value, const std::string &what) -> Status {
      target = value == "yes";
      return value == "yes" || value == "no" ? absl::OkStatus()
                                             : usageError(what, ": expected yes or no, found '", value, "'");
    };
  };
  const std::map<std::string, Setter> setters = {
      {"N", large(request.parameters)},
      {"active-rate", share(request.activeRate)},
      {"router-counted", boolean(request.routerCounted)},
      {"width", integer(request.width)},
      {"layers", integer(request.layers)},
      {"ffn", integer(request.ffn)},
      {"head-dim", integer(request.headDim)},
      {"dense-layers",
       [&](const std::string &value, const std::string &what) -> Status {
         SLUICE_ASSIGN_OR_RETURN(request.denseLayers, parseCount(value, what));
         return absl::OkStatus();
       }},
      {"shared", boolean(request.shared)},
      {"top-k", integer(request.topK)},
      {"experts", integer(request.experts)},
      {"expert-ffn", integer(request.expertFfn)},
      {"granularity",
       [&](const std::string &value, const std::string &what) -> Status {
         char *end = nullptr;
         request.granularity = std::strtod(value.c_str(), &end);
         return !value.empty() && *end == '\0' && request.granularity > 0 && request.granularity < 1e6
                    ? absl::OkStatus()
                    : usageError(what, ": expected ffn / expert_ffn such as 8 or 12.2, found '", value, "'");
       }},
      {"multiple-of", integer(request.multipleOf)},
      {"vocabulary", integer(request.vocabulary)},
      {"seq", integer(request.sequence)},
      {"tolerance", share(request.tolerance)},
      {"C", large(request.compute)},
      {"unique", large(request.unique)}};
  std::vector<std::string> names;
  names.reserve(setters.size());
  for (const auto &entry : setters)
    names.push_back(entry.first);
  const std::vector<std::string> parts = absl::StrSplit(text, ',', absl::SkipEmpty());
  for (const std::string &part : parts) {
    std::vector<std::string> sides = absl::StrSplit(part, absl::MaxSplits('=', 1));
    auto setter = setters.find(sides[0]);
    if (setter == setters.end()) {
      std::string near = nearestName(sides[0], names);
      return usageError("--experts-for: unknown key '", sides[0], "'",
                        near.empty() ? "" : concat("; did you mean '", near, "'?"));
    }
    if (sides.size() != 2)
      return usageError("--experts-for: expected ", sides[0], "=VALUE, found '", part, "'");
    SLUICE_RETURN_IF_ERROR(setter->second(sides[1], "--experts-for: " + sides[0]));
  }
  if (request.parameters == 0 || request.activeRate == 0)
    return usageError("--experts-for: expected N=... and active-rate=..., found '", text, "'");
  if (request.topK == 0 && request.expertFfn == 0 && request.granularity == 0 && request.experts == 0)
    return usageError(
        "--experts-for: expected how fine the experts are: one of top-k, expert-ffn, granularity, "
        "experts");
  if (request.width % request.headDim != 0)
    return usageError("--experts-for: width: expected a multiple of head-dim = ", request.headDim, ", found ",
                      request.width);
  if (request.layers > 0 && request.layers <= request.denseLayers)
    return usageError("--experts-for: layers: expected more than dense-layers = ", request.denseLayers,
                      ", found ", request.layers);
  if (request.unique > 0 && request.compute == 0)
    return usageError(
        "--experts-for: unique: expected C=... beside it; epochs are tokens over unique tokens");
  return request;
}

std::vector<ExpertsCandidate> solveExperts(const ExpertsRequest &asked, size_t keep) {
  const ExpertsRequest request = withWidth(asked);
  const int64_t fixedFfn = askedExpertFfn(request);
  const double moeLayers = static_cast<double>(request.layers - request.denseLayers);
  // Outside of experts, then what a unit of expert width costs over all of their layers.
  const double outside = static_cast<double>(candidateOf(request, 1, 0, 0).parameters);
  const double unit = moeLayers * 3 * static_cast<double>(request.width);
  const double total = (static_cast<double>(request.parameters) - outside) / unit; // D_se + E D_e
  std::vector<ExpertsCandidate> candidates;
  const int64_t most = std::max<int64_t>(static_cast<int64_t>(2 * total), request.multipleOf);
  for (int64_t ffn = fixedFfn > 0 ? fixedFfn : request.multipleOf; ffn <= (fixedFfn > 0 ? fixedFfn : most);
       ffn += request.multipleOf)
    for (int64_t topK = request.topK > 0 ? request.topK : 1;
         topK <= (request.topK > 0 ? request.topK : maximumExperts); ++topK) {
      const double shared = request.shared ? static_cast<double>(topK * ffn) : 0;
      if (shared + static_cast<double>(topK * ffn) > 2 * total)
        break; // more chosen than there is
      const auto solved = static_cast<int64_t>((total - shared) / static_cast<double>(ffn));
      for (int64_t experts : request.experts > 0 ? std::vector<int64_t>{request.experts}
                                                 : std::vector<int64_t>{solved, solved + 1})
        if (experts > topK && experts <= maximumExperts)
          candidates.push_back(candidateOf(request, experts, topK, ffn));
    }
  std::sort(candidates.begin(), candidates.end(), [](const ExpertsCandidate &a, const ExpertsCandidate &b) {
    return std::tuple(a.distance, a.shape.experts, a.shape.topK, a.shape.expertFfn) <
           std::tuple(b.distance, b.shape.experts, b.shape.topK, b.shape.expertFfn);
  });
  size_t within = 0;
  while (within < candidates.size() && candidates[within].distance <= request.tolerance)
    ++within;
  candidates.resize(std::min({candidates.size(), within == 0 ? size_t{2} : within, keep}));
  return candidates;
}

} // namespace sluice
