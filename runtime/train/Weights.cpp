#include "runtime/train/Weights.h"

#include "runtime/checkpoint/Checkpoint.h"
#include "runtime/checkpoint/TensorConversion.h"
#include "runtime/support/File.h"
#include "runtime/train/Masks.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>

namespace sluice {
namespace {

constexpr std::string_view expertMark = "{expert}";

TensorType tensorType(ElementType type) {
  switch (type) {
  case ElementType::F32:
    return TensorType::F32;
  case ElementType::F64:
    return TensorType::F64;
  case ElementType::BF16:
    return TensorType::BF16;
  case ElementType::I32:
    return TensorType::I32;
  case ElementType::I64:
    return TensorType::I64;
  case ElementType::U8:
    return TensorType::U8;
  }
  return TensorType::U8;
}

/// A tensor of a file: a state tensor, or one expert's part of it.
struct Piece {
  std::string name;
  const StateTensor *tensor;
  std::vector<int64_t> shape;
  uint64_t offset, bytes;
};

/// The pieces of `tensor`, named like the weights of `named`.
std::vector<Piece> piecesOf(const StateTensor &tensor, const StateTensor &named) {
  std::vector<std::string> names = weightNames(named);
  std::vector<int64_t> shape = tensor.shape();
  bool split = named.checkpointName.find(expertMark) != std::string::npos;
  if (split)
    shape.erase(shape.begin());
  std::vector<Piece> pieces;
  pieces.reserve(names.size());
  uint64_t bytes = names.empty() ? 0 : tensor.bytes() / names.size();
  for (size_t index = 0; index < names.size(); ++index)
    pieces.push_back({names[index], &tensor, shape, index * bytes, bytes});
  return pieces;
}

bool inModelFile(const StateTensor &tensor) {
  return tensor.role == TensorRole::Parameter ||
         (tensor.role == TensorRole::State && !tensor.checkpointName.empty());
}

std::vector<Piece> modelPieces(const ExecutableDescription &model) {
  std::vector<Piece> pieces;
  for (const StateTensor &tensor : model.tensors)
    if (inModelFile(tensor))
      for (Piece &piece : piecesOf(tensor, tensor))
        pieces.push_back(std::move(piece));
  return pieces;
}

std::vector<Piece> optimizerPieces(const ExecutableDescription &model) {
  std::vector<Piece> pieces;
  for (const StateTensor &tensor : model.tensors) {
    if (tensor.role == TensorRole::State && tensor.checkpointName.empty())
      pieces.push_back({tensor.name, &tensor, tensor.shape(), 0, tensor.bytes()});
    if (tensor.role != TensorRole::ExpAvg && tensor.role != TensorRole::ExpAvgSq)
      continue;
    for (Piece &piece : piecesOf(tensor, *model.tensor(tensor.parameter))) {
      piece.name =
          tensor.role == TensorRole::ExpAvg ? firstMomentName(piece.name) : secondMomentName(piece.name);
      pieces.push_back(std::move(piece));
    }
  }
  return pieces;
}

StatusOr<std::vector<Piece>> maskPieces(const ExecutableDescription &model) {
  SLUICE_ASSIGN_OR_RETURN(const std::vector<ModelMask> masks, modelMasks(model));
  std::vector<Piece> pieces;
  pieces.reserve(masks.size());
  for (const ModelMask &mask : masks)
    pieces.push_back({mask.name, mask.mask, mask.mask->place.shape, 0, mask.mask->place.bytes()});
  return pieces;
}

std::vector<TensorSource> sourcesOf(const Session &session, const std::vector<Piece> &pieces) {
  std::vector<TensorSource> sources;
  for (const Piece &piece : pieces) {
    TensorSource source;
    source.name = piece.name;
    source.type = tensorType(piece.tensor->place.type);
    source.shape = piece.shape;
    source.fill = [&session, tensor = piece.tensor, start = piece.offset](uint64_t offset, void *to,
                                                                          size_t size) {
      return session.readState(*tensor, start + offset, to, size);
    };
    sources.push_back(std::move(source));
  }
  return sources;
}

std::string shapeText(const std::vector<int64_t> &shape) {
  std::string text = "[";
  for (size_t index = 0; index < shape.size(); ++index)
    text += concat(index ? ", " : "", shape[index]);
  return text + "]";
}

Status importPieces(Session &session, const std::vector<Piece> &pieces, const TensorLookup &lookup,
                    const std::string &place, bool convert) {
  std::string missing;
  int missingCount = 0;
  for (const Piece &piece : pieces)
    if (!lookup(piece.name) && ++missingCount <= 5)
      missing += concat(missing.empty() ? "" : ", ", piece.name);
  if (missingCount > 0)
    return badInputError(place, ": expected ", pieces.size(), " tensors, found ", missingCount, " missing (",
                         missing, missingCount > 5 ? ", ..." : "", "); are these the weights of this model?");
  std::vector<float> converted;
  for (const Piece &piece : pieces) {
    const TensorView &view = *lookup(piece.name);
    if (view.shape != piece.shape)
      return badInputError(place, ": tensor '", piece.name, "': expected shape ", shapeText(piece.shape),
                           ", found ", shapeText(view.shape), "; are these the weights of this model?");
    const void *bytes = view.data;
    if (view.type != tensorType(piece.tensor->place.type)) {
      if (!convert || piece.tensor->place.type != ElementType::F32)
        return badInputError(place, ": tensor '", piece.name, "': expected elements of ",
                             elementTypeName(piece.tensor->place.type), ", found ",
                             tensorTypeName(view.type));
      converted.resize(static_cast<size_t>(view.elements()));
      SLUICE_RETURN_IF_ERROR(readFloat32(view, converted.data(), Conversion::Exact));
      bytes = converted.data();
    }
    if (Status written = session.writeState(*piece.tensor, piece.offset, bytes, piece.bytes); !written.ok())
      return absl::Status(written.code(), concat(place, ": ", written.message()));
  }
  return absl::OkStatus();
}

Status writeTensors(std::vector<TensorSource> sources, const std::string &path) {
  SLUICE_ASSIGN_OR_RETURN(SafetensorsWriter writer, SafetensorsWriter::create(std::move(sources)));
  std::string bytes;
  bytes.reserve(writer.size());
  SLUICE_RETURN_IF_ERROR(writer.write([&](const void *part, size_t size) {
    bytes.append(static_cast<const char *>(part), size);
    return absl::OkStatus();
  }));
  return writeFileAtomically(path, bytes);
}

/// Whether all float32 values of a tensor are finite.
StatusOr<bool> isFinite(const Session &session, const StateTensor &tensor, std::vector<float> &buffer) {
  if (tensor.place.type != ElementType::F32)
    return true;
  uint64_t total = tensor.bytes();
  for (uint64_t offset = 0; offset < total;) {
    uint64_t size = std::min<uint64_t>(total - offset, buffer.size() * sizeof(float));
    SLUICE_RETURN_IF_ERROR(session.readState(tensor, offset, buffer.data(), size));
    for (uint64_t index = 0; index < size / sizeof(float); ++index)
      if (!std::isfinite(buffer[index]))
        return false;
    offset += size;
  }
  return true;
}

} // namespace

std::vector<std::string> weightNames(const StateTensor &tensor) {
  const std::string &pattern = tensor.checkpointName.empty() ? tensor.name : tensor.checkpointName;
  size_t mark = tensor.checkpointName.empty() ? std::string::npos : pattern.find(expertMark);
  if (mark == std::string::npos)
    return {pattern};
  std::vector<std::string> names;
  names.reserve(static_cast<size_t>(tensor.shape()[0]));
  for (int64_t expert = 0; expert < tensor.shape()[0]; ++expert)
    names.push_back(concat(pattern.substr(0, mark), expert, pattern.substr(mark + expertMark.size())));
  return names;
}

std::vector<TensorSource> modelTensors(const Session &session) {
  return sourcesOf(session, modelPieces(session.description()));
}

std::vector<TensorSource> optimizerTensors(const Session &session) {
  return sourcesOf(session, optimizerPieces(session.description()));
}

Status importModel(Session &session, const TensorLookup &lookup, const std::string &place) {
  return importPieces(session, modelPieces(session.description()), lookup, place, /*convert=*/true);
}

Status importOptimizer(Session &session, const TensorLookup &lookup, const std::string &place) {
  return importPieces(session, optimizerPieces(session.description()), lookup, place, /*convert=*/false);
}

Status importMasks(Session &session, const TensorLookup &lookup, const std::string &place) {
  SLUICE_ASSIGN_OR_RETURN(const std::vector<Piece> pieces, maskPieces(session.description()));
  SLUICE_RETURN_IF_ERROR(importPieces(session, pieces, lookup, place, /*convert=*/false));
  return checkMasks(session, place);
}

std::vector<std::string> unusedTensors(const Session &session, const WeightFiles &files) {
  std::vector<std::string> used, unused;
  for (const Piece &piece : modelPieces(session.description()))
    used.push_back(piece.name);
  std::sort(used.begin(), used.end());
  std::set_difference(files.names().begin(), files.names().end(), used.begin(), used.end(),
                      std::back_inserter(unused));
  return unused;
}

Status exportModel(const Session &session, const std::string &folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error)
    return failure("cannot make folder '", folder, "': ", error.message());
  SLUICE_RETURN_IF_ERROR(writeTensors(modelTensors(session), folder + "/model.safetensors"));
  SLUICE_ASSIGN_OR_RETURN(const std::vector<Piece> masks, maskPieces(session.description()));
  if (!masks.empty())
    SLUICE_RETURN_IF_ERROR(writeTensors(sourcesOf(session, masks), concat(folder, "/", masksFile)));
  const std::string &config = session.description().modelConfig;
  return config.empty() ? absl::OkStatus() : writeFileAtomically(folder + "/config.json", config);
}

StatusOr<std::string> firstNotFinite(const Session &session) {
  std::vector<float> buffer(1 << 16);
  for (TensorRole role : {TensorRole::Parameter, TensorRole::Gradient})
    for (const StateTensor &tensor : session.description().tensors) {
      if (tensor.role != role)
        continue;
      SLUICE_ASSIGN_OR_RETURN(bool finite, isFinite(session, tensor, buffer));
      if (!finite)
        return role == TensorRole::Parameter ? tensor.name : tensor.parameter;
    }
  return std::string();
}

} // namespace sluice
