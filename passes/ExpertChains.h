// Finding the experts' chains in a graph: dispatch, gate and up, swiglu, down, combine; and their adjoints.
#pragma once

#include "passes/Outline.h"

namespace sluice {

/// One layer's experts. Values are kept up to date while kernels are outlined.
struct ExpertChain {
  mlir::Value x, routing, gates; // tokens, assignment, gates (null if not combined with gates)
  mlir::Value gateWeight, upWeight, downWeight;
  mlir::Value gate, up, act, ye, out; // ye and out are null if down and combine do not follow
  mlir::Value dout, dgate, dup;       // set once the backward is found
  std::string path;                   // of the origin, for remarks
};

/// Matches the chain around a forward swiglu. False with an empty `why` if this is no experts' swiglu at all,
/// with a reason if it is one of another form.
bool matchForward(SwiGluOp swiglu, ExpertChain &chain, std::string &why);

/// The six kernels; each returns false with a reason if the ops around the chain have another form.
bool requestUp(ExpertChain &chain, OutlineRequest &request, std::string &why);
bool requestDown(ExpertChain &chain, OutlineRequest &request, std::string &why);
bool requestDownGradient(ExpertChain &chain, OutlineRequest &request, std::string &why);
bool requestDownWeightGradient(ExpertChain &chain, OutlineRequest &request, std::string &why);
bool requestUpGradient(ExpertChain &chain, OutlineRequest &request, std::string &why);
bool requestUpWeightGradient(ExpertChain &chain, OutlineRequest &request, std::string &why);

} // namespace sluice
