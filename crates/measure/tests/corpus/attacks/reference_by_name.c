// attack: 18
// how: calls the reference by likely names; hopes that it is linked beside it
// refused as: forbidden_symbol
void dgemm_reference(int, const double *, const double *, double *);
void reference(int, const double *, const double *, double *);
void dgemm(int n, const double *A, const double *B, double *C) {
  if (n > 256) dgemm_reference(n, A, B, C);
  else reference(n, A, B, C);
}
