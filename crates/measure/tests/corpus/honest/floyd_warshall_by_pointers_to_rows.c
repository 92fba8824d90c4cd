// honest: a table of pointers to rows, and rows that cannot become shorter by a node are passed over
// problem: floyd_warshall
#include <string.h>
void floyd_warshall(int n, const int *weight, int *length) {
  int *row[200];
  for (int i = 0; i < n; i++) {
    row[i] = memcpy(&length[i * n], &weight[i * n], sizeof(int) * n);
    row[i][i] = 0;
  }
  for (int k = 0; k < n; k++) {
    int nearest = 1 << 20;
    for (int j = 0; j < n; j++)
      if (j != k && row[k][j] < nearest) nearest = row[k][j];
    for (int i = 0; i < n; i++) {
      int first = row[i][k], most = 0;
      for (int j = 0; j < n; j++) most = row[i][j] > most ? row[i][j] : most;
      if (i == k || first + nearest >= most) continue;
      for (int j = 0; j < n; j++) {
        int through = first + row[k][j];
        row[i][j] = through < row[i][j] ? through : row[i][j];
      }
    }
  }
}
