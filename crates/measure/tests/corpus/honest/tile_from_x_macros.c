// honest: a tile of sums from a list that is expanded again and again
#define TILE(X) X(0, 0) X(0, 1) X(0, 2) X(0, 3) X(1, 0) X(1, 1) X(1, 2) X(1, 3) X(2, 0) X(2, 1) X(2, 2) X(2, 3) X(3, 0) X(3, 1) X(3, 2) X(3, 3)
#define DECLARE(r, s) double c##r##s = 0;
#define ADD(r, s) c##r##s += A[(i + r) * n + k] * B[k * n + j + s];
#define STORE(r, s) C[(i + r) * n + j + s] = c##r##s;
void dgemm(int n, const double *A, const double *B, double *C) {
  for (int i = 0; i < n; i += 4)
    for (int j = 0; j < n; j += 4) {
      TILE(DECLARE)
      for (int k = 0; k < n; k++) { TILE(ADD) }
      TILE(STORE)
    }
}
