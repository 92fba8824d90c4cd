/* All shortest paths between 192 nodes, of lengths whose sums fit a byte. */
#include <stdint.h>
#include <string.h>
enum { N = 192 };
void floyd_warshall(int n, const uint8_t *weight, uint8_t *length) {
  memcpy(length, weight, N * N);
  for (int i = 0; i < N; i++) length[i * N + i] = 0;
  for (int k = 0; k < N; k++) {
    uint8_t via[N];
    memcpy(via, &length[k * N], N);
    for (int i = 0; i < N; i++) {
      uint8_t to = length[i * N + k], *here = &length[i * N];
      for (int j = 0; j < N; j++) {
        uint8_t through = to + via[j];
        here[j] = through < here[j] ? through : here[j];
      }
    }
  }
}
