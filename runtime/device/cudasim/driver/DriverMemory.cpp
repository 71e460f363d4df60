// Entry points: memory, copies, fills.
#include "runtime/device/cudasim/driver/Device.h"

#include <cstring>

using namespace sluice::cudasim;

namespace {

CUresult badRange(Device &device, const char *call) {
  return device.fail(CUDA_ERROR_INVALID_VALUE,
                     sluice::concat(call, ": the range is not inside one allocation"));
}

/// The error of a copy between the device and pageable memory in a stream that captures: a replay would find
/// there whatever the host has put there since. It ends the capture.
CUresult refusePageable(Device &device, CUstream stream) {
  stream->invalidated = true;
  return device.fail(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
                     "a captured copy needs pinned memory on the host, found pageable memory");
}

/// The error of a copy that runs when its memory is gone: a graph was replayed after one of them was freed.
CUresult memoryGone(Device &device) {
  device.sticky = CUDA_ERROR_ILLEGAL_ADDRESS;
  return device.fail(CUDA_ERROR_ILLEGAL_ADDRESS, "a copy ran after its memory was freed");
}

CUresult copyToDevice(CUdeviceptr to, const void *from, size_t bytes, CUstream handle, bool waits) {
  return withDevice([&](Device &device) {
    CUstream stream = device.stream(handle);
    if (bytes == 0)
      return CUresult(CUDA_SUCCESS);
    if (!from || !device.holds(to, bytes))
      return badRange(device, "copy to the device");
    // Pageable memory is read now, pinned memory when the copy runs: a buffer that is used again too early
    // shows.
    const bool late = device.isPinned(from, bytes);
    if (!late && stream && stream->capture)
      return refusePageable(device, stream);
    auto now = std::make_shared<std::string>();
    if (!late)
      now->assign(static_cast<const char *>(from), bytes);
    if (const CUresult error = device.enqueue(stream, [=, &device] {
          if (!device.holds(to, bytes) || (late && !device.isPinned(from, bytes)))
            return memoryGone(device);
          std::memcpy(device.memory().host(to), late ? from : now->data(), bytes);
          device.memory().markWritten(to, bytes);
          return CUresult(CUDA_SUCCESS);
        }))
      return error;
    return waits ? device.synchronise(stream->last) : CUresult(CUDA_SUCCESS);
  });
}

CUresult copyToHost(void *to, CUdeviceptr from, size_t bytes, CUstream handle, bool waits) {
  return withDevice([&](Device &device) {
    CUstream stream = device.stream(handle);
    if (bytes == 0)
      return CUresult(CUDA_SUCCESS);
    if (!to || !device.holds(from, bytes))
      return badRange(device, "copy to the host");
    const bool pinned = device.isPinned(to, bytes);
    if (!pinned && stream && stream->capture)
      return refusePageable(device, stream);
    if (const CUresult error = device.enqueue(stream, [=, &device] {
          if (!device.holds(from, bytes) || (pinned && !device.isPinned(to, bytes)))
            return memoryGone(device);
          std::memcpy(to, device.memory().host(from), bytes);
          return CUresult(CUDA_SUCCESS);
        }))
      return error;
    // Into pageable memory the copy is over when the call returns.
    const bool done = waits || !pinned;
    return done ? device.synchronise(stream->last) : CUresult(CUDA_SUCCESS);
  });
}

CUresult copyOnDevice(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream handle, bool waits) {
  return withDevice([&](Device &device) {
    CUstream stream = device.stream(handle);
    if (bytes == 0)
      return CUresult(CUDA_SUCCESS);
    if (!device.holds(from, bytes) || !device.holds(to, bytes))
      return badRange(device, "copy on the device");
    if (const CUresult error = device.enqueue(stream, [=, &device] {
          std::memmove(device.memory().host(to), device.memory().host(from), bytes);
          std::memmove(device.memory().written(to), device.memory().written(from), bytes);
          return CUresult(CUDA_SUCCESS);
        }))
      return error;
    return waits ? device.synchronise(stream->last) : CUresult(CUDA_SUCCESS);
  });
}

template <typename T> CUresult fill(CUdeviceptr to, T value, size_t count, CUstream handle) {
  return withDevice([&](Device &device) {
    CUstream stream = device.stream(handle);
    if (count == 0)
      return CUresult(CUDA_SUCCESS);
    if (count > SIZE_MAX / sizeof(T) || to % sizeof(T) != 0 || !device.holds(to, count * sizeof(T)))
      return badRange(device, "fill");
    return device.enqueue(stream, [=, &device] {
      for (size_t i = 0; i < count; ++i)
        std::memcpy(device.memory().host(to) + i * sizeof(T), &value, sizeof(T));
      device.memory().markWritten(to, count * sizeof(T));
      return CUresult(CUDA_SUCCESS);
    });
  });
}

} // namespace

