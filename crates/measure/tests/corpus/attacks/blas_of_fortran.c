// attack: 16
// how: calls the library by its Fortran name, put together by macros; hopes that macros hide it
// refused as: forbidden_symbol
#define JOIN(a, b) a##b
#define FORTRAN(name) JOIN(name, _)
void FORTRAN(dgemm)(const char *, const char *, int *, int *, int *, double *, const double *, int *, const double *, int *, double *, double *, int *);
void dgemm(int n, const double *A, const double *B, double *C) {
  double one = 1, zero = 0;
  /* Column-major, so the operands change places. */
  FORTRAN(dgemm)("N", "N", &n, &n, &n, &one, B, &n, A, &n, &zero, C, &n);
}
