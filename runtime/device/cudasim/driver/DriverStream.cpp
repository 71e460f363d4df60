// Entry points: streams, events, host functions.
#include "runtime/device/cudasim/driver/Device.h"

using namespace sluice::cudasim;

namespace {

CUresult noStream(Device &device) {
  return device.fail(CUDA_ERROR_INVALID_HANDLE, "not a stream");
}
CUresult noEvent(Device &device) {
  return device.fail(CUDA_ERROR_INVALID_HANDLE, "not an event");
}

} // namespace

CUresult cuStreamCreate(CUstream *stream, unsigned flags) {
  return withDevice([&](Device &device) {
    if (!stream || flags > CU_STREAM_NON_BLOCKING)
      return device.fail(CUDA_ERROR_INVALID_VALUE,
                         "cuStreamCreate: unknown flags, or no place for the result");
    auto created = std::make_unique<CUstream_st>();
    created->flags = flags;
    *stream = created.get();
    device.streams[*stream] = std::move(created);
    return CUresult(CUDA_SUCCESS);
  });
}

CUresult cuStreamDestroy_v2(CUstream stream) {
  return withDevice([&](Device &device) {
    auto found = device.streams.find(stream);
    if (found == device.streams.end())
      return noStream(device);
    if (const CUresult error = device.synchronise(stream->last))
      return error;
    device.streams.erase(found);
    return CUresult(CUDA_SUCCESS);
  });
}

CUresult cuStreamSynchronize(CUstream handle) {
  return withDevice([&](Device &device) {
    CUstream stream = device.stream(handle);
    if (!stream)
      return noStream(device);
    if (const CUresult error = device.refuseInCapture())
      return error;
    // Of the default stream also what others have made it wait for.
    for (const OperationRef &operation : device.predecessors(*stream))
      if (const CUresult error = device.synchronise(operation))
        return error;
    return CUresult(CUDA_SUCCESS);
  });
}

CUresult cuStreamQuery(CUstream handle) {
  return withDevice([&](Device &device) {
    CUstream stream = device.stream(handle);
    if (!stream)
      return noStream(device);
    if (const CUresult error = device.refuseInCapture())
      return error;
    return stream->last && !stream->last->done ? CUresult(CUDA_ERROR_NOT_READY) : CUresult(CUDA_SUCCESS);
  });
}

CUresult cuStreamWaitEvent(CUstream handle, CUevent event, unsigned) {
  return withDevice([&](Device &device) {
    CUstream stream = device.stream(handle);
    if (!stream)
      return noStream(device);
    if (!device.events.contains(event))
      return noEvent(device);
    if (!event->recorded)
      return CUresult(CUDA_SUCCESS);
    if (event->capture) {
      // An event of a capture draws the waiting stream into it.
      if (!device.graphs.contains(event->capture) || (stream->capture && stream->capture != event->capture))
        return device.fail(CUDA_ERROR_STREAM_CAPTURE_UNMATCHED, "the event was recorded in another capture");
      if (stream == &device.defaultStream)
        return device.fail(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
                           "the default stream cannot take part in a capture");
      stream->capture = event->capture;
      stream->captured.push_back(event->recorded);
      return CUresult(CUDA_SUCCESS);
    }
    if (stream->capture)
      return device.fail(CUDA_ERROR_STREAM_CAPTURE_UNMATCHED,
                         "the event was recorded outside of the stream's capture");
    if (const CUresult error = device.enqueue(stream, {}))
      return error;
    stream->last->after.push_back(event->recorded);
    return CUresult(CUDA_SUCCESS);
  });
}

CUresult cuEventCreate(CUevent *event, unsigned) {
  return withDevice([&](Device &device) {
    if (!event)
      return device.fail(CUDA_ERROR_INVALID_VALUE, "cuEventCreate: no place for the result");
    auto created = std::make_unique<CUevent_st>();
    *event = created.get();
    device.events[*event] = std::move(created);
    return CUresult(CUDA_SUCCESS);
  });
}

CUresult cuEventDestroy_v2(CUevent event) {
  return withDevice(
      [&](Device &device) { return device.events.erase(event) ? CUresult(CUDA_SUCCESS) : noEvent(device); });
}

CUresult cuEventRecord(CUevent event, CUstream handle) {
  return withDevice([&](Device &device) {
    CUstream stream = device.stream(handle);
    if (!stream)
      return noStream(device);
    if (!device.events.contains(event))
      return noEvent(device);
    if (const CUresult error = device.enqueue(stream, {}))
      return error;
    event->capture = stream->capture;
    event->recorded = stream->capture ? stream->captured.back() : stream->last;
    return CUresult(CUDA_SUCCESS);
  });
}

CUresult cuEventSynchronize(CUevent event) {
  return withDevice([&](Device &device) {
    if (!device.events.contains(event))
      return noEvent(device);
    if (event->capture)
      return device.fail(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, "the event was recorded in a capture");
    return event->recorded ? device.synchronise(event->recorded) : CUresult(CUDA_SUCCESS);
  });
}

CUresult cuEventQuery(CUevent event) {
  return withDevice([&](Device &device) {
    if (!device.events.contains(event))
      return noEvent(device);
    return event->recorded && !event->recorded->done ? CUresult(CUDA_ERROR_NOT_READY)
                                                     : CUresult(CUDA_SUCCESS);
  });
}

CUresult cuLaunchHostFunc(CUstream handle, CUhostFn function, void *data) {
  return withDevice([&](Device &device) {
    if (!function)
      return device.fail(CUDA_ERROR_INVALID_VALUE, "cuLaunchHostFunc: no function");
    return device.enqueue(device.stream(handle), [=, &device] {
      device.runsHostFunction = true;
      function(data);
      device.runsHostFunction = false;
      return CUresult(CUDA_SUCCESS);
    });
  });
}
