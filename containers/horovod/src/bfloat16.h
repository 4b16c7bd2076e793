// bfloat16, the upper half of a float32. This file is no part of Horovod as it was released.
#ifndef HOROVOD_BFLOAT16_H
#define HOROVOD_BFLOAT16_H

#include <cstdint>
#include <cstring>

#ifdef __CUDACC__
#define HOROVOD_HOST_DEVICE __host__ __device__
#else
#define HOROVOD_HOST_DEVICE
#endif

namespace horovod {
namespace common {

// Converts to and from float without being asked: arithmetic is float's, each result is rounded
// once, to nearest, ties to even; NaN stays NaN. Without branches, so that compilers vectorize it.
struct bfloat16 {
  uint16_t bits;

  bfloat16() = default;

  HOROVOD_HOST_DEVICE bfloat16(float value) {
    uint32_t word;
    memcpy(&word, &value, sizeof(word));
    const uint32_t rounded = word + 0x7fff + ((word >> 16) & 1);
    const uint32_t quiet = word | 0x400000;
    bits = uint16_t(((word & 0x7fffffff) > 0x7f800000 ? quiet : rounded) >> 16);
  }

  HOROVOD_HOST_DEVICE operator float() const {
    const uint32_t word = uint32_t(bits) << 16;
    float value;
    memcpy(&value, &word, sizeof(value));
    return value;
  }

  HOROVOD_HOST_DEVICE bfloat16& operator*=(float factor) {
    return *this = bfloat16(*this * factor);
  }
};

static_assert(sizeof(bfloat16) == 2, "bfloat16 has two bytes");

} // namespace common
} // namespace horovod

#endif // HOROVOD_BFLOAT16_H
