#include "runtime/device/cuda/ModuleArchive.h"

#include "runtime/device/cuda/cuda_modules_generated.h"

namespace sluice::cuda {

std::string writeModuleArchive(const std::vector<ArchivedModule> &modules) {
  flatbuffers::FlatBufferBuilder builder;
  std::vector<flatbuffers::Offset<fb::Module>> list;
  for (const ArchivedModule &module : modules) {
    auto kernels = builder.CreateVectorOfStrings(module.kernels);
    auto bytes =
        builder.CreateVector(reinterpret_cast<const uint8_t *>(module.bytes.data()), module.bytes.size());
    list.push_back(fb::CreateModule(builder, kernels, bytes));
  }
  fb::FinishModulesBuffer(builder, fb::CreateModules(builder, builder.CreateVector(list)));
  return std::string(reinterpret_cast<const char *>(builder.GetBufferPointer()), builder.GetSize());
}

StatusOr<std::vector<ArchivedModule>> readModuleArchive(std::string_view bytes, const std::string &place) {
  // The verifier wants aligned bytes; those of a file may lie anywhere.
  std::vector<uint64_t> aligned((bytes.size() + 7) / 8);
  std::copy(bytes.begin(), bytes.end(), reinterpret_cast<char *>(aligned.data()));
  const uint8_t *data = reinterpret_cast<const uint8_t *>(aligned.data());
  flatbuffers::Verifier verifier(data, bytes.size());
  if (bytes.size() < 8 || !fb::VerifyModulesBuffer(verifier))
    return badInputError("the CUDA kernels for ", place,
                         " are damaged: not a module archive; compile the executable again");
  std::vector<ArchivedModule> modules;
  if (const auto *list = fb::GetModules(data)->modules())
    for (const fb::Module *module : *list) {
      ArchivedModule read;
      if (const auto *kernels = module->kernels())
        for (const auto *name : *kernels)
          read.kernels.push_back(name->str());
      if (const auto *content = module->bytes())
        read.bytes.assign(content->begin(), content->end());
      modules.push_back(std::move(read));
    }
  return modules;
}

} // namespace sluice::cuda
