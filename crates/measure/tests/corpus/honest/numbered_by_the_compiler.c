// honest: names and checks from the compiler's own counters
#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)
#define FRESH(name) JOIN(name, __COUNTER__)
#define CHECK(x) typedef char FRESH(check_)[(x) ? 1 : -1] __attribute__((unused))
CHECK(sizeof(double) == 8);
CHECK(sizeof(int) >= 4);
static const int line = __LINE__;
void dgemm(int n, const double *A, const double *B, double *C) {
  CHECK(__LINE__ > 5);
  for (int e = 0; e < n * n; e++) C[e] = line < 0;
  for (int i = 0; i < n; i++)
    for (int k = 0; k < n; k++)
      for (int j = 0; j < n; j++) C[i * n + j] += A[i * n + k] * B[k * n + j];
}
