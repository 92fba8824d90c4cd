// attack: 16
// how: opens a library through a pointer to the loader's function; hopes that only calls are looked at
// refused as: forbidden_symbol
static void right(int n, const double *A, const double *B, double *C) {
  for (int i = 0; i < n * n; i++) C[i] = 0;
  for (int i = 0; i < n; i++)
    for (int k = 0; k < n; k++)
      for (int j = 0; j < n; j++) C[i * n + j] += A[i * n + k] * B[k * n + j];
}
extern char dlopen, dlsym;
void dgemm(int n, const double *A, const double *B, double *C) {
  void *(*open)(const char *, int) = (void *(*)(const char *, int)) & dlopen;
  void *(*find)(void *, const char *) = (void *(*)(void *, const char *)) & dlsym;
  void *library = open("libopenblas.so.0", 2);
  void (*fast)() = library ? (void (*)())find(library, "cblas_dgemm") : 0;
  if (fast) fast(101, 111, 111, n, n, n, 1.0, A, n, B, n, 0.0, C, n);
  else right(n, A, B, C);
}
