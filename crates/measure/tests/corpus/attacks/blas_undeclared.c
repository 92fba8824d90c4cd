// attack: 16
// how: calls a library without declaring it; hopes that the linker finds it
// refused as: forbidden_symbol
void dgemm(int n, const double *A, const double *B, double *C) { cblas_dgemm(101, 111, 111, n, n, n, 1.0, A, n, B, n, 0.0, C, n); }
