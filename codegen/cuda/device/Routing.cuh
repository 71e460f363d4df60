// The routing buffer of docs/commands.md on the device: which expert rows belong to which tokens.
#pragma once
#include "Types.cuh"

/// Pointers into [ids T*K][slot_row R][row_slot R][offsets E+1]; R = T * K.
struct Routing {
  int *buffer;
  int tokens, topK, experts;

  __device__ int rows() const { return tokens * topK; }
  __device__ int *ids() const { return buffer; }
  __device__ int *slotRow() const { return buffer + rows(); }
  __device__ int *rowSlot() const { return buffer + 2 * rows(); }
  __device__ int *offsets() const { return buffer + 3 * rows(); }
  __device__ int tokenOfSlot(int slot) const { return (int)((uint32)slot / (uint32)topK); } // none is negative
  __device__ int tokenOf(int row) const { return tokenOfSlot(rowSlot()[row]); }
};

/// One tile of up to `size` rows that belong to one expert. Grids are as large as the worst split needs
/// (rows / size + experts tiles); tiles beyond the live ones have expert -1.
struct ExpertTile {
  int expert, begin, end;
};

__device__ inline ExpertTile expertTile(const Routing &routing, int tile, int size) {
  const int *offsets = routing.offsets();
  for (int expert = 0; expert < routing.experts; ++expert) {
    const int begin = offsets[expert], end = offsets[expert + 1];
    const int tiles = (end - begin + size - 1) / size;
    if (tile < tiles)
      return {expert, begin + tile * size, min(end, begin + (tile + 1) * size)};
    tile -= tiles;
  }
  return {-1, 0, 0};
}
