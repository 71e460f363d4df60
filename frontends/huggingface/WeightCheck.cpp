#include "frontends/huggingface/WeightCheck.h"

#include "dialects/sluice/Notation.h"
#include "runtime/checkpoint/WeightFiles.h"

#include "absl/strings/str_join.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/FileSystem.h"

#include <map>

namespace sluice {
namespace {

using Shape = std::vector<int64_t>;

std::string shapeText(const Shape &shape) {
  return "[" + absl::StrJoin(shape, ", ") + "]";
}

/// The tensors of a weight file that a parameter is made of: one, or one an expert.
std::map<std::string, Shape> tensorsOf(const ParameterInfo &info) {
  Shape shape(info.type.getShape().begin(), info.type.getShape().end());
  constexpr llvm::StringLiteral placeholder = "{expert}";
  size_t at = info.checkpoint.find(placeholder);
  if (at == std::string::npos)
    return {{info.checkpoint, shape}};
  std::map<std::string, Shape> tensors;
  for (int64_t expert = 0; expert < shape[0]; ++expert) {
    std::string name = info.checkpoint;
    name.replace(at, placeholder.size(), std::to_string(expert));
    tensors[name] = Shape(shape.begin() + 1, shape.end());
  }
  return tensors;
}

/// Constants that old checkpoints store though every reader computes them.
bool isBuffer(llvm::StringRef name) {
  return name.ends_with(".rotary_emb.inv_freq") || name.ends_with(".masked_bias") ||
         name.ends_with(".attn.bias") || name.ends_with(".attention.bias");
}

bool isWeightType(TensorType type) {
  return type == TensorType::F32 || type == TensorType::F64 || type == TensorType::F16 ||
         type == TensorType::BF16;
}

} // namespace

bool hasWeights(const std::string &folder) {
  return llvm::sys::fs::exists(folder + "/model.safetensors") ||
         llvm::sys::fs::exists(folder + "/model.safetensors.index.json");
}

StatusOr<WeightReport> checkWeights(mlir::ModuleOp module, const std::string &folder) {
  SLUICE_ASSIGN_OR_RETURN(WeightFiles weights, WeightFiles::open(folder));
  WeightReport report;
  report.files = weights.files().size();
  std::map<std::string, Shape> wanted;
  Shape table;
  bool hasHead = false;
  for (const ParameterInfo &info : parametersOf(module)) {
    wanted.merge(tensorsOf(info));
    if (info.kind == "embedding")
      table.assign(info.type.getShape().begin(), info.type.getShape().end());
    hasHead |= info.kind == "head";
  }
  for (const auto &[name, shape] : wanted) {
    const TensorView *tensor = weights.find(name);
    if (!tensor) {
      report.missing.push_back(name);
      continue;
    }
    ++report.tensors;
    report.elements += static_cast<uint64_t>(tensor->elements());
    if (tensor->shape != shape)
      report.mismatch.push_back(
          concat(name, ": expected ", shapeText(shape), ", found ", shapeText(tensor->shape)));
    else if (!isWeightType(tensor->type))
      report.mismatch.push_back(
          concat(name, ": expected a floating-point type, found ", tensorTypeName(tensor->type)));
  }
  for (const std::string &name : weights.names()) {
    const Shape &shape = weights.find(name)->shape;
    bool isTiedHead = !hasHead && name == "lm_head.weight" && shape == table;
    if (!wanted.count(name) && !isBuffer(name) && !isTiedHead)
      report.extra.push_back(concat(name, " ", shapeText(shape)));
  }
  return report;
}

Status weightStatus(const WeightReport &report, const std::string &folder, size_t most) {
  std::string text;
  auto list = [&](const char *what, const std::vector<std::string> &names) {
    if (names.empty())
      return;
    text += concat("\n  ", names.size(), " ", what);
    for (const std::string &name : llvm::ArrayRef(names).take_front(most))
      text += "\n    " + name;
    if (names.size() > most)
      text += concat("\n    and ", names.size() - most, " more");
  };
  list("missing, needed by the graph:", report.missing);
  list("of another shape or type:", report.mismatch);
  list("extra, taken by nothing in the graph:", report.extra);
  if (text.empty())
    return absl::OkStatus();
  return badInputError(folder, ": expected the tensors that config.json describes, found differences:", text,
                       "\n  config.json and weights are of two models, or a file is incomplete");
}

} // namespace sluice
