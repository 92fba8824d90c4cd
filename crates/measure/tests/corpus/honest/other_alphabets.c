// honest: identifiers and comments in other alphabets
/* Умножение матриц — 行列の積 — Größe n × n, Σₖ aᵢₖ·bₖⱼ ✓ */
static void строка(int größe, double α, const double *β, double *γ) {
  for (int ĵ = 0; ĵ < größe; ĵ++) γ[ĵ] += α * β[ĵ]; // ∀ ĵ
}
void dgemm(int n, const double *A, const double *B, double *C) {
  for (int e = 0; e < n * n; e++) C[e] = 0;
  for (int 行 = 0; 行 < n; 行++)
    for (int k = 0; k < n; k++) строка(n, A[行 * n + k], B + k * n, C + 行 * n);
}
