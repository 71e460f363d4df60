// How router logits become gates: the attributes that route and its adjoint share.
#pragma once

#include "runtime/device/cpu/RoutingBuffer.h"

namespace sluice::cpu {

struct RouteScore {
  bool sigmoid, renormalize;
  float epsilon, scale;
};

RouteScore routeScore(Arguments &arguments);

} // namespace sluice::cpu
