// attack: 30
// how: defines the entry with other parameters, under another name for the linker; hopes that somebody finds it
// refused as: missing_entry
void dgemm(long n, const double *A, const double *B, double *C) {
  for (long i = 0; i < n * n; i++) C[i] = A[i] * B[i];
}
