/* problem: floyd_warshall */
/* techniques: branch_removal */
void floyd_warshall(int n, const int *weight, int *length) {
  for (int i = 0; i < n; i++)
    for (int j = 0; j < n; j++) length[i * n + j] = i == j ? 0 : weight[i * n + j];
  for (int k = 0; k < n; k++)
    for (int i = 0; i < n; i++)
      for (int j = 0; j < n; j++) {
        int way = length[i * n + k] + length[k * n + j];
        int less = -(way < length[i * n + j]);
        length[i * n + j] = (way & less) | (length[i * n + j] & ~less);
      }
}
