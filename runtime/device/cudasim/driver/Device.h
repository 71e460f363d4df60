// The simulated device: one context with its memory, modules, streams, events and graphs. The entry points in
// Driver*.cpp are thin; what they do is here.
#pragma once

#include "runtime/abi/CudaDriver.h"
#include "runtime/device/cuda/Cubin.h"
#include "runtime/device/cudasim/driver/Limits.h"
#include "runtime/device/cudasim/driver/Work.h"
#include "runtime/device/cudasim/execute/Grid.h"

#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>

struct CUfunc_st {
  std::shared_ptr<const sluice::cudasim::Kernel> kernel;
  /// What the kernel takes as machine code of this architecture; empty where only its PTX is known.
  std::optional<sluice::cuda::KernelResources> assembled;
  int dynamicShared = 48 * 1024; // allowed; more is asked for by an attribute
};

struct CUmod_st {
  std::map<std::string, CUfunc_st> functions;
  std::map<std::string, std::pair<CUdeviceptr, size_t>> variables;
  int ptxVersion = 0;
};

struct CUevent_st {
  sluice::cudasim::OperationRef recorded; // null: never, which counts as done
  CUgraph capture = nullptr;              // the capture in which it was recorded
};

struct CUgraph_st {
  std::vector<sluice::cudasim::OperationRef> nodes; // in order of capture
};

struct CUgraphExec_st {
  std::vector<sluice::cudasim::OperationRef> nodes;
};

struct CUstream_st {
  unsigned flags = 0;
  sluice::cudasim::OperationRef last;
  // While capturing: the graph that grows, and what the next node comes after.
  CUgraph capture = nullptr;
  bool isOrigin = false, invalidated = false;
  std::vector<sluice::cudasim::OperationRef> captured;
};

namespace sluice::cudasim {

/// Calls since the last clear: waits of the host for work, launches of graphs, and the nodes of these.
struct CallCounts {
  uint64_t hostWaits = 0, graphLaunches = 0, graphNodes = 0;
};

class Device {
public:
  /// The device of this process, with the settings of the environment.
  static Device &get();

  std::recursive_mutex mutex; // held during every call
  Settings settings;
  FindingLog findings;
  std::vector<std::string> statistics; // JSON, one a launch
  CallCounts calls;
  std::string message; // of the last failure
  std::string label;   // of launches from now on
  bool initialised = false, runsHostFunction = false;
  CUresult sticky = CUDA_SUCCESS; // an error that ended the context

  CUresult initialise();
  void reset();
  CUresult fail(CUresult error, std::string text);
  /// The error that every call gives now: not initialised, inside a host function, or sticky.
  CUresult ready();

  DeviceMemory &memory() { return *deviceMemory; }
  CUresult loadModule(const char *image, CUmodule *module);
  /// Takes note of what a cubin says of kernels whose PTX is loaded next.
  CUresult describeKernels(std::string_view cubin);
  /// Static shared memory of a block, as machine code if that is known.
  uint64_t staticShared(const CUfunc_st &function) const;
  /// Threads that a block may have: by launch bounds and registers.
  int maximumThreads(const CUfunc_st &function) const;
  CUresult unloadModule(CUmodule module);
  CUresult launch(CUfunction function, LaunchRequest request, CUstream stream);

  /// The stream's record; null is the default stream. Null result: not a stream.
  CUstream stream(CUstream handle);
  /// Puts work at the end of a stream, or into the graph that it captures.
  CUresult enqueue(CUstream stream, std::function<CUresult()> run);
  /// What the next operation of a stream comes after. The default stream waits for all blocking ones, and
  /// they for it.
  std::vector<OperationRef> predecessors(const CUstream_st &stream) const;
  CUresult synchronise(const OperationRef &target);
  /// The error of a call that may not be made while any stream captures; it ends the capture.
  CUresult refuseInCapture();
  bool holds(CUdeviceptr address, size_t bytes) const;
  bool isPinned(const void *pointer, size_t bytes) const;

  WorkList work;
  CUstream_st defaultStream;
  std::map<CUstream, std::unique_ptr<CUstream_st>> streams;
  std::map<CUevent, std::unique_ptr<CUevent_st>> events;
  std::map<CUmodule, std::unique_ptr<CUmod_st>> modules;
  std::map<CUgraph, std::unique_ptr<CUgraph_st>> graphs;
  std::map<CUgraphExec, std::unique_ptr<CUgraphExec_st>> executables;
  std::map<const uint8_t *, std::pair<size_t, std::unique_ptr<uint8_t[]>>> pinned;

private:
  Device();
  /// What is wrong with a launch, and in `error` the driver's code for it.
  std::string launchFault(const CUfunc_st &function, const LaunchRequest &request, CUresult &error) const;
  CUresult runLaunch(const LaunchRequest &request);

  std::map<std::string, cuda::KernelResources> described; // by kernel, until its PTX is loaded
  std::unique_ptr<DeviceMemory> deviceMemory;
  std::unique_ptr<ThreadPool> pool;
};

/// Locks the device and gives `body(device)`'s result, or the error that stands in the way.
template <typename Body> CUresult withDevice(Body &&body) {
  Device &device = Device::get();
  std::lock_guard lock(device.mutex);
  if (const CUresult error = device.ready())
    return error;
  return body(device);
}

} // namespace sluice::cudasim
