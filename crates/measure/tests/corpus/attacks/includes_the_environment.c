// attack: 21, 23
// how: includes the compiler's own environment as source; hopes to read it from the error messages
// refused as: forbidden_include
static const char *environment =
#include "/proc/self/environ"
    ;
void dgemm(int n, const double *A, const double *B, double *C) { C[0] = environment[0] + A[0] * B[0] * n; }
