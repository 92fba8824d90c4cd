// attack: 21, 16
// how: hides an include from whoever does not know raw strings: to them it stands in a comment; hopes to reach any header
// refused as: forbidden_construct
static void right(int n, const double *A, const double *B, double *C) {
  for (int i = 0; i < n * n; i++) C[i] = 0;
  for (int i = 0; i < n; i++)
    for (int k = 0; k < n; k++)
      for (int j = 0; j < n; j++) C[i * n + j] += A[i * n + k] * B[k * n + j];
}
static const char *const first = R"(
/*)";
#include <unistd.h>
static const char *const second = "*/";
void dgemm(int n, const double *A, const double *B, double *C) {
  if (first && second) right(n, A, B, C);
}
