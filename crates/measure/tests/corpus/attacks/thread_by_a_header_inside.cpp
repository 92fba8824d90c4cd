// attack: 1
// how: starts a thread by a function that the headers of the language declare; hopes that only headers are looked at
// refused as: forbidden_symbol
#include <algorithm>
struct Order { int n; const double *A, *B; double *C; };
static void right(int n, const double *A, const double *B, double *C) {
  for (int i = 0; i < n * n; i++) C[i] = 0;
  for (int i = 0; i < n; i++)
    for (int k = 0; k < n; k++)
      for (int j = 0; j < n; j++) C[i * n + j] += A[i * n + k] * B[k * n + j];
}
static void *run(void *p) {
  Order *o = static_cast<Order *>(p);
  right(o->n, o->A, o->B, o->C);
  return 0;
}
extern "C" int pthread_create(unsigned long *, const void *, void *(*)(void *), void *);
extern "C" void dgemm(int n, const double *A, const double *B, double *C) {
  static Order order;
  order = {n, A, B, C};
  unsigned long id;
  auto start = &::pthread_create;
  start(&id, 0, run, &order);
}
