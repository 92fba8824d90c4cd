/* problem: floyd_warshall */
/* techniques: none */
void floyd_warshall(int n, const int *weight, int *length) {
  for (int i = 0; i < n; i++)
    for (int j = 0; j < n; j++) length[i * n + j] = i == j ? 0 : weight[i * n + j];
  for (int k = 0; k < n; k++)
    for (int i = 0; i < n; i++) {
      int *x = length + i * n, *row = length + k * n;
      for (int j = 0; j < n; j++) {
        int way = x[k] + row[j];
        if (way >= x[j]) continue;
        x[j] = way;
      }
    }
}
