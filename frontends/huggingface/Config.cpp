#include "frontends/huggingface/Config.h"

#include "frontends/huggingface/Family.h"
#include "runtime/support/File.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FileSystem.h"

namespace sluice {

StatusOr<DecoderConfig> readHuggingFaceConfig(const std::string &path) {
  std::string place = path;
  if (llvm::sys::fs::is_directory(place))
    place += "/config.json";
  StatusOr<std::string> text = readFile(place);
  if (!text.ok())
    return usageError(std::string(text.status().message()));
  return parseHuggingFaceConfig(*text, place);
}

StatusOr<DecoderConfig> parseHuggingFaceConfig(const std::string &text, const std::string &place) {
  llvm::Expected<llvm::json::Value> parsed = llvm::json::parse(text);
  if (!parsed)
    return usageError(place, ": not JSON: ", llvm::toString(parsed.takeError()));
  const llvm::json::Object *object = parsed->getAsObject();
  if (!object)
    return usageError(place, ": expected a JSON object");
  const llvm::StringRef name = object->getString("model_type").value_or("");
  const Family *family = llvm::find_if(families(), [&](const Family &entry) { return entry.name == name; });
  if (family == families().end()) {
    std::string known;
    for (const Family &entry : families())
      known += (known.empty() ? "" : ", ") + entry.name.str();
    return usageError(place, ": key 'model_type': expected one of ", known, ", found '", name.str(), "'");
  }

  ConfigReader reader(*object, place);
  DecoderConfig config;
  config.name = name.str();
  config.huggingFace = text;
  SLUICE_RETURN_IF_ERROR(family->read(reader, config));
  SLUICE_RETURN_IF_ERROR(reader.checkRest());
  if (Status status = checkDecoder(config); !status.ok())
    return usageError(place, ": ", std::string(status.message()));
  return config;
}

} // namespace sluice
