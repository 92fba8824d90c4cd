void dgem(int n, const double *A, const double *B, double *C) {}
