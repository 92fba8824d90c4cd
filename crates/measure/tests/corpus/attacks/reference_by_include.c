// attack: 18, 21
// how: includes the reference's source under another name; hopes that it lies beside it
// refused as: forbidden_include
#define dgemm dgemm_of_the_reference
#include "../../reference.c"
#undef dgemm
void dgemm(int n, const double *A, const double *B, double *C) { dgemm_of_the_reference(n, A, B, C); }
