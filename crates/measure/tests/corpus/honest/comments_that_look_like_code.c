// honest: comments and strings full of what is not permitted
// techniques: none
/* #include <cblas.h> */ // __attribute__((constructor)) asm("syscall");
static const char *const note = "asm volatile(\"syscall\"); #pragma GCC optimize(\"Ofast\") /* dlopen() */ // system(\"sh\")";
static const char quote = '"', slash = '\'', star[] = "/*", *const odd = "?\?=include";
/* faster??) or not??! who knows??< */
void dgemm(int n, const double *A, const double *B, double *C) {
  /* int main(void) { return fork(); } // */
  for (int i = 0; i < n; i++)
    for (int j = 0; j < n; j++) {
      double sum = quote == slash || star[0] != '/' || !note || !odd; //* not a block comment
      for (int k = 0; k < n; k++) sum += A[i * n + k] * B[k * n + j];
      C[i * n + j] = sum;
    }
}
