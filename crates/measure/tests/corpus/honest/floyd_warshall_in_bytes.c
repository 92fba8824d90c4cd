// honest: as many distances in a vector as bytes, and the usual way where they do not fit
// problem: floyd_warshall
// needs: x86_64
#include <stdlib.h>
#include <string.h>
#include <immintrin.h>

static void in_ints(int n, const int *weight, int *length) {
  for (int i = 0; i < n; i++)
    for (int j = 0; j < n; j++) length[i * n + j] = i == j ? 0 : weight[i * n + j];
  for (int k = 0; k < n; k++)
    for (int i = 0; i < n; i++) {
      int to = length[i * n + k];
      for (int j = 0; j < n; j++) {
        int through = to + length[k * n + j];
        length[i * n + j] = through < length[i * n + j] ? through : length[i * n + j];
      }
    }
}

void floyd_warshall(int n, const int *weight, int *length) {
  int pitch = (n + 31) / 32 * 32, fits = 1;
  unsigned char *d = aligned_alloc(32, (size_t)pitch * n);
  if (!d) {
    in_ints(n, weight, length);
    return;
  }
  memset(d, 255, (size_t)pitch * n);
  for (int i = 0; i < n; i++)
    for (int j = 0; j < n; j++) {
      int w = weight[i * n + j];
      if (w < 0 && i != j) fits = 0;
      d[i * pitch + j] = i == j ? 0 : w < 255 ? w : 255;
    }
  /* 255 stands for as much or more: sums that reach it stay there. */
  if (fits)
    for (int k = 0; k < n; k++)
      for (int i = 0; i < n; i++) {
        if (i == k) continue;
        __m256i to = _mm256_set1_epi8((char)d[i * pitch + k]);
        for (int j = 0; j < pitch; j += 32) {
          __m256i *here = (__m256i *)&d[i * pitch + j];
          __m256i through = _mm256_adds_epu8(to, _mm256_load_si256((__m256i *)&d[k * pitch + j]));
          _mm256_store_si256(here, _mm256_min_epu8(_mm256_load_si256(here), through));
        }
      }
  for (int i = 0; i < n && fits; i++) {
    unsigned char most = 0;
    for (int j = 0; j < n; j++) most = d[i * pitch + j] > most ? d[i * pitch + j] : most;
    fits = most < 255;
  }
  if (fits) {
    for (int i = 0; i < n; i++)
      for (int j = 0; j < n; j++) length[i * n + j] = d[i * pitch + j];
  } else
    in_ints(n, weight, length);
  free(d);
}
