// Operations for the types of tensors that Horovod left out: bfloat16, and 8-bit integers in
// reductions. Included by mpi_ops_v2.cc in namespace horovod::torch, after the functions that it
// registers. This file is no part of Horovod as it was released.
#ifndef HOROVOD_TORCH_TYPES_H
#define HOROVOD_TORCH_TYPES_H

#if HOROVOD_GPU_ALLREDUCE
#define HOROVOD_CUDA_ALLREDUCE(function) function
#else
#define HOROVOD_CUDA_ALLREDUCE(function) function##CudaOnCPU
#endif
#if HOROVOD_GPU_ALLGATHER
#define HOROVOD_CUDA_ALLGATHER(function) function
#else
#define HOROVOD_CUDA_ALLGATHER(function) function##CudaOnCPU
#endif
#if HOROVOD_GPU_BROADCAST
#define HOROVOD_CUDA_BROADCAST(function) function
#else
#define HOROVOD_CUDA_BROADCAST(function) function##CudaOnCPU
#endif
#if HOROVOD_GPU_ALLTOALL
#define HOROVOD_CUDA_ALLTOALL(function) function
#else
#define HOROVOD_CUDA_ALLTOALL(function) function##CudaOnCPU
#endif
#if HOROVOD_GPU_REDUCESCATTER
#define HOROVOD_CUDA_REDUCESCATTER(function) function
#else
#define HOROVOD_CUDA_REDUCESCATTER(function) function##CudaOnCPU
#endif

template <typename Function>
void RegisterTypes(py::module& module, const std::string& operation,
                   const std::vector<std::string>& types, Function on_cpu, Function on_cuda) {
  const auto prefix = "horovod_torch_" + operation + "_async_torch_";
  for (const auto& type : types) {
    module.def((prefix + type + "Tensor").c_str(), on_cpu);
    module.def((prefix + "cuda_" + type + "Tensor").c_str(), on_cuda);
  }
}

inline void RegisterMoreTypes(py::module& module) {
  const std::vector<std::string> to_reduce{"BFloat16", "Byte", "Char"};
  const std::vector<std::string> to_move{"BFloat16"};
  RegisterTypes(module, "allreduce", to_reduce, &DoAllreduce, &HOROVOD_CUDA_ALLREDUCE(DoAllreduce));
  RegisterTypes(module, "grouped_allreduce", to_reduce, &DoGroupedAllreduce,
                &HOROVOD_CUDA_ALLREDUCE(DoGroupedAllreduce));
  RegisterTypes(module, "reducescatter", to_reduce, &DoReducescatter,
                &HOROVOD_CUDA_REDUCESCATTER(DoReducescatter));
  RegisterTypes(module, "grouped_reducescatter", to_reduce, &DoGroupedReducescatter,
                &HOROVOD_CUDA_REDUCESCATTER(DoGroupedReducescatter));
  RegisterTypes(module, "allgather", to_move, &DoAllgather, &HOROVOD_CUDA_ALLGATHER(DoAllgather));
  RegisterTypes(module, "grouped_allgather", to_move, &DoGroupedAllgather,
                &HOROVOD_CUDA_ALLGATHER(DoGroupedAllgather));
  RegisterTypes(module, "broadcast", to_move, &DoBroadcast, &HOROVOD_CUDA_BROADCAST(DoBroadcast));
  RegisterTypes(module, "alltoall", to_move, &DoAlltoall, &HOROVOD_CUDA_ALLTOALL(DoAlltoall));
}

#endif // HOROVOD_TORCH_TYPES_H
