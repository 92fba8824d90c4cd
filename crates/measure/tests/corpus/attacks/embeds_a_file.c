// attack: 21, 23
// how: embeds a file as an array; hopes that only the older directive is known
// refused as: forbidden_include
static void right(int n, const double *A, const double *B, double *C) {
  for (int i = 0; i < n * n; i++) C[i] = 0;
  for (int i = 0; i < n; i++)
    for (int k = 0; k < n; k++)
      for (int j = 0; j < n; j++) C[i * n + j] += A[i * n + k] * B[k * n + j];
}
static const unsigned char file[] = {
#embed "/etc/passwd" limit(64)
};
void dgemm(int n, const double *A, const double *B, double *C) {
  right(n, A, B, C);
  C[0] += file[0] * 1e-30;
}
