// bfloat16 in the registrations of mpi_ops.cc that follow. This file is no part of Horovod as it
// was released.
#ifndef HOROVOD_TENSORFLOW_TYPES_H
#define HOROVOD_TENSORFLOW_TYPES_H

#include <string>

namespace horovod {
namespace tensorflow {

// Returns an attribute of an operation. A list of types that has float16 gets bfloat16 too.
inline std::string WithBfloat16(std::string attribute) {
  const std::string half = " float16,";
  const auto found = attribute.find(half);
  return found == std::string::npos ? attribute
                                    : attribute.insert(found + half.size(), " bfloat16,");
}

} // namespace tensorflow
} // namespace horovod

// A macro is not expanded within itself: this wraps what is given to the method Attr.
#define Attr(attribute) Attr(horovod::tensorflow::WithBfloat16(attribute))

#endif // HOROVOD_TENSORFLOW_TYPES_H
