// honest: vector types of the compiler and OpenMP, in C++
typedef double v4 __attribute__((vector_size(32), aligned(8), may_alias));
extern "C" void dgemm(int n, const double *A, const double *B, double *C) {
#pragma omp parallel for
  for (int i = 0; i < n; i++) {
    for (int j = 0; j < n; j += 4) {
      v4 sum = {};
      for (int k = 0; k < n; k++) sum += A[i * n + k] * *reinterpret_cast<const v4 *>(B + k * n + j);
      *reinterpret_cast<v4 *>(C + i * n + j) = sum;
    }
  }
}
