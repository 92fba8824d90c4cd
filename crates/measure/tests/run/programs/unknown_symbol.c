void cblas_dgemm(int, const double *, const double *, double *);
void dgemm(int n, const double *A, const double *B, double *C) { cblas_dgemm(n, A, B, C); }
