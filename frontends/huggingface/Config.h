// Hugging Face config.json files of the families in Families.cpp.
#pragma once

#include "frontends/decoder/DecoderConfig.h"

#include <string>

namespace sluice {

/// Reads a config.json (or the folder that holds one). Absent keys take the family's published defaults. A
/// family or a setting that would change the meaning is a usageError that names it; nothing is guessed. No
/// auxiliary loss is added: the library adds one only when router logits are asked for.
StatusOr<DecoderConfig> readHuggingFaceConfig(const std::string &path);
/// The same from the text of such a file; `place` names it in messages.
StatusOr<DecoderConfig> parseHuggingFaceConfig(const std::string &text, const std::string &place);

} // namespace sluice
