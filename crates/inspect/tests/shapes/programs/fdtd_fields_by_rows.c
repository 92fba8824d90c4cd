/* problem: polybench_fdtd_2d */
/* techniques: fusion */
void polybench_fdtd_2d(int tmax, int nx, int ny, double *ex, double *ey, double *hz, const double *fict) {
  for (int t = 0; t < tmax; t++) {
    for (int j = 0; j < ny; j++) ey[j] = fict[t];
    for (int j = 1; j < ny; j++) ex[j] -= 0.5 * (hz[j] - hz[j - 1]);
    for (int i = 1; i < nx; i++) {
      for (int j = 0; j < ny; j++) ey[i * ny + j] -= 0.5 * (hz[i * ny + j] - hz[(i - 1) * ny + j]);
      for (int j = 1; j < ny; j++) ex[i * ny + j] -= 0.5 * (hz[i * ny + j] - hz[i * ny + j - 1]);
    }
    for (int i = 0; i < nx - 1; i++)
      for (int j = 0; j < ny - 1; j++)
        hz[i * ny + j] -= 0.7 * (ex[i * ny + j + 1] - ex[i * ny + j] + ey[(i + 1) * ny + j] - ey[i * ny + j]);
  }
}
