// none
/* asm __attribute__((constructor)) #include <cblas.h> */
// #pragma GCC optimize("Ofast") \
   still a comment: asm
static const char *basmati = "asm #include <x> __attribute__((section))";
static double strasse(double asmile) { return asmile; }
void dgemm(int n, const double *A, const double *B, double *C) {
  for (int i = 0; i < n; ++i)
    for (int j = 0; j != n; j += 1) {
      double sum = basmati == 0;
      int k = 0;
      while (k < n) {
        sum = sum + strasse(A[i * n + k]) * B[k * n + j];
        k++;
      }
      C[i * n + j] = sum;
    }
}
