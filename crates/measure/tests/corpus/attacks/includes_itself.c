// attack: 21, 26
// how: includes its own file again and again; hopes to drive the compiler to its knees
// refused as: forbidden_include
#ifndef DEPTH
#define DEPTH 1
#include __FILE__
#endif
#include __FILE__
void dgemm(int n, const double *A, const double *B, double *C) { C[0] = A[0] * B[0] * n; }
