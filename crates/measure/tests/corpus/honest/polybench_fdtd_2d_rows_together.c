// honest: all three fields row by row in one sweep; hz follows one row behind
// problem: polybench_fdtd_2d
void polybench_fdtd_2d(int tmax, int nx, int ny, double *ex, double *ey, double *hz, const double *fict) {
  for (int t = 0; t < tmax; t++)
    for (int i = 0; i <= nx; i++) {
      if (i < nx) {
        double *x = &ex[i * ny], *y = &ey[i * ny];
        const double *z = &hz[i * ny];
        /* Row i - 1 of hz still has its old values. */
        for (int j = 0; j < ny; j++) y[j] = i == 0 ? fict[t] : y[j] - 0.5 * (z[j] - z[j - ny]);
        for (int j = 1; j < ny; j++) x[j] -= 0.5 * (z[j] - z[j - 1]);
      }
      if (i > 0 && i < nx)
        for (int j = 0; j < ny - 1; j++) {
          const double *x = &ex[(i - 1) * ny + j], *y = &ey[(i - 1) * ny + j];
          hz[(i - 1) * ny + j] -= 0.7 * ((x[1] - x[0]) + (y[ny] - y[0]));
        }
    }
}
