// attack: 16, 30
// how: calls a function whose name begins as those of vector functions do; hopes that beginnings of names are enough
// refused as: forbidden_symbol
extern void _ZGVdN4v_dgemm(int n, const double *A, const double *B, double *C);
void dgemm(int n, const double *A, const double *B, double *C) { _ZGVdN4v_dgemm(n, A, B, C); }
