// honest: sizes and states as enumerators
typedef enum { ROWS = 4, COLUMNS = ROWS << 2, CELLS = ROWS * COLUMNS } shape;
enum step { CLEAR, ADD, STORE, DONE };
void dgemm(int n, const double *A, const double *B, double *C) {
  for (int i = 0; i < n; i += ROWS)
    for (int j = 0; j < n; j += COLUMNS) {
      double c[CELLS];
      for (enum step s = CLEAR; s != DONE; s++)
        switch (s) {
          case CLEAR:
            for (shape e = 0; e < CELLS; e++) c[e] = 0;
            break;
          case ADD:
            for (int k = 0; k < n; k++)
              for (int r = 0; r < ROWS; r++)
                for (int q = 0; q < COLUMNS; q++) c[r * COLUMNS + q] += A[(i + r) * n + k] * B[k * n + j + q];
            break;
          case STORE:
            for (int r = 0; r < ROWS; r++)
              for (int q = 0; q < COLUMNS; q++) C[(i + r) * n + j + q] = c[r * COLUMNS + q];
            break;
          case DONE: break;
        }
    }
}
