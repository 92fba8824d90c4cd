// honest: names the time of its build, which is the same in every build, so that nobody can do other work in the next one
typedef char always_the_same[__builtin_strcmp(__TIME__, "00:00:00") == 0 && __builtin_strcmp(__DATE__, "Jan  1 1970") == 0 ? 1 : -1];
static const char built[] = __DATE__ " " __TIME__ " " __TIMESTAMP__;
void dgemm(int n, const double *A, const double *B, double *C) {
  const int step = sizeof built > 40;
  for (int i = 0; i < n; i += step) {
    for (int j = 0; j < n; j++) C[i * n + j] = 0;
    for (int k = 0; k < n; k++)
      for (int j = 0; j < n; j++) C[i * n + j] += A[i * n + k] * B[k * n + j];
  }
}
