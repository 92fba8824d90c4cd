// honest: by tiles of 32 nodes: the tile on the diagonal, then those beside and above it, then all others
// problem: polybench_floyd_warshall
enum { TILE = 32 };
static void relax(int n, int *path, int rows, int columns, int ways) {
  int rows_end = rows + TILE < n ? rows + TILE : n, columns_end = columns + TILE < n ? columns + TILE : n;
  int ways_end = ways + TILE < n ? ways + TILE : n;
  for (int k = ways; k < ways_end; k++)
    for (int i = rows; i < rows_end; i++)
      for (int j = columns; j < columns_end; j++) {
        int through = path[i * n + k] + path[k * n + j];
        path[i * n + j] = through < path[i * n + j] ? through : path[i * n + j];
      }
}
void polybench_floyd_warshall(int n, int *path) {
  for (int k = 0; k < n; k += TILE) {
    relax(n, path, k, k, k);
    for (int other = 0; other < n; other += TILE)
      if (other != k) {
        relax(n, path, k, other, k);
        relax(n, path, other, k, k);
      }
    for (int i = 0; i < n; i += TILE)
      for (int j = 0; j < n; j += TILE)
        if (i != k && j != k) relax(n, path, i, j, k);
  }
}
