// Entry points: modules, functions, launches.
#include "runtime/device/cudasim/driver/Device.h"

#include <algorithm>
#include <cstring>

using namespace sluice::cudasim;

CUresult cuModuleLoadData(CUmodule *module, const void *image) {
  return cuModuleLoadDataEx(module, image, 0, nullptr, nullptr);
}

CUresult cuModuleLoadDataEx(CUmodule *module, const void *image, unsigned count, CUjit_option *options,
                            void **values) {
  return withDevice([&](Device &device) {
    if (!module || !image || (count != 0 && (!options || !values)))
      return device.fail(CUDA_ERROR_INVALID_VALUE, "cuModuleLoadDataEx: an argument is missing");
    const CUresult result = device.loadModule(static_cast<const char *>(image), module);
    char *log = nullptr;
    size_t bytes = 0;
    for (unsigned i = 0; i < count; ++i) {
      if (options[i] == CU_JIT_ERROR_LOG_BUFFER)
        log = static_cast<char *>(values[i]);
      if (options[i] == CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES)
        bytes = reinterpret_cast<uintptr_t>(values[i]);
    }
    if (log && bytes != 0) {
      const std::string text = result == CUDA_SUCCESS ? "" : device.message;
      const size_t length = std::min(text.size(), bytes - 1);
      std::memcpy(log, text.data(), length);
      log[length] = '\0';
    }
    return result;
  });
}

CUresult cuModuleUnload(CUmodule module) {
  return withDevice([&](Device &device) { return device.unloadModule(module); });
}

CUresult cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name) {
  return withDevice([&](Device &device) {
    if (!function || !name || !device.modules.contains(module))
      return device.fail(CUDA_ERROR_INVALID_HANDLE,
                         "cuModuleGetFunction: not a module, or an argument is missing");
    auto found = module->functions.find(name);
    if (found == module->functions.end())
      return device.fail(CUDA_ERROR_NOT_FOUND, sluice::concat("the module has no kernel '", name, "'"));
    *function = &found->second;
    return CUresult(CUDA_SUCCESS);
  });
}

CUresult cuModuleGetGlobal_v2(CUdeviceptr *pointer, size_t *bytes, CUmodule module, const char *name) {
  return withDevice([&](Device &device) {
    if (!name || !device.modules.contains(module))
      return device.fail(CUDA_ERROR_INVALID_HANDLE, "cuModuleGetGlobal: not a module, or no name");
    auto found = module->variables.find(name);
    if (found == module->variables.end())
      return device.fail(CUDA_ERROR_NOT_FOUND, sluice::concat("the module has no variable '", name, "'"));
    if (pointer)
      *pointer = found->second.first;
    if (bytes)
      *bytes = found->second.second;
    return CUresult(CUDA_SUCCESS);
  });
}

CUresult cuFuncGetAttribute(int *value, CUfunction_attribute attribute, CUfunction function) {
  return withDevice([&](Device &device) {
    if (!value || !function)
      return device.fail(CUDA_ERROR_INVALID_VALUE, "cuFuncGetAttribute: an argument is missing");
    const Kernel &kernel = *function->kernel;
    switch (attribute) {
    case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
      *value = device.maximumThreads(*function);
      break;
    case CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES:
      *value = static_cast<int>(device.staticShared(*function));
      break;
    case CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES:
      *value = 0;
      break;
    case CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES:
      *value = function->assembled ? static_cast<int>(function->assembled->localBytes)
                                   : static_cast<int>(kernel.localBytes);
      break;
    case CU_FUNC_ATTRIBUTE_NUM_REGS:
      // Without a cubin the registers that the PTX names, which the assembler would share.
      *value = function->assembled ? static_cast<int>(function->assembled->registers)
                                   : static_cast<int>(std::min<uint32_t>(kernel.registers, 255));
      break;
    case CU_FUNC_ATTRIBUTE_BINARY_VERSION:
      *value = device.settings.architecture;
      break;
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
      *value = function->dynamicShared;
      break;
    default:
      return device.fail(CUDA_ERROR_NOT_SUPPORTED, "this function attribute is not simulated");
    }
    return CUresult(CUDA_SUCCESS);
  });
}

CUresult cuFuncSetAttribute(CUfunction function, CUfunction_attribute attribute, int value) {
  return withDevice([&](Device &device) {
    if (!function || attribute != CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES)
      return device.fail(CUDA_ERROR_INVALID_VALUE, "only the maximum of dynamic shared memory can be set");
    const int most = limitsOf(device.settings.architecture).maximumShared -
                     static_cast<int>(device.staticShared(*function));
    if (value < 0 || value > most)
      return device.fail(
          CUDA_ERROR_INVALID_VALUE,
          sluice::concat("expected at most ", most, " bytes of dynamic shared memory, found ", value));
    function->dynamicShared = value;
    return CUresult(CUDA_SUCCESS);
  });
}

CUresult cuLaunchKernel(CUfunction function, unsigned gridX, unsigned gridY, unsigned gridZ, unsigned blockX,
                        unsigned blockY, unsigned blockZ, unsigned sharedBytes, CUstream stream,
                        void **parameters, void **extra) {
  return withDevice([&](Device &device) {
    if (!function)
      return device.fail(CUDA_ERROR_INVALID_HANDLE, "cuLaunchKernel: no function");
    if (extra)
      return device.fail(CUDA_ERROR_NOT_SUPPORTED, "cuLaunchKernel: parameters by 'extra' are not simulated");
    const Kernel &kernel = *function->kernel;
    if (!parameters && !kernel.parameters.empty())
      return device.fail(CUDA_ERROR_INVALID_VALUE, "cuLaunchKernel: the kernel has parameters");
    LaunchRequest request;
    request.kernel = function->kernel;
    request.grid[0] = gridX, request.grid[1] = gridY, request.grid[2] = gridZ;
    request.block[0] = blockX, request.block[1] = blockY, request.block[2] = blockZ;
    request.dynamicSharedBytes = sharedBytes;
    request.parameters.resize(kernel.parameterBytes);
    for (size_t i = 0; i < kernel.parameters.size(); ++i)
      std::memcpy(request.parameters.data() + kernel.parameters[i].offset, parameters[i],
                  kernel.parameters[i].bytes);
    return device.launch(function, std::move(request), device.stream(stream));
  });
}
