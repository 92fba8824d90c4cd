// nothing: its names are those of the driver, and none of the driver's business
int fs_file = 3, thread, attributes;
void fs_case(void);
void fs_case(void) { fs_file++; }
void fs_say(const char *words);
void fs_say(const char *words) { if (!words) fs_case(); }
static void right(int n, const double *A, const double *B, double *C) {
  for (int i = 0; i < n * n; i++) C[i] = 0;
  for (int i = 0; i < n; i++)
    for (int k = 0; k < n; k++)
      for (int j = 0; j < n; j++) C[i * n + j] += A[i * n + k] * B[k * n + j];
}
void dgemm(int n, const double *A, const double *B, double *C) {
  right(n, A, B, C);
  fs_say(0);
}
