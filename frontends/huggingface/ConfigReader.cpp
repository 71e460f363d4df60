#include "frontends/huggingface/ConfigReader.h"

namespace sluice {

const llvm::json::Value *ConfigReader::find(llvm::StringRef key) {
  read.insert(key.str());
  const llvm::json::Value *value = object.get(key);
  return value && value->kind() != llvm::json::Value::Null ? value : nullptr;
}

StatusOr<int64_t> ConfigReader::integer(llvm::StringRef key, int64_t fallback) {
  const llvm::json::Value *value = find(key);
  if (!value) {
    if (fallback < 0)
      return error(concat("key '", key.str(), "' is missing: expected an integer"));
    return fallback;
  }
  std::optional<int64_t> integer = value->getAsInteger();
  if (!integer || *integer < 0)
    return wrong(key, "a non-negative integer");
  return *integer;
}

StatusOr<double> ConfigReader::number(llvm::StringRef key, double fallback) {
  const llvm::json::Value *value = find(key);
  if (!value)
    return fallback;
  std::optional<double> number = value->getAsNumber();
  if (!number)
    return wrong(key, "a number");
  return *number;
}

StatusOr<int64_t> ConfigReader::nullableInteger(llvm::StringRef key, int64_t fallback) {
  if (!find(key))
    return object.get(key) ? 0 : fallback;
  SLUICE_ASSIGN_OR_RETURN(int64_t value, integer(key, 0));
  return value > 0 ? StatusOr<int64_t>(value) : wrong(key, "a positive integer or null");
}

StatusOr<double> ConfigReader::nullableNumber(llvm::StringRef key, double fallback) {
  if (!find(key))
    return object.get(key) ? 0 : fallback;
  SLUICE_ASSIGN_OR_RETURN(double value, number(key, 0));
  return value > 0 ? StatusOr<double>(value) : wrong(key, "a positive number or null");
}

StatusOr<bool> ConfigReader::boolean(llvm::StringRef key, bool fallback) {
  const llvm::json::Value *value = find(key);
  if (!value)
    return fallback;
  std::optional<bool> boolean = value->getAsBoolean();
  if (!boolean)
    return wrong(key, "true or false");
  return *boolean;
}

StatusOr<std::string> ConfigReader::text(llvm::StringRef key, llvm::StringRef fallback) {
  const llvm::json::Value *value = find(key);
  if (!value)
    return fallback.str();
  std::optional<llvm::StringRef> text = value->getAsString();
  if (!text)
    return wrong(key, "a text");
  return text->str();
}

StatusOr<const llvm::json::Object *> ConfigReader::section(llvm::StringRef key) {
  const llvm::json::Value *value = find(key);
  if (value && !value->getAsObject())
    return wrong(key, "an object");
  return value ? value->getAsObject() : nullptr;
}

StatusOr<std::vector<std::string>> ConfigReader::texts(llvm::StringRef key, int64_t count) {
  std::vector<std::string> list;
  const llvm::json::Value *value = find(key);
  if (!value)
    return list;
  if (const llvm::json::Array *array = value->getAsArray())
    for (const llvm::json::Value &entry : *array)
      if (std::optional<llvm::StringRef> text = entry.getAsString())
        list.push_back(text->str());
  if (!value->getAsArray() || list.size() != value->getAsArray()->size() ||
      static_cast<int64_t>(list.size()) != count)
    return wrong(key, concat("a list of ", count, " texts, one a layer"));
  return list;
}

StatusOr<std::vector<int64_t>> ConfigReader::integers(llvm::StringRef key) {
  std::vector<int64_t> list;
  const llvm::json::Value *value = find(key);
  if (!value)
    return list;
  if (const llvm::json::Array *array = value->getAsArray())
    for (const llvm::json::Value &entry : *array)
      if (std::optional<int64_t> integer = entry.getAsInteger())
        list.push_back(*integer);
  if (!value->getAsArray() || list.size() != value->getAsArray()->size())
    return wrong(key, "a list of integers");
  return list;
}

void ConfigReader::ignore(std::initializer_list<llvm::StringRef> keys) {
  for (llvm::StringRef key : keys)
    read.insert(key.str());
}

Status ConfigReader::requireOff(llvm::StringRef key) {
  const llvm::json::Value *value = find(key);
  if (!value || value->getAsBoolean() == false || value->getAsNumber() == 0.0)
    return absl::OkStatus();
  return wrong(key, "it absent, null, false or 0");
}

Status ConfigReader::wrong(llvm::StringRef key, const std::string &expectation) const {
  std::string found;
  llvm::raw_string_ostream(found) << *object.get(key);
  return error(concat("key '", key.str(), "': expected ", expectation, ", found ", found));
}

Status ConfigReader::checkRest() const {
  static const std::set<std::string> harmless = {"architectures",
                                                 "model_type",
                                                 "_name_or_path",
                                                 "name_or_path",
                                                 "torch_dtype",
                                                 "dtype",
                                                 "transformers_version",
                                                 "use_cache",
                                                 "bos_token_id",
                                                 "eos_token_id",
                                                 "pad_token_id",
                                                 "output_attentions",
                                                 "output_hidden_states",
                                                 "pretraining_tp",
                                                 "return_dict",
                                                 "router_aux_loss_coef",
                                                 "output_router_logits",
                                                 "initializer_range",
                                                 "attn_implementation",
                                                 "_attn_implementation",
                                                 "id2label",
                                                 "label2id",
                                                 "tokenizer_class",
                                                 "is_decoder",
                                                 "problem_type",
                                                 "chunk_size_feed_forward",
                                                 "is_encoder_decoder",
                                                 "finetuning_task",
                                                 "task_specific_params",
                                                 "cache_implementation"};
  for (const auto &entry : object)
    if (!read.count(entry.first.str()) && !harmless.count(entry.first.str()))
      return error(concat("key '", entry.first.str(),
                          "' is not known for this family and could change the computation; remove it if it "
                          "does not"));
  return absl::OkStatus();
}

} // namespace sluice
