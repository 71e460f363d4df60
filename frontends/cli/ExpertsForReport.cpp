#include "frontends/cli/ExpertsForReport.h"

#include "frontends/twin/TwinSpec.h"
#include "runtime/support/File.h"

#include "llvm/Support/JSON.h"
#include "llvm/Support/raw_ostream.h"

#include <cstdio>

namespace sluice::cli {
namespace {

std::string rowText(const ExpertsCandidate &candidate, const ExpertsRequest &request) {
  const PublishedShape &shape = candidate.shape;
  std::string text =
      absl::StrFormat("%7d %5d %6d %6d %13s %11s %7.2f %6.2f %6.2f", static_cast<int>(shape.experts),
                      static_cast<int>(shape.topK), static_cast<int>(shape.expertFfn),
                      static_cast<int>(shape.sharedFfn), groupedDigits(candidate.parameters),
                      withUnit(candidate.active), 100 * candidate.activeRate, candidate.mu, candidate.beta);
  if (request.compute > 0)
    text += absl::StrFormat(" %10s", withUnit(candidate.tokens));
  if (request.unique > 0)
    text += absl::StrFormat(" %6.2f", candidate.epochs);
  return text + "\n";
}

std::string tableText(const std::vector<ExpertsCandidate> &candidates, const ExpertsRequest &request) {
  std::string text = absl::StrFormat("%7s %5s %6s %6s %13s %11s %7s %6s %6s", "experts", "top-k", "D_e",
                                     "D_se", "N", "N_a", "r_a %", "mu", "beta");
  text += request.compute > 0 ? absl::StrFormat(" %10s", "tokens") : "";
  text += request.unique > 0 ? absl::StrFormat(" %6s", "epochs") : "";
  text += "\n";
  for (const ExpertsCandidate &candidate : candidates)
    text += rowText(candidate, request);
  return text;
}

std::string jsonText(const std::vector<ExpertsCandidate> &candidates) {
  llvm::json::Array array;
  for (const ExpertsCandidate &candidate : candidates) {
    const PublishedShape &shape = candidate.shape;
    array.push_back(llvm::json::Object{{"experts", toDecimal(shape.experts)},
                                       {"top_k", toDecimal(shape.topK)},
                                       {"expert_ffn", toDecimal(shape.expertFfn)},
                                       {"shared_ffn", toDecimal(shape.sharedFfn)},
                                       {"width", toDecimal(shape.width)},
                                       {"layers", toDecimal(shape.layers)},
                                       {"dense_layers", toDecimal(shape.denseLayers)},
                                       {"ffn", toDecimal(shape.ffn)},
                                       {"n", toDecimal(candidate.parameters)},
                                       {"n_active", toDecimal(candidate.active)},
                                       {"active_rate", absl::StrFormat("%.6f", candidate.activeRate)},
                                       {"mu", absl::StrFormat("%.4f", candidate.mu)},
                                       {"beta", absl::StrFormat("%.4f", candidate.beta)},
                                       {"training_per_token", toDecimal(candidate.trainingPerToken)},
                                       {"tokens", toDecimal(candidate.tokens)},
                                       {"epochs", absl::StrFormat("%.4f", candidate.epochs)}});
  }
  std::string text;
  llvm::raw_string_ostream stream(text);
  stream << llvm::formatv("{0:2}", llvm::json::Value(llvm::json::Object{{"candidates", std::move(array)}}))
         << "\n";
  return text;
}

/// The study's decoder: softmax gates that are not renormalised, ALiBi, an untied head.
StatusOr<std::string> specText(const ExpertsCandidate &candidate, const ExpertsRequest &request) {
  const PublishedShape &shape = candidate.shape;
  auto integer = [](Count value) { return static_cast<int64_t>(value); };
  DecoderConfig config;
  config.vocabulary = request.vocabulary, config.width = integer(shape.width),
  config.layers = integer(shape.layers);
  config.heads = config.kvHeads = integer(shape.heads), config.headDim = integer(shape.headDim);
  config.tied = false;
  MoeConfig moe;
  moe.experts = integer(shape.experts), moe.topK = integer(shape.topK), moe.ffn = integer(shape.expertFfn);
  moe.sharedFfn = integer(shape.sharedFfn), moe.renormalize = false;
  config.moe = moe;
  config.balanceWeight = 0.01;
  config.ffn = integer(shape.ffn);
  config.alibi = true, config.rotary.present = false;
  for (int64_t layer = 0; shape.denseLayers > 0 && layer < config.layers; ++layer)
    config.plan.push_back({0, layer >= integer(shape.denseLayers)});
  SLUICE_RETURN_IF_ERROR(checkDecoder(config));
  return twinSpec(config, config, std::nullopt, {}, 8, request.sequence,
                  concat("# Experts for ", toDecimal(request.parameters),
                         " parameters (N of 2506.12119) at an activation rate of ",
                         absl::StrFormat("%.2f", 100 * request.activeRate), " %:\n# N ",
                         groupedDigits(candidate.parameters), ", N_a ", groupedDigits(candidate.active),
                         ".\n"));
}

} // namespace

Status expertsFor(const ExpertsForFlags &flags) {
  SLUICE_ASSIGN_OR_RETURN(ExpertsRequest request, parseExpertsRequest(flags.request));
  std::vector<ExpertsCandidate> candidates = solveExperts(request, static_cast<size_t>(flags.show));
  if (candidates.empty())
    return failure("--experts-for: no number of experts gives N = ", toDecimal(request.parameters),
                   "; the attention and dense layers alone may hold more, or the experts are too wide");
  if (candidates.front().distance > request.tolerance)
    return failure("no model within ", absl::StrFormat("%.2f", 100 * request.tolerance),
                   " % of both N = ", toDecimal(request.parameters), " and an activation rate of ",
                   absl::StrFormat("%.2f", 100 * request.activeRate), " %; the nearest two:\n",
                   tableText(candidates, request), "widen tolerance=..., or leave top-k or expert-ffn free");
  if (!flags.output.empty()) {
    SLUICE_ASSIGN_OR_RETURN(std::string spec, specText(candidates.front(), request));
    SLUICE_RETURN_IF_ERROR(writeFileAtomically(flags.output, spec));
  }
  const std::string json = jsonText(candidates);
  if (flags.json == "-") {
    std::fputs(json.c_str(), stdout);
    return absl::OkStatus();
  }
  if (!flags.json.empty())
    SLUICE_RETURN_IF_ERROR(writeFileAtomically(flags.json, json));
  const PublishedShape &shape = candidates.front().shape;
  std::printf("experts for N = %s at an activation rate of %.2f %% (2506.12119; the router %s)\n"
              "  width %s, layers %s (%s dense first), dense ffn %s, heads %s of %s, %s\n\n%s",
              groupedDigits(request.parameters).c_str(), 100 * request.activeRate,
              request.routerCounted ? "counted in the rate" : "not counted", toDecimal(shape.width).c_str(),
              toDecimal(shape.layers).c_str(), toDecimal(shape.denseLayers).c_str(),
              toDecimal(shape.ffn).c_str(), toDecimal(shape.heads).c_str(), toDecimal(shape.headDim).c_str(),
              shape.sharedFfn > 0 ? "a shared expert of D_se = K D_e" : "no shared expert",
              tableText(candidates, request).c_str());
  if (request.compute > 0)
    std::printf("\ntokens = C / 3 M, M the forward FLOPs of a token at %lld positions with the router\n",
                static_cast<long long>(request.sequence));
  if (!flags.output.empty())
    std::printf("\nwritten to %s\n", flags.output.c_str());
  return absl::OkStatus();
}

} // namespace sluice::cli
