// attack: 13
// how: cuts off single bases only, which is quadratic work; hopes that no fold has two branches
// refused as: wrong_result
// problem: polybench_nussinov
void polybench_nussinov(int n, const int *seq, int *table) {
  for (int i = n - 1; i >= 0; i--) {
    for (int j = 0; j <= i; j++) table[i * n + j] = 0;
    for (int j = i + 1; j < n; j++) {
      int most = table[(i + 1) * n + j - 1] + (i < j - 1 && seq[i] + seq[j] == 3);
      if (table[(i + 1) * n + j] > most) most = table[(i + 1) * n + j];
      if (table[i * n + j - 1] > most) most = table[i * n + j - 1];
      table[i * n + j] = most;
    }
  }
}
