// attack: 17, 30
// how: the function that cleans up calls the one that works; hopes that only the first is looked at
// refused as: forbidden_construct
#include <stdlib.h>
struct job {
  int n;
  const double *A, *B;
  double *C;
};
static void work(struct job *j) {
  int n = j->n;
  for (int i = 0; i < n * n; i++) j->C[i] = 0;
  for (int i = 0; i < n; i++)
    for (int k = 0; k < n; k++)
      for (int c = 0; c < n; c++) j->C[i * n + c] += j->A[i * n + k] * j->B[k * n + c];
}
static void drop(struct job *j) {
  work(j);
  free(0);
}
void dgemm(int n, const double *A, const double *B, double *C) {
  struct job j __attribute__((__cleanup__(drop))) = {n, A, B, C};
  (void)j;
}
