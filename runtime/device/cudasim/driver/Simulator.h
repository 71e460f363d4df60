// What only the simulator has, beside the driver's API: settings, findings, counts, messages. Loaded by name
// like the rest.
#pragma once

#include <cstddef>

extern "C" {

/// Changes settings by text, as the environment variable SLUICE_CUDASIM does ("check=memory,race;seed=3").
/// arch and memory count before cuInit only. Returns 0, or 1 with the reason in cudasimMessage().
int cudasimConfigure(const char *settings);

/// What went wrong in the last call that failed on this device, in words: a PTX error with its line, a
/// finding. Empty when nothing did. Valid until the next call.
const char *cudasimMessage();

/// Names the work that is launched or captured from now on; findings carry the name.
void cudasimLabel(const char *text);

/// All findings since the last clear, a line each. Valid until the next call.
const char *cudasimFindings();
void cudasimClearFindings();

/// Counts of the launches since the last clear, one JSON object a line. Valid until the next call.
const char *cudasimStatistics();
/// Calls since the last clear, one JSON object: host_waits (calls that let the host wait for work, be it done
/// or not), graph_launches, graph_nodes (of these launches). Valid until the next call.
const char *cudasimCalls();
void cudasimClearStatistics();

/// Machine code (a cubin) for the device's architecture of kernels whose PTX is loaded next. It is not run:
/// its registers, shared memory and launch bounds count in the limits of launches and are what
/// cuFuncGetAttribute says. Returns 0, or an error with the reason in cudasimMessage().
int cudasimMachineCode(const void *image, size_t bytes);

/// For stand-ins of libraries. The host's address of a range of device memory, null unless it lies inside one
/// live allocation; `writes` counts its bytes as written.
void *cudasimHostAddress(unsigned long long address, size_t bytes, int writes);
/// Puts `work(data)`, which returns a CUresult, at the end of a stream or into the graph that it captures.
/// `destroy(data)` is called once, when nothing can run it any more, in every case.
int cudasimEnqueue(void *stream, int (*work)(void *data), void (*destroy)(void *data), void *data);

/// Forgets everything: memory, streams, modules, a sticky error. Handles from before are invalid.
void cudasimReset();

} // extern "C"
