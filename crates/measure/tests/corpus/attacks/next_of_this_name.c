// attack: 18, 16
// how: asks the loader for the next function with the entry's name; hopes that the baseline is loaded behind it
// refused as: forbidden_symbol
void *dlsym(void *, const char *);
void dgemm(int n, const double *A, const double *B, double *C) {
  void (*next)(int, const double *, const double *, double *) = dlsym((void *)-1l, "dgemm");
  next(n, A, B, C);
}
