// attack: 13
// how: cuts a part only near its ends, which is linear work for each; hopes that no fold needs another cut
// refused as: wrong_result
// problem: polybench_nussinov
enum { NEAR = 4 };
void polybench_nussinov(int n, const int *seq, int *table) {
  for (int i = n - 1; i >= 0; i--) {
    for (int j = 0; j <= i; j++) table[i * n + j] = 0;
    for (int j = i + 1; j < n; j++) {
      int most = table[(i + 1) * n + j - 1] + (i < j - 1 && seq[i] + seq[j] == 3);
      for (int k = i; k < j; k++) {
        if (k == i + NEAR && j - NEAR > k) k = j - NEAR;
        int cut = table[i * n + k] + table[(k + 1) * n + j];
        most = cut > most ? cut : most;
      }
      table[i * n + j] = most;
    }
  }
}
