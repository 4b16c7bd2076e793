// MPI's type of bfloat16 and its reductions. This file is no part of Horovod as it was released.
#ifndef HOROVOD_MPI_BFLOAT16_H
#define HOROVOD_MPI_BFLOAT16_H

#include <algorithm>
#include <functional>

#include "../bfloat16.h"
#include "../half.h" // includes mpi.h

namespace horovod {
namespace common {

struct LesserFloat {
  float operator()(float a, float b) const { return std::min(b, a); }
};

struct GreaterFloat {
  float operator()(float a, float b) const { return std::max(b, a); }
};

// An MPI_User_function.
template <typename Reduce> void ReduceBfloat16(void* in, void* inout, int* count, MPI_Datatype*) {
  const auto* a = static_cast<const bfloat16*>(in);
  auto* b = static_cast<bfloat16*>(inout);
  for (int i = 0; i < *count; ++i) {
    b[i] = Reduce()(float(a[i]), float(b[i]));
  }
}

struct MPIBfloat16 {
  MPI_Datatype type = MPI_DATATYPE_NULL;
  MPI_Op sum = MPI_OP_NULL;
  MPI_Op min = MPI_OP_NULL;
  MPI_Op max = MPI_OP_NULL;
  MPI_Op prod = MPI_OP_NULL;

  void Create() {
    MPI_Type_contiguous(sizeof(bfloat16), MPI_BYTE, &type);
    MPI_Type_commit(&type);
    MPI_Op_create(&ReduceBfloat16<std::plus<float>>, 1, &sum);
    MPI_Op_create(&ReduceBfloat16<LesserFloat>, 1, &min);
    MPI_Op_create(&ReduceBfloat16<GreaterFloat>, 1, &max);
    MPI_Op_create(&ReduceBfloat16<std::multiplies<float>>, 1, &prod);
  }

  void Free() {
    if (type == MPI_DATATYPE_NULL) {
      return;
    }
    MPI_Type_free(&type);
    for (auto* op : {&sum, &min, &max, &prod}) {
      MPI_Op_free(op);
    }
  }
};

} // namespace common
} // namespace horovod

#endif // HOROVOD_MPI_BFLOAT16_H
