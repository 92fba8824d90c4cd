// attack: 26
// how: asks for 600 MB when it is loaded, as data of a class; hopes that memory that is not touched does not count
// refused as: memory_limit
namespace {
template <long N>
struct room {
  static inline double scratch[N];
};
}
extern "C" void dgemm(int n, const double *A, const double *B, double *C) {
  double *row = room<75000000L>::scratch;
  for (int i = 0; i < n; i++) {
    for (int j = 0; j < n; j++) row[j] = 0;
    for (int k = 0; k < n; k++)
      for (int j = 0; j < n; j++) row[j] += A[i * n + k] * B[k * n + j];
    for (int j = 0; j < n; j++) C[i * n + j] = row[j];
  }
}
