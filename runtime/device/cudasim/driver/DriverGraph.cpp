// Entry points: stream capture and graphs.
#include "runtime/device/cudasim/driver/Device.h"

#include <algorithm>
#include <set>

using namespace sluice::cudasim;

namespace {

void endCapture(CUstream_st &stream) {
  stream.capture = nullptr;
  stream.isOrigin = stream.invalidated = false;
  stream.captured.clear();
}

/// Whether every node of the graph is reached from `ends` backwards.
bool reachesAll(const CUgraph_st &graph, const std::vector<OperationRef> &ends) {
  std::set<const Operation *> seen;
  std::vector<const Operation *> open;
  open.reserve(ends.size());
  for (const OperationRef &end : ends)
    open.push_back(end.get());
  while (!open.empty()) {
    const Operation *operation = open.back();
    open.pop_back();
    if (!seen.insert(operation).second)
      continue;
    for (const OperationRef &before : operation->after)
      open.push_back(before.get());
  }
  return std::all_of(graph.nodes.begin(), graph.nodes.end(),
                     [&](const OperationRef &node) { return seen.contains(node.get()); });
}

} // namespace

CUresult cuStreamBeginCapture_v2(CUstream handle, CUstreamCaptureMode) {
  return withDevice([&](Device &device) {
    CUstream stream = device.stream(handle);
    if (!stream || stream == &device.defaultStream)
      return device.fail(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, "the default stream cannot capture");
    if (stream->capture)
      return device.fail(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, "the stream captures already");
    auto graph = std::make_unique<CUgraph_st>();
    stream->capture = graph.get();
    stream->isOrigin = true;
    device.graphs[graph.get()] = std::move(graph);
    return CUresult(CUDA_SUCCESS);
  });
}

CUresult cuStreamEndCapture(CUstream handle, CUgraph *result) {
  return withDevice([&](Device &device) {
    CUstream stream = device.stream(handle);
    if (!stream || !result)
      return device.fail(CUDA_ERROR_INVALID_VALUE,
                         "cuStreamEndCapture: not a stream, or no place for the result");
    *result = nullptr;
    if (!stream->capture || !stream->isOrigin)
      return device.fail(CUDA_ERROR_STREAM_CAPTURE_UNMATCHED, "the capture did not begin in this stream");
    CUgraph graph = stream->capture;
    CUresult error = CUDA_SUCCESS;
    if (stream->invalidated)
      error =
          device.fail(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, "a call in between is not allowed in a capture");
    else if (!reachesAll(*graph, stream->captured))
      error = device.fail(CUDA_ERROR_STREAM_CAPTURE_UNJOINED,
                          "work of another stream was not joined by an event");
    for (const auto &[other, state] : device.streams)
      if (state->capture == graph)
        endCapture(*state);
    if (error != CUDA_SUCCESS) {
      device.graphs.erase(graph);
      return error;
    }
    *result = graph;
    return CUresult(CUDA_SUCCESS);
  });
}

CUresult cuStreamIsCapturing(CUstream handle, CUstreamCaptureStatus *status) {
  return withDevice([&](Device &device) {
    CUstream stream = device.stream(handle);
    if (!stream || !status)
      return device.fail(CUDA_ERROR_INVALID_VALUE,
                         "cuStreamIsCapturing: not a stream, or no place for the result");
    *status = stream->invalidated ? CU_STREAM_CAPTURE_STATUS_INVALIDATED
              : stream->capture   ? CU_STREAM_CAPTURE_STATUS_ACTIVE
                                  : CU_STREAM_CAPTURE_STATUS_NONE;
    return CUresult(CUDA_SUCCESS);
  });
}

CUresult cuGraphInstantiateWithFlags(CUgraphExec *executable, CUgraph graph, unsigned long long) {
  return withDevice([&](Device &device) {
    if (!executable || !device.graphs.contains(graph))
      return device.fail(CUDA_ERROR_INVALID_VALUE,
                         "cuGraphInstantiate: not a graph, or no place for the result");
    auto created = std::make_unique<CUgraphExec_st>();
    created->nodes = graph->nodes;
    *executable = created.get();
    device.executables[*executable] = std::move(created);
    return CUresult(CUDA_SUCCESS);
  });
}

CUresult cuGraphLaunch(CUgraphExec executable, CUstream handle) {
  return withDevice([&](Device &device) {
    CUstream stream = device.stream(handle);
    if (!stream || !device.executables.contains(executable))
      return device.fail(CUDA_ERROR_INVALID_HANDLE,
                         "cuGraphLaunch: not an executable graph, or not a stream");
    if (stream->capture)
      return device.fail(CUDA_ERROR_NOT_SUPPORTED, "a graph inside a graph is not simulated");
    const std::vector<OperationRef> before = device.predecessors(*stream);
    std::map<const Operation *, OperationRef> copies;
    for (const OperationRef &node : executable->nodes) {
      auto copy = std::make_shared<Operation>();
      copy->run = node->run;
      copy->after = before;
      for (const OperationRef &dependency : node->after)
        copy->after.push_back(copies.at(dependency.get()));
      copies[node.get()] = copy;
      device.work.add(copy);
      device.calls.graphNodes += node->run ? 1 : 0; // event records order work and are no nodes
    }
    ++device.calls.graphLaunches;
    if (const CUresult error = device.enqueue(stream, {}))
      return error;
    for (const auto &[node, copy] : copies)
      stream->last->after.push_back(copy);
    return CUresult(CUDA_SUCCESS);
  });
}

CUresult cuGraphExecDestroy(CUgraphExec executable) {
  return withDevice([&](Device &device) {
    return device.executables.erase(executable)
               ? CUresult(CUDA_SUCCESS)
               : device.fail(CUDA_ERROR_INVALID_HANDLE, "not an executable graph");
  });
}

CUresult cuGraphDestroy(CUgraph graph) {
  return withDevice([&](Device &device) {
    return device.graphs.erase(graph) ? CUresult(CUDA_SUCCESS)
                                      : device.fail(CUDA_ERROR_INVALID_HANDLE, "not a graph");
  });
}

CUresult cuGraphGetNodes(CUgraph graph, CUgraphNode *nodes, size_t *count) {
  return withDevice([&](Device &device) {
    if (!count || !device.graphs.contains(graph))
      return device.fail(CUDA_ERROR_INVALID_VALUE,
                         "cuGraphGetNodes: not a graph, or no place for the result");
    // Event records order work and are no nodes.
    std::vector<const Operation *> real;
    for (const OperationRef &node : graph->nodes)
      if (node->run)
        real.push_back(node.get());
    if (nodes)
      for (size_t i = 0; i < std::min(*count, real.size()); ++i)
        nodes[i] = reinterpret_cast<CUgraphNode>(const_cast<Operation *>(real[i]));
    *count = real.size();
    return CUresult(CUDA_SUCCESS);
  });
}
