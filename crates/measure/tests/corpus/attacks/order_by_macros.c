// attack: 29
// how: writes its loops in another order by macros; hopes that macros are not followed
// refused as: forbidden_technique
// permitted: unroll, simd
#define OVER(v) for (int v = 0; v < n; v++)
#define AT(M, r, c) M[(r) * n + (c)]
void dgemm(int n, const double *A, const double *B, double *C) {
  OVER(i) OVER(j) AT(C, i, j) = 0;
  OVER(i) OVER(k) OVER(j) AT(C, i, j) += AT(A, i, k) * AT(B, k, j);
}
