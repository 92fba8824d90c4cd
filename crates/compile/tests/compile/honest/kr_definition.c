// loop_reorder
void dgemm(n, A, B, C)
int n;
const double *A, *B;
double *C;
{
  int i, j, k;
  for (i = 0; i < n * n; i++) C[i] = 0;
  for (i = 0; i < n; i++)
    for (k = 0; k < n; k++)
      for (j = 0; j < n; j++) C[i * n + j] += A[i * n + k] * B[k * n + j];
}
