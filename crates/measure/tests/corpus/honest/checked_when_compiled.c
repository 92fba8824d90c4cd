// honest: static assertions and alignments
#include <stdint.h>
_Static_assert(sizeof(double) == 8 && _Alignof(double) == 8, "a double has eight bytes");
_Static_assert(__STDC_VERSION__ >= 199901L);
static _Alignas(64) double row[512];
void dgemm(int n, const double *A, const double *B, double *C) {
  _Static_assert(sizeof(row) % 64 == 0, "whole lines");
  for (int i = 0; i < n; i++) {
    _Alignas(32) double zero[4] = {0};
    for (int j = 0; j < n; j++) row[j] = zero[j & 3] + (double)((uintptr_t)zero & 31);
    for (int k = 0; k < n; k++)
      for (int j = 0; j < n; j++) row[j] += A[i * n + k] * B[k * n + j];
    for (int j = 0; j < n; j++) C[i * n + j] = row[j];
  }
}
