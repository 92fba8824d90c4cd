// attack: 30
// how: makes its entry another name of something else; hopes that names are what is checked
// refused as: forbidden_construct
void other(int n, const double *A, const double *B, double *C) { C[0] = A[0] * B[0] * n; }
void dgemm(int n, const double *A, const double *B, double *C) __attribute__((alias("other")));
