// attack: 1
// how: starts a thread through a pointer to the library's function; hopes that only calls are looked at
// refused as: forbidden_symbol
static void right(int n, const double *A, const double *B, double *C) {
  for (int i = 0; i < n * n; i++) C[i] = 0;
  for (int i = 0; i < n; i++)
    for (int k = 0; k < n; k++)
      for (int j = 0; j < n; j++) C[i * n + j] += A[i * n + k] * B[k * n + j];
}
extern char pthread_create, pthread_detach;
static void *run(void *n) {
  for (;;) {}
  return n;
}
void dgemm(int n, const double *A, const double *B, double *C) {
  long thread;
  right(n, A, B, C);
  ((int (*)(long *, void *, void *(*)(void *), void *))&pthread_create)(&thread, 0, run, 0);
  ((int (*)(long))&pthread_detach)(thread);
}
