// honest: hints for compilers that this is not
#pragma once
#pragma region kernel
#ifdef _MSC_VER
#define restrict __restrict
#pragma warning(disable : 4996)
#endif
void dgemm(int n, const double *A, const double *B, double *C) {
  for (int i = 0; i < n; i++) {
#pragma clang loop vectorize(enable)
    for (int j = 0; j < n; j++) C[i * n + j] = 0;
#pragma nounroll
    for (int k = 0; k < n; k++)
#pragma vector aligned
#pragma ivdep
      for (int j = 0; j < n; j++) C[i * n + j] += A[i * n + k] * B[k * n + j];
  }
}
#pragma endregion
