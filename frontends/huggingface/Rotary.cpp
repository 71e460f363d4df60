#include "frontends/huggingface/Rotary.h"

#include <cmath>
#include <numbers>

namespace sluice {
namespace {

/// The section of rotary positions, with names for messages.
class RotarySection {
public:
  RotarySection(ConfigReader &reader, llvm::StringRef name, const llvm::json::Object *object)
      : reader(reader), name(name), object(object) {}

  /// The number at `key`; `fallback` if absent or null.
  StatusOr<double> number(llvm::StringRef key, double fallback) const {
    const llvm::json::Value *value = find(key);
    if (!value)
      return fallback;
    if (std::optional<double> number = value->getAsNumber(); number && std::isfinite(*number))
      return *number;
    return wrong(key, "a number");
  }
  StatusOr<double> positive(llvm::StringRef key, double fallback) const {
    SLUICE_ASSIGN_OR_RETURN(double value, number(key, fallback));
    return value > 0 ? StatusOr<double>(value) : wrong(key, "a positive number");
  }
  std::string kind() const {
    for (llvm::StringRef key : {"rope_type", "type"})
      if (const llvm::json::Value *value = find(key))
        return value->getAsString().value_or("").str();
    return "default";
  }
  bool has(llvm::StringRef key) const { return find(key) != nullptr; }
  bool isNull(llvm::StringRef key) const {
    const llvm::json::Value *value = object ? object->get(key) : nullptr;
    return value && value->kind() == llvm::json::Value::Null;
  }
  const llvm::json::Value *find(llvm::StringRef key) const {
    const llvm::json::Value *value = object ? object->get(key) : nullptr;
    return value && value->kind() != llvm::json::Value::Null ? value : nullptr;
  }
  Status wrong(llvm::StringRef key, const std::string &expectation) const {
    std::string found = "nothing";
    if (const llvm::json::Value *value = object ? object->get(key) : nullptr) {
      found.clear();
      llvm::raw_string_ostream(found) << *value;
    }
    return reader.error(
        concat("key '", name.str(), ".", key.str(), "': expected ", expectation, ", found ", found));
  }
  Status checkKeys() const {
    static const std::set<llvm::StringRef> known = {"rope_theta",
                                                    "rope_type",
                                                    "type",
                                                    "factor",
                                                    "low_freq_factor",
                                                    "attention_factor",
                                                    "high_freq_factor",
                                                    "mscale",
                                                    "mscale_all_dim",
                                                    "original_max_position_embeddings",
                                                    "beta_fast",
                                                    "beta_slow",
                                                    "truncate",
                                                    "partial_rotary_factor"};
    if (object)
      for (const auto &entry : *object)
        if (!known.count(llvm::StringRef(entry.first)))
          return wrong(entry.first, "no such key (it could change the computation)");
    return absl::OkStatus();
  }

private:
  ConfigReader &reader;
  llvm::StringRef name;
  const llvm::json::Object *object;
};

/// theta^(-2i/dim) for each pair.
std::vector<double> plainFrequencies(double theta, int64_t dim) {
  std::vector<double> frequencies;
  frequencies.reserve(static_cast<size_t>(dim / 2));
  for (int64_t i = 0; i < dim / 2; ++i)
    frequencies.push_back(std::pow(theta, -2.0 * static_cast<double>(i) / static_cast<double>(dim)));
  return frequencies;
}

/// Llama 3.1: long wavelengths are stretched by `factor`, short ones kept, those between blended.
Status llama3(const RotarySection &section, double original, std::vector<double> &frequencies) {
  SLUICE_ASSIGN_OR_RETURN(double factor, section.positive("factor", 0));
  SLUICE_ASSIGN_OR_RETURN(double low, section.positive("low_freq_factor", 0));
  SLUICE_ASSIGN_OR_RETURN(double high, section.positive("high_freq_factor", 0));
  if (high <= low)
    return section.wrong("high_freq_factor", "more than low_freq_factor");
  for (double &frequency : frequencies) {
    const double turns = original * frequency / (2 * std::numbers::pi); // over the original length
    if (turns < low)
      frequency /= factor;
    else if (turns <= high) {
      const double smooth = (turns - low) / (high - low);
      frequency = (1 - smooth) * frequency / factor + smooth * frequency;
    }
  }
  return absl::OkStatus();
}

/// YaRN: pairs that turn often over the original length are kept, those that turn seldom are stretched, with
/// a ramp between; cosine and sine grow by the attention factor.
Status yarn(const RotarySection &section, double original, DecoderConfig &config, int64_t dim) {
  const double ratio = static_cast<double>(config.maxPositions) / original;
  // A stated null means the ratio of the lengths; nothing at all means nothing.
  SLUICE_ASSIGN_OR_RETURN(double factor, section.positive("factor", section.isNull("factor") ? ratio : 0));
  SLUICE_ASSIGN_OR_RETURN(double fast, section.number("beta_fast", 32));
  SLUICE_ASSIGN_OR_RETURN(double slow, section.number("beta_slow", 1));
  fast = fast == 0 ? 32 : fast, slow = slow == 0 ? 1 : slow;
  bool truncate = true;
  if (const llvm::json::Value *value = section.find("truncate")) {
    if (!value->getAsBoolean())
      return section.wrong("truncate", "true or false");
    truncate = *value->getAsBoolean();
  }
  auto pairOf = [&](double rotations) {
    return static_cast<double>(dim) * std::log(original / (rotations * 2 * std::numbers::pi)) /
           (2 * std::log(config.ropeTheta));
  };
  double low = pairOf(fast), high = pairOf(slow);
  if (truncate)
    low = std::floor(low), high = std::ceil(high);
  low = std::max(low, 0.0), high = std::min(high, static_cast<double>(dim - 1));
  if (low == high)
    high += 0.001;
  std::vector<double> &frequencies = config.rotary.frequencies;
  for (size_t i = 0; i < frequencies.size(); ++i) {
    const double ramp = std::clamp((static_cast<double>(i) - low) / (high - low), 0.0, 1.0);
    frequencies[i] = frequencies[i] / factor * ramp + frequencies[i] * (1 - ramp);
  }
  auto growth = [&](double scale) { return factor <= 1 ? 1.0 : 0.1 * scale * std::log(factor) + 1; };
  SLUICE_ASSIGN_OR_RETURN(double scale, section.number("mscale", 0));
  SLUICE_ASSIGN_OR_RETURN(double scaleAll, section.number("mscale_all_dim", 0));
  const double derived = scale != 0 && scaleAll != 0 ? growth(scale) / growth(scaleAll) : growth(1);
  SLUICE_ASSIGN_OR_RETURN(config.rotary.factor, section.positive("attention_factor", derived));
  config.rotary.scoreGrowth = scaleAll != 0 ? growth(scaleAll) : 1;
  return absl::OkStatus();
}

} // namespace

Status readRotary(ConfigReader &reader, DecoderConfig &config, const RotaryDefaults &defaults) {
  SLUICE_ASSIGN_OR_RETURN(config.ropeTheta, reader.number(defaults.thetaKey, defaults.theta));
  double share = 1;
  if (defaults.share > 0) {
    SLUICE_ASSIGN_OR_RETURN(share, reader.number(defaults.shareKey, defaults.share));
  }
  // The old section wins where both are there.
  SLUICE_ASSIGN_OR_RETURN(const llvm::json::Object *parameters, reader.section("rope_parameters"));
  SLUICE_ASSIGN_OR_RETURN(const llvm::json::Object *scaling, reader.section("rope_scaling"));
  const bool old = scaling && !scaling->empty();
  llvm::json::Value usual = llvm::json::Object();
  if (!old && !parameters && !defaults.section.empty()) {
    usual = llvm::cantFail(llvm::json::parse(defaults.section));
    parameters = usual.getAsObject();
  }
  RotarySection section(reader, old ? "rope_scaling" : "rope_parameters", old ? scaling : parameters);
  SLUICE_RETURN_IF_ERROR(section.checkKeys());
  SLUICE_ASSIGN_OR_RETURN(config.ropeTheta, section.positive("rope_theta", config.ropeTheta));
  SLUICE_ASSIGN_OR_RETURN(share, section.positive("partial_rotary_factor", share));
  if (share > 1 || (defaults.share == 0 && share != 1))
    return section.wrong("partial_rotary_factor", defaults.share == 0 ? "1 for this family" : "at most 1");
  const int64_t dim = static_cast<int64_t>(static_cast<double>(config.headDim) * share);
  if (dim != config.headDim)
    config.rotary.dim = dim;
  if (dim < 2 || dim % 2 != 0)
    return reader.error(
        concat("rotary positions turn pairs: expected an even number of elements of a head, found ", dim,
               " of ", config.headDim));

  const std::string kind = section.kind();
  if (kind == "default")
    return absl::OkStatus();
  if (kind != "linear" && kind != "llama3" && kind != "yarn")
    return section.wrong(section.has("rope_type") ? "rope_type" : "type",
                         "default, linear, llama3 or yarn (others depend on the sequence at hand)");
  config.rotary.frequencies = plainFrequencies(config.ropeTheta, dim);
  if (kind == "linear") {
    SLUICE_ASSIGN_OR_RETURN(double factor, section.positive("factor", 0));
    for (double &frequency : config.rotary.frequencies)
      frequency /= factor;
    return absl::OkStatus();
  }
  // A length before the scaling at the top level goes before that of the section.
  SLUICE_ASSIGN_OR_RETURN(double original, section.positive("original_max_position_embeddings",
                                                            static_cast<double>(config.maxPositions)));
  SLUICE_ASSIGN_OR_RETURN(original, reader.number("original_max_position_embeddings", original));
  return kind == "llama3" ? llama3(section, original, config.rotary.frequencies)
                          : yarn(section, original, config, dim);
}

} // namespace sluice
