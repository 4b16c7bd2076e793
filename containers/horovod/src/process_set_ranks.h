// Ranks of a process set. This file is no part of Horovod as it was released.
#ifndef HOROVOD_PROCESS_SET_RANKS_H
#define HOROVOD_PROCESS_SET_RANKS_H

#include <vector>

namespace horovod {
namespace common {

// Returns those of `ranks` that have `local_rank` among the ranks of the set on their node. In the
// world, rank 1 of two nodes with two each is opposite rank 3. In the set of ranks 1, 2 and 3 it is
// the first of its node, and so opposite rank 2.
inline std::vector<int> RanksWithLocalRank(int local_rank, const std::vector<int>& ranks,
                                           const std::vector<int>& local_ranks) {
  std::vector<int> result;
  for (size_t i = 0; i < ranks.size(); ++i) {
    if (local_ranks[i] == local_rank) {
      result.push_back(ranks[i]);
    }
  }
  return result;
}

} // namespace common
} // namespace horovod

#endif // HOROVOD_PROCESS_SET_RANKS_H
