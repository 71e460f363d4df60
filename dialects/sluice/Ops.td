// Everything of the dialect, for TableGen.
include "dialects/sluice/Structure.td"
include "dialects/sluice/Primitive.td"
include "dialects/sluice/Dense.td"
include "dialects/sluice/Routing.td"
include "dialects/sluice/Loss.td"
include "dialects/sluice/Training.td"
include "dialects/sluice/Sparsity.td"
