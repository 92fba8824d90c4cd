// honest: a style that renames the language
#define function static inline void
#define begin {
#define end }
#define until(v, to) for (int v = 0; v < (to); ++v)
#define gets +=
function row(int n, double a, const double *restrict b, double *restrict c)
begin
  until(j, n) c[j] gets a * b[j];
end
void dgemm(int n, const double *A, const double *B, double *C)
begin
  until(e, n * n) C[e] = 0;
  until(i, n) until(k, n) row(n, A[i * n + k], B + k * n, C + i * n);
end
