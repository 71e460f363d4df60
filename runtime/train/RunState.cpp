#include "runtime/train/RunState.h"

namespace sluice {
namespace {

constexpr int64_t stateVersion = 2; // 2: with the device

} // namespace

nlohmann::json RunState::toJson() const {
  nlohmann::json best;
  if (bestStep)
    best = {{"step", *bestStep}, {"nats_per_token", bestNatsPerToken}};
  return {
      {"version", stateVersion},         {"step", step},     {"window", window}, {"seen_tokens", seenTokens},
      {"evaluated_step", evaluatedStep}, {"best", best},     {"seed", seed},     {"data_seed", dataSeed},
      {"horizon_tokens", horizonTokens}, {"config", config}, {"device", device}};
}

StatusOr<RunState> RunState::fromJson(const nlohmann::json &json, const std::string &place) {
  try {
    if (json.at("version").get<int64_t>() != stateVersion)
      return badInputError(place, ": expected state version ", stateVersion, ", found ",
                           json.at("version").dump());
    RunState state;
    json.at("step").get_to(state.step);
    json.at("window").get_to(state.window);
    json.at("seen_tokens").get_to(state.seenTokens);
    json.at("evaluated_step").get_to(state.evaluatedStep);
    if (!json.at("best").is_null()) {
      state.bestStep = json.at("best").at("step").get<int64_t>();
      json.at("best").at("nats_per_token").get_to(state.bestNatsPerToken);
    }
    json.at("seed").get_to(state.seed);
    json.at("data_seed").get_to(state.dataSeed);
    json.at("horizon_tokens").get_to(state.horizonTokens);
    json.at("config").get_to(state.config);
    json.at("device").get_to(state.device);
    return state;
  } catch (const nlohmann::json::exception &error) {
    return badInputError(place, ": expected the state of a run, found a field missing or wrong (",
                         error.what(), ")");
  }
}

} // namespace sluice
