#include "runtime/device/cuda/Graph.h"

namespace sluice::cuda {

Graph::~Graph() {
  if (executable && context->enter().ok())
    context->api().graphExecDestroy(executable);
}

Status Graph::capture(absl::FunctionRef<Status()> enqueue) {
  const Driver &api = context->api();
  // Relaxed: cuBLASLt may load a kernel when it is first launched, which the other modes may refuse in a
  // capture. Our own calls are held to the strict rules by the simulated driver, which knows no modes.
  SLUICE_RETURN_IF_ERROR(api.check(api.streamBeginCapture(context->stream, CU_STREAM_CAPTURE_MODE_RELAXED),
                                   concat("capturing ", name)));
  const Status enqueued = enqueue();
  CUgraph graph = nullptr;
  Status status = api.check(api.streamEndCapture(context->stream, &graph), concat("capturing ", name));
  // What went wrong first is the reason for the rest.
  if (!enqueued.ok())
    status = enqueued;
  if (status.ok())
    status = api.check(api.graphInstantiate(&executable, graph, 0), concat("instantiating ", name));
  if (graph)
    api.graphDestroy(graph);
  return status;
}

Status Graph::launch() {
  const Driver &api = context->api();
  return api.check(api.graphLaunch(executable, context->stream), replaying);
}

} // namespace sluice::cuda
