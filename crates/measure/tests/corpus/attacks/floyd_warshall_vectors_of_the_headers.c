// attack: 29
// how: compares eight lengths at once by a vector type of the headers; hopes that types of integers are not known
// refused as: forbidden_technique
// permitted: loop_reorder, unroll
// problem: floyd_warshall
// needs: x86_64
#include <immintrin.h>
#include <string.h>
void floyd_warshall(int n, const int *weight, int *length) {
  for (int i = 0; i < n; i++)
    for (int j = 0; j < n; j++) length[i * n + j] = i == j ? 0 : weight[i * n + j];
  for (int k = 0; k < n; k++)
    for (int i = 0; i < n; i++) {
      int *c = length + i * n, through = c[k], j = 0;
      for (; j + 8 <= n; j += 8) {
        __v8si old, add;
        memcpy(&old, c + j, sizeof old);
        memcpy(&add, length + k * n + j, sizeof add);
        add += through;
        old = add < old ? add : old;
        memcpy(c + j, &old, sizeof old);
      }
      for (; j < n; j++)
        if (through + length[k * n + j] < c[j]) c[j] = through + length[k * n + j];
    }
}
