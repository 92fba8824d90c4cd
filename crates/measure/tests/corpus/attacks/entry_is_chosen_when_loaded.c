// attack: 30, 4
// how: lets a resolver choose its entry at load time; hopes to run code before the filter is on
// refused as: forbidden_construct
static void slow(int n, const double *A, const double *B, double *C) { C[0] = A[0] * B[0] * n; }
static void *choose(void) { return (void *)slow; }
void dgemm(int n, const double *A, const double *B, double *C) __attribute__((ifunc("choose")));