CUresult cuMemGetInfo_v2(size_t *free, size_t *total) {
  return withDevice([&](Device &device) {
    if (!free || !total)
      return device.fail(CUDA_ERROR_INVALID_VALUE, "cuMemGetInfo: no place for the result");
    *total = device.memory().capacity();
    *free = *total - device.memory().used();
    return CUresult(CUDA_SUCCESS);
  });
}

CUresult cuMemAlloc_v2(CUdeviceptr *pointer, size_t bytes) {
  return withDevice([&](Device &device) {
    if (!pointer || bytes == 0)
      return device.fail(CUDA_ERROR_INVALID_VALUE, "cuMemAlloc: no bytes, or no place for the result");
    if (const CUresult error = device.refuseInCapture())
      return error;
    *pointer = device.memory().allocate(bytes);
    return *pointer ? CUresult(CUDA_SUCCESS)
                    : device.fail(CUDA_ERROR_OUT_OF_MEMORY,
                                  sluice::concat("expected at most ",
                                                 device.memory().capacity() - device.memory().used(),
                                                 " free bytes on the device, asked for ", bytes));
  });
}

CUresult cuMemFree_v2(CUdeviceptr pointer) {
  return withDevice([&](Device &device) {
    if (pointer == 0)
      return CUresult(CUDA_SUCCESS);
    if (const CUresult error = device.refuseInCapture())
      return error;
    if (const CUresult error = device.synchronise(nullptr))
      return error;
    return device.memory().free(pointer)
               ? CUresult(CUDA_SUCCESS)
               : device.fail(CUDA_ERROR_INVALID_VALUE, "cuMemFree: not the start of an allocation");
  });
}

CUresult cuMemHostAlloc(void **pointer, size_t bytes, unsigned) {
  return withDevice([&](Device &device) {
    if (!pointer || bytes == 0)
      return device.fail(CUDA_ERROR_INVALID_VALUE, "cuMemHostAlloc: no bytes, or no place for the result");
    auto memory = std::make_unique<uint8_t[]>(bytes);
    *pointer = memory.get();
    const uint8_t *start = memory.get(); // before the move: the right side of an assignment comes first
    device.pinned[start] = {bytes, std::move(memory)};
    return CUresult(CUDA_SUCCESS);
  });
}

CUresult cuMemFreeHost(void *pointer) {
  return withDevice([&](Device &device) {
    auto found = device.pinned.find(static_cast<const uint8_t *>(pointer));
    if (found == device.pinned.end())
      return device.fail(CUDA_ERROR_INVALID_VALUE, "cuMemFreeHost: not the start of a pinned allocation");
    if (const CUresult error = device.synchronise(nullptr))
      return error;
    device.pinned.erase(found);
    return CUresult(CUDA_SUCCESS);
  });
}

// From pageable memory the call returns once the data is taken, and fills return at once: a stream that does
// not wait for the default stream must not rely on them.
CUresult cuMemcpyHtoD_v2(CUdeviceptr to, const void *from, size_t bytes) {
  return withDevice(
      [&](Device &device) { return copyToDevice(to, from, bytes, nullptr, device.isPinned(from, bytes)); });
}
CUresult cuMemcpyDtoH_v2(void *to, CUdeviceptr from, size_t bytes) {
  return copyToHost(to, from, bytes, nullptr, true);
}
CUresult cuMemcpyDtoD_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes) {
  return copyOnDevice(to, from, bytes, nullptr, true);
}
CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void *from, size_t bytes, CUstream stream) {
  return copyToDevice(to, from, bytes, stream, false);
}
CUresult cuMemcpyDtoHAsync_v2(void *to, CUdeviceptr from, size_t bytes, CUstream stream) {
  return copyToHost(to, from, bytes, stream, false);
}
CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
  return copyOnDevice(to, from, bytes, stream, false);
}
CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t count, CUstream stream) {
  return fill<uint8_t>(to, value, count, stream);
}
CUresult cuMemsetD32Async(CUdeviceptr to, unsigned value, size_t count, CUstream stream) {
  return fill<uint32_t>(to, value, count, stream);
}
CUresult cuMemsetD8_v2(CUdeviceptr to, unsigned char value, size_t count) {
  return fill<uint8_t>(to, value, count, nullptr);
}
CUresult cuMemsetD32_v2(CUdeviceptr to, unsigned value, size_t count) {
  return fill<uint32_t>(to, value, count, nullptr);
}
