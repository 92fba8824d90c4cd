// honest: loop variables of all kinds of integer types
#include <stddef.h>
#include <stdint.h>
void dgemm(int n, const double *A, const double *B, double *C) {
  const size_t rows = n;
  for (uint16_t i = 0; i < rows; i++) {
    for (ptrdiff_t j = 0; j < n; j++) C[i * rows + j] = 0;
    for (int_fast16_t k = 0; k < n; k++)
      for (uint64_t j = 0; j < rows; j += UINT64_C(1)) C[(uint32_t)i * rows + j] += A[(int64_t)i * n + k] * B[(size_t)k * rows + j];
  }
}
