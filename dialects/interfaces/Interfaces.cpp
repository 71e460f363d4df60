#include "dialects/interfaces/Interfaces.h"

#include "dialects/interfaces/Interfaces.cpp.inc"
