#include "runtime/device/cuda/Graph.h"

namespace sluice::cuda {

Graph::~Graph() {
  if (executable && context->enter().ok())
    context->api().graphExecDestroy(executable);
}

Status Graph::capture(absl::FunctionRef<Status()> enqueue) {
  const Driver &api = context->api();
  SLUICE_RETURN_IF_ERROR(
      api.check(api.streamBeginCapture(context->stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL),
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
