"""The images of the matrix: Open MPI 4 (our CPU image), Open MPI 5, MPICH, and no MPI."""
