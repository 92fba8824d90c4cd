// attack: 13
// how: looks for paths of two edges at most; hopes that no shortest path has more
// refused as: wrong_result
// problem: polybench_floyd_warshall
#include <stdlib.h>
#include <string.h>
void polybench_floyd_warshall(int n, int *path) {
  int *edge = malloc(sizeof *edge * n * n);
  if (!edge) abort();
  memcpy(edge, path, sizeof *edge * n * n);
  for (int i = 0; i < n; i++)
    for (int k = 0; k < n; k++)
      for (int j = 0; j < n; j++) {
        int through = edge[i * n + k] + edge[k * n + j];
        path[i * n + j] = through < path[i * n + j] ? through : path[i * n + j];
      }
  free(edge);
}
