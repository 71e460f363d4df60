// The plan dialect: include this to build or read planned programs.
#pragma once

#include "dialects/sluice/Sluice.h"

#include "dialects/plan/Dialect.h.inc"

#define GET_ATTRDEF_CLASSES
#include "dialects/plan/Attributes.h.inc"

#define GET_OP_CLASSES
#include "dialects/plan/Ops.h.inc"
